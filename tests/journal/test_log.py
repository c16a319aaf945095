"""A log that was removed, emptied or overwritten under a running process is noticed by the next durable append."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tenter.journal import Entry, JournalError, SqliteStore, Stream
from tenter.journal.log import checked_log, look_at_log

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


def test_a_log_is_what_became_of_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    assert look_at_log(path) is None
    log_of(path).write_bytes(b"")
    seen = look_at_log(path)
    assert seen is not None
    assert checked_log(path, seen) == seen
