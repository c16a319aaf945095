"""The laws that every run on an engine keeps, whatever its operations come to. (Type checking holds engines to the
protocol.)"""

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from hypothesis import given, settings, strategies as st
from tests.agent.playbook import ASKED, NOTHING, PLAN, START, Results, Stopped, calls, done, finished, said

import tenter.agent
from tenter.agent.loop import AgentLoop
from tenter.agent.plan import Ended, Standing, Waiting
from tenter.catalogue import Limits, ModelRequestEvent, RunEndEvent, RunStartEvent, TaskStateChangedEvent
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

PURE = {"tenter.agent", "tenter.catalogue", "tenter.kernel", "msgspec", "typing", "collections.abc"}


class Recording:
    """An engine whose operations end as `answers` say, and which remembers all that it was asked for.

    One that runs out of answers does each operation's own work.
    """

    def __init__(self, answers: list[tuple[Results | Stopped, float]]) -> None:
        self.answers = iter(answers)
        self.given: list[tuple[Results | Stopped, float]] = []
        self.asked: list[tuple[str, str, object]] = []
        self.failures = 0
        self.time = START

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        self.asked.append((path, operation.name, event))
        ending = NOTHING if operation.shape == "fact" else self._next()
        if isinstance(ending, Retry) and operation.name not in ("llm.invoked", "task.complete"):
            ending = NOTHING
        self.failures += isinstance(ending, Failed) and operation.name != "activity.failed"
        if not isinstance(ending, Mapping):
            return ending
        return Done(done(operation, event, {name: ending[name] for name in operation.results if name in ending}))

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        self.asked.append(("open", "run", event))
        ending = self._next()
        self.failures += isinstance(ending, Failed)
        return ending if isinstance(ending, Blocked | Failed) else Done(event)

    async def suspend(self, waiting: Waiting) -> None:
        self.asked.append(("suspend", "", waiting))

    def worked(self, path: str) -> Event | None:
        return None

    async def close(self, event: RunEndEvent) -> None:
        self.asked.append(("close", "", event))

    def now(self) -> float:
        return self.time

    def random(self, path: str) -> float:
        raise AssertionError(f"nothing draws yet, and {path!r} did")

    def _next(self) -> Results | Stopped:
        ending, seconds = next(self.answers, (NOTHING, 0.0))
        self.given.append((ending, seconds))
        self.time += seconds
        return ending


RARE = st.sampled_from(
    [
        Blocked(reason="no", code="policy_denied", hook="guard"),
        Blocked(reason="no", code="policy_denied", hook="guard", stop=True),
        Blocked(reason="raw", code="hook_failed", hook="guard", failed=True),
        Failed(message="broken", code="tool"),
        Failed(message="late", code="timeout"),
        Failed(message="raw", hook="guard"),
        Retry("again", feedback="better"),
        Retry("again"),
        ASKED,
        Escalated(reason="hot", queue="oncall", hook="guard"),
        Unknown(reason="gone"),
        {"verdict": "fail"},
        {"calls": ()},
    ]
)
OFTEN = st.sampled_from([{}, calls("shell"), calls("shell", "nope"), said("well", tokens=(2, 1)), said("", cost=None)])
ANSWERS = st.lists(st.tuples(OFTEN | OFTEN | OFTEN | RARE, st.sampled_from([0.0, 0.0, 1.0, 30.0])), max_size=40)
BOUNDED = msgspec.structs.replace(PLAN, limits=Limits(deadline=START + 60, max_steps=4))


def ran(answers: list[tuple[Results | Stopped, float]]) -> tuple[Recording, Standing]:
    engine = Recording(answers)
    return engine, finished(AgentLoop(engine, BOUNDED).run())


@settings(max_examples=300)
@given(ANSWERS)
def test_the_same_outcomes_lead_to_the_same_requests_and_the_same_end(
    answers: list[tuple[Results | Stopped, float]],
) -> None:
    live, standing = ran(answers)
    replayed, again = ran(live.given)
    assert replayed.asked == live.asked
    assert again == standing


@settings(max_examples=300)
@given(ANSWERS)
def test_every_run_ends_once_and_tells_of_every_change_and_every_failure(
    answers: list[tuple[Results | Stopped, float]],
) -> None:
    engine, standing = ran(answers)
    paths = [path for path, _, _ in engine.asked]
    assert paths.count("close") == isinstance(standing, Ended)
    assert paths.count("suspend") == isinstance(standing, Waiting)
    assert paths[-1].startswith("close") or isinstance(standing, Waiting)
    changes = [event for _, _, event in engine.asked if isinstance(event, TaskStateChangedEvent)]
    assert changes[0].before == "pending"
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]
    assert len({path for path in paths if "state_changed" in path}) == len(changes)
    told = sum(operation == "activity.failed" for _, operation, _ in engine.asked)
    assert told >= (isinstance(standing, Ended) and standing.status == "failed")
    assert told - engine.failures in (0, 1)  # the loop itself fails once at most


@settings(max_examples=300)
@given(ANSWERS)
def test_every_call_in_a_conversation_has_its_answer_before_the_model_is_asked(
    answers: list[tuple[Results | Stopped, float]],
) -> None:
    engine, standing = ran(answers)
    requests = [event.request for _, _, event in engine.asked if isinstance(event, ModelRequestEvent)]
    assert len(requests) <= BOUNDED.limits.max_steps + BOUNDED.max_repairs
    for request in requests:
        asked = [call.id for message in request.messages for call in message.tool_calls]
        assert asked == [message.tool_call_id for message in request.messages if message.role == "tool"]
        assert standing.progress.messages[: len(request.messages)] == request.messages


def test_the_layer_imports_nothing_that_knows_time_chance_or_the_world() -> None:
    for path in Path(tenter.agent.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                assert module in PURE or module.startswith("tenter.agent."), f"{path.name} imports {module}"


def test_the_loop_loads_without_an_event_loop() -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(['asyncio', 'random', 'threading', 'subprocess', 'socket'])\n"
        "import tenter.agent\n"
        "for name in tenter.agent.__all__: getattr(tenter.agent, name)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('tenter.kernel.')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    kernel = {"door", "ending", "errors", "event", "frozen", "outcome", "point", "sameness"}
    assert set(run.stdout.split()) == {f"tenter.kernel.{name}" for name in kernel}
