"""What a journal store promises, whatever it keeps its entries in, and the two ways in which an append fails.

`SqliteStore` and `MemoryStore` meet it, and one contract suite runs over both.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from tenter.catalogue import ApprovalDecision
from tenter.journal.approvals import ApprovalRow, ApprovalState, Standing
from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind
from tenter.journal.summary import StreamSummary

JournalTrouble = Literal[
    "full", "locked", "read_only", "damaged", "newer", "foreign", "removed", "closed", "moved", "content", "key", "io"
]


JOURNAL_PLACE: Final = Path(".tenter", "journal.db")
"""Where a project's journal is, seen from the folder of its configuration (D§10)."""


class JournalError(Exception):
    """The journal cannot be written or read. The text names the file, what is wrong and what to do.

    Nothing of the append that raised it is visible, then or later, but of a durable one that the disk itself refused or
    whose log somebody took away (`io`, `removed`, `damaged`): that may be there or not. A run that hears it stops.
    """

    def __init__(self, trouble: JournalTrouble, text: str) -> None:
        super().__init__(text)
        self.trouble: JournalTrouble = trouble


class HeadMoved(JournalError):
    """The stream does not end where the caller expected: somebody else appended to it first."""

    def __init__(self, stream: Stream, head: Head) -> None:
        super().__init__(
            "moved", f"the journal of {stream} has gone on to entry {head.sequence}; read it again from there"
        )
        self.stream = stream
        self.head = head


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted, or would be: `bytes` of content, whose room in the file is used again."""

    runs: int = 0
    entries: int = 0
    bytes: int = 0
    left: int = 0
    """So many runs were not erased: what is written about that belongs under their key, which was not given."""

    def __add__(self, other: "Pruned") -> "Pruned":
        return Pruned(
            runs=self.runs + other.runs,
            entries=self.entries + other.entries,
            bytes=self.bytes + other.bytes,
            left=self.left + other.left,
        )


class Strays(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds of streams that it does not list: whoever took them out of the listing left it behind."""

    streams: int = 0
    """So many streams have entries."""
    requests: int = 0
    """So many requests are listed whose run is not."""
    doomed: int = 0
    """So many streams are listed, and the next pruning would delete their entries."""


class Store(Protocol):
    """An append-only store of streams. Safe to use from several tasks, event loops and threads."""

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        """Append all of `entries` or nothing, and return the stream's new head.

        Entries of one stream stand in the order in which `append` was called. On return they survive the end of the
        process; when `durable`, the end of the machine too (they are on disk, which those who wait at the same time
        share). Cancelling the caller takes nothing back. Without entries it returns the head. A stream that was begun
        under a key goes on under it, another goes on without. Raises `HeadMoved` when `expected_head` is given and is
        not the hash of the stream's head (`genesis` for an empty one), and `JournalError`.
        """
        ...

    def read(
        self, stream: Stream, *, after: int = 0, limit: int | None = None, whole: bool = True
    ) -> AsyncIterator[Recorded]:
        """The stream's entries with a sequence above `after`, at most `limit`, in order.

        Read in pages, so memory holds a page (or one entry larger than that) and not the stream; entries appended while
        it runs may be among them. When not `whole`, a `Reference` stands where content was kept apart. Raises
        `JournalError`, after the entries that could be read.
        """
        ...

    async def head(self, stream: Stream) -> Head:
        """The stream's head; `genesis` when it has no entry. Raises `JournalError`."""
        ...

    async def key_of(self, stream: Stream) -> bytes | None:
        """The key under which the stream is, or would be, chained; None for a chain that anybody can compute.

        Raises `JournalError` (`key`) when it is chained under a key that this store was not given.
        """
        ...

    async def streams(self, kind: StreamKind | None = None, *, limit: int | None = None) -> Sequence[StreamSummary]:
        """Summaries of the streams (of one kind), the last begun first. Raises `JournalError`."""
        ...

    async def summary(self, stream: Stream) -> StreamSummary | None:
        """What a listing shows of the stream; None where it has no entry. Raises `JournalError`."""
        ...

    async def approvals(
        self,
        *,
        run: str | None = None,
        state: ApprovalState | None = "open",
        after: str | None = None,
        limit: int = 50,
    ) -> Sequence[ApprovalRow]:
        """What waits for a person, or did (`state` None: all of it), the oldest first, at most `limit`.

        `run` is the run that asks, or its root. `after` is the `cursor` of a row, after which the page begins. Raises
        TenterError for a text that is no cursor, and `JournalError`.
        """
        ...

    async def request(self, run_id: str, request_id: str) -> ApprovalRow | None:
        """That one request, whatever its state: the run's own or, where it has none, that of a run whose root it is.

        None where there is none. It costs the same however many a run has. Raises `JournalError`.
        """
        ...

    async def standing(self, run_id: str) -> Sequence[Standing]:
        """What is kept of all that the run itself ever asked, by id. It reads no entry. Raises `JournalError`."""
        ...

    async def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
        """Record the decision in the stream of the run that asks, once, and return it; it is on disk then.

        `run_id` is that of the run that asks or of its root; the run that asks stands in what is recorded. Of several
        that decide at the same moment one does. A rejection and an expiry withdraw what else is open of the run that
        asks, and of no other. Raises DecisionRefused for a decision that does not count; where the request has expired,
        its expiry is recorded all the same. Raises `JournalError`.
        """
        ...

    async def cancelling(self) -> frozenset[str]:
        """The ids of the runs that somebody asked to cancel and that are not over; a claim changes nothing of that.

        Cheap enough to be asked several times a second. Raises `JournalError`.
        """
        ...

    async def strays(self) -> Strays:
        """What belongs to no stream that is listed; of a journal that only stores wrote there is nothing.

        What a pruning has left to delete is none of it. Raises `JournalError`.
        """
        ...

    async def unsound(self) -> str:
        """What is wrong with what the store keeps its entries in, beside them; empty where nothing is.

        For a file: its tables are not those that were made, or an index lacks a row. It reads all of it. Raises
        `JournalError`.
        """
        ...

    async def prune(self, *, before: int, erase: bool = False, dry: bool = False) -> Pruned:
        """Delete the runs that ended before that time (microseconds), and what was kept apart and nothing names.

        A run has ended with its first terminal `status`, also where no `result` came after it.
        To `erase` deletes only the content of their entries, so that their chains still hold; they ask nobody any more.
        An `erased` entry at the end of each, written first, says so; a run under a key that was not given is left.
        A run that has not ended, waits or is held stays, and one whose parent has not ended. Other writers get their
        turn meanwhile. One that is stopped half-way goes on when it is called again; a stream that was pruned takes no
        more entries of those who knew it. When `dry` nothing is deleted. Raises `JournalError`.
        """
        ...

    async def close(self) -> None:
        """Finish what was asked for and let go of the file. A closed store raises `JournalError`. Idempotent."""
        ...
