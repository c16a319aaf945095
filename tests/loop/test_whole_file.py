import errno
import os
import resource
import threading
from pathlib import Path

import pytest

from tenter.loop.whole_file import put, put_new, read_regular


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_put_in_place_of_another_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    put(path, b"first")
    put(path, b"second")
    assert read_regular(path) == b"second"
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["file"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    (tmp_path / "file").symlink_to(other)
    put(tmp_path / "file", b"ours")
    assert other.read_bytes() == b"theirs"
    assert read_regular(tmp_path / "file") == b"ours"


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert put_new(path, b"first")
    assert not put_new(path, b"second")
    assert read_regular(path) == b"first"
    assert names(tmp_path) == ["file"]


def test_a_link_that_leads_nowhere_is_in_the_way_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("nowhere")
    assert not put_new(tmp_path / "file", b"ours")
    assert names(tmp_path) == ["file"]


def test_of_many_that_put_a_new_file_at_once_one_does(tmp_path: Path) -> None:
    path, together, put_by = tmp_path / "file", threading.Barrier(8), list[int]()

    def race(number: int) -> None:
        together.wait(10)
        if put_new(path, str(number).encode()):
            put_by.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(put_by) == 1
    assert read_regular(path) == str(put_by[0]).encode()


def test_a_file_system_without_hard_links_does_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert put_new(tmp_path / "file", b"first")
    assert not put_new(tmp_path / "file", b"second")
    assert read_regular(tmp_path / "file") == b"first"
    assert names(tmp_path) == ["file"]


def test_what_finds_no_room_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    put(path, b"first")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            put(path, bytes(1000))
        with pytest.raises(OSError, match="File too large"):
            put_new(tmp_path / "new", bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read_regular(path) == b"first"
    assert names(tmp_path) == ["file"]


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        put(tmp_path / "file", b"ours")
    assert names(tmp_path) == ["file"]


def test_only_regular_files_of_bounded_size_are_read_and_nothing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.loop.whole_file.LARGEST", 10)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "small")
    (tmp_path / "small").write_bytes(bytes(10))
    (tmp_path / "large").write_bytes(bytes(11))
    assert read_regular(tmp_path / "nothing") is None
    assert read_regular(tmp_path / "small") == bytes(10)
    for name, why in {
        "fifo": "no regular file",
        "folder": "no regular file",
        "link": "it is a link",
        "large": "more than 10 bytes",
        "small/x": "Not a directory",
    }.items():
        with pytest.raises(OSError, match=why):
            read_regular(tmp_path / name)
