import resource
import shutil
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tenter.journal.database import JOURNAL, Database
from tenter.journal.entry import Entry, Recorded, Stream, genesis, verify
from tenter.journal.sealed import prepare
from tenter.journal.store import JournalError
from tenter.journal.tail import Tail
from tenter.wire.canonical import LARGE_TEXT, Document

RUN = Stream("run", "r1")
FRAME = 4096 + 24


def _append(database: Database, *texts: object, stream: Stream = RUN, durable: bool = False) -> int:
    entries = [Entry(kind="note", time=1, content={"text": text}) for text in texts]
    return database.append(stream, prepare(entries), durable=durable).sequence


def _read(database: Database, stream: Stream = RUN) -> list[Recorded]:
    return list(database.page(stream, after=0, limit=10_000, whole=True))


def _texts(database: Database, stream: Stream = RUN) -> list[object]:
    return [record.entry.content["text"] for record in _read(database, stream)]


def _codes(database: Database) -> list[object]:
    return [record.entry.content["code"] for record in _read(database, JOURNAL)]


def _crashed(folder: Path, appends: int) -> tuple[Path, list[int]]:
    """The files of a journal whose process stopped, and the log's size after each append of one entry."""
    live, left = folder / "live" / "journal.db", folder / "left" / "journal.db"
    sizes: list[int] = []
    with closing(Database(live)) as database:
        for number in range(appends):
            _append(database, number)
            sizes.append((live.parent / "journal.db-wal").stat().st_size)
        left.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{live}{suffix}", f"{left}{suffix}")
    return left, sizes


@contextmanager
def _opened(files: Path, folder: Path, log: bytes) -> Iterator[Database]:
    """The journal of `files`, with `log` for its write-ahead log, opened by a new process."""
    folder.mkdir(exist_ok=True)
    shutil.copy(files, folder / "journal.db")
    (folder / "journal.db-wal").write_bytes(log)
    with closing(Database(folder / "journal.db", now=lambda: 7.0)) as database:
        yield database


@pytest.mark.fault(35)
def test_a_log_cut_at_any_byte_of_the_last_three_records_holds_exactly_the_whole_ones(tmp_path: Path) -> None:
    files, sizes = _crashed(tmp_path, 6)
    log = files.with_name("journal.db-wal").read_bytes()
    assert [after - before for before, after in zip(sizes[2:], sizes[3:], strict=False)] == [FRAME] * 3
    for end in range(sizes[2], sizes[5] + 1):
        with _opened(files, tmp_path / "cut", log[:end]) as database:
            records = _read(database)
        whole = sum(size <= end for size in sizes)
        assert [record.entry.content["text"] for record in records] == list(range(whole)), end
        assert verify(records) is None
        assert (database.dropped is None) == (end in sizes), end


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("tail", "dropped"),
    [
        (lambda log: log[: -FRAME // 2], Tail(bytes=FRAME // 2, zeros=False)),
        (lambda log: log + bytes(10_000), Tail(bytes=10_000, zeros=True)),
        (lambda log: log[:-FRAME] + bytes(FRAME), Tail(bytes=FRAME, zeros=True)),
        (lambda log: log[:-2000] + bytes(2000), Tail(bytes=FRAME, zeros=False)),
    ],
)  # fmt: skip
def test_a_torn_tail_is_reported_once_and_appending_goes_on(tmp_path: Path, tail: "object", dropped: Tail) -> None:
    assert callable(tail)
    files, _ = _crashed(tmp_path, 4)
    log = tail(files.with_name("journal.db-wal").read_bytes())
    whole = [0, 1, 2, 3] if dropped.bytes == 10_000 else [0, 1, 2]
    with _opened(files, tmp_path / "torn", log) as database:
        assert _texts(database) == whole
        assert database.dropped == dropped
        assert _append(database, "next") == len(whole) + 1
    with closing(Database(tmp_path / "torn" / "journal.db")) as database:
        assert _texts(database) == [*whole, "next"]
        assert verify(_read(database)) is None
        assert database.dropped is None
        (note,) = _read(database, JOURNAL)
        assert note.entry == Entry(
            kind="note",
            time=7_000_000,
            content={"code": "journal_tail_dropped", "bytes": dropped.bytes, "zeros": dropped.zeros},
        )


@pytest.mark.fault(36)
def test_a_torn_tail_is_reported_once_also_when_the_next_process_is_killed(tmp_path: Path) -> None:
    files, _ = _crashed(tmp_path, 4)
    log = files.with_name("journal.db-wal").read_bytes() + bytes(50_000)
    with _opened(files, tmp_path / "torn", log) as database:
        assert database.dropped == Tail(bytes=50_000, zeros=True)
        after = (tmp_path / "torn" / "journal.db-wal").read_bytes()
        shutil.copy(tmp_path / "torn" / "journal.db", files)
    with _opened(files, tmp_path / "again", after) as database:
        assert database.dropped is None
        assert _codes(database) == ["journal_tail_dropped"]


def test_a_second_process_that_opens_a_busy_journal_reports_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as first:
        for number in range(50):
            _append(first, number)
            if number % 10 == 5:
                first.checkpoint()
            with closing(Database(path)) as second:
                assert len(_texts(second)) == number + 1
                assert second.dropped is None
        assert _codes(first) == []


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:8192] + bytes(len(data) - 8192)]
)
def test_a_damaged_database_is_told_after_the_entries_before_the_damage(tmp_path: Path, damage: "object") -> None:
    assert callable(damage)
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database:
        for number in range(50):
            _append(database, "x" * 2000 + str(number))
    path.write_bytes(damage(path.read_bytes()))
    with closing(Database(path)) as database:
        seen = 0
        with pytest.raises(JournalError, match="the file is damaged; move it away") as caught:
            while page := database.page(RUN, after=seen, limit=10, whole=True):
                assert [record.sequence for record in page] == list(range(seen + 1, seen + len(page) + 1))
                seen += len(page)
        assert caught.value.trouble == "damaged"
        assert seen < 50


@pytest.mark.fault(38)
def test_an_append_over_the_file_size_limit_is_refused_whole_and_works_again_with_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(Database(tmp_path / "journal.db")) as database:
        acknowledged = 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            with pytest.raises(JournalError, match=r"check the disk, the folder and the file size limit") as caught:
                for number in range(100):
                    _append(database, number, "x" * 3000, durable=number % 2 == 0)
                    acknowledged += 2
            with pytest.raises(JournalError):
                _append(database, "y" * 3000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.trouble == "io"
        assert 0 < acknowledged < 200
        assert len(_read(database)) == acknowledged
        assert _append(database, "room") == acknowledged + 1
        assert verify(_read(database)) is None


@pytest.mark.fault(41)
def test_reading_holds_a_page_and_not_the_stream(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        for _ in range(12):
            _append(database, "x" * 5_000_000)
        for _ in range(12):
            _append(database, ["y" * 60_000] * 50)
        tracemalloc.start()
        seen = 0
        while page := database.page(RUN, after=seen, limit=1000, whole=True):
            assert len(page) <= 2
            seen = page[-1].sequence
        whole = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert len(database.page(RUN, after=0, limit=12, whole=False)) == 12
        without = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == 24
        assert whole < 40_000_000
        assert without < 30_000_000


def test_a_message_named_by_many_entries_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    message = Document({"role": "tool", "text": "x" * LARGE_TEXT * 4})
    with closing(Database(path)) as database:
        for _ in range(100):
            _append(database, [message])
        assert len(_texts(database)) == 100
    assert path.stat().st_size < LARGE_TEXT * 8


def test_an_append_writes_one_page(tmp_path: Path) -> None:
    _, sizes = _crashed(tmp_path, 20)
    assert {after - before for before, after in zip(sizes[1:], sizes[2:], strict=False)} == {FRAME}


def test_what_an_entry_names_and_is_missing_is_damage(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, "x", Document({"a": 1}))
        with closing(sqlite3.connect(tmp_path / "journal.db")) as other:
            other.execute("DELETE FROM kept")
            other.commit()
        assert len(database.page(RUN, after=0, limit=9, whole=True)) == 1
        with pytest.raises(JournalError, match=r"'sha256:\w+', which an entry names, is missing") as caught:
            database.page(RUN, after=1, limit=9, whole=True)
        assert caught.value.trouble == "damaged"


def test_erased_content_leaves_the_chain_whole(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, 1, 2, 3)
        with closing(sqlite3.connect(tmp_path / "journal.db")) as other:
            other.execute("UPDATE entries SET content = NULL WHERE id % 4294967296 = 2")
            other.commit()
        records = _read(database)
        assert [record.erased for record in records] == [False, True, False]
        assert verify(records) is None


@pytest.mark.parametrize("replaced", [True, False])
def test_a_journal_that_was_removed_while_in_use_is_told_and_begun_anew(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    with closing(Database(path)) as database:
        _append(database, "lost")
        shutil.rmtree(path.parent)
        if replaced:
            with closing(Database(path)) as other:
                _append(other, "theirs", durable=True)
        with pytest.raises(JournalError, match="it was removed or replaced while it was in use") as caught:
            _append(database, "x")
        assert caught.value.trouble == "removed"
        assert _texts(database) == (["theirs"] if replaced else [])
        assert _append(database, "y") == (2 if replaced else 1)


def test_a_look_creates_nothing(tmp_path: Path) -> None:
    with closing(Database(tmp_path / ".tenter" / "journal.db")) as database:
        with database.patience(create=False):
            assert database.head(RUN) == genesis(RUN)
            assert list(database.streams(None, None)) == []
            assert _read(database) == []
        assert not database.is_open
    assert list(tmp_path.iterdir()) == []


def test_a_locked_journal_is_refused_at_once_without_patience_and_after_it_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.journal.database.LOCK_SECONDS", 0.05)
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database, closing(sqlite3.connect(path)) as other:
        _append(database, "x")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="another process held it") as caught:
            _append(database, "y")
        assert caught.value.trouble == "locked"
        with pytest.raises(JournalError, match="another process held it"), database.patience(create=True):
            _append(database, "y")
        assert _texts(database) == ["x"]
        other.rollback()
        assert _append(database, "z") == 2


def test_a_durable_append_is_synced_and_another_is_not(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        levels: list[int] = []
        for durable in (True, False, True):
            _append(database, "x", durable=durable)
            levels.append(database.synchronous)
        assert levels == [2, 1, 2]


def test_copying_the_log_lets_it_be_written_anew(tmp_path: Path) -> None:
    log = tmp_path / "journal.db-wal"
    with closing(Database(tmp_path / "journal.db")) as database:
        for _ in range(5):
            for number in range(200):
                _append(database, f"{number}" * 100)
            database.checkpoint()
            assert database.uncopied == 0
        assert log.stat().st_size < 250 * FRAME
        assert len(_read(database)) == 1000
