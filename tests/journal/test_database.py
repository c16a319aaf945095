import resource
import shutil
import sqlite3
import tempfile
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tenter.journal.connection import connect
from tenter.journal.database import JOURNAL, Database
from tenter.journal.entry import Entry, Recorded, Stream, genesis, verify
from tenter.journal.sealed import prepare
from tenter.journal.store import HeadMoved, JournalError
from tenter.journal.tail import Tail
from tenter.wire.canonical import LARGE_TEXT, Document

RUN = Stream("run", "r1")
FRAME = 4096 + 24


def _append(database: Database, *texts: object, stream: Stream = RUN, durable: bool = False) -> int:
    entries = [Entry(kind="note", time=1, content={"text": text}) for text in texts]
    return database.append(stream, prepare(entries), durable=durable).sequence


def _append_next(database: Database, text: object, **changes: Any) -> int | None:
    fields: dict[str, Any] = {"kind": "note", "time": 1, "content": {"text": text}} | changes
    head = database.append_next(RUN, Entry(**fields))
    return None if head is None else head.sequence


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
            if not number:  # the file, its tables and the stream are made; from here on an append is a frame
                with closing(sqlite3.connect(live)) as other:
                    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            sizes.append((live.parent / "journal.db-wal").stat().st_size)
        left.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{live}{suffix}", f"{left}{suffix}")
    return left, sizes


@contextmanager
def _opened(files: Path, folder: Path, log: bytes) -> Generator[Database]:
    """The journal of `files`, with `log` for its write-ahead log, opened by a new process."""
    folder.mkdir(exist_ok=True)
    shutil.copy(files, folder / "journal.db")
    (folder / "journal.db-wal").write_bytes(log)
    with closing(Database(folder / "journal.db", now=lambda: 7.0)) as database:
        yield database


@pytest.mark.fault(35)
def test_a_log_cut_in_any_of_the_last_three_records_holds_exactly_the_whole_ones() -> None:
    in_memory = Path("/dev/shm")  # every cut is opened as a journal of its own, with all its syncs
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as name:
        files, sizes = _crashed(Path(name), 6)
        log = files.with_name("journal.db-wal").read_bytes()
        assert [after - before for before, after in pairwise(sizes[2:])] == [FRAME] * 3
        for end in range(sizes[2], sizes[5] + 1):
            if end % 11 and all(abs(end - size) > 200 for size in sizes):
                continue  # inside a page every byte is like the next: one checksum covers them
            with _opened(files, Path(name) / "cut", log[:end]) as database:
                records = _read(database)
            whole = sum(size <= end for size in sizes)
            assert [record.entry.content["text"] for record in records] == list(range(whole)), end
            assert verify(records) is None
            assert (database.dropped is None) == (end in sizes), end


def _cut_in_the_last_frame(log: bytes) -> bytes:
    return log[: -FRAME // 2]


def _zeros_after_the_last_frame(log: bytes) -> bytes:
    return log + bytes(10_000)


def _zeros_for_the_last_frame(log: bytes) -> bytes:
    return log[:-FRAME] + bytes(FRAME)


def _zeros_for_half_the_last_frame(log: bytes) -> bytes:
    return log[: -FRAME // 2] + bytes(FRAME // 2)


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("tear", "entries", "dropped"),
    [
        (_cut_in_the_last_frame, 3, Tail(bytes=FRAME // 2, zeros=False)),
        (_zeros_after_the_last_frame, 4, Tail(bytes=10_000, zeros=True)),
        (_zeros_for_the_last_frame, 3, Tail(bytes=FRAME, zeros=True)),
        (_zeros_for_half_the_last_frame, 3, Tail(bytes=FRAME, zeros=False)),
    ],
)
def test_a_torn_tail_is_reported_once_and_appending_goes_on(
    tmp_path: Path, tear: Callable[[bytes], bytes], entries: int, dropped: Tail
) -> None:
    files, _ = _crashed(tmp_path, 4)
    log = tear(files.with_name("journal.db-wal").read_bytes())
    whole = list(range(entries))
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
        assert _texts(database) == [0, 1, 2, 3]
        assert database.dropped == Tail(bytes=50_000, zeros=True)
        after = (tmp_path / "torn" / "journal.db-wal").read_bytes()
        shutil.copy(tmp_path / "torn" / "journal.db", files)
    with _opened(files, tmp_path / "again", after) as database:
        assert _codes(database) == ["journal_tail_dropped"]
        assert database.dropped is None


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


def _half_of_it(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _zeros_at_its_end(data: bytes) -> bytes:
    return data[:8192] + bytes(len(data) - 8192)


@pytest.mark.fault(36)
@pytest.mark.parametrize("damage", [_half_of_it, _zeros_at_its_end])
def test_a_damaged_database_is_told_after_the_entries_before_the_damage(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database:
        for number in range(50):
            _append(database, "x" * 2000 + str(number))
    path.write_bytes(damage(path.read_bytes()))
    with closing(Database(path)) as database:
        seen = list[int]()
        with pytest.raises(JournalError, match="the file is damaged; move it away") as caught:
            _read_pages(database, seen)
        assert seen == list(range(1, len(seen) + 1))
        assert caught.value.trouble == "damaged"
        assert len(seen) < 50


def _read_pages(database: Database, seen: list[int]) -> None:
    while page := database.page(RUN, after=len(seen), limit=10, whole=True):
        seen.extend(record.sequence for record in page)


@pytest.mark.fault(38)
def test_an_append_over_the_file_size_limit_is_refused_whole_and_works_again_with_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(Database(tmp_path / "journal.db")) as database:
        heads = list[int]()
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            with pytest.raises(JournalError, match=r"check the disk, the folder and the file size limit") as caught:
                heads.extend(_append(database, n, "x" * 3000, durable=n % 2 == 0) for n in range(100))
            with pytest.raises(JournalError):
                _append(database, "y" * 20_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.trouble == "io"
        assert 0 < heads[-1] < 200
        assert len(_read(database)) == heads[-1]
        assert _append(database, "room") == heads[-1] + 1
        assert verify(_read(database)) is None


@pytest.mark.fault(38)
def test_a_stream_that_could_not_be_begun_leaves_no_trace(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    late, other = Stream("run", "late"), Stream("run", "other")
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, "first")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(JournalError):
                _append(database, "x" * 200_000, stream=late)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [summary.stream for summary in database.streams(None, None)] == [RUN]
        for stream in (other, late):
            _append(database, stream.id, stream=stream)
        assert [_texts(database, stream) for stream in (other, late)] == [["other"], ["late"]]


def test_an_append_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, "first")
        with closing(sqlite3.connect(tmp_path / "journal.db")) as other:
            other.execute("CREATE TRIGGER no BEFORE INSERT ON kept BEGIN SELECT RAISE (ABORT, 'no'); END")
            for stream in (RUN, Stream("run", "new")):
                with pytest.raises(JournalError):
                    _append(database, "lost", Document("kept last"), stream=stream)
                assert _append_next(database, "unknown") is None
            other.execute("DROP TRIGGER no")
        assert [summary.stream for summary in database.streams(None, None)] == [RUN]
        assert _append(database, "second") == 2
        assert _texts(database) == ["first", "second"]


@pytest.mark.timed
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
        assert database.head(RUN).sequence == 100
    assert path.stat().st_size < LARGE_TEXT * 8


def test_a_small_entry_follows_the_head_as_last_seen_by_a_single_statement(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        assert _append_next(database, "nobody knows the head") is None
        _append(database, 1)
        assert [_append_next(database, number) for number in (2, 3)] == [2, 3]
        assert _append(database, 4, 5) == 5
        assert _append_next(database, 6) == 6
        assert _texts(database) == [1, 2, 3, 4, 5, 6]
        assert verify(_read(database)) is None
        assert database.uncopied == sum(len('{"text":1}') for _ in range(6))


@pytest.mark.fault(39)
def test_where_another_process_has_appended_meanwhile_nothing_is_written_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as one, closing(Database(path)) as two:
        _append(one, 1)
        _append(two, 2)
        assert _append_next(one, "lost") is None
        assert _append(one, 3) == 3
        assert _append_next(two, "lost") is None
        assert _append_next(one, 4) == 4
        assert _texts(two) == [1, 2, 3, 4]
        assert verify(_read(two)) is None


def test_an_expected_head_is_compared_with_the_head_that_there_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    entry = Entry(kind="note", time=1, content={})
    with closing(Database(path)) as one, closing(Database(path)) as two:
        seen = one.append(RUN, prepare([entry]))
        moved = two.append(RUN, prepare([entry]))
        assert one.append_next(RUN, entry, expected_head=seen.hash) is None
        assert two.append_next(RUN, entry, expected_head=seen.hash) is None
        assert two.append_next(RUN, entry, expected_head=moved.hash) == one.head(RUN)
        for database in (one, two):
            with pytest.raises(HeadMoved):
                database.append(RUN, prepare([entry]), expected_head=moved.hash)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "status"},
        {"kind": "ü"},
        {"time": 2**53},
        {"content": {"text": "x" * 20_000}},
        {"content": {"text": Document("apart")}},
    ],
)
def test_an_entry_that_is_more_than_a_row_or_cannot_be_chained_is_left_to_a_transaction(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, 1)
        assert _append_next(database, 2, **changes) is None
        assert _texts(database) == [1]


def test_after_an_entry_that_is_on_disk_the_next_is_left_to_a_transaction_which_waits_for_no_disk(
    tmp_path: Path,
) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, 1, durable=True)
        assert _append_next(database, 2) is None
        _append(database, 2)
        assert _append_next(database, 3) == 3


@pytest.mark.parametrize("replaced", [True, False])
def test_nothing_is_written_by_itself_into_a_file_that_was_removed(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    with closing(Database(path)) as database:
        _append(database, 1)
        shutil.rmtree(path.parent)
        if replaced:
            with closing(Database(path)) as other:
                _append(other, "theirs", durable=True)
        assert _append_next(database, 2) is None
        assert _texts(database) == (["theirs"] if replaced else [])
        assert _append_next(database, 2) is None


def test_a_single_statement_that_fails_is_told_and_the_next_works(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(Database(path)) as database, closing(sqlite3.connect(path)) as other:
        _append(database, 1)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="another process held it") as caught:
            _append_next(database, 2)
        assert caught.value.trouble == "locked"
        other.execute("ROLLBACK")
        assert _append_next(database, 2) == 2


def test_what_an_entry_by_itself_names_is_kept(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        for text in ("first", "second"):
            _append(database, Document({"text": text}))
        assert _texts(database) == [{"text": "first"}, {"text": "second"}]


def test_a_closed_database_goes_on_where_it_was(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        _append(database, "before")
        database.close()
        assert _append_next(database, "closed") is None
        assert _append(database, "after") == 2
        assert verify(_read(database)) is None


def test_an_append_writes_one_page(tmp_path: Path) -> None:
    _, sizes = _crashed(tmp_path, 20)
    assert {after - before for before, after in pairwise(sizes[1:])} == {FRAME}


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
def test_a_stream_whose_file_was_removed_takes_no_more_entries_and_another_does(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    with closing(Database(path)) as database:
        _append(database, "lost")
        shutil.rmtree(path.parent)
        if replaced:
            with closing(Database(path)) as other:
                _append(other, "theirs", durable=True)
        for _ in range(2):
            with pytest.raises(JournalError, match=r"the entries of run 'r1' are gone.* begin a new run") as caught:
                _append(database, "x")
            assert caught.value.trouble == "removed"
        assert _append(database, "y", stream=Stream("run", "r2")) == 1
        assert _texts(database) == (["theirs"] if replaced else [])


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


def test_a_durable_append_is_synced_and_another_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[sqlite3.Connection]()

    def watched(path: Path, *, create: bool, parents: bool) -> sqlite3.Connection | None:
        connection = connect(path, create=create, parents=parents)
        opened.extend([connection] if connection else [])
        return connection

    monkeypatch.setattr("tenter.journal.database.connect", watched)
    with closing(Database(tmp_path / "journal.db")) as database:
        levels: list[int] = []
        for durable in (True, False, True, True, False):
            _append(database, "x", durable=durable)
            levels.append(opened[0].execute("PRAGMA synchronous").fetchone()[0])
        assert levels == [2, 1, 2, 2, 1]
        assert database.syncs == 3


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
