"""A journal that ends with the process: the twin of `SqliteStore` for tests and for runs that keep nothing.

It keeps the canonical form, as the file does, so that what is read back is the same from both.
"""

import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from tenter.catalogue import ApprovalDecision
from tenter.journal.approvals import ApprovalRow, ApprovalState, Standing, cursor_in, decision_entry
from tenter.journal.approvals_memory import ApprovalsMemory, Place
from tenter.journal.deciding import judged
from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind, genesis, microseconds
from tenter.journal.references import references
from tenter.journal.rows import row_id
from tenter.journal.sealed import Sealed, kept, leave, prepare, seal, unseal
from tenter.journal.store import HeadMoved, JournalError, Pruned, Strays
from tenter.journal.summary import StreamSummary, erased_entry, summarise
from tenter.wire import Parts


class MemoryStore:
    """Meets `Store` in memory."""

    def __init__(self, key: bytes | None = None, now: Callable[[], float] = time.time) -> None:
        """Every stream is chained under `key`. `now`, seconds since 1970 UTC, dates what is written about erasing."""
        self._key = key
        self._now = now
        self._entries: dict[Stream, list[Sealed]] = {}
        self._summaries: dict[Stream, StreamSummary] = {}
        self._kept: dict[str, Parts] = {}
        self._approvals = ApprovalsMemory(self._content)
        self._numbers: dict[Stream, int] = {}
        self._pruned: set[Stream] = set()
        self._lock = threading.RLock()
        self._closed = False

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        del durable  # nothing here survives the process
        with self._lock:
            self._check_open()
            return self._append(stream, entries, expected_head)

    def _append(self, stream: Stream, entries: Sequence[Entry], expected_head: str | None) -> Head:
        head = self._head(stream)
        if expected_head is not None and expected_head != head.hash:
            raise HeadMoved(stream, head)
        prepared = prepare(entries)
        if stream in self._pruned and prepared:
            raise JournalError("removed", f"{stream} was pruned from this journal; begin a new run")
        self._kept |= kept(prepared)
        self._entries.setdefault(stream, []).extend(seal(head, prepared, self._key))
        for sequence, entry in enumerate(entries, head.sequence + 1):
            summary = self._summaries.get(stream) or StreamSummary(stream=stream, started=entry.time)
            self._summaries[stream] = summarise(summary, entry)
            self._approvals.note((stream, sequence), row_id(self._number(stream), sequence), entry)
        return self._head(stream)

    def _number(self, stream: Stream) -> int:
        return self._numbers.get(stream) or self._numbers.setdefault(stream, len(self._numbers) + 1)

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
        return self._head(stream)

    def _head(self, stream: Stream) -> Head:
        entries = self._entries.get(stream)
        return Head(entries[-1].sequence, entries[-1].hash) if entries else genesis(stream)

    async def key_of(self, stream: Stream) -> bytes | None:
        del stream  # all of them
        self._check_open()
        return self._key

    async def streams(self, kind: StreamKind | None = None, *, limit: int | None = None) -> Sequence[StreamSummary]:
        self._check_open()
        found = [summary for summary in reversed(self._summaries.values()) if kind in (None, summary.stream.kind)]
        return found[:limit]

    async def summary(self, stream: Stream) -> StreamSummary | None:
        self._check_open()
        return self._summaries.get(stream)

    async def approvals(
        self,
        *,
        run: str | None = None,
        state: ApprovalState | None = "open",
        after: str | None = None,
        limit: int = 50,
    ) -> Sequence[ApprovalRow]:
        cursor = None if after is None else cursor_in(after)
        with self._lock:
            self._check_open()
            return self._approvals.page(run=run, state=state, after=cursor, limit=limit)

    async def request(self, run_id: str, request_id: str) -> ApprovalRow | None:
        with self._lock:
            self._check_open()
            return self._approvals.request(run_id, request_id)

    async def standing(self, run_id: str) -> Sequence[Standing]:
        with self._lock:
            self._check_open()
            return self._approvals.standing(run_id)

    async def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
        with self._lock:
            self._check_open()
            row = self._approvals.asked(decision)
            stream = Stream("run", row.request.run_id)
            judgement = judged(decision, row, self._summaries[stream].status)
            self._append(stream, [decision_entry(judgement.recorded)], None)
        if judgement.refused:
            raise judgement.refused
        return judgement.recorded

    async def cancelling(self) -> frozenset[str]:
        self._check_open()
        found = [summary.stream for summary in tuple(self._summaries.values()) if summary.cancelling]
        return frozenset([stream.id for stream in found if stream.kind == "run"])

    async def strays(self) -> Strays:
        self._check_open()
        return Strays(streams=len(self._entries.keys() - self._summaries.keys()))

    async def unsound(self) -> str:
        self._check_open()
        return ""

    async def prune(self, *, before: int, erase: bool = False, dry: bool = False) -> Pruned:
        with self._lock:
            self._check_open()
            goes = [stream for stream in self._entries if self._is_over(stream, before)]
            goes = [stream for stream in goes if not erase or not self._summaries[stream].erased]
            gone = [
                sealed for stream in goes for sealed in self._entries[stream] if not erase or sealed.data is not None
            ]
            left = {stream: entries for stream, entries in self._entries.items() if stream not in goes}
            left |= {stream: self._erased(stream) for stream in goes if erase}
            named = self._named(left) if goes else self._kept.keys()
            size = sum(len(sealed.data or b"") for sealed in gone)
            size += sum(len(part) for digest, parts in self._kept.items() if digest not in named for part in parts)
            if not dry:
                self._let_go(goes, left, erase=erase)
                self._kept = {digest: parts for digest, parts in self._kept.items() if digest in named}
            return Pruned(runs=len(goes), entries=len(gone), bytes=size)

    def _is_over(self, stream: Stream, before: int) -> bool:
        """As `pruning.ENDED`."""
        summary = self._summaries[stream]
        above = self._summaries.get(Stream("run", summary.parent))
        return (
            stream.kind == "run"
            and summary.ended is not None
            and summary.ended < before
            and (summary.since is None or summary.since < summary.ended)
            and summary.status not in ("running", "awaiting_approval")
            and (above is None or above.is_over)
        )

    def _erased(self, stream: Stream) -> list[Sealed]:
        return [msgspec.structs.replace(sealed, data=None) for sealed in self._entries[stream]]

    def _named(self, entries: Mapping[Stream, Sequence[Sealed]]) -> set[str]:
        """What the entries name, all levels down."""
        named = set[str]()
        for sealed in itertools.chain.from_iterable(entries.values()):
            left = list(references([sealed.data or b""]))
            while left:
                digest = left.pop()
                if digest not in named:
                    named.add(digest)
                    left += references(self._kept.get(digest, ()))
        return named

    def _let_go(self, goes: Sequence[Stream], left: dict[Stream, list[Sealed]], *, erase: bool) -> None:
        self._entries = left
        for stream in goes:
            self._approvals.forget(stream)
            if erase:
                self._append(stream, [erased_entry(self._summaries[stream], microseconds(self._now()))], None)
            else:
                self._pruned.add(stream)
                del self._summaries[stream]

    def _content(self, place: Place) -> Mapping[str, object] | None:
        stream, sequence = place
        entries = self._entries.get(stream)
        if not entries or entries[sequence - 1].data is None:
            return None
        return unseal(stream, entries[sequence - 1], self._kept.get).entry.content

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise JournalError("closed", "this journal was closed; open a new MemoryStore")
