import asyncio
import errno
import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from tests.outside import flat_memory, leaves_nothing, one_of_three, steady_loop

from tenter.journal.database import Database
from tenter.journal.entry import Entry, Recorded, Stream, verify
from tenter.journal.log_sync import LogSync
from tenter.journal.sealed import prepare
from tenter.journal.sqlite import LARGE_LOG, SqliteStore
from tenter.journal.store import JournalError
from tenter.journal.tail import Tail
from tenter.wire.canonical import Document

RUN = Stream("run", "r1")
KEY = b"a key of thirty-two characters.."

WRITE_AND_END = """
import asyncio, sys
from pathlib import Path
from tenter.journal import Entry, SqliteStore, Stream
entry = Entry(kind="note", time=1, content={})
asyncio.run(SqliteStore(Path(sys.argv[1])).append(Stream("run", "r1"), [entry], durable=True))
"""


def note(text: object) -> Entry:
    return Entry(kind="note", time=1, content={"text": text})


@asynccontextmanager
async def opened(path: Path, key: bytes | None = None) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path, key=key)
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def locked(path: Path) -> Generator[sqlite3.Connection]:
    """Within it another connection holds the journal's lock."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


async def read(store: SqliteStore) -> list[Recorded]:
    return [recorded async for recorded in store.read(RUN)]


async def test_what_another_process_appended_is_seen_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as one, opened(path) as other:
        for number in range(20):
            store = (one, other)[number % 2]
            head = await store.append(RUN, [note(number)], durable=number % 3 == 0)
            assert head.sequence == number + 1
        assert await read(one) == await read(other)


async def test_looking_creates_no_file_and_an_append_does(tmp_path: Path) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    async with opened(path) as store:
        assert await store.streams() == ()
        assert await store.request("r1", "a") is None
        assert await read(store) == []
        assert (await store.head(RUN)).sequence == 0
        assert list(tmp_path.iterdir()) == []
        await store.append(RUN, [note("x")])
        assert len(await read(store)) == 1
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


async def test_a_store_leaves_no_thread_and_no_open_file(tmp_path: Path) -> None:
    async with leaves_nothing():
        async with opened(tmp_path / "journal.db") as store:
            await store.append(RUN, [note("x")])
            await read(store)
        assert "tenter-journal" not in [thread.name for thread in threading.enumerate()]
        unused = SqliteStore(tmp_path / "journal.db")
        await unused.close()
        gc.collect()


def test_a_store_that_nobody_closed_does_not_keep_the_process(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITE_AND_END, str(tmp_path / "journal.db")], check=True, timeout=20)


@pytest.mark.timed
async def test_a_large_message_is_written_without_holding_up_the_loop(tmp_path: Path) -> None:
    message = Document({"role": "tool", "text": "x" * 50_000_000})

    async def attempt() -> None:
        async with opened(tmp_path / os.urandom(4).hex() / "journal.db") as store:
            await store.append(RUN, [note("opens it")])
            async with steady_loop():
                head = await store.append(RUN, [note(message)])
            assert head.sequence == 2

    await one_of_three(attempt)


async def test_a_small_append_needs_no_thread_once_the_file_is_open(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:
        await store.append(RUN, [note("opens it")])
        turns = list[int]()
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await store.append(RUN, [note("small")])
        assert turns == []
        await store.append(RUN, [note("durable")], durable=True)
        assert turns == [1]


async def test_beside_a_slow_fsync_the_thread_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path / "journal.db") as store:
        await store.append(RUN, [note("opens it")])
        monkeypatch.setattr(LogSync, "is_slow", True)
        turns = list[int]()
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await store.append(RUN, [note("small")])
        assert turns == [1]


@pytest.mark.timed
async def test_a_lock_of_another_process_is_waited_for_without_holding_up_the_loop(tmp_path: Path) -> None:
    async def attempt() -> None:
        path = tmp_path / "journal.db"
        async with opened(path) as store, steady_loop():
            before = (await store.append(RUN, [note("first")])).sequence
            with locked(path) as other:
                threading.Timer(0.3, other.rollback).start()
                heads = await asyncio.gather(
                    *(store.append(RUN, [note(number)], durable=number == 2) for number in range(5))
                )
        assert [head.sequence for head in heads] == list(range(before + 1, before + 6))

    await one_of_three(attempt)


async def test_a_lock_that_is_never_given_back_is_an_error_and_later_appends_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.journal.database.LOCK_SECONDS", 0.05)
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("first")])
        with locked(path):
            with pytest.raises(JournalError, match=r"journal\.db' .*another process held it") as caught:
                await store.append(RUN, [note("lost")])
            assert caught.value.trouble == "locked"
            assert len(await read(store)) == 1
        assert (await store.append(RUN, [note("second")])).sequence == 2


async def test_a_run_hears_that_its_journal_was_removed(tmp_path: Path) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("x")])
        shutil.rmtree(path.parent)
        for durable in (False, True):
            with pytest.raises(JournalError, match="removed or replaced while it was in use"):
                await store.append(RUN, [note("y")], durable=durable)
        assert (await store.append(Stream("run", "r2"), [note("z")])).sequence == 1


@pytest.mark.parametrize("gone", ["project", "project/.tenter"])
@pytest.mark.parametrize("durable", [False, True])
async def test_a_folder_that_vanished_is_not_made_anew(durable: bool, gone: str, tmp_path: Path) -> None:
    async with opened(tmp_path / "project" / ".tenter" / "journal.db") as store:
        await store.append(RUN, [note("x")])
        shutil.rmtree(tmp_path / gone)
        with pytest.raises(JournalError, match=r"the entries of run .* are gone"):
            await store.append(RUN, [note("y")], durable=durable)
        assert not (tmp_path / gone).exists()
        if gone == "project":
            with pytest.raises(JournalError, match="No such file or directory"):
                await store.append(Stream("run", "r2"), [note("z")], durable=durable)
            assert list(tmp_path.iterdir()) == []


async def test_a_close_that_is_cancelled_closes_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with leaves_nothing():
        store = SqliteStore(path)
        await store.append(RUN, [note("x")])
        with locked(path):
            waiting = asyncio.create_task(store.append(RUN, [note("y")]))
            await asyncio.wait([waiting], timeout=0.02)
            closing_it = asyncio.create_task(store.close())
            await asyncio.wait([closing_it], timeout=0.02)
            closing_it.cancel()
            await asyncio.wait([closing_it])
        assert (await asyncio.wait_for(waiting, 5)).sequence == 2


async def test_a_read_is_not_held_up_by_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("x")])
        with locked(path) as other:
            other.execute("DELETE FROM entries")
            assert len(await asyncio.wait_for(read(store), 2)) == 1


async def test_durable_appends_at_once_share_an_fsync_and_one_alone_asks_for_one(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:
        assert store.syncs == 0
        await store.append(RUN, [note("opens it")])
        assert store.syncs == 0
        await asyncio.gather(*(store.append(Stream("run", str(n)), [note(n)], durable=True) for n in range(50)))
        assert store.syncs == 1
        for number in range(5):
            await store.append(RUN, [note([number])], durable=True)
            await store.append(RUN, [note(number)])
        assert store.syncs == 6
        await store.append(RUN, [], durable=True)
        assert store.syncs == 6


async def test_runs_that_are_durable_at_every_step_share_fsyncs(tmp_path: Path) -> None:
    async def run(name: str) -> None:
        for number in range(50):
            await store.append(Stream("run", name), [note(number)])
            await store.append(Stream("run", name), [note([number])], durable=True)

    async with opened(tmp_path / "journal.db") as store:
        await store.append(RUN, [note("opens it")])
        await asyncio.wait_for(asyncio.gather(*(run(str(n)) for n in range(8))), 20)
        assert 50 <= store.syncs <= 400 / 4


async def test_an_entry_that_need_not_be_on_disk_does_not_wait_for_one_that_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait_for_the_disk(_: int) -> None:
        begun.set()
        assert go_on.wait(5)

    async with opened(tmp_path / "journal.db") as store:
        await store.append(RUN, [note("opens it")])
        monkeypatch.setattr("tenter.journal.log._fdatasync", wait_for_the_disk)
        durable = asyncio.create_task(store.append(RUN, [note(0)], durable=True))
        assert await asyncio.to_thread(begun.wait, 5)
        head = await asyncio.wait_for(store.append(RUN, [note(1)]), 5)
        assert head.sequence == 3
        assert [record.sequence for record in await asyncio.wait_for(read(store), 5)] == [1, 2, 3]
        assert not durable.done()
        go_on.set()
        assert (await asyncio.wait_for(durable, 5)).sequence == 2


async def test_what_the_disk_refuses_is_told_and_later_appends_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("opens it")])
        with monkeypatch.context() as patched:
            patched.setattr("tenter.journal.log._fdatasync", refuse)
            with pytest.raises(JournalError, match=r"Input/output error.*the operating system refused") as caught:
                await store.append(RUN, [note("lost or not")], durable=True)
            assert caught.value.trouble == "io"
        await store.head(RUN)  # the copy of the log that the failure asked for is before it
        assert (await store.append(RUN, [note("next")], durable=True)).sequence == 3
        assert verify(await read(store)) is None


async def test_a_durable_append_that_had_to_wait_for_a_lock_is_synced_once_too(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("first")])
        with locked(path) as other:
            tasks = [asyncio.create_task(store.append(RUN, [note(n)], durable=True)) for n in range(3)]
            await asyncio.wait(tasks, timeout=0.02)
            tasks[1].cancel()
            await asyncio.wait(tasks, timeout=0.02)
            other.rollback()
        await asyncio.wait(tasks, timeout=5)
        assert [task.cancelled() for task in tasks] == [False, True, False]
        assert [record.entry.content["text"] for record in await read(store)] == ["first", 0, 1, 2]
        assert 1 <= store.syncs <= 3


async def test_a_small_entry_that_has_to_wait_is_recorded_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("first")])
        entry = Entry(kind="note", time=1, content=(content := dict[str, object](text="given")))
        with locked(path):
            tasks = [asyncio.create_task(store.append(RUN, [one], durable=True)) for one in (note("before it"), entry)]
            await asyncio.wait(tasks, timeout=0.02)
            content["text"] = "changed since"
        await asyncio.wait(tasks, timeout=5)
        assert [record.entry.content["text"] for record in await read(store)] == ["first", "before it", "given"]


async def test_a_durable_append_returns_when_the_log_with_all_its_bytes_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[tuple[int, int]]()

    def fdatasync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((status.st_ino, status.st_size))

    monkeypatch.setattr("tenter.journal.log._fdatasync", fdatasync)
    async with opened(tmp_path / "journal.db") as store:
        for number in range(4):
            await store.append(RUN, [note(number), note("x" * 9_000 * number)], durable=True)
            status = (tmp_path / "journal.db-wal").stat()
            assert synced == [*synced[:number], (status.st_ino, status.st_size)]


async def test_closing_waits_for_what_has_to_be_on_disk(tmp_path: Path) -> None:
    async with leaves_nothing():
        store = SqliteStore(tmp_path / "journal.db")
        await store.append(RUN, [note("opens it")])
        durable = asyncio.create_task(store.append(RUN, [note("x")], durable=True))
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        await store.close()
        assert (await asyncio.wait_for(durable, 5)).sequence == 2


async def test_a_stream_goes_on_as_it_was_begun_and_takes_nothing_without_its_key(tmp_path: Path) -> None:
    path, keyed, plain = tmp_path / "journal.db", Stream("run", "keyed"), Stream("run", "plain")
    async with opened(path) as store:
        await store.append(plain, [note(1)])
    async with opened(path, KEY) as store:
        await store.append(plain, [note(2)])
        await store.append(keyed, [note(1)])
        assert [await store.key_of(stream) for stream in (plain, keyed, RUN)] == [None, KEY, KEY]
    for key in (None, b"another key of some length"):
        async with opened(path, key) as store:
            for durable in (False, True, False):
                with pytest.raises(JournalError, match="run 'keyed' was journaled under a key, ") as caught:
                    await store.append(keyed, [note("lost")], durable=durable)
                assert caught.value.trouble == "key"
            with pytest.raises(JournalError, match="set TENTER_JOURNAL_KEY to it"):
                await store.key_of(keyed)
            assert len([record async for record in store.read(keyed)]) == 1
            assert (await store.append(plain, [note(3)])).sequence >= 3
    async with opened(path, KEY) as store:
        assert (await store.append(keyed, [note(2)])).sequence == 2
        assert verify([record async for record in store.read(keyed)], key=KEY) is None
        assert verify([record async for record in store.read(plain)]) is None


async def test_the_number_of_a_stream_that_was_not_begun_tells_nothing_of_the_key_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as plain, opened(path, KEY) as keyed:
        await plain.append(Stream("run", "first"), [note(1)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("CREATE TRIGGER no BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'no'); END")
            with pytest.raises(JournalError):
                await plain.append(Stream("run", "second"), [note("lost")])
            other.execute("DROP TRIGGER no")
        await keyed.append(RUN, [note(1)])
        with pytest.raises(JournalError, match="was journaled under a key") as caught:
            await plain.append(RUN, [note("refused")])
        assert caught.value.trouble == "key"
        assert verify(await read(keyed), key=KEY) is None


async def test_an_append_that_nobody_waits_for_any_more_is_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("first")])
        with locked(path):
            tasks = [asyncio.create_task(store.append(RUN, [note(number)])) for number in range(3)]
            await asyncio.wait(tasks, timeout=0.02)
            tasks[1].cancel()
            await asyncio.wait(tasks, timeout=0.02)
        await asyncio.wait(tasks, timeout=5)
        assert [task.cancelled() for task in tasks] == [False, True, False]
        texts = [record.entry.content["text"] for record in await read(store)]
        assert texts == ["first", 0, 1, 2]


@pytest.mark.timed
async def test_a_long_journal_does_not_grow_its_log_for_ever_nor_hold_up_the_loop(tmp_path: Path) -> None:
    async def attempt() -> None:
        folder = tmp_path / os.urandom(4).hex()
        async with opened(folder / "journal.db") as store, steady_loop():
            for number in range(600):
                await store.append(RUN, [note("x" * 50_000)])
                if number % 50 == 0:
                    await store.head(RUN)
            assert (folder / "journal.db-wal").stat().st_size < 5 * LARGE_LOG

    await one_of_three(attempt)


def test_a_store_serves_several_event_loops_one_after_the_other_and_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")

    async def append() -> None:
        for number in range(50):
            await store.append(RUN, [note(number)], durable=number % 10 == 0)

    threads = [threading.Thread(target=asyncio.run, args=(append(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    records = asyncio.run(read(store))
    asyncio.run(store.close())
    assert len(records) == 200
    assert verify(records) is None


@pytest.mark.timed
@pytest.mark.fault(41)
async def test_replaying_a_long_stream_takes_the_memory_of_a_page(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as store:
        for number in range(1500):
            await store.append(RUN, [note(str(number) + "x" * 60_000)])
        async with flat_memory(40_000_000):
            count = 0
            async for _ in store.read(RUN):
                count += 1
        assert count == 1500


async def test_10000_runs_are_listed_without_reading_their_entries(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database:
        for number in range(10_000):
            begin = prepare([Entry(kind="run", time=number, content={"task": "fix", "input": "x" * 500})])
            database.append(Stream("run", str(number)), begin)
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE entries")
    async with opened(path) as store:
        runs = await store.streams("run")
        assert [run.started for run in runs] == list(range(9_999, -1, -1))


async def test_what_was_dropped_when_it_was_opened_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "live" / "journal.db"
    async with opened(path) as store:
        await store.append(RUN, [note("x")])
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await store.append(RUN, [note("y")])
        assert store.dropped is None
        shutil.copytree(path.parent, tmp_path / "left", ignore=shutil.ignore_patterns("*-shm"))
    with (tmp_path / "left" / "journal.db-wal").open("ab") as log:
        log.write(bytes(100))
    async with opened(tmp_path / "left" / "journal.db") as store:
        assert len(await read(store)) == 2
        assert store.dropped == Tail(bytes=100, zeros=True)


def _old_journals() -> Iterator[Path]:
    return (Path(__file__).parent / "samples").glob("journal_*.db")


async def test_a_journal_of_every_old_version_is_read(tmp_path: Path) -> None:
    samples = sorted(_old_journals())
    assert [sample.name for sample in samples] == ["journal_1.db"]
    for sample in samples:
        path = Path(shutil.copy(sample, tmp_path / sample.name))
        async with opened(path) as store:
            records = await read(store)
            assert verify(records) is None
            assert [record.entry.kind for record in records] == ["run", "started", "finished", "result"]
            assert records[1].entry.content["message"] == {"role": "user", "text": "fix it"}
            assert records[2].entry.content["output"] == "x" * 70_000
            (run,) = await store.streams("run")
            assert (run.name, run.status, run.started, run.ended) == ("fix", "completed", 1, 4)
