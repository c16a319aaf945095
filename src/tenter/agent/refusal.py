"""What a stopped operation means for its run, and what a model is told of it (D§4.3). Pure."""

from collections.abc import Mapping
from typing import assert_never, get_args

from tenter.agent.plan import Ended, Progress, Standing, Waiting
from tenter.catalogue import ErrorCode, ErrorInfo, ToolResult
from tenter.kernel import Blocked, Escalated, Event, Failed, FrozenDict, Requirement, Retry, Suspended, Unknown

CODES: Mapping[str, ErrorCode] = {code: code for code in get_args(ErrorCode) if code != "cancelled"}
"""The codes of the taxonomy that a failure may name itself."""

LONGEST_TOLD = 4096
"""Characters of a tool's failure that a model is told."""


def run_ends(
    stopped: Blocked | Suspended | Escalated | Retry | Unknown,
    progress: Progress,
    *,
    operation: str,
    path: str,
    event: Event,
) -> Standing:
    """Where a run stands after an operation that it cannot go on without, begun with `event`, was stopped.

    What may have happened is a person's to find out (D§11): the request for it names no call, so that the answer waives
    nothing.
    """
    match stopped:
        case Blocked():
            return blocked(stopped, progress)
        case Suspended():
            return Waiting(operation=operation, path=path, suspended=stopped, progress=progress)
        case Unknown():
            asked = Requirement(hook="", reason=stopped.reason, code="unknown")
            suspended = Suspended(requirements=(asked,), event=event, digest="")
            return Waiting(operation=operation, path=path, suspended=suspended, progress=progress)
        case Escalated():
            details = FrozenDict({"code": "escalated", "queue": stopped.queue, "hook": stopped.hook})
            error = ErrorInfo(code="policy", message=stopped.reason, details=details)
            return Ended(status="escalated", progress=progress, error=error)
        case Retry():
            raise AssertionError(f"{operation} takes no Retry")
        case _:
            assert_never(stopped)


def blocked(refused: Blocked, progress: Progress) -> Ended:
    """The run that a refusal ends. The loop itself refuses with no hook."""
    details = {"code": refused.code} | ({"hook": refused.hook} if refused.hook else {})
    error = ErrorInfo(code="policy", message=refused.reason, details=FrozenDict(details))
    return Ended(status="blocked", progress=progress, error=error)


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
