"""A registry is believed only in what it can know: loops of its own repository."""

import os
import subprocess
from pathlib import Path

import pytest

from tenter.loop.belonging import strange
from tenter.loop.loop_row import LoopRow


def row(project: Path | str, workspace: Path | str | None = None, config: Path | str | None = None) -> LoopRow:
    return LoopRow(
        loop_id="loop-12ab-34cd",
        primary=workspace is None,
        project=str(project),
        workspace=str(workspace or project),
        config=str(config or f"{project}/tenter.yaml"),
        pid=1,
        started="",
        started_at=1.0,
    )


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], timeout=30, check=True, capture_output=True)


def test_a_loop_of_the_repository_is_believed(tmp_path: Path) -> None:
    tree = tmp_path / ".worktrees" / "loop-12ab-34cd"
    assert strange(tmp_path, row(tmp_path)) is None
    assert strange(tmp_path, row(tmp_path / "part")) is None
    assert strange(tmp_path, row(tmp_path / "part", tree / "part")) is None, "also where that is gone"
    (link := tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    assert strange(link, row(tmp_path)) is None


@pytest.mark.fault(64)
def test_what_is_outside_of_the_repository_is_not_believed(tmp_path: Path) -> None:
    root, other = tmp_path / "repository", tmp_path / "repository-2"
    for folder in (root, other):
        folder.mkdir()
    (root / "out").symlink_to(other)
    for project in (other, "/", "/etc", root / ".." / "repository-2", root / "out"):
        assert "its project" in str(strange(root, row(project)))
    for workspace in (other, "/etc", root / "out", root / "out" / "deeper"):
        assert "its workspace" in str(strange(root, row(root, workspace)))
    for config in (other / "tenter.yaml", "tenter.yaml", root / "out" / "tenter.yaml"):
        assert "its configuration" in str(strange(root, row(root, config=config)))


def test_a_project_in_a_linked_worktree_of_the_repository_is_believed_and_in_another_one_is_not(tmp_path: Path) -> None:
    root, other = tmp_path / "repository", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
        git(folder, "init", "--quiet")
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        git(folder, *who, "commit", "--quiet", "--allow-empty", "-m", "All")
        git(folder, "worktree", "add", "--quiet", str(tmp_path / f"{folder.name}-tree"))
    assert strange(Path(os.path.realpath(root)), row(tmp_path / "repository-tree")) is None
    assert "its project" in str(strange(Path(os.path.realpath(root)), row(tmp_path / "other-tree")))
