"""Whether a decision about a request counts: it is open, in time, and edits only what may be edited. Pure.

A store finds the request and records the decision in one transaction; what may be recorded is decided here, for every
store alike. Texts are for people and not escaped.
"""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from tenter.catalogue import EVERY_FIELD, ApprovalDecision, ApprovalRequest
from tenter.journal.approvals import ApprovalRow
from tenter.journal.summary import TERMINAL
from tenter.kernel import TenterError

WhyRefused = Literal["unknown", "foreign", "finished", "decided", "expired", "not_expired", "not_editable"]


class DecisionRefused(TenterError):
    """A decision that does not count. The text says why, and who decided when somebody had."""

    def __init__(self, why: WhyRefused, text: str) -> None:
        super().__init__(text)
        self.why: WhyRefused = why


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded, and what the caller is told then; None: that his decision counts."""

    recorded: ApprovalDecision
    refused: DecisionRefused | None = None


def judged(decision: ApprovalDecision, row: ApprovalRow, status: str) -> Judgement:
    """What a decision about the request in `row`, whose run stands at `status`, comes to.

    One that comes after the request has expired records the expiry in its place. Raises DecisionRefused where nothing
    is recorded.
    """
    request, at = row.request, row.request.expires_at
    decision = msgspec.structs.replace(decision, run_id=request.run_id)
    if row.state != "open":
        raise _settled(row, status)
    if at is not None and decision.decided_at >= at:
        if decision.decision == "expire":
            return Judgement(recorded=decision)
        expiry = msgspec.structs.replace(decision, decision="expire", reason="", edits={})
        return Judgement(recorded=expiry, refused=_expired(row, at))
    if decision.decision == "expire":
        until = "never expires" if at is None else f"expires only at {_when(at)}"
        raise DecisionRefused("not_expired", f"{_named(row)} {until}; approve or reject it")
    _check_edits(decision, row)
    return Judgement(recorded=decision)


def no_such_request(decision: ApprovalDecision, elsewhere: str) -> DecisionRefused:
    """The run has no request of that id; `elsewhere` is a run that has one, or empty."""
    if elsewhere:
        text = f"the request {decision.request_id!r} belongs to run {elsewhere!r} and not to {decision.run_id!r}"
        return DecisionRefused("foreign", f"{text}; decide it there")
    text = f"run {decision.run_id!r} has no request {decision.request_id!r}"
    return DecisionRefused("unknown", f"{text}; `tenter approvals list` prints those that wait")


def _settled(row: ApprovalRow, status: str) -> DecisionRefused:
    decision, named = row.decision, _named(row)
    if row.state == "expired":
        return _expired(row, row.request.expires_at)
    if row.state != "withdrawn" and decision is None:
        text = f"{named} is listed as {row.state}, and no such decision can be read from the record of its run"
        return DecisionRefused("decided", f"{text}; 'tenter runs verify {row.request.run_id}' tells what is wrong")
    if row.state != "withdrawn":
        return DecisionRefused("decided", f"{named} was {row.state} already{_by(decision)}")
    if decision is None:
        return DecisionRefused("finished", f"{named} was withdrawn, because {_over(row.request, status)}")
    is_expiry = decision.decision == "expire"
    what = f"expired at {_when(decision.decided_at)}" if is_expiry else f"was rejected{_by(decision)}"
    text = f"{named} was withdrawn, because the request {decision.request_id!r} of the same run {what}"
    return DecisionRefused("decided", text)


def _over(request: ApprovalRequest, status: str) -> str:
    """Which run is over: the one that asked, which stands at `status`, or the one around it."""
    root = request.root_run_id or request.run_id
    if status in TERMINAL or root == request.run_id:
        return f"its run is over (it is {status!r})"
    return f"the run {root!r} around its run is over"


def _by(decision: ApprovalDecision | None) -> str:
    if decision is None:
        return ""
    why = f" ({decision.reason})" if decision.reason else ""
    return f" by {decision.by!r} at {_when(decision.decided_at)}{why}"


def _expired(row: ApprovalRow, at: float | None) -> DecisionRefused:
    when = "" if at is None else f" at {_when(at)}"
    return DecisionRefused("expired", f"{_named(row)} expired{when}; nothing can be decided of it any more")


def _check_edits(decision: ApprovalDecision, row: ApprovalRow) -> None:
    """Raises DecisionRefused unless exactly an edit has edits, and of editable fields only."""
    editable, named = row.request.editable, _named(row)
    if decision.decision != "edit":
        if decision.edits:
            text = f"{named}: a decision {decision.decision!r} takes no edits; decide 'edit' to change the call"
            raise DecisionRefused("not_editable", text)
        return
    may = "any argument" if EVERY_FIELD in editable else ", ".join(map(repr, editable)) or "nothing"
    if not decision.edits:
        raise DecisionRefused("not_editable", f"{named}: an edit changes at least one field; it may change {may}")
    refused = [] if EVERY_FIELD in editable else sorted(name for name in decision.edits if name not in editable)
    if refused:
        fields = ", ".join(map(repr, refused))
        raise DecisionRefused("not_editable", f"{named}: {fields} may not be edited; it may change {may}")


def _named(row: ApprovalRow) -> str:
    return f"the request {row.request.id!r} of run {row.request.run_id!r}"


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # by a clock that is far off
        return f"{seconds:g} s after 1970"
