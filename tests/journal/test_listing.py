"""What listings show is compared with what the entries say, and every difference is told."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.journal.world import (
    OpenStore,
    decision,
    ended,
    entry,
    opened,
    over_every_store,
    read,
    request,
    run_stream,
    status,
    suspended,
)

from tenter.journal.listing import Listing
from tenter.journal.sqlite import SqliteStore
from tenter.journal.store import Store, Strays
from tenter.journal.summary import StreamSummary
from tenter.journal.verification import verified

SAMPLES = Path(__file__).parent / "samples"


async def written(store: Store) -> None:
    """A run that waits for one of two decisions, with a sub-run that waits, too, and a run that has ended."""
    await suspended(store, request("q1"), request("q2"))
    await suspended(store, request("q3", "r2", root_run_id="r1"))
    await store.decide(decision("q1"))
    await ended(store, "r3", at=9)


async def fault_of(store: Store, run: str) -> str | None:
    return (await verified(store, run_stream(run))).fault


@over_every_store
async def test_what_stores_wrote_is_listed_as_it_stands_on_record(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await written(store)
        assert [await fault_of(store, run) for run in ("r1", "r2", "r3")] == [None, None, None]
        assert await store.strays() == Strays()
        await store.decide(decision("q2", kind="reject"))
        await store.append(run_stream("r1"), [entry("resumed", 3, process={"pid": 8, "started": 1}), status("blocked")])
        assert [await fault_of(store, run) for run in ("r1", "r2", "r3")] == [None, None, None]
        await store.append(run_stream("r2"), [entry("cancel_requested", 5, by="ann")])
        assert await fault_of(store, "r2") is None
        await store.prune(before=20, erase=True)
        assert [await fault_of(store, run) for run in ("r1", "r2", "r3")] == [None, None, None]
        await store.prune(before=20)
        assert await store.strays() == Strays()


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("statement", "run", "told"),
    [
        (
            "UPDATE streams SET status = 'failed' WHERE id = 'r3'",
            "r3",
            "has status 'failed', and the record 'completed'",
        ),
        ("UPDATE streams SET name = 'other' WHERE id = 'r3'", "r3", "has name 'other', and the record 'fix'"),
        ("UPDATE streams SET ended = 1 WHERE id = 'r3'", "r3", "has ended 1, and the record 9"),
        ("UPDATE streams SET ended = NULL WHERE id = 'r3'", "r3", "has ended None, and the record 9"),
        ("UPDATE streams SET holder = '{}' WHERE id = 'r1'", "r1", "has holder '{}', and the record ''"),
        ("UPDATE streams SET cancelling = 1 WHERE id = 'r1'", "r1", "has cancelling True, and the record False"),
        ("UPDATE streams SET parent = 'r1' WHERE id = 'r3'", "r3", "has parent 'r1', and the record ''"),
        ("UPDATE approvals SET state = 'rejected' WHERE id = 'q2'", "r1", "'q2' is listed as rejected, and is open"),
        ("UPDATE approvals SET state = 'withdrawn' WHERE id = 'q3'", "r2", "'q3' is listed as withdrawn, and is open"),
        ("UPDATE approvals SET state = 'open' WHERE id = 'q1'", "r1", "'q1' is listed as open, and is approved"),
        ("UPDATE approvals SET decided = NULL WHERE id = 'q1'", "r1", "'q1' is listed with another decision"),
        ("UPDATE approvals SET asked = asked + 7 WHERE id = 'q2'", "r1", "'q2' is listed with another content"),
        ("UPDATE approvals SET decided = 7 WHERE id = 'q2'", "r1", "'q2' is listed with another decision"),
        ("UPDATE approvals SET time = time + 1 WHERE id = 'q2'", "r1", "'q2' is listed in another place than its time"),
        (
            "UPDATE approvals SET root = '' WHERE id = 'q3'",
            "r2",
            "listed below the run '', and is below 'r1' on record",
        ),
        ("UPDATE approvals SET root = 'r3' WHERE id = 'q3'", "r3", "'q3' is listed here, and is one of the run 'r2'"),
        ("UPDATE approvals SET id = 'q9' WHERE id = 'q2'", "r1", "'q9' is listed, and not on record"),
        ("UPDATE approvals SET id = 'q9' WHERE id = 'q2'", "r1", "'q2' is on record, and not listed"),
        ("UPDATE approvals SET run = 'R2' WHERE id = 'q3'", "r2", "'q3' is on record, and not listed"),
        (
            "INSERT INTO approvals VALUES (9, 'r3', 'r3', 'q9', 'open', 1, NULL)",
            "r3",
            "'q9' is listed, and not on record",
        ),
        ("UPDATE streams SET erased = 2 WHERE id = 'r3'", "r3", "has erased True, and the record False"),
        ("DELETE FROM approvals WHERE id = 'q2'", "r1", "'q2' is on record, and not listed"),
        (
            "UPDATE approvals SET run = 'r3', root = 'r3' WHERE id = 'q1'",
            "r3",
            "'q1' is listed, and not on record",
        ),
        (
            "DELETE FROM entries WHERE kind = 'result'",
            "r3",
            "has status 'completed', and the record ''",
        ),
        (
            "INSERT INTO streams (kind, id, name, status, started) VALUES ('run', 'r9', 'fix', 'completed', 1)",
            "r9",
            "it is listed (status 'completed'), and its record has no entry",
        ),
    ],
)
async def test_what_was_changed_in_a_listing_alone_is_told(tmp_path: Path, statement: str, run: str, told: str) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await written(store)
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(statement).rowcount == 1
    async with opened(SqliteStore(path)) as store:
        assert told in str(await fault_of(store, run))


@pytest.mark.fault(36)
async def test_a_run_that_was_taken_out_of_the_listing_is_a_stray(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await written(store)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM streams WHERE id IN ('r1', 'r3')")
    async with opened(SqliteStore(path)) as store:
        assert await store.strays() == Strays(streams=2, requests=2)


async def test_a_request_that_is_listed_with_what_it_asked_for_once_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await suspended(store, request("q1"))
        await store.decide(decision("q1"))
        await suspended(store, request("q1", call={"call": {"name": "shell", "arguments": {"command": "ls"}}}))
        assert await fault_of(store, "r1") is None
    with closing(sqlite3.connect(path)) as database, database:
        first = "SELECT min(id) FROM entries WHERE kind = 'approval_requested'"
        database.execute(f"UPDATE approvals SET asked = ({first})")
    async with opened(SqliteStore(path)) as store:
        assert "'q1' is listed with another content" in str(await fault_of(store, "r1"))


@pytest.mark.parametrize(("at", "holds"), [(7, True), (9, True), (8, False)])
async def test_an_end_that_an_older_version_took_from_the_result_is_no_difference(
    at: int, holds: bool, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        entries = [entry("run", task="fix"), status("completed", 7), entry("result", 9, status="completed")]
        await store.append(run_stream("r1"), entries)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE streams SET ended = ?", (at,))
    async with opened(SqliteStore(path)) as store:
        assert (await fault_of(store, "r1") is None) == holds


async def test_what_a_pruning_has_left_to_delete_is_no_stray(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await written(store)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO pruned SELECT number FROM streams WHERE id = 'r3'")
        database.execute("DELETE FROM streams WHERE id = 'r3'")
    async with opened(SqliteStore(path)) as store:
        assert await store.strays() == Strays()


async def test_that_a_request_of_a_sub_run_is_damaged_is_told_of_the_run_around_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await written(store)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE entries SET content = CAST('[' AS BLOB) WHERE id IN (SELECT asked FROM approvals WHERE id = 'q3')"
        )
    async with opened(SqliteStore(path)) as store:
        assert "entry 2 cannot be read" in str(await fault_of(store, "r2"))
        assert "a run below it, asked for cannot be listed" in str(await fault_of(store, "r1"))


async def test_what_an_older_version_listed_is_as_its_record_says(tmp_path: Path) -> None:
    for sample in SAMPLES.glob("*.db"):
        path = tmp_path / sample.name
        path.write_bytes(sample.read_bytes())
        async with opened(SqliteStore(path)) as store:
            await store.append(run_stream("new"), [entry("note")])
            streams = [one.stream for one in await store.streams()]
            assert len(streams) > 1
            found = [await verified(store, stream) for stream in streams]
            assert [(one.fault, one.erased) for one in found] == [(None, 0)] * len(streams)


@over_every_store
async def test_what_a_run_around_withdrew_is_no_difference(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("q1", "r1"), request("q3", "r2", root_run_id="r1"))
        await store.append(run_stream("r1"), [status("cancelled", 3)])
        assert await fault_of(store, "r2") is None


@over_every_store
async def test_a_stream_that_goes_on_while_it_is_read_holds(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await written(store)
        look, more = store.summary, [entry("status", 4, status="failed")]

        async def meanwhile(stream: object) -> StreamSummary | None:
            if more:
                await store.append(run_stream("r1"), [more.pop()])
            return await look(run_stream("r1"))

        object.__setattr__(store, "summary", meanwhile)
        found = await verified(store, run_stream("r1"))
        assert (found.fault, found.entries) == (None, 6)


@over_every_store
async def test_entries_of_a_stream_that_is_not_listed_are_told(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await written(store)
        listing = Listing(run_stream("r1"))
        for record in await read(store, "r1"):
            listing.note(record)
        standing = await store.standing("r1")
        assert list(listing.faults(None, standing, frozenset())) == ["it is not listed"]


async def test_a_run_that_an_older_version_let_go_of_as_it_ended_is_listed_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        for run, at_end in (("r1", [status("failed", 5)]), ("r2", [])):
            held = entry("run", task="fix", process={"pid": 1, "started": "1"}, host="here")
            await store.append(run_stream(run), [held, *at_end])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE streams SET holder = ''")
    async with opened(SqliteStore(path)) as store:
        assert await fault_of(store, "r1") is None
        assert "has holder ''" in str(await fault_of(store, "r2"))


async def test_a_stream_that_the_next_pruning_would_delete_though_nobody_asked_for_that_is_a_stray(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await written(store)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO pruned SELECT number FROM streams WHERE id = 'r1'")
    async with opened(SqliteStore(path)) as store:
        assert await store.strays() == Strays(doomed=1)


@over_every_store
async def test_a_request_that_is_asked_below_a_run_that_is_over_is_open_as_it_is_listed(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        await ended(store, "r1", at=9)
        await suspended(store, request("q3", "r2", root_run_id="r1"))
        assert await fault_of(store, "r2") is None


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("name = 'other'", "has name 'other', and the record 'fix'"),
        ("status = 'failed'", "has status 'failed', and the record 'completed'"),
        ("started = 2", "has started 2, and the record 1"),
        ("ended = 2", "has ended 2, and the record 9"),
        ("parent = 'r1'", "has parent 'r1', and the record ''"),
        ("erased = 0", "has erased False, and the record True"),
    ],
)
async def test_the_listing_of_a_run_that_was_erased_is_held_against_what_the_erasing_left_on_record(
    change: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await ended(store, "r3", at=9)
        await store.prune(before=20, erase=True)
        assert await fault_of(store, "r3") is None
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(f"UPDATE streams SET {change}").rowcount == 1
    async with opened(SqliteStore(path)) as store:
        assert told in str(await fault_of(store, "r3"))
