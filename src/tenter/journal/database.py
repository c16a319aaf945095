"""The journal's tables: appended to and read, by one caller at a time.

It blocks while it works; `SqliteStore` decides in which thread. Streams are numbered, and an entry's row id is made of
its stream's number and its sequence, so that a stream is read in one sweep and an append writes one page. What was kept
apart stands in a table of its own, once, by its digest.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from tenter.journal.connection import LOCK_SECONDS, connect, identity, in_words, told, trouble, wait
from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind, genesis, microseconds
from tenter.journal.log import Log, checked_log, look_at_log
from tenter.journal.sealed import Prepared, Sealed, kept, leave, prepare, seal, seal_flat, unseal
from tenter.journal.store import HeadMoved, JournalError
from tenter.journal.summary import SHOWN, StreamSummary, summarise
from tenter.journal.tail import Tail, dropped_tail
from tenter.wire import PREFIX, CanonicalError, Parts

PAGE_BYTES: Final = 4_000_000
"""A page ends with the entry that brings it to so many bytes."""

JOURNAL: Final = Stream("process", "journal")
"""Where the journal notes what befell itself."""

_STREAM_BITS: Final = 32


class Database:
    """One connection to the journal at `path`, opened at first use and, for a look, only where there is a file.

    Every method raises `JournalError`, and waits for no other process but within `patience`.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        """`now` dates the note about a dropped tail."""
        self.path = path
        self._name = str(path)
        self.dropped: Tail | None = None
        """What was dropped from the log's end when the file was opened; noted in the stream `JOURNAL` too."""
        self.uncopied = 0
        """About how many bytes were appended since `checkpoint`."""
        self._now = now
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._log: Log | None = None
        """As last seen; None where SQLite keeps none."""
        self._is_durable = False
        self._numbers: dict[Stream, int] = {}
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
        if number is None or head is None or expected_head not in (None, head.hash):
            return None
        if self._is_durable or entry.kind in SHOWN:
            return None
        sealed = seal_flat(head, entry)
        try:
            if sealed is None or self._connection is None or identity(self._name) != self._file:
                return None
            if not self._connection.execute(_INSERT_IF_NEXT, _row(number, sealed)).rowcount:
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
            connection.execute("BEGIN IMMEDIATE")
            try:
                head = self._append(connection, stream, prepared, expected_head)
                connection.execute("COMMIT")
            except BaseException:
                self._numbers.pop(stream, None)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
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
                for recorded in self._read(connection, stream, _row_ids(number, after), whole=whole):
                    found.append(recorded)
                    if len(found) == limit:
                        break
            except (sqlite3.Error, CanonicalError) as error:
                if found:
                    return found
                if isinstance(error, CanonicalError):
                    raise trouble(self.path, "damaged", error) from error
                raise
        return found

    def head(self, stream: Stream) -> Head:
        """As `Store.head`."""
        with told(self.path):
            connection = self._connect(create=False)
            number = connection and self._number(connection, stream)
            return self._head(connection, stream, number) if connection and number else genesis(stream)

    def streams(self, kind: StreamKind | None, limit: int | None) -> Sequence[StreamSummary]:
        """As `Store.streams`."""
        with told(self.path):
            connection = self._connect(create=False)
            if connection is None:
                return ()
            rows = connection.execute(
                f"SELECT {_SUMMARY} FROM streams {'WHERE kind = ?' if kind else ''} ORDER BY number DESC LIMIT ?",
                (*([kind] if kind else []), -1 if limit is None else limit),
            )
            return [_summary(row) for row in rows]

    def checkpoint(self) -> None:
        """Copy the log into the database, as far as no reader needs it, so that the log does not grow for ever."""
        with told(self.path):
            self.uncopied = 0
            if self._connection:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        connection, self._connection = self._connection, None
        self._numbers.clear()
        self._heads.clear()
        self._is_durable = False
        if connection:
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
            before = _one(connection, "PRAGMA data_version")
            busy, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if busy or dropped_tail(log, frames) is None:
                return
            connection.execute("BEGIN IMMEDIATE")  # now no other process is in the middle of an append
            tail = dropped_tail(log, frames) if _one(connection, "PRAGMA data_version") == before else None
            connection.execute("ROLLBACK")
            if tail is None:
                return
            self.dropped = tail
            content = {"code": "journal_tail_dropped", "bytes": tail.bytes, "zeros": tail.zeros}
            note = Entry(kind="note", time=microseconds(self._now()), content=content)
            self.append(JOURNAL, prepare([note]), durable=True)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # and with the log goes what it was about

    def _check_log(self, durable: bool) -> None:
        if durable and self._log is not None:
            self._log = checked_log(self._name, self._log)

    def _sync(self, connection: sqlite3.Connection, *, always: bool) -> None:
        if always != self._is_durable:
            connection.execute(f"PRAGMA synchronous = {'FULL' if always else 'NORMAL'}")
            self._is_durable = always

    def _append(
        self, connection: sqlite3.Connection, stream: Stream, prepared: Sequence[Prepared], expected_head: str | None
    ) -> Head:
        number = self._number(connection, stream)
        head = _expected(stream, self._head(connection, stream, number) if number else genesis(stream), expected_head)
        if number is None:
            number = self._begin(connection, StreamSummary(stream=stream, started=prepared[0].entry.time))
        self._summarise(connection, number, [item.entry for item in prepared])
        sealed = seal(head, prepared)
        connection.executemany(_INSERT, [_row(number, one) for one in sealed])
        apart = kept(prepared)
        if apart:
            rows = [(_blob(digest), *part) for digest, parts in apart.items() for part in enumerate(parts)]
            connection.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?, ?)", rows)
            self.uncopied += sum(len(data) for _, _, data in rows)
        self.uncopied += sum(len(one.data or b"") for one in sealed)
        return Head(sealed[-1].sequence, sealed[-1].hash)

    def _begin(self, connection: sqlite3.Connection, summary: StreamSummary) -> int:
        stream = summary.stream
        row = (stream.kind, stream.id, summary.name, summary.status, summary.started, summary.ended)
        cursor = connection.execute(f"INSERT INTO streams ({_SUMMARY}) VALUES (?, ?, ?, ?, ?, ?)", row)
        number = self._numbers[stream] = cast(int, cursor.lastrowid)
        return number

    def _summarise(self, connection: sqlite3.Connection, number: int, entries: Sequence[Entry]) -> None:
        shown = [entry for entry in entries if entry.kind in SHOWN]
        if not shown:
            return
        found = connection.execute(f"SELECT {_SUMMARY} FROM streams WHERE number = ?", (number,)).fetchone()
        summary = _summary(found)
        for entry in shown:
            summary = summarise(summary, entry)
        row = (summary.name, summary.status, summary.ended, number)
        connection.execute("UPDATE streams SET name = ?, status = ?, ended = ? WHERE number = ?", row)

    def _number(self, connection: sqlite3.Connection, stream: Stream) -> int | None:
        number = self._numbers.get(stream)
        if number is None:
            row = connection.execute(
                "SELECT number FROM streams WHERE kind = ? AND id = ?", (stream.kind, stream.id)
            ).fetchone()
            if row:
                number = self._numbers[stream] = int(row[0])
        return number

    def _head(self, connection: sqlite3.Connection, stream: Stream, number: int) -> Head:
        row = connection.execute(
            "SELECT id, hash FROM entries WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT 1", _row_ids(number, 0)
        ).fetchone()
        return Head(row[0] % (1 << _STREAM_BITS), _digest(row[1])) if row else genesis(stream)

    def _read(
        self, connection: sqlite3.Connection, stream: Stream, row_ids: tuple[int, int], *, whole: bool
    ) -> Iterator[Recorded]:
        size = 0

        def fetch(digest: str) -> Parts:
            nonlocal size
            rows = connection.execute("SELECT data FROM kept WHERE digest = ? ORDER BY part", (_blob(digest),))
            parts = tuple([data for (data,) in rows])
            if not parts:
                raise CanonicalError(f"{digest!r}, which an entry names, is missing")
            size += sum(map(len, parts))
            return parts

        rows = connection.execute("SELECT * FROM entries WHERE id > ? AND id <= ? ORDER BY id", row_ids)
        with contextlib.closing(rows):
            for row in rows:
                sealed = _sealed(row)
                size += len(sealed.data or b"")
                yield unseal(stream, sealed, fetch if whole else leave)
                if size >= PAGE_BYTES:
                    return


_INSERT: Final = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_IF_NEXT: Final = _INSERT.replace("INSERT", "INSERT OR IGNORE")
_SUMMARY: Final = "kind, id, name, status, started, ended"


def _expected(stream: Stream, head: Head, expected_hash: str | None) -> Head:
    if expected_hash is not None and expected_hash != head.hash:
        raise HeadMoved(stream, head)
    return head


def _summary(row: tuple[StreamKind, str, str, str, int, int | None]) -> StreamSummary:
    kind, identifier, name, status, started, ended = row
    return StreamSummary(stream=Stream(kind, identifier), name=name, status=status, started=started, ended=ended)


def _row_ids(number: int, after: int) -> tuple[int, int]:
    """The row ids of a stream's entries are above the first and up to the second."""
    return (number << _STREAM_BITS) + after, (number + 1 << _STREAM_BITS) - 1


def _row(number: int, sealed: Sealed) -> tuple[object, ...]:
    row_id = (number << _STREAM_BITS) + sealed.sequence
    return row_id, sealed.kind, sealed.version, sealed.time, _blob(sealed.digest), _blob(sealed.hash), sealed.data


def _sealed(row: tuple[int, str, int, int, bytes, bytes, bytes | None]) -> Sealed:
    row_id, kind, version, time, digest, hash_, data = row
    return Sealed(row_id % (1 << _STREAM_BITS), kind, version, time, _digest(digest), _digest(hash_), data)


def _blob(digest: str) -> bytes:
    return bytes.fromhex(digest.removeprefix(PREFIX))


def _digest(blob: bytes) -> str:
    return PREFIX + blob.hex()


def _one(connection: sqlite3.Connection, statement: str) -> int:
    (value,) = connection.execute(statement).fetchone()
    return int(value)
