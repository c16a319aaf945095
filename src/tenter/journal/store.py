"""What a journal store promises, whatever it keeps its entries in, and the two ways in which an append fails.

`SqliteStore` and `MemoryStore` meet it, and one contract suite runs over both.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind
from tenter.journal.summary import StreamSummary

JournalTrouble = Literal[
    "full", "locked", "read_only", "damaged", "newer", "foreign", "removed", "closed", "moved", "content", "io"
]


JOURNAL_PLACE: Final = Path(".tenter", "journal.db")
"""Where a project's journal is, seen from the folder of its configuration (D§10)."""


class JournalError(Exception):
    """The journal cannot be written or read. The text names the file, what is wrong and what to do.

    Nothing of the append that raised it is visible, then or later. A run that hears it stops.
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


class Store(Protocol):
    """An append-only store of streams. Safe to use from several tasks, event loops and threads."""

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        """Append all of `entries` or nothing, and return the stream's new head.

        Entries of one stream stand in the order in which `append` was called. On return they survive the end of the
        process; when `durable`, the end of the machine too (they are on disk). Cancelling the caller takes nothing
        back. Without entries it returns the head. Raises `HeadMoved` when `expected_head` is given and is not the hash
        of the stream's head (`genesis` for an empty one), and `JournalError`.
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

    async def streams(self, kind: StreamKind | None = None, *, limit: int | None = None) -> Sequence[StreamSummary]:
        """Summaries of the streams (of one kind), the last begun first. Raises `JournalError`."""
        ...

    async def close(self) -> None:
        """Finish what was asked for and let go of the file. A closed store raises `JournalError`. Idempotent."""
        ...
