"""A journal that ends with the process: the twin of `SqliteStore` for tests and for runs that keep nothing.

It keeps the canonical form, as the file does, so that what is read back is the same from both.
"""

from collections.abc import AsyncIterator, Sequence

from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind, genesis
from tenter.journal.sealed import Sealed, kept, leave, prepare, seal, unseal
from tenter.journal.store import HeadMoved, JournalError
from tenter.journal.summary import StreamSummary, summarise
from tenter.wire import Parts


class MemoryStore:
    """Meets `Store` in memory."""

    def __init__(self) -> None:
        self._entries: dict[Stream, list[Sealed]] = {}
        self._summaries: dict[Stream, StreamSummary] = {}
        self._kept: dict[str, Parts] = {}
        self._closed = False

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        del durable  # nothing here survives the process
        head = await self.head(stream)
        if expected_head is not None and expected_head != head.hash:
            raise HeadMoved(stream, head)
        prepared = prepare(entries)
        self._kept |= kept(prepared)
        self._entries.setdefault(stream, []).extend(seal(head, prepared))
        for entry in entries:
            summary = self._summaries.get(stream) or StreamSummary(stream=stream, started=entry.time)
            self._summaries[stream] = summarise(summary, entry)
        return await self.head(stream)

    async def read(
        self, stream: Stream, *, after: int = 0, limit: int | None = None, whole: bool = True
    ) -> AsyncIterator[Recorded]:
        self._check_open()
        entries = self._entries.get(stream, [])
        last = len(entries) if limit is None else min(len(entries), after + limit)
        fetch = self._kept.get if whole else leave
        for sequence in range(after, last):
            yield unseal(stream, entries[sequence], fetch)

    async def head(self, stream: Stream) -> Head:
        self._check_open()
        entries = self._entries.get(stream)
        return Head(entries[-1].sequence, entries[-1].hash) if entries else genesis(stream)

    async def streams(self, kind: StreamKind | None = None, *, limit: int | None = None) -> Sequence[StreamSummary]:
        self._check_open()
        found = [summary for summary in reversed(self._summaries.values()) if kind in (None, summary.stream.kind)]
        return found[:limit]

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise JournalError("closed", "this journal was closed; open a new MemoryStore")
