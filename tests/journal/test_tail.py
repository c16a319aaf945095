import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenter.journal.tail import Tail, dropped_tail

PAGE, FRAME = 4096, 4096 + 24


def _log(folder: Path, commits: int) -> Path:
    """A copy of the log of a database that took so many commits of one frame each, after one of two."""
    with closing(sqlite3.connect(folder / "x.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (n)")
        for number in range(commits):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        shutil.copy(folder / "x.db-wal", folder / "log")
    return folder / "log"


def test_a_whole_log_has_dropped_nothing(tmp_path: Path) -> None:
    log = _log(tmp_path, 3)
    assert log.stat().st_size == 32 + 5 * FRAME
    assert dropped_tail(log, 5) is None


def test_no_log_has_dropped_nothing(tmp_path: Path) -> None:
    assert dropped_tail(tmp_path / "none", 0) is None
    (tmp_path / "empty").touch()
    assert dropped_tail(tmp_path / "empty", 0) is None


@pytest.mark.fault(36)
@pytest.mark.parametrize("left", [1, 7, 8, 12, 16, 23, 24, 25, FRAME - 1])
def test_a_frame_that_was_cut_is_found(tmp_path: Path, left: int) -> None:
    log = _log(tmp_path, 3)
    log.write_bytes(log.read_bytes()[: 32 + 4 * FRAME + left])
    tail = dropped_tail(log, 4)
    assert tail is not None
    assert tail.bytes == left


@pytest.mark.fault(36)
@pytest.mark.parametrize("zeros", [1, 24, FRAME, 3 * FRAME + 5])
def test_zeros_after_the_last_frame_are_found(tmp_path: Path, zeros: int) -> None:
    log = _log(tmp_path, 3)
    log.write_bytes(log.read_bytes() + bytes(zeros))
    assert dropped_tail(log, 5) == Tail(bytes=zeros, zeros=True)


@pytest.mark.parametrize("size", [5, 32, 5000])
def test_a_log_of_zeros_is_found(tmp_path: Path, size: int) -> None:
    log = tmp_path / "log"
    log.write_bytes(bytes(size))
    assert dropped_tail(log, 0) == Tail(bytes=size, zeros=True)


def test_frames_of_an_earlier_round_are_nothing(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (n)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 5000,)] * 10)
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        connection.execute("INSERT INTO t VALUES (1)")
        busy, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert (tmp_path / "x.db-wal").stat().st_size > 32 + frames * FRAME
        assert (busy, dropped_tail(tmp_path / "x.db-wal", frames)) == (0, None)


def test_a_round_that_has_begun_without_a_frame_is_nothing_but_a_damaged_first_frame_is(tmp_path: Path) -> None:
    log = _log(tmp_path, 3)
    assert dropped_tail(log, 0) is None
    data = bytearray(log.read_bytes())
    data[32 + 24 + 100] ^= 1
    log.write_bytes(data)
    assert dropped_tail(log, 0) == Tail(bytes=5 * FRAME, zeros=False)
