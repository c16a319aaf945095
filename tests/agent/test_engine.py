"""The laws that every run on an engine keeps, whatever its operations come to. (Type checking holds engines to the
protocol.)"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.strategies import SearchStrategy
from tests.agent.playbook import (
    ASKED,
    BUSY,
    HANDED_OVER,
    LATE,
    LOOKUP,
    NOTHING,
    PLAN,
    REFUSED,
    SHELL,
    START,
    STOPPED,
    asks,
    calls,
    said,
    suspended,
)
from tests.agent.playbook_work import Answer, Results, Stopped, approve, expire, nobody, reject, says
from tests.agent.recorded import Outcome, Record, Recorded, ran

import tenter.agent
from tenter.agent.plan import Ended, Plan, Standing, Subtask
from tenter.catalogue import (
    ActivityFailedEvent,
    ApprovalDecision,
    ApprovalResolvedEvent,
    Budgets,
    ErrorInfo,
    HelpRequestEvent,
    Limits,
    ModelRequestEvent,
    RetryPolicy,
    TaskStateChangedEvent,
    ToolCall,
    ToolCallEvent,
)
from tenter.kernel import Blocked, Failed, Requirement, Retry, Suspended, Unknown

PURE = {
    "tenter.agent",
    "tenter.catalogue",
    "tenter.kernel",
    "msgspec",
    "typing",
    "collections.abc",
    "dataclasses",
    "hashlib",
}

RAW = Blocked(reason="raw", code="hook_failed", hook="guard", failed=True)
FAILURES = (
    Failed(message="broken", code="tool"),
    Failed(message="late", code="timeout"),
    Failed(message="busy", code="provider_transient"),
    Failed(message="raw", hook="guard"),
)
AGAIN = (Retry("again", feedback="better"), Retry("again"))
ASKS = (
    ASKED,
    suspended(
        Requirement(hook="a", reason="why", editable=("*",), expires_in=60.0, on_timeout="escalate"),
        Requirement(hook="b", reason="why", editable=("call.arguments.command", "input")),
    ),
    Unknown(reason="gone"),
)
REJECTED = ApprovalDecision(request_id="?", run_id="?", decision="reject", by="hook", decided_at=0.0)
FLEETING = {"error": ErrorInfo(code="provider_transient", message="it will pass"), "policy": RetryPolicy(attempts=2)}

SPAWN = ToolCall(id="c0", name="spawn_subtask", arguments={"task": "look", "input": "?"})
MANY = asks([ToolCall(id="c1", name="lookup"), SPAWN, *(ToolCall(id=name, name=name) for name in ("shell", "nope"))])
TWO = calls("shell", "lookup")
EMPTY = said("", cost=None)


def ends(
    *often: Results | Stopped, rare: Sequence[Results | Stopped] = (), least: int = 0
) -> SearchStrategy[list[Outcome]]:
    """How an operation ends, time after time: mostly as one of `often`, or with its own work."""
    mostly: list[Results | Stopped] = [*often, NOTHING]
    ending = st.sampled_from(mostly * (1 + 8 * len(rare) // len(mostly)) + [*rare])
    return st.lists(st.tuples(ending, st.sampled_from([0.0, 0.0, 0.0, 1.0, 30.0])), min_size=least, max_size=least + 9)


OUTCOMES = st.fixed_dictionaries(
    {
        "request.received": ends(rare=[*FAILURES, *ASKS, REFUSED]),
        "llm.invoked": ends(MANY, TWO, MANY, EMPTY, rare=[*FAILURES, *AGAIN, *ASKS, HANDED_OVER], least=2),
        "tool_calls.extracted": ends(rare=[{"calls": ()}, *ASKS]),
        "tool.invoked": ends(*ASKS, *FAILURES, rare=[REFUSED, RAW, STOPPED, HANDED_OVER, *ASKS], least=4),
        "subtask.spawned": ends(*ASKS[:2], rare=[REFUSED, STOPPED, *FAILURES, *ASKS[:2]], least=1),
        "task.complete": ends(rare=[*AGAIN, {"verdict": "fail"}, *FAILURES, *ASKS]),
        "help.requested": ends(rare=[REFUSED, *FAILURES, HANDED_OVER]),
        "help.decided": ends(rare=[REFUSED, *FAILURES, {"decision": REJECTED}]),
        "activity.failed": ends(rare=[REFUSED, STOPPED, HANDED_OVER, FLEETING, *FAILURES]),
        "activity.retried": ends(rare=[REFUSED, STOPPED, {"delay": 100.0}, *FAILURES]),
    }
)
EDITS = (says("edit", edits={"command": "ls"}), says("edit", edits={"input": 7}))
ANSWERS = st.lists(st.sampled_from([approve, approve, approve, *EDITS, reject, expire, nobody]), max_size=8)
PLANS = st.builds(
    msgspec.structs.replace,
    st.just(PLAN),
    tools=st.just((SHELL, LOOKUP)),
    subtasks=st.sampled_from([(), (Subtask(name="look"),), (Subtask(name="look"),)]),
    parallel_tools=st.booleans(),
    limits=st.builds(
        Limits,
        deadline=st.sampled_from([None, None, START + 60, START + 2_000]),
        max_steps=st.just(4),
        budgets=st.sampled_from([Budgets(), Budgets(), Budgets(wall_seconds=60.0)]),
    ),
    retries=st.sampled_from([RetryPolicy(), RetryPolicy(attempts=2)]),
)

Outcomes = Mapping[str, Sequence[Outcome]]

DIAGRAM = {
    "pending": {"running", "blocked", "failed", "cancelled"},
    "running": {"awaiting_approval", "escalated", "blocked", "failed", "cancelled", "completed"},
    "awaiting_approval": {"running", "blocked", "escalated", "failed", "cancelled"},
}
"""Seed 003; and a run can fail, too, while it begins, and where its deadline passes while people think."""

LAW = settings(max_examples=150, deadline=None)


def lived(plan: Plan, outcomes: Outcomes, answers: list[Answer], seed: int) -> tuple[Record, Recorded, Standing]:
    """A run to its end, in as many processes as people make it wait; the engine is that of the last one."""
    record = Record(outcomes, answers)
    for process in range(len(answers) + 1):
        engine, standing = ran(record, plan, seed + process)
        if isinstance(standing, Ended):
            return record, engine, standing
        assert ran(record, plan, seed, live=False)[1] == standing
    raise AssertionError("everybody has answered, and the run still waits")


@settings(max_examples=300, deadline=None)
@given(PLANS, OUTCOMES, ANSWERS, st.integers(0, 1_000))
def test_on_the_recorded_outcomes_a_run_asks_for_the_same_and_comes_to_the_same_standing(
    plan: Plan, outcomes: Outcomes, answers: list[Answer], seed: int
) -> None:
    record, live, standing = lived(plan, outcomes, answers, seed)
    for other in (seed, seed + 7, seed + 77):
        replayed, again = ran(record, plan, other, live=False)
        assert replayed.asked == live.asked
        assert again == standing
    assert set(record.entries) == {key for key in live.asked if "#" in key}


@pytest.mark.parametrize("seed", range(12))
def test_side_by_side_no_call_is_late_by_the_time_of_another_in_whatever_order_they_are_replayed(seed: int) -> None:
    plan = msgspec.structs.replace(PLAN, parallel_tools=True, limits=Limits(deadline=START + 60, max_steps=1))
    soon, late = ((BUSY, 1.0), (LATE, 1.0), (BUSY, 1.0)), ((NOTHING, 61.0),)
    outcomes: Outcomes = {
        "llm.invoked": [(calls("lookup", "shell", "lookup", "shell"), 0.0)],
        "tool.invoked": [*soon, *late],
    }
    record, live, standing = lived(plan, outcomes, [], seed)
    for other in range(12):
        replayed, again = ran(record, plan, other, live=False)
        assert (replayed.asked, again) == (live.asked, standing)


@LAW
@given(PLANS, OUTCOMES, ANSWERS, st.integers(0, 1_000))
def test_every_run_ends_once_and_tells_of_every_change_and_every_failure(
    plan: Plan, outcomes: Outcomes, answers: list[Answer], seed: int
) -> None:
    record, engine, standing = lived(plan, outcomes, answers, seed)
    assert isinstance(standing, Ended)
    assert list(engine.asked)[-1] == "close"
    changes = [event for event in engine.asked.values() if isinstance(event, TaskStateChangedEvent)]
    assert changes[0].before == "pending"
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]
    assert all(change.after in DIAGRAM[change.before] for change in changes)
    assert changes[-1].after == standing.status
    told = sum(isinstance(event, ActivityFailedEvent) for event in engine.asked.values())
    failures = sum(
        isinstance(entry.ending, Failed) and ".activity." not in key for key, entry in record.entries.items()
    )
    assert told >= (standing.status == "failed")
    assert told - failures in (0, 1)  # the loop itself fails once at most


@LAW
@given(PLANS, OUTCOMES, ANSWERS, st.integers(0, 1_000))
def test_every_call_in_a_conversation_has_its_answer_before_the_model_is_asked(
    plan: Plan, outcomes: Outcomes, answers: list[Answer], seed: int
) -> None:
    _, engine, standing = lived(plan, outcomes, answers, seed)
    requests = [event.request for event in engine.asked.values() if isinstance(event, ModelRequestEvent)]
    for request in requests:
        asked = [call.id for message in request.messages for call in message.tool_calls]
        assert asked == [message.tool_call_id for message in request.messages if message.role == "tool"]
        assert standing.progress.messages[: len(request.messages)] == request.messages


@pytest.mark.promise(9)
@LAW
@given(PLANS, OUTCOMES, ANSWERS, st.integers(0, 1_000))
def test_a_tool_that_may_not_be_called_twice_is_called_again_only_where_people_were_asked(
    plan: Plan, outcomes: Outcomes, answers: list[Answer], seed: int
) -> None:
    record, engine, _ = lived(plan, outcomes, answers, seed)
    requested = [event.request for event in engine.asked.values() if isinstance(event, HelpRequestEvent)]
    for key, event in engine.asked.items():
        path, _, number = key.partition("#")
        if not isinstance(event, ToolCallEvent) or event.call.name == "lookup" or number == "1":
            continue
        before = record.entries[f"{path}#{int(number) - 1}"].ending
        assert isinstance(before, Suspended | Unknown)
        assert path in {request.path for request in requested}


@pytest.mark.promise(10)
@LAW
@given(PLANS, OUTCOMES, ANSWERS, st.integers(0, 1_000))
def test_every_approval_was_asked_for_and_told_once_and_three_are_the_most_for_one_operation(
    plan: Plan, outcomes: Outcomes, answers: list[Answer], seed: int
) -> None:
    record, engine, _ = lived(plan, outcomes, answers, seed)
    asked = [event.request for event in engine.asked.values() if isinstance(event, HelpRequestEvent)]
    told = [event for event in engine.asked.values() if isinstance(event, ApprovalResolvedEvent)]
    decided = [decision for decisions in record.decisions.values() for decision in decisions]
    assert all(event.decision in decided and event.decision.decision != "expire" for event in told)
    assert max(Counter(request.id for request in asked).values(), default=1) <= 1 + retried(record, "help.requested")
    assert max(Counter(event.request.id for event in told).values(), default=1) <= 1 + retried(record, "help.decided")
    assert max(Counter(request.path for request in {one.id: one for one in asked}.values()).values(), default=0) <= 3
    for event in engine.asked.values():
        if isinstance(event, ToolCallEvent) and event.approval is not None:
            assert event.approval == event.op.approval
            assert event.approval.id in {request.id for request in asked}


def retried(record: Record, operation: str) -> int:
    """How often telling people failed, after which it is tried again."""
    return sum(isinstance(entry.ending, Failed) and operation in key for key, entry in record.entries.items())


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
