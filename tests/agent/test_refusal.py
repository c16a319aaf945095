from typing import get_args

import msgspec
import pytest
from tests.agent.playbook import (
    ASKED,
    HANDED_OVER,
    LEAVES,
    PLAN,
    REFUSED,
    STOPPED,
    error_of as ended_with,
    plainly,
    told,
    until,
)
from tests.agent.playbook_work import Answer, approve, editing, expire, reject

from tenter.agent.approval import Halted, request_for
from tenter.agent.refusal import (
    LONGEST_TOLD,
    REFUSALS,
    decided_against,
    ended_by,
    error_of,
    out_of_time,
    refused,
    stand_in,
    told_of,
)
from tenter.catalogue import ApprovalRequest, ErrorCode, ErrorInfo, SubtaskResult
from tenter.kernel import Blocked, Failed


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        (
            Failed(message="gone", code="provider_transient", exception="ConnectError", retryable=True),
            ErrorInfo(
                code="provider_transient",
                message="gone",
                details={"operation": "llm.invoked", "exception": "ConnectError"},
            ),
        ),
        (
            Failed(message="exit 1", code="hook_failed", hook="guard"),
            ErrorInfo(
                code="internal",
                message="exit 1",
                details={"operation": "llm.invoked", "code": "hook_failed", "hook": "guard"},
            ),
        ),
        (
            Failed(message="?", code="cancelled"),
            ErrorInfo(code="internal", message="?", details={"operation": "llm.invoked", "code": "cancelled"}),
        ),
    ],
)
def test_a_failure_keeps_a_code_of_the_taxonomy_and_any_other_is_internal(failed: Failed, error: ErrorInfo) -> None:
    assert error_of(failed, "llm.invoked") == error


@pytest.mark.parametrize(
    "stopped",
    [
        Blocked(reason="SECRET", code="hook_failed", hook="guard", failed=True),
        Failed(message="SECRET", code="hook_failed", hook="guard"),
    ],
)
def test_the_output_of_a_hook_that_failed_never_reaches_the_model(stopped: Blocked | Failed) -> None:
    result = stand_in(stopped)
    assert result.is_error
    assert result.output == "The hook 'guard' failed, so this call has no result."


def test_a_refusal_tells_the_model_which_hook_and_why() -> None:
    result = stand_in(Blocked(reason="no force pushes", code="policy_denied", hook="guard"))
    assert (result.output, result.is_error) == ("Refused by the hook 'guard': no force pushes", True)


def test_what_a_failed_tool_says_is_told_within_bounds() -> None:
    output = stand_in(Failed(message="x" * 1_000_000, code="tool")).output
    assert output.startswith("The call failed: xxx")
    assert len(output) == LONGEST_TOLD


def test_what_a_failed_sub_run_says_is_told_within_bounds() -> None:
    error = ErrorInfo(code="tool", message="x" * 1_000_000)
    result = told_of(SubtaskResult(run_id="r", task="look", status="failed", error=error))
    assert result.is_error
    assert len(result.output) < LONGEST_TOLD + 100


# What it means for the run


@pytest.mark.parametrize("leaf", LEAVES[:-1])
def test_a_refused_operation_ends_the_run_blocked(leaf: str) -> None:
    playbook = (until(leaf) << REFUSED).ending(int(leaf[0]), "blocked")
    assert ended_with(playbook.play()).message == "not today"


def test_a_refused_output_ends_the_run_blocked() -> None:
    playbook = plainly(REFUSED).ending(1, "blocked")
    assert ended_with(playbook.play()).code == "policy"


def test_a_refused_call_gets_a_stand_in_and_the_run_goes_on() -> None:
    playbook = until("1.tool.invoked.0") << REFUSED >> "2.llm.invoked.0" << REFUSED
    standing = playbook.ending(2, "blocked").play()
    assert told(standing) == ["Refused by the hook 'guard': not today"]
    assert standing.progress.messages[-1].is_error


def test_a_refusal_with_stop_ends_the_run_at_the_call() -> None:
    playbook = until("1.tool.invoked.0") << STOPPED
    assert ended_with(playbook.ending(1, "blocked").play()).message == "enough"


@pytest.mark.parametrize("leaf", LEAVES)
def test_an_escalation_ends_the_run_in_the_hands_of_its_queue(leaf: str) -> None:
    playbook = until(leaf) << HANDED_OVER
    playbook = playbook.ending(int(leaf[0]), "escalated")
    error = ended_with(playbook.play())
    assert error.message == "too hot"
    assert error.details == {"code": "escalated", "queue": "oncall", "hook": "guard"}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_of_tenters_own_belongs_to_its_part_of_the_taxonomy(code: str) -> None:
    error = refused("no", code).error
    assert error is not None
    assert (error.code, error.message, error.details) == (REFUSALS[code], "no", {"code": code})
    assert error.code in get_args(ErrorCode)


def test_a_refusal_of_any_other_code_is_a_policys_and_names_its_hook() -> None:
    ended = ended_by(Blocked(reason="no", code="two_eyes", hook="guard"))
    assert ended.status == "blocked"
    assert ended.error == ErrorInfo(code="policy", message="no", details={"code": "two_eyes", "hook": "guard"})


def test_a_budget_of_time_says_how_long_it_was() -> None:
    error = out_of_time(90.0).error
    assert error == ErrorInfo(
        code="budget",
        message="the budget of 90 s (wall_seconds) is used up",
        details={"code": "budget_exceeded"},
    )


REQUEST: ApprovalRequest = request_for(
    Halted(operation="task.complete", path="1.task.complete.0", index=0, event=ASKED.event, ending=ASKED), PLAN, 0.0
)


@pytest.mark.parametrize("answer", [approve, editing(output=1)])
def test_an_approval_or_edit_ends_nothing(answer: Answer) -> None:
    decision = answer(REQUEST)
    assert decision is not None
    assert decided_against(REQUEST, decision) is None


@pytest.mark.parametrize(
    ("answer", "why", "message"),
    [
        (reject, "too risky", "ann rejected task.complete: too risky"),
        (reject, "", "ann rejected task.complete"),
        (expire, "", "nobody decided on task.complete in time"),
    ],
)
def test_a_rejection_and_an_expiry_end_the_run_with_who_and_why(answer: Answer, why: str, message: str) -> None:
    decision = answer(REQUEST)
    assert decision is not None
    ended = decided_against(REQUEST, msgspec.structs.replace(decision, reason=why))
    assert ended is not None
    assert ended.error is not None
    assert (ended.status, ended.error.code, ended.error.message) == ("blocked", "approval", message)
