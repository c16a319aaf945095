"""A pinned file is what was trusted, or the hook that uses it does not start."""

import os
from pathlib import Path

import pytest

from tenter.executors import pinned
from tenter.executors.pinned import PinnedFile, file_digest
from tenter.kernel import HookFailure


def refused(pin: PinnedFile, cwd: Path) -> HookFailure:
    with pytest.raises(HookFailure) as caught:
        pin.check(str(cwd))
    return caught.value


@pytest.mark.fault(56)
def test_a_file_passes_while_its_content_is_the_trusted_one(tmp_path: Path) -> None:
    file = tmp_path / "guard.sh"
    file.write_text("one")
    pin = PinnedFile(str(file), file_digest(file))
    pin.check("/nowhere")
    file.write_text("two")
    failure = refused(pin, tmp_path)
    assert failure.result == "untrusted"
    assert str(file) in failure.reason
    assert "'tenter hooks trust', and start again" in failure.reason
    file.write_text("one")
    pin.check("/nowhere")


def test_whoever_is_asked_decides_by_the_path_the_pin_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("one")
    asked: list[tuple[str, str, str]] = []

    def accepts(path: str, pinned: str, found: str) -> bool:
        asked.append((path, pinned, found))
        return len(asked) == 1

    pin = PinnedFile("rules", "sha256:1", accepts)
    pin.check(str(tmp_path))
    failure = refused(pin, tmp_path)
    assert "what still runs then takes it from there" in failure.reason
    assert asked == [(str(tmp_path / "rules"), "sha256:1", file_digest(tmp_path / "rules"))] * 2
    assert pin == PinnedFile("rules", "sha256:1")


def test_a_relative_path_starts_at_the_working_folder(tmp_path: Path) -> None:
    for name, text in (("project", "one"), ("same", "one"), ("other", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rules").write_text(text)
    pin = PinnedFile("rules", file_digest(tmp_path / "project" / "rules"))
    pin.check(str(tmp_path / "same"))
    assert refused(pin, tmp_path / "other").result == "untrusted"


@pytest.mark.fault(56)
def test_a_link_that_leads_to_other_content_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "link"
    link.symlink_to("a")
    pin = PinnedFile(str(link), file_digest(link))
    pin.check("/")
    link.unlink()
    link.symlink_to("b")
    assert refused(pin, tmp_path).result == "untrusted"


def test_a_file_that_is_gone_is_a_failed_start_and_says_so(tmp_path: Path) -> None:
    failure = refused(PinnedFile("gone", "sha256:1"), tmp_path)
    assert failure.result == "spawn_failed"
    assert failure.reason.startswith("ENOENT: ")
    assert "is not there any more" in failure.reason


def test_of_a_working_folder_that_is_gone_the_start_will_tell(tmp_path: Path) -> None:
    assert PinnedFile("rules", "sha256:1").check(str(tmp_path / "gone")) is None


def test_a_file_that_nobody_trusted_must_not_be_there(tmp_path: Path) -> None:
    pin = PinnedFile("extra.sh", "")
    assert pin.check(str(tmp_path)) is None
    (tmp_path / "extra.sh").write_text("")
    failure = refused(pin, tmp_path)
    assert failure.result == "untrusted"
    assert "was not there" in failure.reason


@pytest.mark.parametrize("kind", ["folder", "fifo", "large"])
def test_what_is_no_file_of_a_sensible_size_is_refused_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, pinned.LARGEST + 1)
    with pytest.raises(OSError, match="not a regular file" if kind != "large" else "larger than 256 MB"):
        file_digest(path)
    assert refused(PinnedFile(str(path), "sha256:1"), tmp_path).result == "untrusted"


def settled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file had been left alone for a while."""
    later = path.stat().st_ctime_ns + 2 * pinned.SETTLED_NS
    monkeypatch.setattr(pinned.time, "time_ns", lambda: later)


def test_a_file_that_stays_as_it_is_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.write_text("one")
    settled(file, monkeypatch)
    digest = file_digest(file)
    monkeypatch.delattr(pinned.os, "open")
    assert file_digest(file) == digest


@pytest.mark.fault(56)
def test_a_file_that_changed_a_moment_ago_is_read_each_time(tmp_path: Path) -> None:
    """Two changes within one tick of the clock leave the same time stamps."""
    file = tmp_path / "x"
    file.write_text("one")
    first = file_digest(file)
    status = file.stat()
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert status.st_ino not in {inode for _, inode, *_ in pinned._known}  # pyright: ignore[reportPrivateUsage]  # the point
    assert file_digest(file) != first


@pytest.mark.fault(56)
def test_an_mtime_that_is_put_back_hides_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.write_text("one")
    settled(file, monkeypatch)
    first, status = file_digest(file), file.stat()
    while file.stat().st_ctime_ns == status.st_ctime_ns:  # until the clock of the file system has ticked
        file.write_text("two")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    assert file_digest(file) != first


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "MOST_REMEMBERED", 3)
    for number in range(9):
        file = tmp_path / str(number)
        file.write_text(str(number))
        settled(file, monkeypatch)
        file_digest(file)
        assert len(pinned._known) <= 3  # pyright: ignore[reportPrivateUsage]  # as above
