"""Deletes the runs that ended long ago, and what was kept apart and no entry names any more.

A piece at a time, each in a transaction of its own that is soon over, so that other writers get their turn. It may be
killed between any two: a run vanishes at once, or is on record as erased before the first of its content goes; what is
left of it is found by the next pruning. What is named is found by reading the whole journal, without a lock; so
whatever an append names meanwhile is noted (`renewed`), as long as there is a `sweep`. Of two prunings at a time, the
one that began last sweeps.
"""

import itertools
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from tenter.journal.entry import genesis
from tenter.journal.key import key_number, key_of
from tenter.journal.references import references
from tenter.journal.rows import INSERT, blob, entry_row, last_of, one, row_id, row_ids
from tenter.journal.sealed import prepare, seal
from tenter.journal.store import Pruned
from tenter.journal.streams_table import keyed, show, summary_at
from tenter.journal.summary import erased_entry

PIECE_ROWS: Final = 1000
PIECE_BYTES: Final = 1_000_000
"""A piece of work ends with the row that brings it to so many rows or bytes."""

_ROW_BYTES: Final = PIECE_BYTES // PIECE_ROWS
"""What reading a row costs beside its bytes."""

RENEW: Final = "INSERT OR IGNORE INTO renewed SELECT ? FROM sweep"
"""What an append does for each digest that it names, within its transaction."""

ENDED: Final = """
SELECT number FROM streams NOT INDEXED
WHERE kind = 'run' AND ended IS NOT NULL AND ended < :before AND number > :after
AND (holder = '' OR CASE WHEN json_valid(holder) THEN json_extract(holder, '$.since') < ended END)
AND status NOT IN ('running', 'awaiting_approval')
AND NOT EXISTS (SELECT 1 FROM streams AS above
                WHERE above.kind = 'run' AND above.id = streams.parent AND above.ended IS NULL)
"""
"""Runs that nobody has taken up since their end, or waits for: whoever brought them there tells at most of it.

One whose parent is not over may be asked for again, should that be resumed.
"""

_names: Final = itertools.count()

Row = TypeVar("Row", tuple[int, int], tuple[bytes, int, int])


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be deleted: runs whose end is before `before` (microseconds), whole or, to `erase`, their content."""

    before: int
    erase: bool = False
    dry: bool = False


Pieces = Generator[Pruned, None, None]
"""What each piece deleted. Whoever takes them one by one decides when the next one is done."""


def pruning(connection: sqlite3.Connection, wanted: Wanted, *, key: bytes | None, now: int) -> Pieces:
    """Delete what is wanted, piece by piece. Raises sqlite3.Error, and nothing of that piece is done then.

    What is written about erasing has the time `now` (microseconds), and is chained under `key` where the stream is.
    """
    work = _Work(connection, wanted, key, now)
    yield from work.dry() if wanted.dry else work.real()


class _Work:
    """One pruning. `_number` is that of its sweep; once another pruning has begun one, this one stops sweeping."""

    def __init__(self, connection: sqlite3.Connection, wanted: Wanted, key: bytes | None, now: int) -> None:
        self._connection = connection
        self._wanted = wanted
        self._key = key
        self._now = now
        self._named = f"temp.named_{next(_names)}"  # two may share a connection
        self._number = 0
        self._read = 0
        """Bytes read since the last piece of reading was over."""

    def real(self) -> Pieces:
        yield from self._left()
        connection = self._connection
        left = "SELECT EXISTS (SELECT 1 FROM pruned) OR EXISTS (SELECT 1 FROM sweep)"
        if not self._ended(0, 1) and not one(connection, left):
            return
        connection.execute("PRAGMA secure_delete = ON")  # what is erased must not be found in the file's free pages
        with self._transaction():
            connection.execute("DELETE FROM sweep")
            connection.execute("DELETE FROM renewed")
            self._number = connection.execute("INSERT INTO sweep DEFAULT VALUES").lastrowid or 0
        if self._wanted.erase:
            yield from self._erase()
        else:
            yield from self._take_away()
        yield from self._delete_entries()
        connection.execute(f"CREATE TABLE {self._named} (digest BLOB PRIMARY KEY) WITHOUT ROWID")
        yield from self._find_named(lambda _: False)
        yield from self._delete_kept()
        with self._transaction():
            if self._is_mine():
                connection.execute("DELETE FROM sweep")
                connection.execute("DELETE FROM renewed")
        connection.execute(f"DROP TABLE {self._named}")

    def dry(self) -> Pieces:
        yield from self._left()
        connection, after = self._connection, 0
        runs = f"{self._named}_runs"
        connection.execute(f"CREATE TABLE {self._named} (digest BLOB PRIMARY KEY) WITHOUT ROWID")
        connection.execute(f"CREATE TABLE {runs} (number INTEGER PRIMARY KEY)")
        while numbers := self._ended(after, PIECE_ROWS):
            after = numbers[-1]
            connection.executemany(f"INSERT INTO {runs} VALUES (?)", [(number,) for number in numbers])
            for number in numbers:
                statement = "SELECT count(*), ifnull(sum(length(content)), 0) FROM entries WHERE id > ? AND id <= ?"
                entries, size = connection.execute(statement, row_ids(number)).fetchone()
                yield Pruned(runs=1, entries=entries, bytes=size)
        if after:
            goes = f"SELECT EXISTS (SELECT 1 FROM {runs} WHERE number = ?)"
            yield from self._find_named(lambda number: bool(connection.execute(goes, (number,)).fetchone()[0]))
            for rows in self._unnamed():
                yield Pruned(bytes=sum(size for _, _, size in rows))
        connection.execute(f"DROP TABLE {runs}")
        connection.execute(f"DROP TABLE {self._named}")

    def _ended(self, after: int, limit: int) -> Sequence[int]:
        """The numbers above `after` of runs that are to go."""
        may = "AND erased < 2 AND keyed IN (0, :key)" if self._wanted.erase else ""
        rows = self._connection.execute(f"{ENDED} {may} ORDER BY number LIMIT :limit", self._values(after, limit))
        return [number for (number,) in rows.fetchall()]

    def _left(self) -> Pieces:
        """Tell of the runs that are left as their key was not given."""
        if self._wanted.erase:
            statement = f"SELECT count(*) FROM ({ENDED} AND erased < 2 AND keyed NOT IN (0, :key) LIMIT :limit)"
            (count,) = self._connection.execute(statement, self._values(0, -1)).fetchone()
            if count:
                yield Pruned(left=count)

    def _values(self, after: int, limit: int) -> Mapping[str, int]:
        return {"before": self._wanted.before, "after": after, "limit": limit, "key": key_number(self._key)}

    def _take_away(self) -> Pieces:
        """Take the runs from the listing; their entries, which nobody finds any more, are left to delete."""
        after = 0
        while True:
            with self._transaction():
                numbers = self._ended(after, PIECE_ROWS // 10)
                for number in numbers:
                    self._forget_approvals(number)
                    self._connection.execute("INSERT INTO pruned VALUES (?)", (number,))
                    self._connection.execute("DELETE FROM streams WHERE number = ?", (number,))
            if not numbers:
                return
            after = numbers[-1]
            yield Pruned(runs=len(numbers))

    def _delete_entries(self) -> Pieces:
        connection, left = self._connection, "SELECT number FROM pruned LIMIT 1"
        while connection.execute(left).fetchone():
            done, rows = Pruned(), 0
            with self._transaction():
                while _is_small(done, rows) and (row := connection.execute(left).fetchone()):
                    found = self._content_rows(row_ids(row[0]), "")
                    connection.executemany("DELETE FROM entries WHERE id = ?", [(row_id,) for row_id, _ in found])
                    done += Pruned(entries=len(found), bytes=sum(size for _, size in found))
                    rows += 1 + len(found)
                    if not found:
                        connection.execute("DELETE FROM pruned WHERE number = ?", row)
            yield done

    def _erase(self) -> Pieces:
        connection, after, numbers = self._connection, 0, self._ended(0, 1)
        while numbers:
            done, rows = Pruned(), 0
            with self._transaction():
                while _is_small(done, rows) and (numbers := self._ended(after, 1)):
                    before, mark = row_ids(numbers[0])[0], self._mark(numbers[0])
                    found = self._content_rows((before, mark - 1), "AND content IS NOT NULL")
                    blank = [(row_id,) for row_id, _ in found]
                    connection.executemany("UPDATE entries SET content = NULL WHERE id = ?", blank)
                    done += Pruned(runs=int(not found), entries=len(found), bytes=sum(size for _, size in found))
                    rows += 1 + len(found)
                    if not found:
                        connection.execute("UPDATE streams SET erased = 2 WHERE number = ?", numbers)
                        after = numbers[0]
            yield done

    def _mark(self, number: int) -> int:
        """The row of the entry that says that the content of those before it is erased. It is written at the first."""
        connection, mark = self._connection, "AND kind = 'erased' ORDER BY id DESC LIMIT 1"
        row = connection.execute(f"SELECT id FROM entries WHERE id > ? AND id <= ? {mark}", row_ids(number)).fetchone()
        if row is not None:
            return row[0]
        summary = summary_at(connection, number)
        stream, entry = summary.stream, erased_entry(summary, self._now)
        key = key_of(stream, keyed(connection, number), self._key)
        (sealed,) = seal(last_of(connection, number) or genesis(stream), prepare([entry]), key)
        connection.execute(INSERT, entry_row(number, sealed))
        show(connection, number, [entry])
        self._forget_approvals(number)
        return row_id(number, sealed.sequence)

    def _content_rows(self, between: tuple[int, int], where: str) -> Sequence[tuple[int, int]]:
        """The ids of the next rows above the one and up to the other, each with the size of its content.

        They are as many as make a piece.
        """
        statement = f"SELECT id, ifnull(length(content), 0) FROM entries WHERE id > ? AND id <= ? {where} ORDER BY id"
        rows = self._connection.execute(f"{statement} LIMIT {PIECE_ROWS}", between).fetchall()
        return _up_to_a_piece(rows)

    def _forget_approvals(self, number: int) -> None:
        self._connection.execute("DELETE FROM approvals WHERE asked > ? AND asked <= ?", row_ids(number))

    def _find_named(self, skips: Callable[[int], bool]) -> Pieces:
        """Note all that the entries name, and what that names, of all streams but those that are skipped."""
        number = 0
        statement = "SELECT number FROM streams WHERE number > ? ORDER BY number LIMIT 1"
        while row := self._connection.execute(statement, (number,)).fetchone():
            (number,) = row
            if skips(number):
                continue
            after, last = row_ids(number)
            while rows := self._contents(after, last):
                after = rows[-1][0]
                for _, content in rows:
                    for digest in references([content or b""]):
                        yield from self._follow(digest)
                    yield from self._count(_ROW_BYTES + len(content or b""))

    def _follow(self, digest: str) -> Pieces:
        """Note a digest, and all that is named by what was kept for it."""
        left = [digest]
        while left:
            digest = left.pop()
            noted = self._connection.execute(f"INSERT OR IGNORE INTO {self._named} VALUES (?)", (blob(digest),))
            if noted.rowcount:
                left += references(self._parts(digest))
            yield from self._count(_ROW_BYTES)

    def _count(self, size: int) -> Pieces:
        """A piece of reading is over when it has come to so many bytes."""
        self._read += size
        if self._read > PIECE_BYTES:
            self._read = 0
            yield Pruned()

    def _contents(self, after: int, last: int) -> Sequence[tuple[int, bytes | None]]:
        statement = f"SELECT id, length(content) FROM entries WHERE id > ? AND id <= ? ORDER BY id LIMIT {PIECE_ROWS}"
        rows = _up_to_a_piece(
            [(row_id, size or 0) for row_id, size in self._connection.execute(statement, (after, last)).fetchall()]
        )
        if not rows:
            return ()
        read = "SELECT id, content FROM entries WHERE id > ? AND id <= ? ORDER BY id"
        return self._connection.execute(read, (after, rows[-1][0])).fetchall()

    def _parts(self, digest: str) -> Iterator[bytes]:
        for part in itertools.count():
            statement = "SELECT data FROM kept WHERE digest = ? AND part = ?"
            row = self._connection.execute(statement, (blob(digest), part)).fetchone()
            if row is None:
                return
            self._read += len(row[0])
            yield row[0]

    def _unnamed(self) -> Iterator[Sequence[tuple[bytes, int, int]]]:
        """Digest, part and size of what is kept and was not named, in pages that may be empty."""
        last: tuple[bytes, int] = (b"", -1)
        statement = (
            f"SELECT digest, part, length(data), digest IN {self._named} FROM kept"
            f" WHERE (digest, part) > (?, ?) ORDER BY digest, part LIMIT {PIECE_ROWS}"
        )
        while rows := self._connection.execute(statement, last).fetchall():
            last = rows[-1][:2]
            yield [(digest, part, size) for digest, part, size, is_named in rows if not is_named]

    def _delete_kept(self) -> Pieces:
        for page in self._unnamed():
            rest = page
            while piece := _up_to_a_piece(rest):
                rest = rest[len(piece) :]
                with self._transaction():
                    if not self._is_mine():
                        return
                    size = sum([self._delete_part(*row) for row in piece])
                yield Pruned(bytes=size)
            yield from self._count(len(page) * _ROW_BYTES)

    def _delete_part(self, digest: bytes, part: int, size: int) -> int:
        """Delete it unless somebody named it meanwhile; the bytes that this frees."""
        if self._connection.execute("SELECT 1 FROM renewed WHERE digest = ?", (digest,)).fetchone():
            return 0
        self._connection.execute("DELETE FROM kept WHERE digest = ? AND part = ?", (digest, part))
        return size

    def _is_mine(self) -> bool:
        return one(self._connection, "SELECT ifnull(max(number), 0) FROM sweep") == self._number

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _is_small(done: Pruned, rows: int) -> bool:
    return rows < PIECE_ROWS and done.bytes < PIECE_BYTES


def _up_to_a_piece(rows: Sequence[Row]) -> Sequence[Row]:
    """The first of `rows`, of which each has its size at its end, as many as make a piece."""
    sizes = itertools.accumulate(row[-1] for row in rows)
    full = next((count for count, size in enumerate(sizes, 1) if size >= PIECE_BYTES), len(rows))
    return rows[:full]
