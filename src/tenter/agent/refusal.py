"""What a stopped operation means for its run, and what a model is told of it (D§4.3). Pure."""

from typing import assert_never

from tenter.agent.plan import Ended, Progress, Standing, Waiting
from tenter.catalogue import ErrorCode, ErrorInfo, ToolResult
from tenter.kernel import Blocked, Escalated, Failed, FrozenDict, Retry, Suspended, Unknown

CODES: frozenset[str] = frozenset(
    {"validation", "policy", "budget", "timeout", "provider_transient", "provider_permanent", "tool", "approval"}
)
"""The codes of the taxonomy that a failure may name itself."""


def run_ends(
    stopped: Blocked | Suspended | Escalated | Retry | Failed | Unknown,
    progress: Progress,
    *,
    operation: str,
    path: str,
) -> Standing:
    """Where a run stands after an operation that it cannot go on without."""
    match stopped:
        case Blocked():
            return blocked(stopped, progress)
        case Suspended():
            return Waiting(operation=operation, path=path, suspended=stopped, progress=progress)
        case Escalated():
            details = FrozenDict({"code": "escalated", "queue": stopped.queue, "hook": stopped.hook})
            return Ended(
                status="escalated",
                progress=progress,
                error=ErrorInfo(code="policy", message=stopped.reason, details=details),
            )
        case Retry():
            raise AssertionError(f"{operation} takes no Retry")
        case Failed():
            return Ended(status="failed", progress=progress, error=error_of(stopped, operation))
        case Unknown():
            error = ErrorInfo(code="internal", message=stopped.reason, details=FrozenDict({"operation": operation}))
            return Ended(status="failed", progress=progress, error=error)
        case _:
            assert_never(stopped)


def blocked(refused: Blocked, progress: Progress) -> Ended:
    """The run that a refusal ends."""
    details = FrozenDict({"code": refused.code, "hook": refused.hook})
    return Ended(
        status="blocked", progress=progress, error=ErrorInfo(code="policy", message=refused.reason, details=details)
    )


def error_of(failed: Failed, operation: str) -> ErrorInfo:
    """A failure as the taxonomy has it, before hooks classify it anew."""
    code: ErrorCode = failed.code if failed.code in CODES else "internal"  # type: ignore[assignment]  # CODES are codes
    details: dict[str, object] = {"operation": operation}
    details |= {"code": failed.code} if failed.code != code else {}
    details |= {"hook": failed.hook} if failed.hook else {}
    details |= {"exception": failed.exception} if failed.exception else {}
    return ErrorInfo(code=code, message=failed.message, details=FrozenDict(details))


def stand_in(stopped: Blocked | Failed | Unknown) -> ToolResult:
    """The result that the model gets for a call that was refused or failed: a hook's own words only where it blocked."""
    match stopped:
        case Blocked(failed=False):
            text = f"Refused by the hook {stopped.hook!r}: {stopped.reason}"
        case Blocked() | Failed(hook=str()):
            text = f"The hook {stopped.hook!r} failed, so the call was refused."
        case Failed():
            text = f"The tool failed ({stopped.exception or stopped.code})."
        case Unknown():
            text = "It is not known whether the call took place."
        case _:
            assert_never(stopped)
    return ToolResult(output=text, is_error=True)
