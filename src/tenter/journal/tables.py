"""The tables of the journal's file, made anew or brought from an older format. One step for each format.

What streams and approvals show is derived from entries, so a step fills what it adds from the entries that there are.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

from tenter.journal.approvals import Over, change
from tenter.journal.approvals_table import note
from tenter.journal.entry import Entry
from tenter.journal.rows import content_of, row_ids
from tenter.journal.streams_table import stream_of
from tenter.wire import CanonicalError

FORMAT: Final = 2
"""The version of the tables, in the file's `user_version`."""

_STREAMS: Final = """
CREATE TABLE IF NOT EXISTS streams (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL,
    name TEXT NOT NULL, status TEXT NOT NULL, started INTEGER NOT NULL, ended INTEGER,
    holder TEXT NOT NULL DEFAULT '', cancelling INTEGER NOT NULL DEFAULT 0, parent TEXT NOT NULL DEFAULT '',
    keyed INTEGER NOT NULL DEFAULT 0, erased INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, id)
) STRICT;
CREATE INDEX IF NOT EXISTS streams_by_kind ON streams (kind);
CREATE INDEX IF NOT EXISTS streams_cancelling ON streams (id) WHERE cancelling = 1 AND kind = 'run';
CREATE INDEX IF NOT EXISTS streams_ended ON streams (ended) WHERE ended IS NOT NULL AND kind = 'run';
"""
"""`erased` is 1 once that is on record, and 2 when nothing is left to erase."""

_ENTRIES: Final = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, time INTEGER NOT NULL,
    digest BLOB NOT NULL, hash BLOB NOT NULL, content BLOB
) STRICT;
CREATE TABLE IF NOT EXISTS kept (
    digest BLOB NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (digest, part)
) STRICT;
"""
_APPROVALS: Final = """
CREATE TABLE IF NOT EXISTS approvals (
    asked INTEGER NOT NULL UNIQUE, run TEXT NOT NULL, root TEXT NOT NULL, id TEXT NOT NULL,
    state TEXT NOT NULL, time INTEGER NOT NULL, decided INTEGER,
    UNIQUE (id, run)
) STRICT;
CREATE INDEX IF NOT EXISTS approvals_by_root ON approvals (root, id);
CREATE INDEX IF NOT EXISTS approvals_by_run ON approvals (run);
CREATE INDEX IF NOT EXISTS approvals_by_state ON approvals (state, time, asked);
CREATE INDEX IF NOT EXISTS approvals_by_time ON approvals (time, asked);
"""
"""`asked` and `decided` are the row ids of entries; `time` is that of the first. `asked` is no primary key, as SQLite
would not find the next page by it."""

_PRUNING: Final = """
CREATE TABLE IF NOT EXISTS pruned (number INTEGER PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS sweep (number INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;
CREATE TABLE IF NOT EXISTS renewed (digest BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
"""
"""What `pruning` has begun: the streams whose entries are left to delete, and the sweep that is under way."""


def make(connection: sqlite3.Connection) -> None:
    """Make the tables, or bring them to `FORMAT`, within the caller's transaction. Raises sqlite3.Error."""
    found = version(connection)
    if found == 0:
        for tables in (_STREAMS, _ENTRIES, _APPROVALS, _PRUNING):
            _run(connection, tables)
    else:
        for step in _STEPS[found - 1 :]:
            step(connection)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def unsound(connection: sqlite3.Connection) -> str:
    """What is wrong with the file itself, in words: its tables are others than `make` makes, or an index lacks a row.

    Empty where nothing is. It reads the whole file. Raises sqlite3.Error.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        make(fresh)
        other = {name for name, _ in _shape(fresh) ^ _shape(connection)}
    if other:
        return f"other tables, indexes or triggers than tenter makes: {', '.join(sorted(other))}"
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return "" if found == "ok" else found


def _shape(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """What is in the file, by name, each with its statement as far as that matters.

    SQLite's own tables of statistics do not.
    """
    statistics = "type = 'table' AND name GLOB 'sqlite_stat[1-4]'"
    rows = connection.execute(f"SELECT name, ifnull(sql, '') FROM sqlite_schema WHERE NOT ({statistics})")
    return {(name, _statement(text)) for name, text in rows}


def _statement(text: str) -> str:
    """The statement without the spaces between its words; in literals, which stand in single quotes, they stay."""
    plain = text.replace("IF NOT EXISTS ", "").replace('"', "").split("'")
    return "'".join(part if place % 2 else "".join(part.split()) for place, part in enumerate(plain))


def version(connection: sqlite3.Connection) -> int:
    """The format of the file; 0 where there are no tables of ours."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def _to_2(connection: sqlite3.Connection) -> None:
    # A new table, because no number may be given to a second stream once streams can be pruned.
    connection.execute("ALTER TABLE streams RENAME TO streams_1")
    connection.execute("DROP INDEX IF EXISTS streams_by_kind")
    _run(connection, _STREAMS)
    columns = "number, kind, id, name, status, started, ended"
    connection.execute(f"INSERT INTO streams ({columns}) SELECT {columns} FROM streams_1 ORDER BY number")
    connection.execute("DROP TABLE streams_1")
    for tables in (_APPROVALS, _PRUNING):
        _run(connection, tables)
    # What has a result asks nobody any more, and its end is known.
    others = connection.execute("SELECT number FROM streams WHERE kind = 'run' AND ended IS NULL").fetchall()
    for (number,) in others:
        _fold(connection, number)


def _fold(connection: sqlite3.Connection, number: int) -> None:
    """Take a run's requests and its end from its entries, as if they were appended now."""
    stream = stream_of(connection, number)
    assert stream is not None, "the table names it"
    rows = connection.execute(
        "SELECT id, kind, time FROM entries WHERE id > ? AND id <= ? AND kind IN ('approval_requested', 'status')"
        " ORDER BY id",
        row_ids(number),
    ).fetchall()
    for row, kind, time in rows:
        try:
            content = content_of(connection, row)
        except CanonicalError:  # damage is told to whoever reads the stream; here it must not shut the whole journal
            continue
        entry = Entry(kind=kind, time=time, content=content or {})
        note(connection, stream, row, entry)
        if change(stream, entry) == Over():
            connection.execute("UPDATE streams SET ended = ? WHERE number = ? AND ended IS NULL", (time, number))


_STEPS: Final[tuple[Callable[[sqlite3.Connection], None], ...]] = (_to_2,)
"""What brings the tables from the format of its place, counted from 1, to the next."""


def _run(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):  # executescript would end the transaction
        if statement.strip():
            connection.execute(statement)
