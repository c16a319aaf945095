"""A log that was removed, emptied or overwritten under a running process is noticed by the next durable append."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tenter.journal import Entry, JournalError, SqliteStore, Stream
from tenter.journal.log import checked_log, is_as_long, look_at_log

RUN = Stream("run", "r1")


def entry(number: int) -> Entry:
    return Entry(kind="step", time=number, content={"number": number, "text": "x" * 5000})


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def removed(log: Path) -> None:
    log.unlink()


def replaced(log: Path) -> None:
    copy = log.with_name("copy")
    copy.write_bytes(log.read_bytes())
    copy.replace(log)


def emptied(log: Path) -> None:
    os.truncate(log, 0)


def overwritten(log: Path) -> None:
    log.write_bytes(bytes(5000))


def cut_short(log: Path) -> None:
    os.truncate(log, 4096)


@pytest.mark.parametrize(
    ("harm", "trouble"),
    [
        (removed, "removed"),
        (replaced, "removed"),
        (emptied, "damaged"),
        (overwritten, "damaged"),
        (cut_short, "damaged"),
    ],
)
async def test_a_durable_append_notices_what_befell_the_log(
    tmp_path: Path, harm: Callable[[Path], None], trouble: str
) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    await store.append(RUN, [entry(1), entry(2)], durable=True)
    harm(log_of(path))
    with pytest.raises(JournalError) as caught:
        await store.append(RUN, [entry(3)], durable=True)
    assert caught.value.trouble == trouble
    assert "its write-ahead log" in str(caught.value)
    await store.close()


async def test_a_log_that_was_cut_is_noticed_before_the_next_append_fills_it_up_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    await store.append(RUN, [entry(number) for number in range(20)], durable=True)
    os.truncate(log_of(path), log_of(path).stat().st_size - 100)
    with pytest.raises(JournalError, match="was overwritten or cut short"):
        await store.append(RUN, [entry(21)], durable=True)
    await store.close()


async def test_a_log_that_another_process_copied_and_emptied_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    await store.append(RUN, [entry(1), entry(2), entry(3)], durable=True)
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    await store.append(RUN, [entry(4)], durable=True)
    assert other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
    head = await store.append(RUN, [entry(5)], durable=True)
    assert head.sequence == 5
    other.close()
    await store.close()


def test_a_glance_sees_a_log_that_grew_as_whole_and_one_that_shrank_or_is_another_as_not(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    log_of(path).write_bytes(bytes(100))
    seen = look_at_log(path)
    assert seen is not None
    assert is_as_long(path, seen)
    os.truncate(log_of(path), 200)
    assert is_as_long(path, seen)
    replaced(log_of(path))
    assert not is_as_long(path, seen)
    os.truncate(log_of(path), 99)
    again = look_at_log(path)
    assert again is not None
    assert not is_as_long(path, msgspec.structs.replace(again, size=100))
    log_of(path).unlink()
    assert not is_as_long(path, again)


def test_a_log_is_what_became_of_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    assert look_at_log(path) is None
    log_of(path).write_bytes(b"")
    seen = look_at_log(path)
    assert seen is not None
    assert checked_log(path, seen) == seen


EARLIER = Stream("run", "earlier")


@pytest.mark.fault(36)
@pytest.mark.parametrize("harm", [emptied, overwritten, cut_short])
@pytest.mark.parametrize("heard", [True, False])
async def test_of_a_damaged_log_nothing_is_copied_over_what_was_there_before(
    harm: Callable[[Path], None], heard: bool, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    await store.append(EARLIER, [entry(number) for number in range(100)], durable=True)
    await store.close()
    store = SqliteStore(path)
    for number in range(100):
        await store.append(RUN, [entry(number)], durable=True)
    harm(log_of(path))
    if heard:
        with pytest.raises(JournalError, match="was overwritten or cut short"):
            await store.append(RUN, [entry(101)], durable=True)
    await store.close()
    store = SqliteStore(path)
    assert [one.sequence async for one in store.read(EARLIER)] == list(range(1, 101))
    assert await store.unsound() == ""
    await store.close()
