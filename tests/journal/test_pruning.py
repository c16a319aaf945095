"""Pruning: what goes and what stays, in every store, and how it goes in the file."""

import asyncio
import itertools
import sqlite3
import tracemalloc
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.journal.world import (
    OpenStore,
    asking,
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

from tenter.journal.database import Database
from tenter.journal.deciding import DecisionRefused
from tenter.journal.entry import Stream, verify
from tenter.journal.pruning import ENDED, PIECE_ROWS, Wanted
from tenter.journal.sealed import prepare
from tenter.journal.sqlite import SqliteStore
from tenter.journal.store import JournalError, Pruned, Store
from tenter.journal.verification import verified
from tenter.wire import Document

LARGE = "x" * 70_000


async def _ids(store: Store) -> list[str]:
    return sorted(summary.stream.id for summary in await store.streams())


@over_every_store
@pytest.mark.parametrize("erase", [False, True])
async def test_runs_that_ended_before_a_time_go_and_all_others_stay(
    erase: bool, open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        await ended(store, "old", at=99)
        await ended(store, "young", at=100)
        await suspended(store, request("a", "waits"))
        held = entry("run", task="fix", process={"pid": 1}, host="here")
        await store.append(run_stream("held"), [held, status("running")])
        await store.append(run_stream("stopped"), [entry("run"), status("blocked", 99), status("blocked", 150)])
        await store.append(run_stream("stops"), [entry("run"), status("blocked", 100)])
        told = entry("resumed", 6, status="failed", process={"pid": 1}, host="here")
        await store.append(run_stream("told"), [entry("run"), status("failed", 5), told])
        await store.append(run_stream("resumed"), [entry("run"), entry("result", 5), entry("resumed", 6)])
        claimed = entry("run", 6, task="fix", process={"pid": 1}, host="here")
        await store.append(run_stream("claimed"), [entry("run"), entry("result", 5), claimed])
        await store.append(run_stream("told-by-nobody"), [held, status("failed", 5)])
        for kind in ("loop", "session", "process"):
            stream = Stream(kind, "theirs")
            await store.append(stream, [entry("run"), entry("result", 5, status="completed")])
        before = await _ids(store)
        heads = {run: await store.head(run_stream(run)) for run in before}
        would = await store.prune(before=100, erase=erase, dry=True)
        assert would.runs == 3
        assert would.entries == 8
        assert {run: await store.head(run_stream(run)) for run in before} == heads
        assert await store.prune(before=100, erase=erase) == would
        old = ("old", "stopped", "told-by-nobody")
        assert await _ids(store) == [run for run in before if erase or run not in old]
        assert {run: await store.head(run_stream(run)) for run in before if run not in old} == {
            run: head for run, head in heads.items() if run not in old
        }
        for run in old:
            records = await read(store, run)
            assert [record.erased for record in records] == ([True] * (len(records) - 1) + [False]) * erase
        assert await store.prune(before=100, erase=erase) == Pruned()
        await store.append(run_stream("told"), [entry("released", 7, status="failed")])
        assert (await store.prune(before=100, erase=erase)).runs == 1


@over_every_store
async def test_an_erased_run_still_verifies_and_holds_no_content(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await ended(store, "r1", at=5)
        head, before = await store.head(run_stream("r1")), await store.summary(run_stream("r1"))
        pruned = await store.prune(before=10, erase=True)
        assert pruned.bytes > 30
        records = await read(store, "r1")
        assert verify(records) is None
        assert records[2].head == head
        listed = {"name": "fix", "status": "completed", "ended": 5, "holder": "", "parent": ""}
        assert [record.entry.content for record in records] == [{}, {}, {}, listed]
        assert [record.entry.kind for record in records[3:]] == ["erased"]
        assert before is not None
        assert await store.summary(run_stream("r1")) == msgspec.structs.replace(before, erased=True)
        assert (await store.prune(before=10)).runs == 1
        assert await store.summary(run_stream("r1")) is None
        assert await read(store, "r1") == []


@over_every_store
@pytest.mark.parametrize("erase", [False, True])
async def test_what_was_kept_apart_goes_with_the_last_entry_that_names_it(
    erase: bool, open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        shared, inner = Document({"shared": LARGE}), Document({"inner": "y" * 70_000})
        only = Document({"holds": inner, "bytes": b"z" * 70_000})
        await store.append(run_stream("old"), [entry("note", text=[shared, only]), entry("result", 5)])
        await store.append(run_stream("older"), [entry("note", text=[only]), entry("result", 4)])
        await store.append(run_stream("stays"), [entry("note", text=[Document({"deep": [shared]})])])
        assert (await store.prune(before=5, erase=erase)).bytes < 100  # it is named by the other one still
        would = await store.prune(before=6, erase=erase, dry=True)
        pruned = await store.prune(before=6, erase=erase)
        assert would == pruned
        assert 166_000 > pruned.bytes > 160_000
        (record,) = await read(store, "stays")
        assert record.entry.content == {"text": [{"deep": [{"shared": LARGE}]}]}
        assert not record.altered
        await store.append(run_stream("new"), [entry("note", text=[only])])
        (record,) = await read(store, "new")
        assert record.entry.content == {"text": [{"holds": {"inner": "y" * 70_000}, "bytes": b"z" * 70_000}]}


@over_every_store
@pytest.mark.parametrize("erase", [False, True])
async def test_what_a_pruned_run_asked_is_listed_no_more(erase: bool, open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("a"), request("b", "r2"))
        await store.decide(decision("a"))
        await store.append(run_stream("r1"), [entry("result", 5, status="completed")])
        await store.prune(before=6, erase=erase)
        assert [row.request.id for row in await store.approvals(state=None)] == ["b"]
        with pytest.raises(DecisionRefused) as caught:
            await store.decide(decision("a"))
        assert caught.value.why == "unknown"


@over_every_store
async def test_a_run_below_one_that_is_not_over_stays_until_that_is(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        envelope = {"run_id": "child", "parent_run_id": "top"}
        await store.append(run_stream("top"), [entry("run"), status("awaiting_approval")])
        await store.append(run_stream("child"), [entry("run", envelope=envelope), entry("result", 5)])
        await store.append(run_stream("lost"), [entry("run", envelope={"parent_run_id": "gone"}), entry("result", 5)])
        assert (await store.prune(before=10)).runs == 1
        assert await _ids(store) == ["child", "top"]
        await store.append(run_stream("top"), [entry("result", 20)])
        assert (await store.prune(before=10)).runs == 1
        assert await _ids(store) == ["top"]


@over_every_store
async def test_a_pruned_run_takes_no_more_entries_of_those_who_had_it(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await ended(store, "r1", at=5)
        await store.append(run_stream("r1"), [entry("note", text="flat")])
        await store.prune(before=6)
        for entries in ([entry("note", text="flat")], [entry("note", text=["deep"]), status("running")]):
            with pytest.raises(JournalError, match=r"run 'r1'.*begin a new run") as caught:
                await store.append(run_stream("r1"), entries)
            assert caught.value.trouble == "removed"
        await store.append(run_stream("r2"), [entry("note", text="another")])
        assert await _ids(store) == ["r2"]


async def test_what_another_process_pruned_takes_no_more_entries_and_is_no_other_run(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as one, opened(SqliteStore(path)) as other:
        await ended(one, "r1", at=5)
        await other.prune(before=6)
        await other.append(run_stream("r2"), [entry("note", text="of r2")])
        with pytest.raises(JournalError, match="run 'r1' was pruned"):
            await one.append(run_stream("r1"), [entry("note", text="flat")])
        assert [record.entry.content for record in await read(other, "r2")] == [{"text": "of r2"}]


async def test_pruning_where_there_is_no_journal_creates_none(tmp_path: Path) -> None:
    async with opened(SqliteStore(tmp_path / ".tenter" / "journal.db")) as store:
        assert await store.prune(before=10) == Pruned()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that is read, deleted or swept makes a piece of its own."""
    monkeypatch.setattr("tenter.journal.pruning.PIECE_ROWS", 10)
    monkeypatch.setattr("tenter.journal.pruning.PIECE_BYTES", 1)


def _fill(database: Database, runs: int, entries: int, *, at: int = 5, large: bool = False) -> None:
    for number in range(runs):
        text: object = Document({"n": number, "text": LARGE * 5}) if large else "x" * 500
        notes = [entry("note", text=[text, n]) for n in range(entries)]
        database.append(run_stream(f"old{number}"), prepare([entry("run"), *notes, entry("result", at)]))


def _leave(connection: sqlite3.Connection) -> dict[str, int]:
    tables = ("streams", "entries", "kept", "pruned", "sweep", "renewed")
    return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


@contextmanager
def _other(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("erase", [False, True])
def test_no_transaction_deletes_more_than_a_piece(erase: bool, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database, _other(path) as other:
        _fill(database, 3, 2500)
        _fill_more = [entry("note", text=["x" * 60_000] * 10) for _ in range(5)]
        database.append(run_stream("large"), prepare([*_fill_more, entry("result", 5)]))
        pieces = list[Pruned]()
        for piece in database.prune(Wanted(before=6, erase=erase)):
            other.execute("BEGIN IMMEDIATE")  # nobody holds the lock between two pieces
            other.execute("ROLLBACK")
            pieces.append(piece)
        assert max(piece.entries for piece in pieces) <= 2 * PIECE_ROWS
        assert max(piece.bytes for piece in pieces) < 1_700_000
        assert sum(pieces, Pruned()).entries == 3 * 2502 + 6
        assert sum(pieces, Pruned()).runs == 4
        left = _leave(other)
        assert left == left | {"entries": 7516 * erase, "streams": 4 * erase, "pruned": 0, "sweep": 0, "renewed": 0}


@pytest.mark.fault(39)
async def test_other_writers_get_their_turn_while_a_large_journal_is_pruned(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database:
        _fill(database, 20, 1000)
        _fill(database, 40, 1, large=True)
    writes = 0

    async with opened(SqliteStore(path)) as pruner, opened(SqliteStore(path)) as writer:
        pruning_it = asyncio.create_task(pruner.prune(before=6))
        while not pruning_it.done():
            store = (pruner, writer)[writes % 2]
            appending = asyncio.create_task(store.append(run_stream("r1"), [entry("note", text=["n", writes])]))
            await asyncio.wait_for(appending, 5)
            writes += 1
        assert writes > 20
        assert (await pruning_it).entries >= 20 * 1002
        records = await read(writer, "r1")
        assert [record.entry.content["text"] for record in records] == [["n", n] for n in range(writes)]
        assert verify(records) is None


def _all(database: Database, run: str) -> list[object]:
    page = database.page(run_stream(run), after=0, limit=1000, whole=True)
    assert verify(page) is None
    return [record.entry.content["text"] for record in page]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("erase", [False, True])
def test_what_an_append_names_while_it_is_swept_stays(erase: bool, tmp_path: Path) -> None:
    document = Document({"text": LARGE})
    steps = 0
    for steps in itertools.count(1):
        with closing(Database(tmp_path / str(steps) / "journal.db")) as one, closing(Database(one.path)) as other:
            one.append(run_stream("old"), prepare([entry("note", text=[document]), entry("result", 5)]))
            other.append(run_stream("r1"), prepare([entry("note", text=["first"])]))
            pieces = one.prune(Wanted(before=6, erase=erase))
            done = len(list(itertools.islice(pieces, steps)))
            other.append(run_stream("r1"), prepare([entry("note", text=[document])]))
            for _ in pieces:
                pass
            assert _all(other, "r1") == [["first"], [{"text": LARGE}]], steps
        if done < steps:
            break
    assert steps > 8


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.fault(47)
@pytest.mark.parametrize("erase", [False, True])
def test_a_pruning_that_is_stopped_anywhere_is_finished_by_the_next(erase: bool, tmp_path: Path) -> None:
    shared = Document({"text": LARGE})
    steps = 0
    for steps in itertools.count(1):
        path = tmp_path / str(steps) / "journal.db"
        with closing(Database(path)) as database:
            database.append(run_stream("stays"), prepare([entry("note", text=[shared])]))
            _fill(database, 3, 2, large=True)
            database.append(run_stream("old9"), prepare([entry("note", text=[shared]), entry("result", 5)]))
            done = len(list(itertools.islice(database.prune(Wanted(before=6, erase=erase)), steps)))
        with closing(Database(path)) as database, _other(path) as other:
            for summary in database.streams("run", None):
                page = database.page(summary.stream, after=0, limit=100, whole=True)
                blank = [record.erased for record in page]
                assert not any(blank) or (page[-1].entry.kind, summary.erased) == ("erased", True), (steps, summary)
                assert verify(page) is None, (steps, summary)
                assert page[-1].sequence == database.head(summary.stream).sequence
            for _ in database.prune(Wanted(before=6, erase=erase)):
                pass
            assert _all(database, "stays") == [[{"text": LARGE}]]
            left = {"streams": 5 if erase else 1, "entries": 19 if erase else 1, "kept": 2}
            assert _leave(other) == left | {"pruned": 0, "sweep": 0, "renewed": 0}, steps
        if done < steps:
            break
    assert steps > 8


@pytest.mark.usefixtures("small_pieces")
def test_of_two_prunings_at_a_time_the_later_sweeps_and_nothing_that_is_named_goes(tmp_path: Path) -> None:
    document = Document({"text": LARGE})
    for first, second in itertools.product(range(1, 20, 2), range(1, 20, 2)):
        path = tmp_path / f"{first}-{second}" / "journal.db"
        with closing(Database(path)) as one, closing(Database(path)) as two:
            one.append(run_stream("stays"), prepare([entry("note", text=["none"])]))
            _fill(one, 2, 1, large=True)
            one.append(run_stream("old9"), prepare([entry("note", text=[document]), entry("result", 5)]))
            earlier, later = one.prune(Wanted(before=6)), two.prune(Wanted(before=6))
            list(itertools.islice(earlier, first))
            list(itertools.islice(later, second))
            one.append(run_stream("stays"), prepare([entry("note", text=[document])]))
            for _ in itertools.chain(earlier, later):
                pass
            assert _all(two, "stays") == [["none"], [{"text": LARGE}]]
            with _other(path) as other:
                left = _leave(other)
            assert left == left | {"streams": 1, "entries": 2, "pruned": 0, "sweep": 0, "renewed": 0}


@pytest.mark.usefixtures("small_pieces")
def test_what_the_earlier_of_two_prunings_left_is_found_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as one, closing(Database(path)) as two:
        _fill(one, 3, 2)
        earlier = one.prune(Wanted(before=6))
        next(earlier)
        assert sum(two.prune(Wanted(before=0)), Pruned()).entries == 4
        next(earlier)
        earlier.close()
        assert sum(two.prune(Wanted(before=0)), Pruned()).entries == 4
        with _other(path) as other:
            left = _leave(other)
        assert left == left | {"streams": 1, "entries": 4, "pruned": 0, "sweep": 0, "renewed": 0}


@pytest.mark.usefixtures("small_pieces")
def test_two_prunings_over_one_connection_do_not_disturb_each_other(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        document = Document({"text": LARGE})
        database.append(run_stream("stays"), prepare([entry("note", text=[document])]))
        _fill(database, 3, 1, large=True)
        would, does = database.prune(Wanted(before=6, dry=True)), database.prune(Wanted(before=6))
        assert next(would).runs == 1
        for _ in itertools.chain(does, would):
            pass
        assert _all(database, "stays") == [[{"text": LARGE}]]


@pytest.mark.timed
def test_finding_what_is_named_holds_a_piece_and_not_the_journal(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _fill(database, 5, 1, large=True)
        for number in range(30):
            texts = [Document({"n": number, "m": m, "text": LARGE * 5}) for m in range(10)]
            database.append(run_stream("stays"), prepare([entry("note", text=texts, more=["y" * 60_000] * 10)]))
        tracemalloc.start()
        for _ in database.prune(Wanted(before=6)):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12_000_000
        assert database.head(run_stream("stays")).sequence == 30


def test_candidates_are_read_once_and_what_was_erased_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    secret = "hunter2" * 3
    with closing(Database(path)) as database, _other(path) as other:
        notes = [entry("note", text=[secret, "x" * 3000]), entry("note", text=Document({secret: LARGE}))]
        database.append(run_stream("old"), prepare([entry("run"), *notes, entry("result", 5)]))
        database.checkpoint()
        assert secret.encode() in path.read_bytes()
        for _ in database.prune(Wanted(before=6, erase=True)):
            pass
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert secret.encode() not in path.read_bytes()
        plan = [
            row[-1] for row in other.execute(f"EXPLAIN QUERY PLAN {ENDED} ORDER BY number", {"before": 1, "after": 1})
        ]
        assert plan[0] == "SEARCH streams USING INTEGER PRIMARY KEY (rowid>?)"
        assert not [step for step in plan if "TEMP B-TREE" in step]


@pytest.mark.parametrize("erase", [False, True])
def test_nothing_is_left_of_what_a_run_asked(erase: bool, tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database, closing(Database(database.path)) as other:
        asks = [asking(request("a")), asking(request("b")), entry("result", 5, status="failed")]
        database.append(run_stream("r1"), prepare(asks))
        database.append(run_stream("r2"), prepare([asking(request("c", "r2"))]))
        assert sum(other.prune(Wanted(before=6, erase=erase)), Pruned()).runs == 1
        with _other(database.path) as connection:
            assert connection.execute("SELECT id FROM approvals").fetchall() == [("c",)]


def test_pruning_is_told_of_a_file_that_was_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database:
        _fill(database, 3, 2, large=True)
        pieces = database.prune(Wanted(before=6))
        next(pieces)
        path.rename(tmp_path / "gone.db")
        with pytest.raises(JournalError, match="it was not pruned to the end") as caught:
            next(pieces)
        assert caught.value.trouble == "removed"


async def test_what_was_chained_under_a_key_is_erased_with_that_key_only(tmp_path: Path) -> None:
    path, key = tmp_path / "journal.db", b"a key of thirty-two characters.."
    for name, its in (("plain", None), ("keyed", key), ("old", b"another key")):
        async with opened(SqliteStore(path, key=its)) as store:
            await ended(store, name, at=5)
    for its, left, erased in ((None, 2, ["plain"]), (b"a third key", 2, []), (key, 1, ["keyed"])):
        async with opened(SqliteStore(path, key=its)) as store:
            before = {one.stream.id for one in await store.streams() if one.erased}
            would = await store.prune(before=6, erase=True, dry=True)
            done = await store.prune(before=6, erase=True)
            assert (done.runs, done.entries, done.left) == (len(erased), 3 * len(erased), left)
            assert would == done
            after = {one.stream.id for one in await store.streams() if one.erased}
            assert sorted(after - before) == erased
    async with opened(SqliteStore(path, key=key)) as store:
        records = await read(store, "keyed")
        assert (verify(records, key=key), len(records)) == (None, 4)
        done = await store.prune(before=6)
        assert (done.runs, done.entries, done.left) == (3, 11, 0)


def test_a_run_that_goes_on_before_it_has_its_turn_is_not_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.journal.pruning.PIECE_ROWS", 1)
    path, claims = tmp_path / "journal.db", [entry("resumed", 7, process={"pid": 1}, host="here")]
    with closing(Database(path)) as database, closing(Database(path)) as other, _other(path) as connection:
        _fill(database, 2, 2)
        for _ in database.prune(Wanted(before=6, erase=True)):
            is_done = connection.execute("SELECT erased = 2 FROM streams WHERE id = 'old0'").fetchone() == (1,)
            if is_done and claims:
                other.append(run_stream("old1"), prepare([claims.pop()]))
        assert {one.stream.id: one.erased for one in database.streams("run", None)} == {"old0": True, "old1": False}
        assert not any(record.erased for record in database.page(run_stream("old1"), after=0, limit=9, whole=True))


@pytest.mark.usefixtures("small_pieces")
async def test_what_a_pruning_has_begun_to_erase_verifies_wherever_it_stops(tmp_path: Path) -> None:
    for steps in range(1, 20):
        path = tmp_path / str(steps) / "journal.db"
        async with opened(SqliteStore(path)) as store:
            await suspended(store, request("q1"), request("q2"))
            await store.decide(decision("q1", kind="reject"))
            await store.append(run_stream("r1"), [entry("result", 5, status="blocked")])
        with closing(Database(path)) as database:
            list(itertools.islice(database.prune(Wanted(before=6, erase=True)), steps))
        async with opened(SqliteStore(path)) as store:
            found = await verified(store, run_stream("r1"))
            assert (found.fault, found.entries) == (None, 7), steps
            await store.prune(before=6, erase=True)
            found = await verified(store, run_stream("r1"))
            assert (found.fault, found.entries, found.erased) == (None, 7, 6), steps
