"""Where people are asked: what they are asked, when, and what each of their answers does to the run."""

from collections.abc import Callable

import msgspec
import pytest
from tests.agent.playbook import (
    ASKED,
    BROKEN,
    BUSY,
    DUE,
    ENVELOPE,
    HANDED_OVER,
    LEAVES,
    PLAN,
    REFUSED,
    SIDE_BY_SIDE,
    START,
    STOPPED,
    Playbook,
    calling,
    calls,
    error_of,
    finished,
    plainly,
    suspended,
    told,
    until,
)
from tests.agent.playbook_work import (
    Answer,
    Results,
    Stopped,
    approve,
    digest_of,
    each,
    editing,
    expire,
    nobody,
    reject,
)

from tenter.agent.engine import BLANK
from tenter.agent.loop import AgentLoop
from tenter.agent.plan import Ended, Waiting, status_of
from tenter.catalogue import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    Budgets,
    DecisionKind,
    InputEvent,
    Limits,
    Status,
    ToolCall,
    ToolCallEvent,
)
from tenter.kernel import OnTimeout, Requirement, Retry, Suspended, Unknown

TOOL = "1.tool.invoked.0"
RECEIVED = "0.request.received.0"
GONE = Unknown(reason="its process died")
MAY_EDIT = suspended(Requirement(hook="asker", reason="ask first", editable=("call.arguments.command",)))
ANY_INPUT = suspended(Requirement(hook="asker", reason="ask first", editable=("input",)))


def requests_of(playbook: Playbook) -> tuple[ApprovalRequest, ...]:
    """What people were asked at the one suspension."""
    (waiting,) = [event for _, event in playbook.asked if isinstance(event, Waiting)]
    return waiting.requests


def judged(decision: DecisionKind, **edits: object) -> Results:
    """What a hook makes of a decision."""
    made = ApprovalDecision(
        request_id="?", run_id="?", decision=decision, by="hook", reason="I know", edits=edits, decided_at=0.0
    )
    return {"decision": made}


def going_on(playbook: Playbook) -> Playbook:
    """The next pass of the tool works, and the model's next call is refused."""
    return (playbook >> f"{TOOL}#2" >> "2.llm.invoked.0" << REFUSED).ending(2, "blocked")


def suspending_shell(ending: Stopped = ASKED) -> Playbook:
    """A run whose one call, `rm x`, ends so."""
    playbook = until("1.tool_calls.extracted.0")
    playbook.script[-2] = ("1.llm.invoked.0", calls("shell", arguments={"command": "rm x", "cwd": "/"}))
    return playbook >> TOOL << ending


# Asked


@pytest.mark.parametrize("leaf", [*LEAVES, "1.task.complete.0"])
def test_what_people_are_asked_is_durable_before_anybody_is_told_and_nothing_is_closed(leaf: str) -> None:
    playbook = (until(leaf) << ASKED if leaf in LEAVES else plainly(ASKED)).suspending(leaf)
    standing = playbook.play()
    assert isinstance(standing, Waiting)
    (request,) = standing.requests
    assert (request.operation, request.path, request.run_id) == (leaf[2:-2], leaf, "run-1")
    assert request.digest == digest_of(playbook.event(leaf))
    assert playbook.event(f"{leaf[0]}.help.requested.0").request == request
    change = playbook.event(f"{leaf[0]}.task.state_changed.1 running->awaiting_approval")
    assert change.reason == "approval_required"


@pytest.mark.parametrize(("ending", "status"), [(REFUSED, "blocked"), (HANDED_OVER, "escalated"), (BROKEN, "failed")])
@pytest.mark.parametrize("at", ["requested", "decided"])
def test_what_hears_of_people_can_end_the_run(at: str, ending: Stopped, status: Status) -> None:
    playbook = until(TOOL) << ASKED
    playbook = playbook >> f"suspend {TOOL}" >> "1.help.requested.0" if at == "requested" else playbook.deciding(TOOL)
    playbook = playbook << ending
    if status == "failed":
        playbook = playbook >> "1.activity.failed.0"
    assert status_of(playbook.ending(1, status).play()) == status


@pytest.mark.promise(9)
@pytest.mark.parametrize("leaf", ["1.llm.invoked.0", TOOL])
def test_what_may_have_happened_is_a_persons_to_judge_bound_to_the_call(leaf: str) -> None:
    playbook = (until(leaf) << GONE).suspending(leaf)
    standing = playbook.play()
    assert isinstance(standing, Waiting)
    (request,) = standing.requests
    assert [(reason.hook, reason.code, reason.reason) for reason in request.reasons] == [
        ("duplicate", "unknown", "its process died")
    ]
    assert request.digest == digest_of(playbook.event(leaf))


def test_what_may_have_happened_is_done_again_once_a_person_says_so() -> None:
    playbook = going_on((until(TOOL) << GONE).approving(TOOL))
    assert told(playbook.play()) == ["shell ran"]
    assert playbook.event(f"{TOOL}#2").approval.hooks == ("duplicate",)


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_a_waiting_run_can_be_brought_to_its_end(status: Status) -> None:
    playbook = (until(TOOL) << ASKED).suspending(TOOL)
    loop = AgentLoop(playbook, PLAN)
    assert isinstance(finished(loop.run()), Waiting)
    playbook = playbook.ending(1, status)
    assert playbook.script[-2][0] == f"1.task.state_changed.2 awaiting_approval->{status}"
    ended = Ended(status="cancelled" if status == "cancelled" else "failed", progress=loop.progress)
    assert playbook.drive(loop.settle(ended)) == ended


# Approved


@pytest.mark.promise(10)
@pytest.mark.parametrize("leaf", [*LEAVES, "1.task.complete.0"])
def test_an_approved_operation_is_passed_again_with_the_approval(leaf: str) -> None:
    playbook = (until(leaf) << ASKED if leaf in LEAVES else plainly(ASKED)).approving(leaf)
    playbook = playbook >> f"{leaf}#2"
    if leaf == TOOL:
        playbook = playbook >> "2.llm.invoked.0" << REFUSED
    playbook = (playbook << REFUSED).ending(2 if leaf == TOOL else int(leaf[0]), "blocked")
    playbook.play()
    before, after = playbook.event(leaf), playbook.event(f"{leaf}#2")
    (request,) = requests_of(playbook)
    asked = ("/asker#approval_required",)
    approval = Approval(id=request.id, hooks=("asker",), asked=asked, digest=digest_of(before), by="ann")
    assert after.op.approval == approval
    assert getattr(after, "approval", approval) == approval
    assert digest_of(after) == digest_of(before)
    assert playbook.event(f"{leaf[0]}.help.decided.0").decision == approve(request)


@pytest.mark.promise(10)
def test_one_approval_covers_the_retries_of_the_call_and_no_other_call() -> None:
    playbook = (until(TOOL, "lookup") << ASKED).approving(TOOL) >> f"{TOOL}#2" << BUSY
    playbook = playbook >> "1.activity.failed.0, 1.activity.retried.0, wait 0.5" >> f"{TOOL}#3"
    playbook = playbook >> "2.llm.invoked.0" << calls("lookup") >> "2.tool_calls.extracted.0, 2.tool.invoked.0"
    (playbook >> "3.llm.invoked.0" << REFUSED).ending(3, "blocked").play()
    assert playbook.event(f"{TOOL}#3").approval == playbook.event(f"{TOOL}#2").approval
    assert playbook.event("2.tool.invoked.0").approval is None
    assert playbook.event("2.tool.invoked.0").op.approval is None


@pytest.mark.promise(10)
@pytest.mark.parametrize("same", [True, False], ids=["of the same call", "of another call"])
def test_an_earlier_approval_holds_on_for_the_same_call_only(same: bool) -> None:
    asked = Requirement(hook="second", reason="me too")
    other = ToolCallEvent(
        envelope=ENVELOPE, op=BLANK, call=ToolCall(id="c0", name="shell", arguments={"command": "ls"})
    )
    again = suspended(asked) if same else Suspended(requirements=(asked,), event=other, digest=digest_of(other))
    playbook = (until(TOOL) << ASKED).approving(TOOL) >> f"{TOOL}#2" << again
    playbook = playbook.approving(TOOL) >> f"{TOOL}#3" >> "2.llm.invoked.0" << REFUSED
    playbook.ending(2, "blocked").play()
    assert playbook.event(f"{TOOL}#3").approval.hooks == (("asker", "second") if same else ("second",))


@pytest.mark.parametrize("leaf", ["1.llm.invoked.0", TOOL])
def test_a_person_is_asked_three_times_for_the_same_operation_and_not_again(leaf: str) -> None:
    playbook = until(leaf) << ASKED
    for number in (2, 3, 4):
        playbook = playbook.approving(leaf) >> f"{leaf}#{number}" << ASKED
    error = error_of(playbook.ending(1, "blocked").play())
    assert (error.code, error.details) == ("approval", {"code": "approvals_exhausted"})
    ids = {event.requests[0].id for _, event in playbook.asked if isinstance(event, Waiting)}
    assert len(ids) == 3


@pytest.mark.promise(10)
def test_a_model_that_is_asked_the_very_same_again_needs_a_person_anew() -> None:
    leaf = "1.llm.invoked.0"
    playbook = (until(leaf) << ASKED).approving(leaf) >> f"{leaf}#2" << Retry("more") >> f"{leaf}#3" << ASKED
    playbook = playbook.approving(leaf) >> f"{leaf}#4" << REFUSED
    playbook.ending(1, "blocked").play()
    first, second = (event.requests[0] for _, event in playbook.asked if isinstance(event, Waiting))
    assert (first.digest, first.path) == (second.digest, second.path)
    assert first.id != second.id
    assert playbook.event(f"{leaf}#3").op.approval is None


# Edited


@pytest.mark.promise(10)
def test_an_edited_call_is_the_one_that_is_judged_and_approved() -> None:
    playbook = going_on(suspending_shell(MAY_EDIT).approving(TOOL, answer=editing(command="rm y")))
    playbook.play()
    after = playbook.event(f"{TOOL}#2")
    assert after.call.arguments == {"command": "rm y", "cwd": "/"}
    assert after.approval.digest == after.op.approval.digest == digest_of(after) != digest_of(playbook.event(TOOL))


def test_the_call_that_was_shown_is_the_one_that_is_edited() -> None:
    shown = InputEvent(envelope=ENVELOPE, op=BLANK, input="as hooks left it", sender="hook")
    playbook = until(RECEIVED) << Suspended(requirements=ANY_INPUT.requirements, event=shown, digest="sha256:1")
    playbook = playbook.approving(RECEIVED, answer=editing(input="as ann wants it")) >> f"{RECEIVED}#2" << REFUSED
    playbook.ending(0, "blocked").play()
    after = playbook.event(f"{RECEIVED}#2")
    assert (after.input, after.sender) == ("as ann wants it", "hook")


@pytest.mark.parametrize(
    ("playbook", "path", "answer", "why"),
    [
        (lambda: suspending_shell(MAY_EDIT), TOOL, editing(cwd="/etc"), "'cwd' may not be edited"),
        (lambda: suspending_shell(ASKED), TOOL, editing(command="ls"), "'command' may not be edited"),
        (lambda: until(RECEIVED) << ANY_INPUT, RECEIVED, editing(input=7), "an edit does not fit"),
        (lambda: until(RECEIVED) << ANY_INPUT, RECEIVED, editing(sender="x"), "'sender' may not"),
    ],
    ids=["another argument", "none may be edited", "of another type", "another field"],
)
def test_an_edit_that_cannot_be_used_ends_the_run_blocked(
    playbook: Callable[[], Playbook], path: str, answer: Answer, why: str
) -> None:
    error = error_of(playbook().approving(path, answer=answer).ending(int(path[0]), "blocked").play())
    assert (error.code, error.details) == ("approval", {"code": "invalid_edit"})
    assert error.message.startswith(f"the edit by ann cannot be used: {why}")


# Rejected, expired, and what hooks make of decisions


def test_a_rejected_operation_ends_the_run_blocked_once_it_was_told() -> None:
    playbook = (until(TOOL) << ASKED).deciding(TOOL, answer=reject).ending(1, "blocked")
    error = error_of(playbook.play())
    assert (error.code, error.details) == ("approval", {"code": "approval_rejected"})
    assert error.message == "ann rejected tool.invoked: too risky"
    assert playbook.event("1.task.state_changed.2 awaiting_approval->blocked").reason == "approval_rejected"


@pytest.mark.promise(10)
@pytest.mark.parametrize(
    "answer", [judged("approve"), judged("edit", command="ls"), judged("expire"), judged("reject")]
)
def test_what_was_rejected_stays_rejected_whatever_a_hook_says(answer: Results) -> None:
    playbook = suspending_shell(MAY_EDIT).deciding(TOOL, answer=reject) << answer
    error = error_of(playbook.ending(1, "blocked").play())
    assert error.message == "ann rejected tool.invoked: too risky"


def test_a_hook_may_reject_what_a_person_approved() -> None:
    playbook = suspending_shell().deciding(TOOL) << judged("reject")
    error = error_of(playbook.ending(1, "blocked").play())
    assert error.message == "ann rejected tool.invoked: I know"


@pytest.mark.promise(10)
@pytest.mark.parametrize("heard", [judged("expire"), judged("edit", command="rm -rf /"), judged("approve")])
def test_a_hook_makes_nothing_else_of_what_a_person_let_pass(heard: Results) -> None:
    playbook = suspending_shell(MAY_EDIT).deciding(TOOL, answer=editing(command="ls")) << heard
    playbook = going_on(playbook.changing(1, "running"))
    playbook.play()
    assert playbook.event(f"{TOOL}#2").call.arguments["command"] == "ls"


@pytest.mark.parametrize(
    ("on_timeout", "status", "details"),
    [
        ("block", "blocked", {"code": "approval_expired"}),
        ("escalate", "escalated", {"code": "approval_expired", "queue": "default"}),
    ],
)
def test_a_request_that_expired_ends_the_run_as_it_says_and_nobody_is_told_of_a_decision(
    on_timeout: OnTimeout, status: Status, details: dict[str, str]
) -> None:
    timed = suspended(Requirement(hook="asker", reason="ask first", expires_in=60.0, on_timeout=on_timeout))
    playbook = (until(TOOL) << timed).deciding(TOOL, answer=expire).ending(1, status)
    error = error_of(playbook.play())
    assert (error.code, error.message, error.details) == (
        "approval",
        "nobody decided on tool.invoked in time",
        details,
    )
    assert requests_of(playbook)[0].expires_at == START + 60


# Several at once


def side_by_side() -> Playbook:
    """Four calls: the first and the last need a person, one fails, one works; all end before anybody is asked."""
    playbook = calling("shell", "unknown", "lookup", "shell2") >> TOOL << ASKED
    playbook = playbook >> "1.tool.invoked.1" << BROKEN >> "1.activity.failed.1"
    return playbook >> "1.tool.invoked.2" >> "1.tool.invoked.3" << GONE


BOTH = (TOOL, "1.tool.invoked.3")


def test_calls_side_by_side_are_asked_for_together_once_all_have_ended() -> None:
    playbook = side_by_side().approving(*BOTH) >> "1.tool.invoked.0#2, 1.tool.invoked.3#2"
    standing = (playbook >> "2.llm.invoked.0" << REFUSED).ending(2, "blocked").play(SIDE_BY_SIDE)
    assert told(standing) == ["shell ran", "The call failed: it broke", "lookup ran", "shell2 ran"]
    assert [request.path for request in requests_of(playbook)] == list(BOTH)


@pytest.mark.parametrize(
    ("answers", "told_of"),
    [
        ({"shell": approve, "shell2": reject}, BOTH),
        ({"shell": reject, "shell2": nobody}, BOTH[:1]),
        ({"shell": nobody, "shell2": reject}, BOTH[1:]),
        ({"shell": approve, "shell2": expire}, BOTH[:1]),
    ],
)
def test_one_rejection_or_expiry_ends_the_run_and_every_decision_is_told(
    answers: dict[str, Answer], told_of: tuple[str, ...]
) -> None:
    playbook = side_by_side().suspending(*BOTH, answer=each(**answers))
    for path in told_of:
        playbook = playbook >> f"1.help.decided.{path[-1]}"
    assert error_of(playbook.ending(1, "blocked").play(SIDE_BY_SIDE)).code == "approval"


def test_a_run_waits_on_until_all_are_decided() -> None:
    playbook = side_by_side().suspending(*BOTH, answer=each(shell=approve, shell2=nobody))
    standing = playbook.play(SIDE_BY_SIDE)
    assert isinstance(standing, Waiting)
    assert [request.path for request in standing.requests] == list(BOTH)


def test_a_call_that_ends_the_run_leaves_nothing_to_ask() -> None:
    playbook = calling("shell", "shell") >> TOOL << ASKED >> "1.tool.invoked.1" << STOPPED
    assert error_of(playbook.ending(1, "blocked").play(SIDE_BY_SIDE)).message == "enough"


def test_one_by_one_a_call_is_made_once_the_one_before_it_was_decided() -> None:
    playbook = (calling("shell", "lookup") >> TOOL << ASKED).approving(TOOL) >> f"{TOOL}#2, 1.tool.invoked.1"
    standing = (playbook >> "2.llm.invoked.0" << REFUSED).ending(2, "blocked").play()
    assert told(standing) == ["shell ran", "lookup ran"]


# Time


def decided_after(seconds: float) -> Playbook:
    """A person takes so long to approve."""
    playbook = (until(TOOL) << ASKED).taking(10).suspending(TOOL, answer=approve).taking(seconds)
    return playbook >> "1.help.decided.0, 1.task.state_changed.2 awaiting_approval->running"


def test_no_budget_of_time_counts_how_long_people_took() -> None:
    limits = Limits(budgets=Budgets(wall_seconds=60.0))
    playbook = going_on(decided_after(86_400))
    assert told(playbook.play(msgspec.structs.replace(PLAN, limits=limits))) == ["shell ran"]
    assert playbook.event(TOOL).op.deadline == START + 60
    assert playbook.event(f"{TOOL}#2").op.deadline == START + 60 + 86_400
    playbook = decided_after(86_400) >> f"{TOOL}#2"
    playbook = playbook.taking(50).ending(2, "blocked")
    assert error_of(playbook.play(msgspec.structs.replace(PLAN, limits=limits))).code == "budget"


def test_no_budget_of_time_is_used_up_by_people_while_their_decisions_are_told() -> None:
    limits = Limits(budgets=Budgets(wall_seconds=60.0))
    playbook = side_by_side().suspending(*BOTH, answer=approve).taking(86_400) >> "1.help.decided.0"
    playbook = playbook << BUSY >> "1.activity.failed.0, 1.activity.retried.0, wait 0.5"
    playbook = (playbook >> "1.help.decided.0#2, 1.help.decided.3").changing(1, "running")
    playbook = playbook >> "1.tool.invoked.0#2, 1.tool.invoked.3#2, 2.llm.invoked.0" << REFUSED
    plan = msgspec.structs.replace(SIDE_BY_SIDE, limits=limits)
    assert error_of(playbook.ending(2, "blocked").play(plan)).message == "not today"
    assert playbook.event("1.help.decided.0").op.deadline is None


def test_a_deadline_passes_while_people_think() -> None:
    playbook = (decided_after(86_400) >> "1.activity.failed.0").ending(1, "failed")
    assert error_of(playbook.play(DUE)).code == "timeout"
