"""Events get into the file whole or not at all, and come out of it by the line, whatever befell the writers."""

import errno
import fcntl
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tenter.kernel import TenterError
from tenter.loop import events_file
from tenter.loop.events_file import EventsCut, event_document, publish, read_events

LIMIT = 1 << 20
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def documents(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def read_all(path: Path, *, limit: int) -> list[bytes]:
    """What is handed over, piece by piece."""
    pieces: list[bytes] = []
    offset = 0
    while (read := read_events(path, offset, limit=limit)) != (b"", offset):
        pieces.append(read[0])
        offset = read[1]
    return pieces


# writing


def test_an_event_is_a_line_and_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "build.done", {"ok": True, "why": [1, None]}, at=12.5)
    publish(path, "build.done", None, at=13)
    assert path.read_bytes() == (
        b'{"schema_version":1,"topic":"build.done","payload":{"ok":true,"why":[1,null]},"at":12.5}\n'
        b'{"schema_version":1,"topic":"build.done","payload":null,"at":13}\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.fault(43)
@settings(deadline=None)
@given(payload=VALUES)
def test_whatever_is_published_stays_on_its_line_and_comes_back(
    payload: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    publish(path, "a", payload, at=1)
    text = path.read_bytes().decode("ascii")
    assert (text.count("\n"), len(text.splitlines())) == (1, 1)
    assert json.loads(text) == event_document("a", payload, at=1)


@pytest.mark.parametrize("payload", [float("nan"), {1, 2}, object(), "half \ud800 a pair", {"deep": "\udcff"}])
def test_what_is_no_json_is_refused_and_nothing_is_written(payload: object, tmp_path: Path) -> None:
    with pytest.raises(TenterError, match=r"the payload of the event 'a\.b' is no JSON: "):
        publish(tmp_path / "events.jsonl", "a.b", payload, at=1)
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_only_looks_like_half_a_pair_is_published(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "a", r"\ud800 😀", at=1)
    assert documents(path) == [event_document("a", r"\ud800 😀", at=1)]


@pytest.mark.fault(36)
def test_half_a_line_of_a_killed_writer_is_closed_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "a", 1, at=1)
    with path.open("ab") as file:
        file.write(b'{"schema_version":1,"topic":"b","payl')
    publish(path, "c", 3, at=3)
    lines = path.read_bytes().split(b"\n")
    assert lines[1:] == [b'{"schema_version":1,"topic":"b","payl', lines[2], b""]
    assert json.loads(lines[2]) == event_document("c", 3, at=3)


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        TenterError, match=r"the folder of the events file '.*' is not there any more; is the loop over"
    ):
        publish(tmp_path / "gone" / "events.jsonl", "a", 1, at=1)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_what_is_no_file_is_refused_by_both_sides(make: object, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert callable(make)
    make(path)
    with pytest.raises(TenterError, match=r"cannot be written: Is a directory|is not a regular file; remove it"):
        publish(path, "a", 1, at=1)
    with pytest.raises(TenterError, match="is not a regular file; remove it"):
        read_events(path, 0, limit=LIMIT)


PUBLISHING = (
    "import os, sys\n"
    "from pathlib import Path\n"
    "from tenter.kernel import TenterError\n"
    "from tenter.loop.events_file import publish\n"
    "os.seteuid(int(sys.argv[2]))\n"
    "try:\n"
    "    publish(Path('events.jsonl'), 'a', 'x' * int(sys.argv[1]), at=1)\n"
    "except TenterError as error:\n"
    "    sys.exit(str(error))\n"
)


def in_another_process(folder: Path, size: int, *, most: int = resource.RLIM_INFINITY, user: int | None = None) -> str:
    """Publishes an event of `size` bytes; what was said on stderr. No file gets more than `most` bytes."""
    done = subprocess.run(
        [sys.executable, "-c", PUBLISHING, str(size), str(os.geteuid() if user is None else user)],
        cwd=folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stderr.strip()


@pytest.mark.fault(38)
def test_a_disk_that_is_full_in_the_middle_of_a_line_takes_it_back_and_works_again_with_room(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "a", 1, at=1)
    before = path.read_bytes()
    said = in_another_process(tmp_path, 10_000, most=4096)
    assert "the event was not published" in said
    assert "File too large; raise the limit on the size of files and try again" in said
    assert path.read_bytes() == before
    assert in_another_process(tmp_path, 10_000) == ""
    assert len(documents(path)) == 2


def test_a_file_that_may_not_be_written_is_said_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch(0o444)
    tmp_path.chmod(0o755)
    said = in_another_process(tmp_path, 10, user=os.geteuid() or 65534)
    assert "cannot be written: Permission denied; make it writable and try again" in said
    assert path.read_bytes() == b""


@pytest.mark.fault(39)
def test_writers_side_by_side_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    path, start = tmp_path / "events.jsonl", tmp_path / "start"
    code = (
        "import sys, os\n"
        "from pathlib import Path\n"
        "from tenter.loop.events_file import publish\n"
        "os.open(sys.argv[2], os.O_RDONLY)\n"  # until the gate is opened
        "for each in range(200):\n"
        "    publish(Path(sys.argv[1]), 'w' + sys.argv[3], [each, 'x' * (each * 97 % 9000)], at=each)\n"
    )
    os.mkfifo(start)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(start), str(number)]) for number in range(8)
    ]
    with start.open("wb"):
        codes = [writer.wait(30) for writer in writers]
    assert codes == [0] * 8
    found: dict[str, list[object]] = {}
    for document in documents(path):
        found.setdefault(document["topic"], []).append(document["payload"])
    assert found == {f"w{n}": [[each, "x" * (each * 97 % 9000)] for each in range(200)] for n in range(8)}


def test_a_writer_that_was_stopped_with_the_lock_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_file, "LOCK_SECONDS", 0.1)
    path = tmp_path / "events.jsonl"
    with path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TenterError, match=r"another process has held the events file '.*' for 0.1 s; end it"):
            publish(path, "a", 1, at=1)
    publish(path, "a", 1, at=1)
    assert len(documents(path)) == 1


# reading


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    assert read_events(tmp_path / "none" / "events.jsonl", 0, limit=LIMIT) == (b"", 0)


def test_what_is_new_is_read_from_where_one_was(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntwo\n")
    assert read_events(path, 0, limit=LIMIT) == (b"one\ntwo\n", 8)
    assert read_events(path, 8, limit=LIMIT) == (b"", 8)
    assert read_events(path, 4, limit=LIMIT) == (b"two\n", 8)


WRITING = (
    "import fcntl, os, sys\n"
    "file = os.open('events.jsonl', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
    "fcntl.flock(file, fcntl.LOCK_EX)\n"
    "os.write(file, b'one\\n{\"half')\n"
    "print('half', flush=True)\n"
    "sys.stdin.readline()\n"
    "os.write(file, b'\": 1}\\n')\n"
)


@pytest.mark.fault(39)
def test_a_writer_at_work_is_waited_for_so_that_its_line_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", WRITING], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        monkeypatch.setattr(events_file, "READ_SECONDS", 0.1)
        assert read_events(path, 0, limit=LIMIT) == (b'one\n{"half', 10), (
            "one that was stopped is not waited for for ever"
        )
        monkeypatch.setattr(events_file, "READ_SECONDS", 20.0)
        with ThreadPoolExecutor(1) as reading:
            read = reading.submit(read_events, path, 0, limit=LIMIT)
            with pytest.raises(TimeoutError):
                read.result(0.2)
            writer.stdin.write(b"go on\n")
            writer.stdin.flush()
            assert read.result(20) == (b'one\n{"half": 1}\n', 16)


def test_readers_do_not_wait_for_each_other_and_leave_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "a", 1, at=1)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", pytest.fail)
            data, _ = read_events(path, 0, limit=LIMIT)
        assert data == path.read_bytes()
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_where_files_cannot_be_locked_they_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(file: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\n")
    monkeypatch.setattr(fcntl, "flock", refuses)
    assert read_events(path, 0, limit=LIMIT) == (b"one\n", 4)


LINES = st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")), max_size=8)


@given(lines=LINES, limit=st.integers(9, 40))
def test_pieces_end_with_whole_lines_and_make_up_the_file(
    lines: list[bytes], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    pieces = read_all(path, limit=limit)
    assert b"".join(piece if piece.endswith(b"\n") else piece + b"\n" for piece in pieces if piece) == path.read_bytes()
    assert all(len(piece) <= limit for piece in pieces)


def test_a_line_that_is_longer_than_the_limit_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * 25 + b"\nshort\n")
    assert read_all(path, limit=10) == [b"x" * 10, b"x" * 10, b"x" * 5 + b"\n", b"short\n"]


def test_a_last_line_without_its_end_is_read_once_and_the_same_when_it_was_closed_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\nhalf")
    data, offset = read_events(path, 0, limit=LIMIT)
    assert (data, offset) == (b"one\nhalf", 8)
    publish(path, "a", 1, at=1)
    assert read_events(path, 0, limit=offset) == (data, offset)
    rest, end = read_events(path, offset, limit=LIMIT)
    assert json.loads(rest) == event_document("a", 1, at=1)
    assert rest.startswith(b"{")
    assert (end, read_events(path, end, limit=LIMIT)) == (path.stat().st_size, (b"", end))


@pytest.mark.parametrize("size", [0, 3, None])
def test_a_file_that_is_shorter_than_what_was_read_is_told(size: int | None, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    if size is not None:
        path.write_bytes(b"x" * size)
    with pytest.raises(EventsCut, match="and 8 were read of it: it was cut or removed, and events may be lost") as cut:
        read_events(path, 8, limit=LIMIT)
    assert cut.value.size == (size or 0)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.symlink_to(path)
    with pytest.raises(TenterError, match="cannot be read: Too many levels of symbolic links"):
        read_events(path, 0, limit=LIMIT)
