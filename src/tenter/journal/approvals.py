"""What waits for a person, and what became of it, as a listing shows it.

It is folded from the entries of runs as they are appended, so that a listing and a decision read no stream, and both
stores fold alike. It knows nothing of how either is stored, and decides nothing (see `deciding`).
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast

import msgspec

from tenter.catalogue import ApprovalDecision, ApprovalRequest, DecisionKind
from tenter.journal.entry import Entry, Stream, microseconds
from tenter.journal.summary import TERMINAL
from tenter.kernel import TenterError

ApprovalState = Literal["open", "approved", "rejected", "edited", "expired", "withdrawn"]
"""`withdrawn`: another request of the same run was rejected or expired, or its run or the root of that is over."""

CHANGING: Final = frozenset({"approval_requested", "approval_decided", "status", "result"})
"""The kinds of entries that change what a listing shows."""

_STATES: Final[Mapping[DecisionKind | str, ApprovalState]] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "expire": "expired",
}


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a listing."""

    request: ApprovalRequest
    state: ApprovalState
    decision: ApprovalDecision | None = None
    """What it came to. Of a `withdrawn` one, the decision about another request with which it went, if there was."""
    cursor: str
    """Where the next page begins (`after`)."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a request beside the entries that ask and decide: by this it is found and listed."""

    id: str
    run: str
    """The run that asks."""
    root: str
    state: ApprovalState = "open"
    time: int
    """That of the entry that asks."""
    asked: int
    """The sequence of the entry that asks, in the stream of `run`."""
    decided: int | None = None
    """The sequence of the entry with which it was settled, in the stream of `run`; None where the end of a run did."""


class Opened(msgspec.Struct, frozen=True):
    """A request is open. One with the same id that is open already stays; one that was settled is asked anew."""

    id: str
    root: str


class Settled(msgspec.Struct, frozen=True):
    """An open request came to `state`. When it `withdraws`, the other open ones of its run are withdrawn.

    Those of other runs under the same root stay: a run that hears a rejection ends alone."""

    id: str
    state: ApprovalState

    @property
    def withdraws(self) -> bool:
        return self.state in ("rejected", "expired")


class Over(msgspec.Struct, frozen=True):
    """The run is over: what is open of it, and of the runs below it where it is the root, is withdrawn."""


Change: TypeAlias = Opened | Settled | Over


def change(stream: Stream, entry: Entry) -> Change | None:
    """What an entry that is appended to `stream` changes; None where it changes nothing that a listing shows."""
    if stream.kind != "run":
        return None
    match entry.kind:
        case "approval_requested":
            request_id, root = _name(entry, "id"), _name(entry, "root_run_id")
            is_its_own = request_id and entry.content.get("run_id") == stream.id
            return Opened(request_id, root or stream.id) if is_its_own else None
        case "approval_decided":
            request_id, state = _name(entry, "request_id"), _STATES.get(_name(entry, "decision"))
            return Settled(request_id, state) if request_id and state else None
        case "status":
            return Over() if _name(entry, "status") in TERMINAL else None
        case "result":
            return Over()
        case _:
            return None


def decision_entry(decision: ApprovalDecision) -> Entry:
    """The entry that records a decision, at the time of the decision."""
    content = cast("dict[str, object]", msgspec.to_builtins(decision))
    return Entry(kind="approval_decided", time=microseconds(decision.decided_at), content=content)


def request_in(content: Mapping[str, object]) -> ApprovalRequest | None:
    """The request that an entry holds; None where it holds none that this version knows."""
    try:
        return msgspec.convert(dict(content), ApprovalRequest)
    except msgspec.ValidationError:
        return None


def decision_in(content: Mapping[str, object]) -> ApprovalDecision | None:
    """The decision that an entry holds; None where it holds none that this version knows."""
    try:
        return msgspec.convert(dict(content), ApprovalDecision)
    except msgspec.ValidationError:
        return None


class Cursor(msgspec.Struct, frozen=True, order=True):
    """The place of a request in a listing: by the time at which it was asked, then by its row."""

    time: int
    row: int

    def __str__(self) -> str:
        return f"{self.time}-{self.row}"


def cursor_in(text: str) -> Cursor:
    """The cursor that a listing gave. Raises TenterError for any other text."""
    time, _, row = text.rpartition("-")
    try:
        found = Cursor(int(time), int(row))
    except ValueError:
        found = None
    if found is None or str(found) != text or max(abs(found.time), found.row) >= 2**63:
        raise TenterError(f"{text!r} is no cursor of a list of approvals; give one that such a list printed")
    return found


def _name(entry: Entry, key: str) -> str:
    """A name in an entry; empty where there is none that a store can look for."""
    value = entry.content.get(key)
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates: none of ours has them
        return ""
    return value
