"""The table of streams: what a listing shows of each, kept up to date as entries are appended.

It folds with `summary.summarise` and decides nothing. Every function works within the caller's transaction and raises
sqlite3.Error.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from tenter.journal.entry import Entry, Stream, StreamKind
from tenter.journal.rows import one, place, row_ids
from tenter.journal.store import Strays
from tenter.journal.summary import SHOWN, StreamSummary, summarise

_COLUMNS: Final = "kind, id, name, status, started, ended, holder, cancelling, parent, erased"


def number_of(connection: sqlite3.Connection, stream: Stream) -> int | None:
    """The stream's number; None where it has no entry."""
    row = connection.execute(
        "SELECT number FROM streams WHERE kind = ? AND id = ?", (stream.kind, stream.id)
    ).fetchone()
    return None if row is None else int(row[0])


def stream_of(connection: sqlite3.Connection, number: int) -> Stream | None:
    """The stream with that number; None where it was pruned."""
    row = connection.execute("SELECT kind, id FROM streams WHERE number = ?", (number,)).fetchone()
    return None if row is None else Stream(*row)


def is_there(connection: sqlite3.Connection, number: int) -> bool:
    """Whether the stream with that number was not pruned."""
    return connection.execute("SELECT 1 FROM streams WHERE number = ?", (number,)).fetchone() is not None


def begin(connection: sqlite3.Connection, stream: Stream, started: int, *, keyed: int) -> int:
    """A new stream, whose first entry has the time `started`. The number it gets was never another stream's.

    It is chained under the key with the `key_number` `keyed`.
    """
    row = (stream.kind, stream.id, "", "", started, keyed)
    statement = "INSERT INTO streams (kind, id, name, status, started, keyed) VALUES (?, ?, ?, ?, ?, ?)"
    cursor = connection.execute(statement, row)
    assert cursor.lastrowid is not None, "a row was inserted"
    return cursor.lastrowid


def keyed(connection: sqlite3.Connection, number: int) -> int:
    """The `key_number` of the key under which the stream is chained; 0 without one."""
    return one(connection, f"SELECT keyed FROM streams WHERE number = {number}")


def show(connection: sqlite3.Connection, number: int, entries: Sequence[Entry]) -> None:
    """Fold what is appended to the stream into its row."""
    shown = [entry for entry in entries if entry.kind in SHOWN]
    if not shown:
        return
    summary = summary_at(connection, number)
    for entry in shown:
        summary = summarise(summary, entry)
    row = (summary.name, summary.status, summary.ended, summary.holder, summary.cancelling, summary.parent)
    connection.execute(
        "UPDATE streams SET name = ?, status = ?, ended = ?, holder = ?, cancelling = ?, parent = ?,"
        " erased = max(erased, ?) WHERE number = ?",
        (*row, summary.erased, number),
    )


def summary_at(connection: sqlite3.Connection, number: int) -> StreamSummary:
    """What a listing shows of the stream with that number, which was not pruned."""
    return _summary(connection.execute(f"SELECT {_COLUMNS} FROM streams WHERE number = ?", (number,)).fetchone())


def summary_of(connection: sqlite3.Connection, stream: Stream) -> StreamSummary | None:
    """What a listing shows of the stream; None where it has no entry."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM streams WHERE kind = ? AND id = ?", (stream.kind, stream.id)
    ).fetchone()
    return None if row is None else _summary(row)


def summaries(connection: sqlite3.Connection, kind: StreamKind | None, limit: int | None) -> Sequence[StreamSummary]:
    """What a listing shows, the last begun first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM streams {'WHERE kind = ?' if kind else ''} ORDER BY number DESC LIMIT ?",
        (*([kind] if kind else []), -1 if limit is None else limit),
    )
    return [_summary(row) for row in rows]


CANCELLING: Final = "SELECT id FROM streams INDEXED BY streams_cancelling WHERE cancelling = 1 AND kind = 'run'"
"""Reads an index that holds nothing else; left to itself SQLite prefers one by which it reads every run."""


def cancelling(connection: sqlite3.Connection) -> frozenset[str]:
    """As `Store.cancelling`."""
    return frozenset([identifier for (identifier,) in connection.execute(CANCELLING)])


def strays(connection: sqlite3.Connection) -> Strays:
    """As `Store.strays`. It reads one entry of each stream."""
    known = "SELECT EXISTS (SELECT 1 FROM streams WHERE number = ?) OR EXISTS (SELECT 1 FROM pruned WHERE number = ?)"
    found, after = 0, -1
    while (row := connection.execute("SELECT min(id) FROM entries WHERE id > ?", (after,)).fetchone())[0] is not None:
        number = place(row[0])[0]
        found += not connection.execute(known, (number, number)).fetchone()[0]
        after = row_ids(number)[1]
    asking = "SELECT count(*) FROM approvals WHERE run NOT IN (SELECT id FROM streams WHERE kind = 'run')"
    doomed = "SELECT count(*) FROM pruned WHERE number IN (SELECT number FROM streams)"
    return Strays(streams=found, requests=one(connection, asking), doomed=one(connection, doomed))


def _summary(row: tuple[StreamKind, str, str, str, int, int | None, str, int, str, int]) -> StreamSummary:
    kind, identifier, name, status, started, ended, holder, is_cancelling, parent, erased = row
    return StreamSummary(
        stream=Stream(kind, identifier),
        name=name,
        status=status,
        started=started,
        ended=ended,
        holder=holder,
        cancelling=bool(is_cancelling),
        parent=parent,
        erased=bool(erased),
    )
