import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tenter.journal import tables
from tenter.journal.database import Database
from tenter.journal.entry import Entry, Head, Stream, genesis, verify
from tenter.journal.rows import (
    INSERT,
    INSERT_IF_NEXT,
    PAGE_BYTES,
    blob,
    content_of,
    digest_of_blob,
    entry_row,
    kept_parts,
    last_of,
    one,
    place,
    read_page,
    row_id,
    row_ids,
    sealed_row,
)
from tenter.journal.sealed import Prepared, Sealed, kept, prepare, seal
from tenter.journal.store import JournalError
from tenter.journal.streams_table import begin
from tenter.wire import CanonicalError, Document, digest

RUN = Stream("run", "r1")


def _tables() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    tables.make(connection)
    return connection


def _fill(connection: sqlite3.Connection, *contents: Mapping[str, object]) -> tuple[Sealed, ...]:
    prepared = prepare([Entry(kind="note", time=1, content=content) for content in contents])
    sealed = seal(genesis(RUN), prepared)
    number = begin(connection, RUN, 1, keyed=0)
    assert number == 1
    connection.executemany(INSERT, [entry_row(number, item) for item in sealed])
    parts = [(blob(name), *part) for name, found in kept(prepared).items() for part in enumerate(found)]
    connection.executemany("INSERT INTO kept VALUES (?, ?, ?)", parts)
    return sealed


def test_a_row_id_is_made_of_a_stream_and_a_sequence_and_tells_both() -> None:
    for number, sequence in ((1, 1), (1, 2**32 - 1), (70_000, 5)):
        assert place(row_id(number, sequence)) == (number, sequence)
    low, high = row_ids(3, 7)
    assert low == row_id(3, 7)
    assert high == row_id(3, 2**32 - 1) < row_id(4, 0)


def test_an_entry_comes_back_from_its_row_as_it_was_sealed() -> None:
    with closing(_tables()) as connection:
        sealed = _fill(connection, {"a": 1}, {"b": 2})
        rows = connection.execute("SELECT * FROM entries ORDER BY id").fetchall()
        assert tuple([sealed_row(row) for row in rows]) == sealed
        assert last_of(connection, 1) == Head(2, sealed[-1].hash)
        assert last_of(connection, 2) is None
        assert digest_of_blob(blob(sealed[0].hash)) == sealed[0].hash


def test_nothing_is_inserted_by_itself_twice_nor_for_a_stream_that_is_not_there() -> None:
    with closing(_tables()) as connection:
        sealed = _fill(connection, {"a": 1})
        again = (*entry_row(1, sealed[0]), 1)
        orphan = (*entry_row(2, sealed[0]), 2)
        assert [connection.execute(INSERT_IF_NEXT, row).rowcount for row in (again, orphan)] == [0, 0]
        assert one(connection, "SELECT count(*) FROM entries") == 1


def test_the_content_of_one_row_comes_whole_until_it_is_erased() -> None:
    with closing(_tables()) as connection:
        _fill(connection, {"text": Document({"large": "x" * 70_000})})
        assert content_of(connection, row_id(1, 1)) == {"text": {"large": "x" * 70_000}}
        connection.execute("UPDATE entries SET content = NULL")
        assert content_of(connection, row_id(1, 1)) is None
        assert content_of(connection, row_id(1, 2)) is None


def test_what_is_missing_is_told_by_its_digest() -> None:
    with closing(_tables()) as connection, pytest.raises(CanonicalError, match=digest(1)):
        kept_parts(connection, digest(1))


def test_a_page_ends_with_the_entry_that_fills_it() -> None:
    with closing(_tables()) as connection:
        _fill(connection, *({"n": n, "text": "x" * (PAGE_BYTES // 3)} for n in range(5)))
        for after, count in ((0, 3), (3, 2), (5, 0)):
            page = list(read_page(connection, RUN, 1, after=after, whole=True))
            assert [record.sequence for record in page] == list(range(after + 1, after + 1 + count))
        assert len(list(read_page(connection, RUN, 1, after=0, whole=False))) == 5


def _apart(text: str) -> tuple[Prepared, ...]:
    return prepare([Entry(kind="note", time=1, content={"text": Document(text)})])


def _texts(database: Database) -> list[object]:
    return [record.entry.content["text"] for record in database.page(RUN, after=0, limit=100, whole=True)]


@pytest.mark.fault(39)
def test_what_is_kept_apart_comes_with_its_entry_also_where_another_process_has_appended(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as first, closing(Database(path)) as second:
        for number, database in enumerate((first, second, first, first), 1):
            head = database.append(RUN, _apart(f"apart {number}"))
            assert (head, head.sequence) == (database.head(RUN), number)
        assert _texts(second) == [f"apart {number}" for number in range(1, 5)]
        assert verify(first.page(RUN, after=0, limit=100, whole=True)) is None


@pytest.mark.fault(38)
def test_an_entry_whose_part_cannot_be_kept_is_not_there_either(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database, closing(sqlite3.connect(path)) as other:
        database.append(RUN, _apart("first"))
        other.execute("CREATE TRIGGER no BEFORE INSERT ON kept BEGIN SELECT RAISE(ABORT, 'no'); END")
        with pytest.raises(JournalError):
            database.append(RUN, _apart("second"))
        other.execute("DROP TRIGGER no")
        assert _texts(database) == ["first"]
        assert database.append(RUN, _apart("second")).sequence == 2
        assert _texts(database) == ["first", "second"]


def test_of_what_is_kept_apart_no_part_may_be_missing() -> None:
    with closing(_tables()) as connection:
        parts = [(blob(digest(1)), part, b"x") for part in (0, 1)]
        connection.executemany("INSERT INTO kept VALUES (?, ?, ?)", parts)
        assert kept_parts(connection, digest(1)) == (b"x", b"x")
        connection.execute("UPDATE kept SET part = 2 WHERE part = 1")
        with pytest.raises(CanonicalError, match="a part is missing"):
            kept_parts(connection, digest(1))
