"""A scripted engine for tests of the agent loop: `>>` names what the loop must ask for next, `<<` how that ends.

    playbook = begun() >> "1.llm.invoked.0" << said("hello") >> …
    standing = playbook.play()

Where no `<<` follows, the operation does its own work; one line may name several that do. A second pass of a path ends
in `#2`. Beside operations there are the lines `open`, `close <status>`, `suspend <paths>`, `decide` (everybody approves
where nothing else is said) and `wait <seconds>`.
"""

import dataclasses
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

import msgspec
from tests.agent.playbook_work import Answer, Results, Stopped, approve, begins, digest_of, done, expire, nobody

from tenter.agent import BLANK, AgentLoop, Ended, Plan, Standing, Waiting
from tenter.catalogue import (
    SUBTASK_SPAWNED,
    ApprovalDecision,
    ApprovalRequest,
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
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    TaskRef,
    TaskStateChangedEvent,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
    Usage,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Requirement, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")

Outcome = Results | Stopped | Waiting | Answer | BaseException

SHELL = ToolInfo(name="shell")
LOOKUP = ToolInfo(name="lookup", idempotent=True)
ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="run-1", name="fix"), correlation_id="run-1")
PLAN = Plan(envelope=ENVELOPE, input="make it green", instructions="You fix tests.", tools=(SHELL, LOOKUP))
SIDE_BY_SIDE = msgspec.structs.replace(PLAN, parallel_tools=True)

START = 1_000.0

DUE = msgspec.structs.replace(PLAN, limits=Limits(deadline=START + 60))

NOTHING: Results = {}

LEAVES = ("0.task.created.0", "0.request.received.0", "1.llm.invoked.0", "1.tool_calls.extracted.0", "1.tool.invoked.0")
"""The operations that a run with one tool call cannot go on without, in order; `task.complete` follows later."""


class Playbook:
    """Meets `tenter.agent.Engine`. What was asked for stands in `asked`, with the event that came along."""

    def __init__(self) -> None:
        self.script: list[tuple[str, Outcome]] = []
        self.asked: list[tuple[str, object]] = []
        self.lasts: dict[int, float] = {}
        self.time = self.last = START
        self.times: dict[str, float] = {}
        self.passes: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.repeats: dict[str, bool] = {}
        self.results: dict[str, Event] = {}
        self.drawn: list[str] = []
        self.jitter = 0.0
        """What chance gives: 0 makes every wait half of the whole."""
        self.left: Sequence[SubtaskResult] = ()
        """What comes of the sub-runs that end with the run."""
        self.order: Sequence[int] | None = None
        """In which order branches run that run side by side; None: in theirs."""

    def __rshift__(self, request: str) -> Self:
        self.script.extend((line, NOTHING) for line in request.split(", "))
        return self

    def __lshift__(self, ending: Outcome) -> Self:
        self.script[-1] = (self.script[-1][0], ending)
        return self

    def taking(self, seconds: float) -> Self:
        """The line before takes so long."""
        self.lasts[len(self.script) - 1] = seconds
        return self

    def changing(self, step: int, after: Status) -> Self:
        """Then the run's status changes from what it was."""
        changes = [line for line, _ in self.script if ".task.state_changed." in line]
        before = changes[-1].partition("->")[2] if changes else "pending"
        return self >> f"{step}.task.state_changed.{len(changes)} {before}->{after}"

    def ending(self, step: int, status: Status) -> Self:
        """Then the run comes to a terminal status, and is closed."""
        return self.changing(step, status) >> f"close {status}"

    def suspending(self, *paths: str, answer: Answer = nobody) -> Self:
        """Then the running run asks people about `paths`, which is what waits on unless there is an answer."""
        self.script.append((f"suspend {' and '.join(paths)}", NOTHING))
        for path in paths:
            self._pass_of("help.requested", path)
        return self.changing(int(paths[0][0]), "awaiting_approval") >> "decide" << answer

    def deciding(self, *paths: str, answer: Answer = approve) -> Self:
        """As `suspending`, and the decisions are told unless nobody decided in time."""
        self.suspending(*paths, answer=answer)
        for path in paths if answer is not expire else ():
            self._pass_of("help.decided", path)
        return self

    def approving(self, *paths: str, answer: Answer = approve) -> Self:
        """As `deciding`, and the run goes on."""
        return self.deciding(*paths, answer=answer).changing(int(paths[0][0]), "running")

    def having_used(self, request: str, cost: float) -> Self:
        """The model answered at `request` for that much, and the post chain withheld the response."""
        asked = ModelRequest(alias="default", model="m", messages=())
        response = ModelResponse(model="m", usage=Usage(output_tokens=7), cost_usd=cost)
        event = ModelResponseEvent(envelope=PLAN.envelope, op=Op(id=request), request=asked, response=response)
        self.results[request] = event
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
        request = self._next_pass(path)
        if isinstance(event, TaskStateChangedEvent):
            request = f"{path} {event.before}->{event.after}"
        ending = self._next(request, event, path)
        self.repeats[path] = repeats(event)
        self.begun[path] = self.begun.get(path, 0) + begins(ending)
        if isinstance(ending, Suspended) and not ending.digest:
            return dataclasses.replace(ending, event=event, digest=self.digest(event))
        assert not isinstance(ending, Waiting)
        assert not callable(ending)
        if isinstance(ending, Stopped):
            return ending
        return Done(done(operation, event, ending))

    async def spawn(
        self, path: str, event: SubtaskSpawnEvent
    ) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        ending = self._next(self._next_pass(path), event, path)
        if isinstance(ending, Waiting | Blocked | Failed):
            return ending
        result = cast("Results", ending).get("result", SubtaskResult(run_id="", task="", status="completed"))
        return Done(done(SUBTASK_SPAWNED, event, {"result": result}))

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        results: dict[int, T] = {}
        try:
            for index in self.order or range(len(branches)):
                results[index] = await branches[index]
        finally:
            for branch in branches:
                branch.close()
        return [results[index] for index in range(len(branches))]

    async def wait(self, since: str, seconds: float, *, before: str) -> None:
        self._next(f"wait {seconds:g}", since)
        self.time += seconds

    def worked(self, path: str) -> Event | None:
        number = self.passes.get(path, 0)
        return self.results.get(path if number == 1 else f"{path}#{number}")

    def attempts(self, path: str) -> int:
        return self.begun.get(path, 0)

    def repeatable(self, path: str) -> bool:
        return self.repeats.get(path, True)

    def digest(self, event: Event) -> str:
        return digest_of(event)

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        ending = self._next("open", event)
        if isinstance(ending, Mapping):
            return Done(event.replace(**ending))
        assert isinstance(ending, Blocked | Failed)
        return ending

    async def suspend(self, waiting: Waiting) -> None:
        self._next(f"suspend {' and '.join(map(named, waiting.requests))}", waiting)

    async def decisions(self, requests: tuple[ApprovalRequest, ...]) -> tuple[ApprovalDecision, ...] | None:
        ending = self._next("decide", requests)
        answer = approve if isinstance(ending, Mapping) else cast("Answer", ending)
        decided = [decision for request in requests if (decision := answer(request)) is not None]
        ends = any(decision.decision in ("reject", "expire") for decision in decided)
        return tuple(decided) if ends or len(decided) == len(requests) else None

    async def end_subtasks(self) -> Sequence[SubtaskResult]:
        left, self.left = self.left, ()
        return left

    async def close(self, event: RunEndEvent) -> None:
        self._next(f"close {event.status}", event)

    def now(self, path: str = "") -> float:
        return self.times.get(path, 0.0) if path else self.last

    def random(self, path: str) -> float:
        self.drawn.append(path)
        return self.jitter

    def _next_pass(self, path: str) -> str:
        number = self.passes[path] = self.passes.get(path, 0) + 1
        return path if number == 1 else f"{path}#{number}"

    def _pass_of(self, operation: str, path: str) -> None:
        """The line of `operation` about what is at `path`."""
        own = f"{path[0]}.{operation}.{path.rpartition('.')[2]}"
        number = 1 + sum(line == own or line.startswith(f"{own}#") for line, _ in self.script)
        self.script.append((own if number == 1 else f"{own}#{number}", NOTHING))

    def _next(self, request: str, event: object, path: str = "") -> Results | Stopped | Waiting | Answer:
        line = len(self.asked)
        self.asked.append((request, event))
        expected, ending = self.script[line] if line < len(self.script) else ("nothing more", NOTHING)
        assert request == expected, f"line {line + 1}: the loop asked for {request!r}, expected {expected!r}"
        self.time += self.lasts.get(line, 0.0)
        self.times[path] = self.time
        if not request.startswith(("suspend", "decide", "wait")):  # these are no outcomes
            self.last = self.time
        if isinstance(ending, BaseException) and not isinstance(ending, Retry):
            raise ending
        return ending


def named(request: ApprovalRequest) -> str:
    return request.path if request.run_id == ENVELOPE.run_id else f"{request.run_id}:{request.path}"


def finished(running: Coroutine[object, object, T]) -> T:
    """What a coroutine returns that never waits: the loop needs no event loop of its own."""
    try:
        running.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the loop waited for something else than its engine")


def repeats(event: Event) -> bool:
    """Whether the work may be done again: all but that of a tool that is not idempotent."""
    return not isinstance(event, ToolCallEvent) or (event.tool is not None and event.tool.idempotent)


def begun() -> Playbook:
    """A run up to its first model call."""
    return Playbook() >> "open, 0.task.state_changed.0 pending->running, 0.task.created.0, 0.request.received.0"


def until(leaf: str, tool: str = "shell") -> Playbook:
    """A run that has just asked for `leaf`, one of LEAVES; its call is one of `tool`."""
    playbook = Playbook() >> "open" >> "0.task.state_changed.0 pending->running"
    for path in LEAVES[: LEAVES.index(leaf) + 1]:
        playbook = playbook >> path << (calls(tool) if path == "1.llm.invoked.0" else NOTHING)
    return playbook


def calling(*names: str) -> Playbook:
    """A run whose model just asked for these tools."""
    return begun() >> "1.llm.invoked.0" << calls(*names) >> "1.tool_calls.extracted.0"


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


def calls(*names: str, arguments: Mapping[str, object] = NOTHING) -> Results:
    """A model's answer that calls tools: ids are `c0`, `c1`, … in order."""
    return asks(ToolCall(id=f"c{number}", name=name, arguments=arguments) for number, name in enumerate(names))


def asks(made: Iterable[ToolCall]) -> Results:
    """A model's answer that makes these calls."""
    return {"response": ModelResponse(model="m", text="let me see", tool_calls=tuple(made), cost_usd=0.0)}


def suspended(*requirements: Requirement) -> Suspended:
    """What hooks' Suspends come to, on whatever call it is."""
    return Suspended(requirements=requirements, event=InputEvent(envelope=ENVELOPE, op=BLANK, input=""), digest="")


ASKED = suspended(Requirement(hook="asker", reason="ask first"))
REFUSED = Blocked(reason="not today", code="policy_denied", hook="guard")
STOPPED = Blocked(reason="enough", code="policy_denied", hook="guard", stop=True)
HANDED_OVER = Escalated(reason="too hot", queue="oncall", hook="guard")
BROKEN = Failed(message="it broke", code="provider_permanent", exception="ProviderError")
BUSY = Failed(message="come back later", code="provider_transient", exception="ProviderError")
LATE = Failed(message="too late", code="timeout")


def error_of(standing: Standing) -> ErrorInfo:
    assert isinstance(standing, Ended)
    assert standing.error is not None
    return standing.error


def told(standing: Standing) -> list[str]:
    """What the model was told of its tool calls."""
    return [message.content for message in standing.progress.messages if message.role == "tool"]
