import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.journal.world import decision, opened, read, request, states, status, suspended

from tenter.journal import tables
from tenter.journal.connection import connect
from tenter.journal.entry import Stream, verify
from tenter.journal.sqlite import SqliteStore
from tenter.journal.tables import FORMAT

SAMPLES = Path(__file__).parent / "samples"


def _shape(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    return {
        (kind, name, "".join((text or "").replace("IF NOT EXISTS ", "").replace('"', "").split()))
        for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_schema")
    }


def _old(folder: Path, name: str = "waiting_1.db") -> Path:
    return Path(shutil.copy(SAMPLES / name, folder / "journal.db"))


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("sample", ["journal_1.db", "waiting_1.db", "stopped_1.db"])
def test_a_file_of_format_1_has_the_tables_of_a_new_one_once_it_is_opened(
    sample: str, create: bool, tmp_path: Path
) -> None:
    path = _old(tmp_path, sample)
    with closing(sqlite3.connect(path)) as before:
        assert tables.version(before) == 1
    connection, new = connect(path, create=create), connect(tmp_path / "new.db", create=True)
    assert connection is not None
    assert new is not None
    with closing(connection), closing(new):
        assert _shape(connection) == _shape(new)
        assert tables.version(connection) == tables.version(new) == FORMAT


async def test_what_a_file_of_format_1_asks_can_be_listed_and_decided(tmp_path: Path) -> None:
    async with opened(SqliteStore(_old(tmp_path))) as store:
        rows = await store.approvals()
        assert [(row.request.id, row.request.run_id, row.request.root_run_id) for row in rows] == [
            ("ask-r2", "r2", ""),
            ("ask-r1", "r1", ""),
        ]
        assert rows[1].request.call == {"call": {"name": "shell", "arguments": {"command": "x" * 70_000}}}
        await store.decide(decision("ask-r1", "r1", "edit", edits={"command": "ls"}))
        assert await states(store) == {"ask-r2": "open", "ask-r1": "edited"}
        for run, kinds in (
            ("r1", ["run", "started", "approval_requested", "status", "approval_decided"]),
            ("r3", ["run", "result"]),
        ):
            records = await read(store, run)
            assert [record.entry.kind for record in records] == kinds
            assert verify(records) is None
        listed = [(row.stream.id, row.status, row.ended, row.holder) for row in await store.streams()]
        assert listed == [
            ("l1", "", None, ""),
            ("journal", "", None, ""),
            ("r3", "completed", 9, ""),
            ("r2", "awaiting_approval", None, ""),
            ("r1", "awaiting_approval", None, ""),
        ]
        assert (await store.prune(before=10)).runs == 1


async def test_a_run_of_format_1_that_stopped_without_a_result_has_its_end_and_asks_nobody(tmp_path: Path) -> None:
    async with opened(SqliteStore(_old(tmp_path, "stopped_1.db"))) as store:
        assert await states(store) == {"ask-r1": "withdrawn"}
        listed = [(row.stream.id, row.status, row.ended) for row in await store.streams()]
        assert listed == [("r2", "running", None), ("r1", "cancelled", 7)]
        assert (await store.prune(before=7)).runs == 0
        assert (await store.prune(before=8)).runs == 1


async def test_a_new_stream_in_a_file_of_format_1_gets_a_number_of_its_own(tmp_path: Path) -> None:
    async with opened(SqliteStore(_old(tmp_path))) as store:
        assert [summary.stream for summary in await store.streams("loop")] == [Stream("loop", "l1")]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        assert connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'streams'").fetchone() == (5,)


def test_many_that_open_a_file_of_format_1_at_once_bring_it_to_the_new_one_once(tmp_path: Path) -> None:
    path, count = _old(tmp_path), 8
    together, failures = threading.Barrier(count), list[BaseException]()

    def open_it() -> None:
        try:
            together.wait(5)
            connection = connect(path, create=True)
            assert connection is not None
            with closing(connection):
                assert connection.execute("SELECT count(*) FROM approvals").fetchone() == (2,)
        except BaseException as error:  # a thread has nobody else to tell
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []


async def test_an_entry_that_cannot_be_read_does_not_shut_a_file_of_format_1(tmp_path: Path) -> None:
    path = _old(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM kept WHERE length(data) > 60000")
        connection.commit()
    async with opened(SqliteStore(path)) as store:
        assert [row.request.id for row in await store.approvals()] == ["ask-r2"]


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = _old(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE streams_1 (x)")
        connection.commit()
        before = _shape(connection)
    with pytest.raises(sqlite3.OperationalError):
        connect(path, create=True)
    with closing(sqlite3.connect(path)) as connection:
        assert _shape(connection) == before
        assert tables.version(connection) == 1


async def _unsound(path: Path, *statements: str) -> str:
    with closing(sqlite3.connect(path)) as other, other:
        for statement in statements:
            other.execute(statement)
    async with opened(SqliteStore(path)) as store:
        return await store.unsound()


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (["DROP INDEX approvals_by_run"], "approvals_by_run"),
        (["CREATE TRIGGER hides AFTER INSERT ON approvals BEGIN DELETE FROM approvals; END"], "hides"),
        (["CREATE TRIGGER SqliteXStat BEFORE UPDATE ON entries BEGIN SELECT RAISE(IGNORE); END"], "SqliteXStat"),
        (
            [
                "DROP INDEX streams_cancelling",
                "CREATE INDEX streams_cancelling ON streams (id) WHERE cancelling = 1 AND kind = 'r un'",
            ],
            "streams_cancelling",
        ),
        (["ALTER TABLE kept RENAME TO other", "CREATE VIEW kept AS SELECT * FROM other"], "kept, other"),
    ],
)
async def test_tables_that_are_not_as_they_were_made_are_told(
    statements: list[str], named: str, tmp_path: Path
) -> None:
    async with opened(SqliteStore(tmp_path / "journal.db")) as store:
        await store.append(Stream("run", "r1"), [status("running")])
    assert await _unsound(tmp_path / "journal.db", "ANALYZE") == ""
    assert f"than tenter makes: {named}" in await _unsound(tmp_path / "journal.db", *statements)


@pytest.mark.fault(36)
async def test_an_index_that_hides_a_request_from_a_listing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await suspended(store, request("q1"), request("q2"))
    with closing(sqlite3.connect(path)) as other, other:
        (whole,) = other.execute("SELECT sql FROM sqlite_schema WHERE name = 'approvals_by_state'").fetchone()
        for statement in ("DROP INDEX approvals_by_state", f"{whole} WHERE id <> 'q2'", "PRAGMA writable_schema = ON"):
            other.execute(statement)
        other.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'approvals_by_state'", (whole,))
    async with opened(SqliteStore(path)) as store:
        assert [row.request.id for row in await store.approvals()] == ["q1"]
        assert "missing from index approvals_by_state" in await store.unsound()


@pytest.mark.parametrize("sample", ["journal_1.db", "waiting_1.db", "stopped_1.db"])
async def test_a_file_of_format_1_is_as_sound_as_a_new_one(sample: str, tmp_path: Path) -> None:
    assert await _unsound(_old(tmp_path, sample)) == ""
    async with opened(SqliteStore(tmp_path / "none" / "journal.db")) as store:
        assert await store.unsound() == ""
