"""What one run writes to the journal, and when a failed append stops it (D§10). It knows no operation."""

from collections.abc import Callable, Mapping

from tenter.journal import Entry, HeadMoved, JournalError, Store, Stream, genesis, microseconds
from tenter.kernel import Clock, TenterError, Trace


class RunExists(TenterError):
    """The journal holds a run of that id, which nothing is appended to."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(f"the journal holds the {stream} already")


class Ledger:
    """The stream of one run.

    `trouble` tells what kept the record of a hook, which others write, from the same stream.
    """

    def __init__(
        self, store: Store, stream: Stream, *, clock: Clock, trace: Trace, trouble: Callable[[], JournalError | None]
    ) -> None:
        self._store = store
        self._stream = stream
        self._clock = clock
        self._trace = trace
        self._trouble = trouble
        self.is_let_go = False
        """Whether what cannot be recorded stops nothing any more."""
        self._lost = False

    def time(self) -> float:
        """Seconds since the epoch, in whole microseconds: what is read back from the journal is the same number."""
        return round(self._clock.now(), 6)

    def entry(self, kind: str, content: Mapping[str, object], *, at: float | None = None) -> Entry:
        return Entry(kind=kind, time=microseconds(self.time() if at is None else at), content=content)

    async def begin(self, first: Callable[[], Entry]) -> None:
        """Appends the first entry; without it there is no other. Raises RunExists where there is one; JournalError."""
        try:
            await self._store.append(self._stream, [first()], durable=True, expected_head=genesis(self._stream).hash)
        except HeadMoved:
            raise RunExists(self._stream) from None
        except JournalError as error:
            self._lost = True
            self._trace.note(self.time(), "journal", error.trouble)
            raise

    async def append(self, *entries: Callable[[], Entry], durable: bool = False) -> None:
        """Makes and appends entries, all or none. Raises JournalError, unless it was told to let go."""
        if self._lost:
            return
        try:
            await self._store.append(self._stream, [make() for make in entries], durable=durable)
        except JournalError as error:
            if not self.is_let_go:
                raise
            self._lost = error.trouble != "content"  # what no journal takes says nothing of the next entry
            self._trace.note(self.time(), "journal", error.trouble)

    def check(self) -> None:
        """Raises JournalError where a hook's record is missing, unless it was told to let go."""
        if not self.is_let_go and (trouble := self._trouble()) is not None:
            raise trouble

    def let_go(self) -> None:
        """From now on what cannot be recorded stops nothing, and leaves a note: the run comes to its end."""
        self.is_let_go = True
