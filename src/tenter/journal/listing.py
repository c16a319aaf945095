"""Whether what listings show of a stream is what its entries say.

Listings are folded from entries as they are appended and stand beside them, where no chain covers them: whoever can
write the journal can change them alone. Here the entries are folded again, and the two are compared. Pure: it knows
nothing of how either is stored.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tenter.journal.approvals import CHANGING, ApprovalRow
from tenter.journal.approvals_memory import ApprovalsMemory, Place
from tenter.journal.entry import Recorded, Stream
from tenter.journal.summary import SHOWN, StreamSummary, summarise

_SHOWN: Final = ("name", "status", "started", "ended", "holder", "cancelling", "parent")
"""What a listing shows of a stream, by field."""
_MOST: Final = 1 << 62
"""More than there are requests."""


class Listing:
    """What listings should show of one stream: `note` takes its entries one after the other."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._summary: StreamSummary | None = None
        self._result_at: int | None = None
        self._contents: dict[Place, Mapping[str, object]] = {}
        self._approvals = ApprovalsMemory(self._contents.get)
        self._is_erased = False

    def note(self, record: Recorded) -> None:
        """The next entry of the stream, with its whole content. One that was erased tells nothing any more."""
        entry = record.entry
        self._summary = self._summary or StreamSummary(stream=self._stream, started=entry.time)
        if record.erased:
            self._is_erased = self._is_erased or entry.kind in SHOWN or entry.kind in CHANGING
            return
        self._summary = summarise(self._summary, entry)
        if entry.kind == "result" and self._result_at is None:
            self._result_at = entry.time
        if entry.kind in CHANGING:
            place = (self._stream, record.sequence)
            if entry.kind in ("approval_requested", "approval_decided"):
                self._contents[place] = entry.content
            self._approvals.note(place, record.sequence, entry)

    def faults(
        self, summary: StreamSummary | None, rows: Sequence[ApprovalRow], ended: frozenset[str]
    ) -> Iterator[str]:
        """In what the listings differ: `summary` and `rows` are what they show of the stream.

        `ended` are the runs around it that are over, or not there any more: these withdraw what is open below them.
        Where content was erased nothing can be compared.
        """
        if self._summary is None:
            if summary is not None:
                yield f"it is listed (status {summary.status!r}), and its record has no entry"
        elif summary is None:
            yield "it is not listed"
        elif not self._is_erased:
            yield from self._differing(self._summary, summary)
        if not self._is_erased:
            yield from self._of_requests(rows, ended)

    def _differing(self, told: StreamSummary, listed: StreamSummary) -> Iterator[str]:
        for name in _SHOWN:
            shown, should = getattr(listed, name), getattr(told, name)
            if shown == should or (name == "ended" and None is not shown == self._result_at):
                continue  # an older version took the end from the result
            if name == "holder" and not shown and told.is_over:
                continue  # an older version let go of a run as soon as it ended
            yield f"the listing has {name} {shown!r}, and the record {should!r}"

    def _of_requests(self, rows: Sequence[ApprovalRow], ended: frozenset[str]) -> Iterator[str]:
        told = {row.request.id: row for row in self._approvals.page(run=None, state=None, after=None, limit=_MOST)}
        listed = {row.request.id: row for row in rows}
        for name in told.keys() - listed.keys():
            yield f"the request {name!r} is on record, and not listed"
        for name in listed.keys() - told.keys():
            yield f"the request {name!r} is listed, and not on record"
        for name in told.keys() & listed.keys():
            yield from _differing(told[name], listed[name], ended)


def _differing(told: ApprovalRow, listed: ApprovalRow, ended: frozenset[str]) -> Iterator[str]:
    if told.request != listed.request:
        yield f"the request {told.request.id!r} is listed with another content than it has on record"
    is_withdrawn = told.state == "open" and listed.state == "withdrawn" and told.request.root_run_id in ended
    if told.state != listed.state and not is_withdrawn:
        yield f"the request {told.request.id!r} is listed as {listed.state}, and is {told.state} on record"
    elif msgspec.to_builtins(told.decision) != msgspec.to_builtins(listed.decision):
        yield f"the request {told.request.id!r} is listed with another decision than it has on record"
