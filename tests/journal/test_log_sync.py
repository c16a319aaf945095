import asyncio
import errno
import os
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.outside import comes_true, leaves_nothing

from tenter.journal import log as log_module
from tenter.journal.log import Log, look_at_log
from tenter.journal.log_sync import LogSync
from tenter.journal.store import JournalError


@asynccontextmanager
async def syncing(path: Path) -> AsyncGenerator[tuple[LogSync, sqlite3.Connection, Log]]:
    """The syncs of a journal, whose log has a frame, its connection and the log as seen now."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        log, sync = look_at_log(path), LogSync(path)
        assert log is not None
        try:
            yield sync, connection, log
        finally:
            sync.close()


class Disk:
    """Stands in for fdatasync: counts, waits until it is let go on, and fails when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.error: OSError | None = None
        monkeypatch.setattr(log_module, "_fdatasync", self)

    def __call__(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.begun.release()
        assert self.go_on.acquire(timeout=5)
        if self.error:
            raise self.error


async def begun(disk: Disk) -> None:
    assert await asyncio.to_thread(disk.begun.acquire, timeout=5)


async def test_all_who_wait_when_an_fsync_begins_share_it(tmp_path: Path) -> None:
    async with syncing(tmp_path / "journal.db") as (sync, _, log):
        await asyncio.wait_for(asyncio.gather(*(sync.wait(log) for _ in range(100))), 5)
        assert sync.syncs == 1
        await asyncio.wait_for(sync.wait(log), 5)
        assert sync.syncs == 2


async def test_those_who_come_while_one_fsync_runs_share_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    async with syncing(tmp_path / "journal.db") as (sync, _, log):
        first = asyncio.create_task(sync.wait(log))
        await begun(disk)
        later = [asyncio.create_task(sync.wait(log)) for _ in range(5)]
        asked = await asyncio.to_thread(sync.ask, log)
        done, _ = await asyncio.wait(later, timeout=0.02)
        assert not done
        disk.go_on.release()
        await asyncio.wait_for(first, 5)
        await begun(disk)
        assert not any(task.done() for task in later)
        disk.go_on.release()
        await asyncio.wait_for(asyncio.gather(*later, asyncio.wrap_future(asked)), 5)
        assert sync.syncs == 2


async def test_an_fsync_that_takes_long_is_told_while_it_runs_and_the_next_is_taken_for_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    async with syncing(tmp_path / "journal.db") as (sync, _, log):
        assert not sync.is_slow
        first = asyncio.create_task(sync.wait(log))
        assert await comes_true(lambda: sync.is_slow)
        disk.go_on.release()
        await asyncio.wait_for(first, 5)
        assert not sync.is_slow
        await begun(disk)
        second = asyncio.create_task(sync.wait(log))
        await begun(disk)
        assert sync.is_slow
        disk.go_on.release()
        await asyncio.wait_for(second, 5)


async def test_one_who_is_cancelled_takes_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    async with syncing(tmp_path / "journal.db") as (sync, _, log):
        tasks = [asyncio.create_task(sync.wait(log)) for _ in range(3)]
        await begun(disk)
        tasks[0].cancel()
        disk.go_on.release()
        await asyncio.wait(tasks, timeout=5)
        assert [task.cancelled() for task in tasks] == [True, False, False]
        assert sync.syncs == 1


def _removed(log: Path) -> None:
    log.unlink()


def _overwritten(log: Path) -> None:
    log.write_bytes(bytes(10_000))


@pytest.mark.parametrize(("harm", "trouble"), [(_removed, "removed"), (_overwritten, "damaged")])
async def test_a_log_that_is_not_the_one_that_was_seen_is_told(
    tmp_path: Path, harm: Callable[[Path], None], trouble: str
) -> None:
    path = tmp_path / "journal.db"
    async with syncing(path) as (sync, _, log):
        harm(path.with_name("journal.db-wal"))
        with pytest.raises(JournalError) as caught:
            await asyncio.wait_for(sync.wait(log), 5)
        assert caught.value.trouble == trouble
        path.with_name("journal.db-wal").unlink(missing_ok=True)  # closing would read what was written over it


async def test_a_disk_that_refused_is_told_to_each_and_the_log_is_trusted_only_when_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, path = Disk(monkeypatch), tmp_path / "journal.db"
    disk.go_on.release(10)
    async with syncing(path) as (sync, connection, log):
        disk.error = OSError(errno.ENOSPC, "No space left on device")
        answers = await asyncio.gather(*(sync.wait(log) for _ in range(3)), return_exceptions=True)
        assert [getattr(answer, "trouble", None) for answer in answers] == ["full"] * 3
        assert len(set(map(id, answers))) == 3
        disk.error = None
        with pytest.raises(JournalError, match="the disk did not take all of its write-ahead log"):
            await asyncio.wait_for(sync.wait(log), 5)
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        connection.execute("INSERT INTO t VALUES (1)")
        begun_anew = look_at_log(path)
        assert begun_anew is not None
        await asyncio.wait_for(sync.wait(begun_anew), 5)


async def test_closing_finishes_what_was_asked_for_and_leaves_no_thread(tmp_path: Path) -> None:
    async with leaves_nothing(), syncing(tmp_path / "journal.db") as (sync, _, log):
        asked = sync.ask(log)
        waiting = asyncio.create_task(sync.wait(log))
        asyncio.get_running_loop().call_soon(sync.close)  # in the round in which that begins to wait
        await asyncio.wait_for(waiting, 5)
        assert asked.result(timeout=5) is None
        with pytest.raises(JournalError, match=r"journal\.db' was closed before it was on disk") as caught:
            await asyncio.wait_for(sync.wait(log), 5)
        assert caught.value.trouble == "closed"


def test_a_loop_that_is_gone_is_nobody_to_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, path = Disk(monkeypatch), tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        log, sync = look_at_log(path), LogSync(path)
        assert log is not None
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(sync.wait(log), 0.02))
        disk.go_on.release(2)
        assert sync.ask(log).result(timeout=5) is None
        assert sync.syncs == 2
        sync.close()
