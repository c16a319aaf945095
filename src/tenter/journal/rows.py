"""How an entry stands in a row of SQLite, and what was kept apart for it.

Streams are numbered, and the id of an entry's row is made of its stream's number and its sequence, so that a stream is
read in one sweep and an append writes one page. It knows nothing of what an entry means.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from tenter.journal.entry import Head, Recorded, Stream
from tenter.journal.sealed import Sealed, leave, unseal
from tenter.wire import PREFIX, CanonicalError, Parts

INSERT: Final = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_IF_NEXT: Final = (
    "INSERT OR IGNORE INTO entries SELECT ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM streams WHERE number = ?)"
)
"""With the stream's number as the last value: of a stream that was pruned nothing may be left."""

PAGE_BYTES: Final = 4_000_000
"""A page ends with the entry that brings it to so many bytes."""

_STREAM_BITS: Final = 32
_SEQUENCES: Final = 1 << _STREAM_BITS

EntryRow: TypeAlias = tuple[int, str, int, int, bytes, bytes, bytes | None]
"""A row of `entries`, its columns in order."""


def row_id(number: int, sequence: int) -> int:
    """The id of the row in which the stream with `number` has its entry `sequence`."""
    return (number << _STREAM_BITS) + sequence


def row_ids(number: int, after: int = 0) -> tuple[int, int]:
    """The row ids of a stream's entries after the sequence `after` are above the first and up to the second."""
    return row_id(number, after), row_id(number + 1, 0) - 1


def place(row: int) -> tuple[int, int]:
    """The number of the stream and the sequence that a row id is made of."""
    return row >> _STREAM_BITS, row % _SEQUENCES


def entry_row(number: int, sealed: Sealed) -> EntryRow:
    """The row of an entry in the stream with `number`."""
    identifier = row_id(number, sealed.sequence)
    return identifier, sealed.kind, sealed.version, sealed.time, blob(sealed.digest), blob(sealed.hash), sealed.data


def sealed_row(row: EntryRow) -> Sealed:
    """The entry that a row holds."""
    identifier, kind, version, time, digest, hash_, data = row
    sequence = identifier % _SEQUENCES  # at each entry of a long run: a call would take longer than this
    return Sealed(sequence, kind, version, time, PREFIX + digest.hex(), PREFIX + hash_.hex(), data)


def last_of(connection: sqlite3.Connection, number: int) -> Head | None:
    """The head of the stream with `number`; None where it has no entry."""
    statement = "SELECT id, hash FROM entries WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT 1"
    row = connection.execute(statement, row_ids(number)).fetchone()
    return Head(place(row[0])[1], digest_of_blob(row[1])) if row else None


def read_page(
    connection: sqlite3.Connection, stream: Stream, number: int, *, after: int, whole: bool
) -> Iterator[Recorded]:
    """The stream's entries after the sequence `after`, as far as a page goes. Raises `CanonicalError`."""
    size = 0
    known: dict[str, object] = {}  # what many entries of a page name, such as the tools, is read once

    def fetch(digest: str) -> Parts:
        nonlocal size
        parts = kept_parts(connection, digest)
        size += sum(map(len, parts))
        return parts

    rows = connection.execute("SELECT * FROM entries WHERE id > ? AND id <= ? ORDER BY id", row_ids(number, after))
    with contextlib.closing(rows):
        for row in rows:
            sealed = sealed_row(row)
            size += len(sealed.data or b"")
            yield unseal(stream, sealed, fetch if whole else leave, known)
            if size >= PAGE_BYTES:
                return


def content_of(connection: sqlite3.Connection, row: int) -> dict[str, object] | None:
    """The whole content of the entry in `row`; None where there is none, or it was erased.

    Raises `CanonicalError` where it cannot be read.
    """
    found = connection.execute("SELECT * FROM entries WHERE id = ?", (row,)).fetchone()
    if found is None or found[-1] is None:
        return None
    read = unseal(Stream("run", ""), sealed_row(found), lambda digest: kept_parts(connection, digest))
    return dict(read.entry.content)


def kept_parts(connection: sqlite3.Connection, digest: str) -> Parts:
    """What was kept apart for `digest`. Raises `CanonicalError` where it is missing."""
    rows = connection.execute("SELECT part, data FROM kept WHERE digest = ? ORDER BY part", (blob(digest),)).fetchall()
    if not rows:
        raise CanonicalError(f"{digest!r}, which an entry names, is missing")
    if [part for part, _ in rows] != list(range(len(rows))):  # pruning reads them from 0 up
        raise CanonicalError(f"of {digest!r}, which an entry names, a part is missing")
    return tuple([data for _, data in rows])


def blob(digest: str) -> bytes:
    """A digest as it stands in a row."""
    return bytes.fromhex(digest.removeprefix(PREFIX))


def digest_of_blob(data: bytes) -> str:
    """The digest that stands in a row."""
    return PREFIX + data.hex()


def one(connection: sqlite3.Connection, statement: str) -> int:
    """The one number that a statement gives."""
    (value,) = connection.execute(statement).fetchone()
    return int(value)
