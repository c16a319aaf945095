"""What a stopped operation means for its run, and what a model is told of it (D§4.3). Pure."""

from collections.abc import Mapping
from typing import assert_never, get_args

import msgspec

from tenter.agent.plan import Ended
from tenter.catalogue import ApprovalDecision, ApprovalRequest, ErrorCode, ErrorInfo, SubtaskResult, ToolResult
from tenter.kernel import Blocked, Escalated, Failed, FrozenDict

CODES: Mapping[str, ErrorCode] = {code: code for code in get_args(ErrorCode) if code != "cancelled"}
"""The codes of the taxonomy that a failure may name itself."""

REFUSALS: Mapping[str, ErrorCode] = {
    "budget_exceeded": "budget",
    "loop_detected": "budget",
    "repairs_exhausted": "validation",
    "approval_rejected": "approval",
    "approval_expired": "approval",
    "approvals_exhausted": "approval",
    "invalid_edit": "approval",
}
"""What the refusals of tenter's own checks belong to; every other is a policy's."""

LONGEST_TOLD = 4096
"""Characters of a tool's failure that a model is told."""


def ended_by(stopped: Blocked | Escalated) -> Ended:
    """The run that ends with an operation that it cannot go on without. The loop itself refuses with no hook."""
    match stopped:
        case Blocked():
            details = {"code": stopped.code} | ({"hook": stopped.hook} if stopped.hook else {})
            code = REFUSALS.get(stopped.code, "policy")
            error = ErrorInfo(code=code, message=stopped.reason, details=FrozenDict(details))
            return Ended(status="blocked", error=error)
        case Escalated():
            details = FrozenDict({"code": "escalated", "queue": stopped.queue, "hook": stopped.hook})
            error = ErrorInfo(code="policy", message=stopped.reason, details=details)
            return Ended(status="escalated", error=error)
        case _:
            assert_never(stopped)


def refused(reason: str, code: str) -> Ended:
    """The run that the loop itself refuses to go on with."""
    return ended_by(Blocked(reason=reason, code=code, hook=""))


def out_of_time(seconds: float) -> Ended:
    """The run whose budget of time is used up."""
    return refused(f"the budget of {seconds:g} s (wall_seconds) is used up", "budget_exceeded")


def decided_against(request: ApprovalRequest, decision: ApprovalDecision) -> Ended | None:
    """The run that a person, or the end of the time for an answer, ends; None where it goes on."""
    match decision.decision:
        case "approve" | "edit":
            return None
        case "reject":
            why = f": {decision.reason}" if decision.reason else ""
            return refused(f"{decision.by} rejected {request.operation}{why}", "approval_rejected")
        case "expire":
            reason = f"nobody decided on {request.operation} in time"
            if request.on_timeout == "block":
                return refused(reason, "approval_expired")
            details = FrozenDict({"code": "approval_expired", "queue": "default"})
            return Ended(status="escalated", error=ErrorInfo(code="approval", message=reason, details=details))
        case _:
            assert_never(decision.decision)


def error_of(failed: Failed, operation: str) -> ErrorInfo:
    """A failure as the taxonomy has it, before hooks classify it anew."""
    code = CODES.get(failed.code, "internal")
    details = {"operation": operation}
    details |= {"code": failed.code} if failed.code != code else {}
    details |= {"hook": failed.hook} if failed.hook else {}
    details |= {"exception": failed.exception} if failed.exception else {}
    return ErrorInfo(code=code, message=failed.message, details=FrozenDict(details))


def stand_in(stopped: Blocked | Failed) -> ToolResult:
    """The result that a model gets for a call that was refused or failed: a hook's own words only where it blocked."""
    match stopped:
        case Blocked(failed=False):
            text = f"Refused by the hook {stopped.hook!r}: {stopped.reason}"
        case Blocked() | Failed(hook=str()):
            text = f"The hook {stopped.hook!r} failed, so this call has no result."
        case Failed():
            text = f"The call failed: {stopped.message}"[:LONGEST_TOLD]
        case _:
            assert_never(stopped)
    return ToolResult(output=text, is_error=True)


def told_of(result: SubtaskResult) -> ToolResult:
    """What a model hears of a sub-run."""
    if result.status == "completed" and isinstance(result.output, str):
        return ToolResult(output=result.output)
    if result.status == "completed":
        return ToolResult(output="" if result.output is None else msgspec.json.encode(result.output).decode())
    why = "" if result.error is None else f": {result.error.message}"[:LONGEST_TOLD]
    return ToolResult(output=f"The task {result.task!r} ended {result.status}{why}", is_error=True)
