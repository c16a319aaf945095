"""A request and what was decided on it, as the verbs that list and show requests tell it. Rows in, text out."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from tenter.catalogue import ApprovalDecision, DecisionKind
from tenter.cli.decisions import editable_of, fields_of, root_of
from tenter.cli.masking import Masking
from tenter.cli.texts import json_text, moment, one_line

if TYPE_CHECKING:
    from tenter.harness import RunResult
    from tenter.journal import ApprovalRow

LONGEST: Final = 600
"""Characters of a line."""
DONE: Final[Mapping[DecisionKind, str]] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "approved with new values",
    "expire": "expired",
}


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request as every verb with `--json` tells it. Times are in UTC."""

    request_id: str
    run_id: str
    """The run to resume."""
    asking_run_id: str
    """The run that asks, which may be a sub-run of it."""
    task: str
    operation: str
    path: str
    call: object
    """Exactly what is asked for."""
    digest: str
    reasons: Sequence[Mapping[str, object]]
    editable: Mapping[str, object]
    """What may be edited, and its present value; None of what is not given."""
    requested_at: str
    expires_at: str | None
    on_timeout: str
    state: str
    expired: bool
    """It expired, although nothing of that may be on record yet."""
    decision: Mapping[str, object] | None


def request_row(row: "ApprovalRow", now: float | None = None) -> RequestRow:
    """The request as it is told at the time `now`, in seconds since the epoch; without one as it is on record."""
    request, values = row.request, fields_of(row.request)
    return RequestRow(
        request_id=request.id,
        run_id=root_of(request),
        asking_run_id=request.run_id,
        task=request.task,
        operation=request.operation,
        path=request.path,
        call=request.call,
        digest=request.digest,
        reasons=[_timed(msgspec.to_builtins(one), "expires_at") for one in request.reasons],
        editable={name: values.get(name) for name in editable_of(request)},
        requested_at=moment(request.requested_at),
        expires_at=None if request.expires_at is None else moment(request.expires_at),
        on_timeout=request.on_timeout,
        state=row.state,
        expired=has_expired(row, now),
        decision=None if row.decision is None else _timed(msgspec.to_builtins(row.decision), "decided_at"),
    )


def result_document(result: "RunResult", now: float) -> Mapping[str, object]:
    """The result of a run as JSON has it, what it waits for at the time `now` as in a listing."""
    from tenter.journal import ApprovalRow

    waits = [request_row(ApprovalRow(request=one, state="open", cursor=""), now) for one in result.approvals]
    return {**msgspec.structs.asdict(result), "approval": waits[0] if waits else None, "approvals": waits}


def has_expired(row: "ApprovalRow", now: float | None) -> bool:
    """Whether nobody can decide any more, since time is up."""
    expires_at = row.request.expires_at
    return row.state == "expired" or (
        row.state == "open" and now is not None and expires_at is not None and now >= expires_at
    )


def outcome(row: "ApprovalRow", mask: Masking) -> str:
    """What became of a request, in a line: by whom, when, with which new values, and why."""
    return row.state if row.decision is None else done(row.decision, mask)


def done(decision: ApprovalDecision, mask: Masking) -> str:
    """What was decided, in a line."""
    by = f" by {decision.by}" if decision.by and decision.decision != "expire" else ""
    edits = f", with {json_text(decision.edits)}" if decision.edits else ""
    why = f": {decision.reason}" if decision.reason else ""
    return one_line(mask(f"{DONE[decision.decision]}{by} at {moment(decision.decided_at)}{edits}{why}"), LONGEST)


def _timed(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    """A document whose time, which is in seconds since the epoch, is a text as all others are."""
    at = document.get(name)
    return {**document, name: moment(at)} if isinstance(at, int | float) else document
