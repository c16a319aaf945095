"""Whether what listings show of a stream is what its entries say.

Listings are folded from entries as they are appended and stand beside them, where no chain covers them: whoever can
write the journal can change them alone. Here the entries are folded again, and the two are compared. Pure: it knows
nothing of how either is stored.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tenter.journal.approvals import CHANGING, Standing
from tenter.journal.approvals_memory import ApprovalsMemory
from tenter.journal.entry import Recorded, Stream
from tenter.journal.summary import StreamSummary, summarise

_SHOWN: Final = ("name", "status", "started", "ended", "holder", "cancelling", "parent", "erased")
"""What a listing shows of a stream, by field."""


class Listing:
    """What listings should show of one stream: `note` takes its entries one after the other."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._summary: StreamSummary | None = None
        self._result_at: int | None = None
        self._approvals = ApprovalsMemory(lambda _: None)  # what is asked stands in the entry, which the chain covers

    def note(self, record: Recorded) -> None:
        """The next entry of the stream, with its whole content.

        One that was erased tells nothing any more: the `erased` entry that comes after it does, in the place of all.
        """
        entry = record.entry
        self._summary = self._summary or StreamSummary(stream=self._stream, started=entry.time)
        if record.erased:
            return
        self._summary = summarise(self._summary, entry)
        if entry.kind == "result" and self._result_at is None:
            self._result_at = entry.time
        if entry.kind in CHANGING:
            self._approvals.note((self._stream, record.sequence), record.sequence, entry)
        if entry.kind == "erased":
            self._approvals.forget(self._stream)

    def faults(
        self, summary: StreamSummary | None, standing: Sequence[Standing], ended: frozenset[str]
    ) -> Iterator[str]:
        """In what the listings differ: they show `summary` of the stream, and find its requests by `standing`.

        `ended` are the runs around it that are over, or not there any more: these withdraw what is open below them.
        """
        if self._summary is None:
            if summary is not None:
                yield f"it is listed (status {summary.status!r}), and its record has no entry"
        elif summary is None:
            yield "it is not listed"
        else:
            yield from self._differing(self._summary, summary)
        yield from self._of_requests(standing, ended)

    def _differing(self, told: StreamSummary, listed: StreamSummary) -> Iterator[str]:
        for name in _SHOWN:
            shown, should = getattr(listed, name), getattr(told, name)
            if shown == should or (name == "ended" and None is not shown == self._result_at):
                continue  # an older version took the end from the result
            if name == "holder" and not shown and told.is_over:
                continue  # an older version let go of a run as soon as it ended
            yield f"the listing has {name} {shown!r}, and the record {should!r}"

    def _of_requests(self, standing: Sequence[Standing], ended: frozenset[str]) -> Iterator[str]:
        told = {one.id: one for one in self._approvals.standing(self._stream.id)}
        listed = {one.id: one for one in standing}
        for name in told.keys() - listed.keys():
            yield f"the request {name!r} is on record, and not listed"
        for name in listed.keys() - told.keys():
            yield f"the request {name!r} is listed, and not on record"
        for name in told.keys() & listed.keys():
            yield from _differing(told[name], listed[name], ended)


def _differing(told: Standing, listed: Standing, ended: frozenset[str]) -> Iterator[str]:
    if told.state == "open" and listed.state == "withdrawn" and told.root in ended:
        told = msgspec.structs.replace(told, state="withdrawn")
    if told.state != listed.state:
        yield f"the request {told.id!r} is listed as {listed.state}, and is {told.state} on record"
    elif told.decided != listed.decided:
        yield f"the request {told.id!r} is listed with another decision than it has on record"
    if told.asked != listed.asked:
        yield f"the request {told.id!r} is listed with another content than it has on record"
    if told.time != listed.time:
        yield f"the request {told.id!r} is listed in another place than its time on record gives it"
    if told.root != listed.root:
        yield f"the request {told.id!r} is listed below the run {listed.root!r}, and is below {told.root!r} on record"
