"""The journal's tables: appended to and read, by one caller at a time.

It blocks while it works; `SqliteStore` decides in which thread. What stands in which row say `rows`, `streams_table`
and `approvals_table`. What was kept apart stands in a table of its own, once, by its digest.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final, cast

from tenter.catalogue import ApprovalDecision
from tenter.journal import approvals_table
from tenter.journal.approvals import CHANGING, ApprovalRow, ApprovalState, Cursor, Standing, decision_entry
from tenter.journal.connection import LOCK_SECONDS, close_uncopied, connect, identity, in_words, told, trouble, wait
from tenter.journal.deciding import judged, no_such_request
from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind, genesis, microseconds
from tenter.journal.key import key_number, key_of
from tenter.journal.log import Log, checked_log, is_as_long, look_at_log
from tenter.journal.pruning import RENEW, Pieces, Wanted, pruning
from tenter.journal.rows import (
    INSERT,
    INSERT_IF_NEXT,
    blob,
    entry_row,
    last_of,
    read_page,
    row_id,
)
from tenter.journal.sealed import Prepared, kept, prepare, seal, seal_flat
from tenter.journal.store import HeadMoved, JournalError, Strays
from tenter.journal.streams_table import (
    begin,
    cancelling,
    is_there,
    keyed,
    number_of,
    show,
    strays,
    summaries,
    summary_of,
)
from tenter.journal.summary import SHOWN, StreamSummary
from tenter.journal.tables import unsound
from tenter.journal.tail import Tail, tail_of
from tenter.wire import CanonicalError

JOURNAL: Final = Stream("process", "journal")
"""Where the journal notes what befell itself."""


class Database:
    """One connection to the journal at `path`, opened at first use and, for a look, only where there is a file.

    Every method raises `JournalError`, and waits for no other process but within `patience`.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time, key: bytes | None = None) -> None:
        """`now` dates the note about a dropped tail; new streams are chained under `key`."""
        self.path = path
        self._name = str(path)
        self.dropped: Tail | None = None
        """What was dropped from the log's end when the file was opened; noted in the stream `JOURNAL` too."""
        self.uncopied = 0
        """About how many bytes were appended since `checkpoint`."""
        self.is_log_damaged = False
        """Whether the log was overwritten or cut short: nothing of it must be copied."""
        self.syncs = 0
        """How many transactions were put on disk by themselves."""
        self._now = now
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._log: Log | None = None
        """As last seen; None where SQLite keeps none."""
        self._is_durable = False
        self._numbers: dict[Stream, int] = {}
        self._key = key
        self._keys: dict[int, bytes | None] = {}
        """Of the streams that were appended to, by number."""
        self._heads: dict[Stream, Head] = {}
        """As last seen; another process may have appended since."""
        self._lost: set[Stream] = set()

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def has_lost(self, stream: Stream) -> bool:
        """Whether the stream was in a file that is gone: it takes no more entries, and no file is made for it."""
        with told(self.path):
            self._let_go_of_what_is_gone()
        return stream in self._lost

    @contextlib.contextmanager
    def patience(self, *, create: bool) -> Generator[None]:
        """Opens the file, and within it waits for another process's lock."""
        with told(self.path):
            connection = self._connect(create=create)
            if connection:
                wait(connection, LOCK_SECONDS)
        try:
            yield
        finally:
            if connection and connection is self._connection:
                wait(connection, 0)

    def append_next(self, stream: Stream, entry: Entry, *, expected_head: str | None = None) -> Head | None:
        """As `append`, for one entry of which only its own row tells, in a single statement; None leaves it to that.

        It goes onto the head as last seen. An entry's row id is made of its sequence, so nothing is written when
        somebody has appended meanwhile.
        """
        number, head = self._numbers.get(stream), self._heads.get(stream)
        if number is None or head is None or expected_head not in (None, head.hash) or number not in self._keys:
            return None
        if self._is_durable or entry.kind in _DERIVED:
            return None
        sealed = seal_flat(head, entry, self._keys[number])
        try:
            if sealed is None or self._connection is None or identity(self._name) != self._file:
                return None
            if not self._connection.execute(INSERT_IF_NEXT, (*entry_row(number, sealed), number)).rowcount:
                return None
        except (sqlite3.Error, OSError) as error:
            raise in_words(self.path, error) from error
        self.uncopied += len(cast(bytes, sealed.data))
        head = self._heads[stream] = Head(sealed.sequence, sealed.hash)
        return head

    def append(
        self, stream: Stream, prepared: Sequence[Prepared], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        """As `Store.append`. A stream that was in a file that is gone takes no more entries.

        A durable append is refused where the log was removed or overwritten meanwhile; what was appended since the
        log was last copied is lost with it.
        """
        if not prepared:
            return _expected(stream, self.head(stream), expected_head)
        with told(self.path):
            if self.has_lost(stream):
                raise trouble(self.path, "removed", f"the entries of {stream} are gone")
            connection = self._connect(create=True)
            assert connection, "it was created"
            self._sync(connection, always=durable)
            self._check_log(durable)
            with self._transaction(connection, stream):
                head = self._append(connection, stream, prepared, expected_head)
            self._check_log(durable)
        self._heads[stream] = head
        return head

    def page(self, stream: Stream, *, after: int, limit: int, whole: bool) -> Sequence[Recorded]:
        """The next entries above `after`, at most `limit`, as `Store.read`; none at the end.

        Where one cannot be read, those before it; the error when it is the first.
        """
        found: list[Recorded] = []
        with told(self.path):
            connection = self._connect(create=False)
            number = connection and self._number(connection, stream)
            if not connection or not number:
                return found
            try:
                for recorded in read_page(connection, stream, number, after=after, whole=whole):
                    found.append(recorded)
                    if len(found) == limit:
                        break
            except (sqlite3.Error, CanonicalError) as error:
                if found:
                    return found
                if isinstance(error, CanonicalError):
                    raise _unreadable(self.path, stream, error) from error
                raise
        return found

    def head(self, stream: Stream) -> Head:
        """As `Store.head`."""
        with told(self.path):
            connection = self._connect(create=False)
            number = connection and self._number(connection, stream)
            return self._head(connection, stream, number) if connection and number else genesis(stream)

    def key_of(self, stream: Stream) -> bytes | None:
        """As `Store.key_of`."""
        with told(self.path):
            connection = self._connect(create=False)
            number = connection and self._number(connection, stream)
            return self._key_of(connection, stream, number) if connection and number else self._key

    def streams(self, kind: StreamKind | None, limit: int | None) -> Sequence[StreamSummary]:
        """As `Store.streams`."""
        with told(self.path):
            connection = self._connect(create=False)
            if connection is None:
                return ()
            return summaries(connection, kind, limit)

    def has_whole_log(self) -> bool:
        """Whether the log is open and, at a glance, whole; where it is not, `seen_log` tells what happened."""
        return self._log is not None and is_as_long(self._name, self._log)

    def summary(self, stream: Stream) -> StreamSummary | None:
        """As `Store.summary`."""
        with told(self.path):
            connection = self._connect(create=False)
            return summary_of(connection, stream) if connection else None

    def cancelling(self) -> frozenset[str]:
        """As `Store.cancelling`."""
        with told(self.path):
            connection = self._connect(create=False)
            return cancelling(connection) if connection else frozenset()

    def strays(self) -> Strays:
        """As `Store.strays`."""
        with told(self.path):
            connection = self._connect(create=False)
            return strays(connection) if connection else Strays()

    def unsound(self) -> str:
        """As `Store.unsound`."""
        with told(self.path):
            connection = self._connect(create=False)
            return unsound(connection) if connection else ""

    def approvals(
        self, *, run: str | None, state: ApprovalState | None, after: Cursor | None, limit: int
    ) -> Sequence[ApprovalRow]:
        """As `Store.approvals`."""
        with told(self.path):
            connection = self._connect(create=False)
            if connection is None:
                return ()
            return approvals_table.page(connection, run=run, state=state, after=after, limit=limit)

    def request(self, run_id: str, request_id: str) -> ApprovalRow | None:
        """As `Store.request`."""
        with told(self.path):
            connection = self._connect(create=False)
            return approvals_table.request(connection, run_id, request_id) if connection else None

    def standing(self, run_id: str) -> Sequence[Standing]:
        """As `Store.standing`."""
        with told(self.path):
            connection = self._connect(create=False)
            return approvals_table.standing(connection, run_id) if connection else ()

    def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
        """As `Store.decide`."""
        with told(self.path):
            connection = self._connect(create=False)
            if connection is None:
                raise no_such_request(decision, "")
            self._sync(connection, always=True)
            self._check_log(durable=True)
            stream = Stream("run", decision.run_id)
            with self._transaction(connection, stream):
                row = approvals_table.asked(connection, decision)
                stream = Stream("run", row.request.run_id)
                summary = summary_of(connection, stream)
                judgement = judged(decision, row, summary.status if summary else "")
                head = self._append(connection, stream, prepare([decision_entry(judgement.recorded)]), None)
            self._check_log(durable=True)
        self._heads[stream] = head
        if judgement.refused:
            raise judgement.refused
        return judgement.recorded

    def prune(self, wanted: Wanted) -> Pieces:
        """As `Store.prune`, piece by piece, between which other work may be done."""
        with told(self.path):
            connection = self._connect(create=False)
        if connection is None:
            return
        pieces = pruning(connection, wanted, key=self._key, now=microseconds(self._now()))
        while True:
            with told(self.path):
                if self._connect(create=False) is not connection:
                    raise trouble(self.path, "removed", "it was not pruned to the end")
                self._sync(connection, always=False)
                piece = next(pieces, None)
            if piece is None:
                return
            if not wanted.dry:
                self.uncopied += piece.bytes + piece.entries * 100
            yield piece

    def seen_log(self) -> Log | None:
        """The log, to be synced, after a look whether it is still the one; None where SQLite keeps none."""
        try:
            self._check_log(durable=True)
        except OSError as error:
            raise in_words(self.path, error) from error
        return self._log

    def checkpoint(self) -> None:
        """Copy the log into the database, as far as no reader needs it, so that the log does not grow for ever."""
        with told(self.path):
            self.uncopied = 0
            if self._connection:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        connection, self._connection = self._connection, None
        damaged = self.is_log_damaged or (self._log is not None and not is_as_long(self._name, self._log))
        self.is_log_damaged = False
        self._numbers.clear()
        self._keys.clear()
        self._heads.clear()
        self._log = None
        self._is_durable = False
        if connection and damaged:
            close_uncopied(connection, self.path)
        elif connection:
            connection.close()

    def _connect(self, *, create: bool) -> sqlite3.Connection | None:
        self._let_go_of_what_is_gone()
        return self._connection or self._open(create=create)

    def _let_go_of_what_is_gone(self) -> None:
        if self._connection and identity(self._name) != self._file:
            self._lost.update(self._numbers)
            self.close()

    def _open(self, *, create: bool) -> sqlite3.Connection | None:
        connection = connect(self.path, create=create, parents=not self._lost)  # a project that vanished stays away
        if connection:
            self._connection = connection
            self._file = identity(self.path)
            wait(connection, LOCK_SECONDS)
            self._look_for_a_dropped_tail(connection)
            self._log = look_at_log(self._name)
            wait(connection, 0)
        return connection

    def _look_for_a_dropped_tail(self, connection: sqlite3.Connection) -> None:
        """Report once what SQLite dropped from the end of the log. Where it cannot be found out, it is left."""
        log = self.path.with_name(self.path.name + "-wal")
        with contextlib.suppress(sqlite3.Error, JournalError):  # a read-only or full disk takes no note
            tail = tail_of(connection, log)
            if tail is None:
                return
            self.dropped = tail
            content = {"code": "journal_tail_dropped", "bytes": tail.bytes, "zeros": tail.zeros}
            note = Entry(kind="note", time=microseconds(self._now()), content=content)
            self.append(JOURNAL, prepare([note]), durable=True)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # and with the log goes what it was about

    @contextlib.contextmanager
    def _transaction(self, connection: sqlite3.Connection, stream: Stream) -> Generator[None]:
        """All that is appended to `stream` within it, or nothing."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            self._numbers.pop(stream, None)
            self._keys.clear()  # the number of a stream that was not begun is given again
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _key_of(self, connection: sqlite3.Connection, stream: Stream, number: int) -> bytes | None:
        if number not in self._keys:
            self._keys[number] = key_of(stream, keyed(connection, number), self._key)
        return self._keys[number]

    def _check_log(self, durable: bool) -> None:
        if durable and self._log is not None:
            try:
                self._log = checked_log(self._name, self._log)
            except JournalError as error:
                self.is_log_damaged = self.is_log_damaged or error.trouble == "damaged"
                raise

    def _sync(self, connection: sqlite3.Connection, *, always: bool) -> None:
        self.syncs += always
        if always != self._is_durable:
            connection.execute(f"PRAGMA synchronous = {'FULL' if always else 'NORMAL'}")
            self._is_durable = always

    def _append(
        self, connection: sqlite3.Connection, stream: Stream, prepared: Sequence[Prepared], expected_head: str | None
    ) -> Head:
        number = self._number(connection, stream)
        head = _expected(stream, self._head(connection, stream, number) if number else genesis(stream), expected_head)
        if number is None:
            number = self._numbers[stream] = begin(
                connection, stream, prepared[0].entry.time, keyed=key_number(self._key)
            )
        elif not is_there(connection, number):
            self._lost.add(stream)
            raise trouble(self.path, "removed", f"{stream} was pruned")
        entries = [item.entry for item in prepared]
        show(connection, number, entries)
        for sequence, entry in enumerate(entries, head.sequence + 1):
            if entry.kind in CHANGING:
                approvals_table.note(connection, stream, row_id(number, sequence), entry)
        sealed = seal(head, prepared, self._key_of(connection, stream, number))
        connection.executemany(INSERT, [entry_row(number, item) for item in sealed])
        apart = kept(prepared)
        if apart:
            rows = [(blob(digest), *part) for digest, parts in apart.items() for part in enumerate(parts)]
            connection.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?, ?)", rows)
            connection.executemany(RENEW, [(blob(digest),) for digest in apart])
            self.uncopied += sum(len(data) for _, _, data in rows)
        self.uncopied += sum(len(item.data or b"") for item in sealed)
        return Head(sealed[-1].sequence, sealed[-1].hash)

    def _number(self, connection: sqlite3.Connection, stream: Stream) -> int | None:
        number = self._numbers.get(stream)
        if number is None:
            number = number_of(connection, stream)
            if number is not None:
                self._numbers[stream] = number
        return number

    def _head(self, connection: sqlite3.Connection, stream: Stream, number: int) -> Head:
        return last_of(connection, number) or genesis(stream)


_DERIVED: Final = SHOWN | CHANGING
"""The kinds of entries of which more than their own row tells."""


def _unreadable(path: Path, stream: Stream, error: CanonicalError) -> JournalError:
    return JournalError(
        "damaged",
        f"an entry of {stream} in the journal {str(path)!r} cannot be read ({error}): it was damaged, or changed. "
        "'tenter runs verify' tells which; nobody can go on with this one, and all others are as they were",
    )


def _expected(stream: Stream, head: Head, expected_hash: str | None) -> Head:
    if expected_hash is not None and expected_hash != head.hash:
        raise HeadMoved(stream, head)
    return head
