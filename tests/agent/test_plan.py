import contextlib
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.agent.playbook import (
    ASKED,
    BROKEN,
    ENVELOPE,
    HANDED_OVER,
    PLAN,
    REFUSED,
    Playbook,
    finished,
    plainly,
    until,
)
from tests.agent.playbook_work import expire, reject

from tenter.agent.approval import Halted, request_for
from tenter.agent.loop import AgentLoop
from tenter.agent.plan import (
    Ended,
    Progress,
    Standing,
    Subtask,
    Waiting,
    child_of,
    reason_of,
    specified,
    status_of,
    tightened,
)
from tenter.catalogue import (
    Budgets,
    ErrorInfo,
    Limits,
    Message,
    Status,
    TaskRef,
    TaskStateChangedEvent,
    ToolInfo,
    ToolSpec,
    Usage,
)
from tenter.kernel import Requirement, Suspended

COUNT = st.none() | st.integers(0, 100)
AMOUNT = st.none() | st.floats(0, 1e10)
BUDGETS = st.builds(Budgets, tokens=COUNT, cost_usd=AMOUNT, model_calls=COUNT, tool_calls=COUNT, wall_seconds=AMOUNT)
LIMITS = st.builds(Limits, deadline=AMOUNT, max_steps=st.integers(0, 100), budgets=BUDGETS)
ASKING = Halted(operation="tool.invoked", path="1.tool.invoked.0", index=0, event=ASKED.event, ending=ASKED)
WAITING = Waiting(requests=(request_for(ASKING, PLAN, 0.0),))


def test_what_is_said_comes_last_and_leaves_what_was_there() -> None:
    first, second = Message(role="user", content="hello"), Message(role="assistant", content="hi")
    progress = Progress().said(first)
    assert progress.said(second).messages == (first, second)
    assert progress.messages == (first,)
    decoded = msgspec.json.decode(msgspec.json.encode(progress), type=Progress)
    assert decoded.said(second).messages == (first, second)


def test_use_and_cost_are_summed_and_one_cost_that_is_not_told_makes_the_sum_unknown() -> None:
    progress = Progress().spent(Usage(input_tokens=3, output_tokens=1), 0.5)
    assert (progress.cost_usd, progress.cost_known) == (0.5, True)
    progress = progress.spent(Usage(input_tokens=4), None).spent(Usage(), 0.25)
    assert progress.usage == Usage(input_tokens=7, output_tokens=1)
    assert (progress.cost_usd, progress.cost_known) == (0.75, False)


@given(LIMITS, LIMITS)
def test_limits_are_never_loosened(own: Limits, asked: Limits) -> None:
    limits = tightened(own, asked)
    assert limits.max_steps == min(own.max_steps, asked.max_steps)
    assert limits.deadline in (own.deadline, asked.deadline)
    for other in (own.deadline, asked.deadline):
        assert other is None or (limits.deadline is not None and limits.deadline <= other)
    for name in Budgets.__struct_fields__:
        mine, theirs, least = (getattr(one.budgets, name) for one in (own, asked, limits))
        assert least == min((budget for budget in (mine, theirs) if budget is not None), default=None)


@pytest.mark.parametrize(
    ("standing", "status", "reason"),
    [
        (Ended(status="completed", progress=Progress(), output="done"), "completed", ""),
        (
            Ended(status="failed", progress=Progress(), error=ErrorInfo(code="timeout", message="too late")),
            "failed",
            "timeout",
        ),
        (
            Ended(
                status="blocked",
                progress=Progress(),
                error=ErrorInfo(code="policy", message="no", details={"code": "policy_denied"}),
            ),
            "blocked",
            "policy_denied",
        ),
        (
            WAITING,
            "awaiting_approval",
            "approval_required",
        ),
    ],
)
def test_a_standing_has_its_status_and_a_word_for_its_reason(standing: Standing, status: str, reason: str) -> None:
    assert (status_of(standing), reason_of(standing)) == (status, reason)


OWN = Limits(deadline=2_000.0, max_steps=10, budgets=Budgets(tokens=100, cost_usd=1.0))


def within(**changes: object) -> Limits:
    return msgspec.structs.replace(OWN, **changes)


@pytest.mark.parametrize(
    ("asked", "in_force"),
    [
        (Limits(deadline=1_500.0, max_steps=3), within(deadline=1_500.0, max_steps=3)),
        (Limits(deadline=9_999.0, max_steps=99), OWN),
        (Limits(deadline=None, max_steps=10), OWN),
        (
            Limits(budgets=Budgets(tokens=50, cost_usd=9.0, wall_seconds=5.0)),
            within(budgets=Budgets(tokens=50, cost_usd=1.0, wall_seconds=5.0)),
        ),
    ],
)
def test_a_start_tightens_limits_and_never_loosens_them(asked: Limits, in_force: Limits) -> None:
    playbook = until("0.task.created.0")
    playbook.script[0] = ("open", {"limits": asked})
    playbook = (playbook << REFUSED).ending(0, "blocked")
    playbook.play(msgspec.structs.replace(PLAN, limits=OWN))
    assert playbook.event("close blocked").limits == in_force


def test_a_tool_is_shown_to_a_model_without_what_only_its_run_needs() -> None:
    tool = ToolInfo(name="pay", description="pays", parameters={"type": "object"}, risk="high", principals=("ann",))
    assert specified(tool) == ToolSpec(name="pay", description="pays", parameters={"type": "object"})


def test_a_sub_runs_task_has_the_sub_runs_id() -> None:
    assert child_of(ENVELOPE.task, Subtask(name="look", version=3), "run-2") == TaskRef(
        id="run-2", name="look", version=3
    )


# The state diagram of seed 003

TOOL = "1.tool.invoked.0"
ESCALATING = Suspended(
    requirements=(Requirement(hook="asker", reason="ask", expires_in=9.0, on_timeout="escalate"),),
    event=ASKED.event,
    digest="",
)

TRANSITIONS: Mapping[tuple[Status, Status], Callable[[], Playbook]] = {
    ("pending", "running"): plainly,
    ("pending", "blocked"): lambda: (Playbook() >> "open" << REFUSED).ending(0, "blocked"),
    ("running", "awaiting_approval"): lambda: (until(TOOL) << ASKED).suspending(TOOL),
    ("awaiting_approval", "running"): lambda: (
        (until(TOOL) << ASKED).approving(TOOL) >> f"{TOOL}#2, 2.llm.invoked.0" << REFUSED
    ).ending(2, "blocked"),
    ("awaiting_approval", "blocked"): lambda: (until(TOOL) << ASKED).deciding(TOOL, answer=reject).ending(1, "blocked"),
    ("awaiting_approval", "escalated"): lambda: (
        (until(TOOL) << ESCALATING).deciding(TOOL, answer=expire).ending(1, "escalated")
    ),
    ("running", "escalated"): lambda: (until("1.llm.invoked.0") << HANDED_OVER).ending(1, "escalated"),
    ("running", "blocked"): lambda: (until("1.llm.invoked.0") << REFUSED).ending(1, "blocked"),
    ("running", "failed"): lambda: (until("1.llm.invoked.0") << BROKEN >> "1.activity.failed.0").ending(1, "failed"),
    ("running", "completed"): plainly,
}
CANCELS: Mapping[tuple[Status, Status], Callable[[], Playbook]] = {
    ("running", "cancelled"): lambda: until("1.llm.invoked.0") << KeyboardInterrupt(),
    ("awaiting_approval", "cancelled"): lambda: (until(TOOL) << ASKED).suspending(TOOL),
}


def changes(playbook: Playbook) -> list[tuple[Status, Status]]:
    told = [event for _, event in playbook.asked if isinstance(event, TaskStateChangedEvent)]
    return [(event.before, event.after) for event in told]


@pytest.mark.parametrize("change", TRANSITIONS, ids=" -> ".join)
def test_every_change_of_status_of_the_diagram_comes_about(change: tuple[Status, Status]) -> None:
    playbook = TRANSITIONS[change]()
    playbook.play()
    assert change in changes(playbook)


@pytest.mark.parametrize("change", CANCELS, ids=" -> ".join)
def test_a_run_can_be_cancelled_while_it_works_and_while_it_waits(change: tuple[Status, Status]) -> None:
    playbook = CANCELS[change]()
    loop = AgentLoop(playbook, PLAN)
    with contextlib.suppress(KeyboardInterrupt):
        finished(loop.run())
    playbook = playbook.ending(1, "cancelled")
    playbook.drive(loop.settle(Ended(status="cancelled", progress=loop.progress)))
    assert changes(playbook)[-1] == change
