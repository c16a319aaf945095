"""A scripted engine for tests of the agent loop: `>>` names what the loop must ask for next, `<<` how that ends.

    playbook = begun() >> "1.llm.invoked.0" << said("hello") >> …
    standing = playbook.play()

Where no `<<` follows, the operation does its own work; one line may name several that do. A second pass of a path ends
in `#2`.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self, TypeVar, cast

import msgspec

from tenter.agent import BLANK, AgentLoop, Ended, Plan, Standing, Waiting
from tenter.catalogue import (
    Envelope,
    ErrorInfo,
    InputEvent,
    Limits,
    ModelRequest,
    ModelResponse,
    ModelResponseEvent,
    Op,
    RunEndEvent,
    RunStartEvent,
    Status,
    TaskRef,
    TaskStateChangedEvent,
    ToolCall,
    ToolInfo,
    ToolResult,
    Usage,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Requirement, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")

Stopped = Blocked | Suspended | Escalated | Retry | Failed | Unknown
Results = Mapping[str, object]

SHELL = ToolInfo(name="shell")
ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="run-1", name="fix"), correlation_id="run-1")
PLAN = Plan(envelope=ENVELOPE, input="make it green", instructions="You fix tests.", tools=(SHELL,))

START = 1_000.0

DUE = msgspec.structs.replace(PLAN, limits=Limits(deadline=START + 60))

NOTHING: Results = {}

LEAVES = ("0.task.created.0", "0.request.received.0", "1.llm.invoked.0", "1.tool_calls.extracted.0", "1.tool.invoked.0")
"""The operations that a run with one tool call cannot go on without, in order; `task.complete` follows later."""

WORK: Mapping[str, Callable[[Any], Results]] = {
    "task.created": lambda event: {"task": event.task},
    "request.received": lambda event: {"input": event.input},
    "llm.invoked": lambda event: {"response": ModelResponse(model="m", text="done", cost_usd=0.0)},
    "tool_calls.extracted": lambda event: {"calls": event.response.tool_calls},
    "tool.invoked": lambda event: {"result": ToolResult(output=f"{event.call.name} ran")},
    "task.complete": lambda event: {"verdict": "complete", "output": event.output},
    "activity.failed": lambda event: {"error": event.error},
}
"""What each operation does where the playbook says nothing."""


class Playbook:
    """Meets `tenter.agent.Engine`. What was asked for stands in `asked`, with the event that came along."""

    def __init__(self) -> None:
        self.script: list[tuple[str, Results | Stopped | BaseException]] = []
        self.asked: list[tuple[str, object]] = []
        self.lasts: dict[int, float] = {}
        self.time = START
        self.passes: dict[str, int] = {}
        self.results: dict[str, Event] = {}

    def __rshift__(self, request: str) -> Self:
        self.script.extend((line, NOTHING) for line in request.split(", "))
        return self

    def __lshift__(self, ending: Results | Stopped | BaseException) -> Self:
        self.script[-1] = (self.script[-1][0], ending)
        return self

    def taking(self, seconds: float) -> Self:
        """The line before takes so long."""
        self.lasts[len(self.script) - 1] = seconds
        return self

    def ending(self, step: int, status: Status) -> Self:
        """Then the running run comes to a terminal status, and is closed."""
        return self >> f"{step}.task.state_changed.1 running->{status}, close {status}"

    def suspending(self, path: str) -> Self:
        """Then the running run waits for a person."""
        return self >> f"suspend {path}, {path[0]}.task.state_changed.1 running->awaiting_approval"

    def having_used(self, path: str, cost: float) -> Self:
        """The model answered at `path` for that much, and the post chain withheld the response."""
        request = ModelRequest(alias="default", model="m", messages=())
        response = ModelResponse(model="m", usage=Usage(output_tokens=7), cost_usd=cost)
        event = ModelResponseEvent(envelope=PLAN.envelope, op=Op(id=path), request=request, response=response)
        self.results[path] = event
        return self

    def play(self, plan: Plan = PLAN) -> Standing:
        """Where the loop comes to, having asked for every line and nothing else."""
        return self.drive(AgentLoop(self, plan).run())

    def drive(self, running: Coroutine[object, object, T]) -> T:
        result = finished(running)
        rest = [request for request, _ in self.script[len(self.asked) :]]
        assert not rest, f"the loop never asked for {rest}"
        return result

    def event(self, request: str) -> Any:
        """The event that came with a request."""
        return dict(self.asked)[request]

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        number = self.passes[path] = self.passes.get(path, 0) + 1
        request = path if number == 1 else f"{path}#{number}"
        if isinstance(event, TaskStateChangedEvent):
            request = f"{path} {event.before}->{event.after}"
        ending = self._next(request, event)
        if not isinstance(ending, Mapping):
            return ending
        return Done(done(operation, event, ending))

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        ending = self._next("open", event)
        if isinstance(ending, Mapping):
            return Done(event.replace(**ending))
        assert isinstance(ending, Blocked | Failed)
        return ending

    def worked(self, path: str) -> Event | None:
        return self.results.get(path)

    async def suspend(self, waiting: Waiting) -> None:
        self._next(f"suspend {waiting.path}", waiting)

    async def close(self, event: RunEndEvent) -> None:
        self._next(f"close {event.status}", event)

    def now(self) -> float:
        return self.time

    def random(self, path: str) -> float:
        raise AssertionError(f"nothing draws yet, and {path!r} did")

    def _next(self, request: str, event: object) -> Results | Stopped:
        line = len(self.asked)
        self.asked.append((request, event))
        expected, ending = self.script[line] if line < len(self.script) else ("nothing more", NOTHING)
        assert request == expected, f"line {line + 1}: the loop asked for {request!r}, expected {expected!r}"
        self.time += self.lasts.get(line, 0.0)
        if isinstance(ending, BaseException) and not isinstance(ending, Retry):
            raise ending
        return ending


def done(operation: Operation[B, A], event: B, results: Results) -> A:
    """The after-event of an operation's own work, with other `results` where they are given."""
    if not operation.results:
        return cast(A, event)
    own = WORK[operation.name](event)
    carried = {name: getattr(event, name) for name in operation.after.__struct_fields__ if hasattr(event, name)}
    return operation.after(**{**carried, **own, **results})


def finished(running: Coroutine[object, object, T]) -> T:
    """What a coroutine returns that never waits: the loop needs no event loop of its own."""
    try:
        running.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the loop waited for something else than its engine")


def begun() -> Playbook:
    """A run up to its first model call."""
    return Playbook() >> "open, 0.task.state_changed.0 pending->running, 0.task.created.0, 0.request.received.0"


def until(leaf: str) -> Playbook:
    """A run that has just asked for `leaf`, one of LEAVES."""
    playbook = Playbook() >> "open" >> "0.task.state_changed.0 pending->running"
    for path in LEAVES[: LEAVES.index(leaf) + 1]:
        playbook = playbook >> path << (calls("shell") if path == "1.llm.invoked.0" else NOTHING)
    return playbook


def plainly(ending: Results | Stopped | None = None) -> Playbook:
    """A run whose model answers at once; with `ending`, so ends its output."""
    playbook = begun() >> "1.llm.invoked.0" << said("done") >> "1.tool_calls.extracted.0" >> "1.task.complete.0"
    if ending is not None:
        return playbook << ending
    return playbook.ending(1, "completed")


def said(text: str, *, tokens: tuple[int, int] = (0, 0), cost: float | None = 0.0, output: object = None) -> Results:
    """A model's answer."""
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
    return {"response": ModelResponse(model="m", text=text, usage=usage, cost_usd=cost, output=output)}


def calls(*names: str) -> Results:
    """A model's answer that calls tools: ids are `c0`, `c1`, … in order."""
    asked = tuple(ToolCall(id=f"c{number}", name=name) for number, name in enumerate(names))
    return {"response": ModelResponse(model="m", text="let me see", tool_calls=asked, cost_usd=0.0)}


ASKED = Suspended(
    requirements=(Requirement(hook="asker", reason="ask first"),),
    event=InputEvent(envelope=ENVELOPE, op=BLANK, input="the call as it stands"),
    digest="sha256:1",
)
"""What a hook's Suspend comes to."""


def error_of(standing: Standing) -> ErrorInfo:
    assert isinstance(standing, Ended)
    assert standing.error is not None
    return standing.error


def told(standing: Standing) -> list[str]:
    """What the model was told of its tool calls."""
    return [message.content for message in standing.progress.messages if message.role == "tool"]
