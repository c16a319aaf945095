"""Nothing that a tool names lies outside the workspace, whatever links there are and whoever swaps them."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tenter.harness.errors import ToolError
from tenter.harness.workspace import OWN, Workspace
from tenter.journal import JOURNAL_PLACE
from tenter.kernel import TenterError


def read(workspace: Workspace, path: str) -> bytes:
    with workspace.locate(path) as place:
        return place.read(1000)


def write(workspace: Workspace, path: str, data: bytes) -> None:
    with workspace.locate(path, create=True) as place:
        place.write(data)


def before_opening(name: str, swap: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `swap` done once, after `name` was looked at and just before it is opened."""
    really_open, left = os.open, [swap]

    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == name and left:
            left.pop()()
        return really_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def project(tmp_path: Path) -> Workspace:
    """A workspace beside a folder with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "a.py").write_text("inside")
    return Workspace.at(tmp_path / "work")


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "./src//a.py",
        "src/../src/a.py",
        "src/./a.py",
        "link/a.py",
        "link/../src/a.py",
        "straight",
        "chain",
        "src/abs",
    ],
)
def test_a_path_that_stays_inside_leads_to_the_file_links_included(tmp_path: Path, path: str) -> None:
    workspace = project(tmp_path)
    (workspace.root / "link").symlink_to("src")
    (workspace.root / "straight").symlink_to(workspace.root / "src" / "a.py")
    (workspace.root / "src" / "up").symlink_to("../straight")
    (workspace.root / "src" / "abs").symlink_to(workspace.root / "src" / "a.py")
    (workspace.root / "chain").symlink_to("./link/../src/up")
    assert read(workspace, path) == b"inside"
    assert read(workspace, str(workspace.root / path)) == b"inside"
    assert workspace.resolve(path) == workspace.root / "src" / "a.py"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret",
        "src/../../outside/secret",
        "/etc/passwd",
        "/",
        "link/secret",
        "file",
        "absolute",
        "up/outside/secret",
        "src/../up",
    ],
)
def test_a_path_that_leads_out_is_refused_links_included(tmp_path: Path, path: str) -> None:
    workspace = project(tmp_path)
    (workspace.root / "link").symlink_to("../outside")
    (workspace.root / "file").symlink_to("../outside/secret")
    (workspace.root / "absolute").symlink_to(tmp_path / "outside" / "secret")
    (workspace.root / "up").symlink_to("src/../..")
    for attempt in (
        lambda: read(workspace, path),
        lambda: write(workspace, path, b"x"),
        lambda: workspace.resolve(path),
    ):
        with pytest.raises(ToolError, match="leads out of the workspace"):
            attempt()
    assert (tmp_path / "outside" / "secret").read_text() == "secret"


def test_a_folder_whose_name_only_begins_like_the_workspace_is_outside(tmp_path: Path) -> None:
    workspace = project(tmp_path)
    (tmp_path / "workshop").mkdir()
    (tmp_path / "workshop" / "x").write_text("x")
    with pytest.raises(ToolError, match="leads out"):
        read(workspace, str(tmp_path / "workshop" / "x"))


def test_a_workspace_named_by_a_link_takes_absolute_paths_of_both_kinds(tmp_path: Path) -> None:
    real = project(tmp_path)
    (tmp_path / "alias").symlink_to("work")
    workspace = Workspace.at(tmp_path / "alias")
    assert workspace.root == real.root
    assert read(workspace, str(tmp_path / "alias" / "src" / "a.py")) == b"inside"
    assert read(workspace, str(tmp_path / "work" / "src" / "a.py")) == b"inside"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "is empty"),
        ("a\0b", "NUL"),
        ("~/x", "'~' stands for no folder"),
        ("x" * 5000, "too long"),
        ("x" * 300, "File name too long"),
        ("\ud800", "not valid text"),
        ("loop", "links"),
        ("src/a.py/x", "is not a folder"),
        ("src/a.py/", "is not a folder"),
        ("src/a.py/.", "is not a folder"),
        ("src/a.py/../a.py", "is not a folder"),
        ("missing/a.py", "'missing' does not exist"),
        ("missing", "'missing' does not exist"),
        ("src", "is a folder"),
        (".", "is a folder"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_name_and_reason(tmp_path: Path, path: str, told: str) -> None:
    workspace = project(tmp_path)
    (workspace.root / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=told):
        read(workspace, path)


def test_pipes_sockets_and_devices_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    workspace = project(tmp_path)
    os.mkfifo(workspace.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace.root / "socket"))
    for path, kind in (("pipe", "a named pipe"), ("socket", "a socket")):
        with pytest.raises(ToolError, match=f"{path}' is {kind}"):
            read(workspace, path)
        with pytest.raises(ToolError, match=f"{path}' is {kind}"):
            write(workspace, path, b"x")
    assert stat.S_ISFIFO((workspace.root / "pipe").stat().st_mode)


def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_is_read(tmp_path: Path) -> None:
    workspace = project(tmp_path)
    (workspace.root / "big").write_bytes(b"x" * 1001)
    (workspace.root / "fits").write_bytes(b"x" * 1000)
    assert len(read(workspace, "fits")) == 1000
    with pytest.raises(ToolError, match=r"'big' has more than 1000 bytes"):
        read(workspace, "big")


def test_a_folder_swapped_for_a_link_just_before_it_is_opened_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = project(tmp_path)
    (tmp_path / "outside" / "a.py").write_text("secret")

    def swap() -> None:
        (workspace.root / "src").rename(workspace.root / "old")
        (workspace.root / "src").symlink_to("../outside")

    before_opening("src", swap, monkeypatch)
    with pytest.raises(ToolError, match="swapped"):
        read(workspace, "src/a.py")
    assert (workspace.root / "src").is_symlink(), "the swap has not happened"


def test_a_write_into_a_folder_swapped_for_a_link_goes_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = project(tmp_path)

    def swap() -> None:
        (workspace.root / "src").rename(workspace.root / "old")
        (workspace.root / "src").symlink_to("../outside")

    before_opening("src", swap, monkeypatch)
    with pytest.raises(ToolError, match="swapped"):
        write(workspace, "src/secret", b"overwritten")
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    assert [one.name for one in (tmp_path / "outside").iterdir()] == ["secret"]


def test_a_new_folder_swapped_for_a_link_before_it_is_entered_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = project(tmp_path)

    def swap() -> None:
        (workspace.root / "new").rmdir()
        (workspace.root / "new").symlink_to("../outside")

    before_opening("new", swap, monkeypatch)
    with pytest.raises(ToolError, match="swapped"):
        write(workspace, "new/secret", b"overwritten")
    assert (tmp_path / "outside" / "secret").read_text() == "secret"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_file_swapped_just_before_it_is_opened_is_not_read_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    workspace = project(tmp_path)
    file = workspace.root / "src" / "a.py"

    def swap() -> None:
        file.unlink()
        if kind == "link":
            file.symlink_to("../../outside/secret")
        else:
            os.mkfifo(file)

    before_opening("a.py", swap, monkeypatch)
    with pytest.raises(ToolError, match="swapped"):
        read(workspace, "src/a.py")


def test_a_file_swapped_for_a_link_before_it_is_replaced_loses_the_link_and_not_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = project(tmp_path)
    file = workspace.root / "src" / "a.py"
    really_rename = os.rename

    def renamed(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        file.unlink()
        file.symlink_to("../../outside/secret")
        really_rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", renamed)
    write(workspace, "src/a.py", b"new")
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    assert not file.is_symlink()
    assert file.read_text() == "new"


def test_writing_makes_the_folders_that_are_missing_and_keeps_mode_bits(tmp_path: Path) -> None:
    workspace = project(tmp_path)
    script = workspace.root / "src" / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    write(workspace, "src/run.sh", b"new")
    write(workspace, "a/b/c.txt", b"deep")
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert (workspace.root / "a" / "b" / "c.txt").read_text() == "deep"


def test_writing_through_a_link_inside_changes_its_target_and_keeps_the_link(tmp_path: Path) -> None:
    workspace = project(tmp_path)
    (workspace.root / "link.py").symlink_to("src/a.py")
    (workspace.root / "dangling").symlink_to("fresh/new.py")
    write(workspace, "link.py", b"changed")
    write(workspace, "dangling", b"made")
    assert (workspace.root / "link.py").is_symlink()
    assert (workspace.root / "src" / "a.py").read_text() == "changed"
    assert (workspace.root / "fresh" / "new.py").read_text() == "made"


def test_a_write_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = project(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match=r"'src/a.py' cannot be used: No space left on device"):
        write(workspace, "src/a.py", b"new")
    assert [one.name for one in (workspace.root / "src").iterdir()] == ["a.py"]
    assert (workspace.root / "src" / "a.py").read_text() == "inside"


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = project(tmp_path)

    def access(name: str, mode: int, *, dir_fd: int) -> bool:  # as it answers to anybody but root
        return bool(os.stat(name, dir_fd=dir_fd).st_mode & 0o222) or mode != os.W_OK

    monkeypatch.setattr(os, "access", access)
    (workspace.root / "src" / "a.py").chmod(0o444)
    with pytest.raises(ToolError, match=r"may not be written \(mode 0444\)"):
        write(workspace, "src/a.py", b"new")


def test_no_descriptor_stays_open_however_a_walk_ends(tmp_path: Path) -> None:
    workspace = project(tmp_path)
    (workspace.root / "link").symlink_to("../outside")
    before = open_descriptors()
    for path in ("src/a.py", "src/../src/a.py"):
        read(workspace, path)
    for path in ("link/x", "missing/x", "src/a.py/x", "../x", "src"):
        with pytest.raises(ToolError):
            read(workspace, path)
    assert open_descriptors() == before


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TenterError, match="the workspace '"):
        Workspace.at(tmp_path / folder)


PARTS = st.sampled_from(["..", ".", "a", "b", "link", "up", "out", "", "file"])


@given(parts=st.lists(PARTS, min_size=1, max_size=8), absolute=st.booleans())
@settings(max_examples=200)
def test_whatever_is_asked_for_the_walk_agrees_with_the_system_and_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], absolute: bool
) -> None:
    root = tmp_path_factory.getbasetemp() / "law" / "work"
    if not root.exists():
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "file").touch()
        (root / "a" / "link").symlink_to("b")
        (root / "a" / "b" / "up").symlink_to("../..")
        (root / "a" / "out").symlink_to("../../..")
        (root / "link").symlink_to("a/link/up/a")
    workspace = Workspace.at(root)
    path = "/".join(parts)
    asked = f"{root}/{path}" if absolute else path
    try:
        found = workspace.resolve(asked)
    except ToolError:
        return
    assert found.is_relative_to(workspace.root)
    if found.exists():
        assert found == Path(os.path.realpath(asked if asked.startswith("/") else f"{root}/{asked}"))


@pytest.mark.parametrize("path", [".tenter/journal.db", "a/../.tenter", "nested/.tenter/new", "link/journal.db"])
def test_what_tenter_keeps_on_record_is_out_of_reach(tmp_path: Path, path: str) -> None:
    for name in (".tenter", "a", "nested"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(".tenter")
    (tmp_path / ".tenter" / "journal.db").write_text("kept")
    with pytest.raises(ToolError, match="where tenter keeps its records"), Workspace.at(tmp_path).locate(path):
        pass
    assert (tmp_path / ".tenter" / "journal.db").read_text() == "kept"


def test_the_folder_that_is_out_of_reach_is_that_of_the_journal() -> None:
    assert JOURNAL_PLACE.parts[0] == OWN
