"""Two loops never share a workspace: the second works in a worktree, waits, or is told why it cannot begin."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from tests.loop.orphaned import orphan
from tests.outside import alive, comes_true

from tenter.executors.process_id import ProcessId, this_process
from tenter.kernel import TenterError
from tenter.loop.claim import claim, clear, give_back, place_of, registry_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.pruning import prune
from tenter.loop.registry import Registry
from tenter.loop.worktree import add_worktree

LONGEST = 20.0


def unheard(_: str) -> None:
    """For tests that do not look at what people are told."""


GONE = ProcessId(this_process().pid, "an earlier process of this number")


def row(folder: Path, loop_id: str = "loop-0000-0001", process: ProcessId | None = None) -> LoopRow:
    process, place = process or this_process(), os.path.realpath(folder)
    return LoopRow(
        loop_id=loop_id,
        primary=True,
        project=place,
        workspace=place,
        config=f"{place}/tenter.yaml",
        pid=process.pid,
        started=process.started,
        started_at=1.0,
    )


def repository(folder: Path, *, project: str = ".") -> Path:
    """A git repository with a commit; the folder of its project."""
    (folder / project).mkdir(parents=True, exist_ok=True)
    (folder / project / "tenter.yaml").write_text("version: 1\n")
    for arguments in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "All"],
    ):
        subprocess.run(["git", "-C", folder, *arguments], timeout=30, check=True)
    return folder / project


async def test_the_first_loop_works_in_the_project_itself(tmp_path: Path) -> None:
    project = repository(tmp_path)
    registry, asked = registry_of(project), row(project)
    assert await claim(registry, asked, exclusive=False, told=unheard) == asked
    kept = registry.row(asked.loop_id)
    assert kept is not None
    assert (kept.primary, kept.workspace, kept.branch) == (True, asked.workspace, None)


async def test_a_second_loop_works_in_the_same_folder_of_a_worktree(tmp_path: Path) -> None:
    project = repository(tmp_path, project="part")
    registry = registry_of(project)
    await claim(registry, row(project), exclusive=False, told=unheard)
    moved = await claim(registry, row(project, "loop-0000-0002"), exclusive=False, told=unheard)
    assert (moved.primary, moved.branch) == (False, "tenter/loop-0000-0002")
    assert Path(moved.workspace) == Path(os.path.realpath(tmp_path)) / ".worktrees" / "loop-0000-0002" / "part"
    assert Path(moved.workspace, "tenter.yaml").exists()
    assert moved.project == os.path.realpath(project)
    place = place_of(moved)
    assert (str(place.workspace), str(place.project)) == (moved.workspace, moved.project)


@pytest.mark.parametrize("change", [None, "new", "tenter.yaml"])
async def test_of_a_worktree_it_is_told_what_is_in_it_and_what_is_not(change: str | None, tmp_path: Path) -> None:
    told: list[str] = []
    project = repository(tmp_path, project="part")
    registry = registry_of(project)
    await claim(registry, row(project), exclusive=False, told=told.append)
    assert told == []
    if change is not None:
        (project / change).write_text("not committed\n")
    await claim(registry, row(project, "loop-0000-0002"), exclusive=False, told=told.append)
    (text,) = told
    assert text.startswith("works in a worktree, from the last commit, as the loop loop-0000-0001 holds ")
    assert ("not committed are not in it" in text) == (change is not None)


async def test_what_crashed_loops_left_running_in_a_workspace_is_ended_and_no_other(tmp_path: Path) -> None:
    told: list[str] = []
    registry = Registry(tmp_path / ".tenter" / "loops.db")
    elsewhere = tmp_path / "elsewhere"
    registry.add(row(tmp_path, "loop-crashed", GONE), hold=False)
    registry.add(row(elsewhere, "loop-elsewhere", GONE), hold=False)
    registry.add(row(tmp_path, "loop-over", GONE), hold=False)
    registry.update("loop-over", status="completed", ended_at=2.0)
    registry.add(row(tmp_path, "loop-alive"), hold=False)
    mine = row(tmp_path)
    registry.add(mine, hold=False)
    ids = ("loop-crashed", "loop-elsewhere", "loop-over", "loop-alive", mine.loop_id)
    with contextlib.ExitStack() as stack:
        left = [stack.enter_context(orphan(loop_id=loop_id)) for loop_id in ids]
        await clear(registry, mine, told.append)
        assert [alive(one) for one in left] == [False, True, True, True, True]
    assert told == ["ended 1 process that the loop loop-crashed had left running when its own process died"]


async def test_without_a_repository_a_second_loop_is_told_what_to_do(tmp_path: Path) -> None:
    registry = Registry(tmp_path / ".tenter" / "loops.db")
    await claim(registry, row(tmp_path), exclusive=False, told=unheard)
    with pytest.raises(TenterError, match=r"loop-0000-0001 .*--exclusive"):
        await claim(registry, row(tmp_path, "loop-0000-0002"), exclusive=False, told=unheard)
    assert [one.loop_id for one in registry.rows()] == ["loop-0000-0001"]


async def test_an_exclusive_loop_waits_until_the_project_is_free(tmp_path: Path) -> None:
    told: list[str] = []
    registry = Registry(tmp_path / ".tenter" / "loops.db")
    await claim(registry, row(tmp_path), exclusive=False, told=unheard)
    second = row(tmp_path, "loop-0000-0002")
    waiting = asyncio.create_task(claim(registry, second, exclusive=True, told=told.append))
    assert await comes_true(lambda: bool(told))
    assert "waits for the loop loop-0000-0001" in told[0]
    assert not waiting.done()
    registry.update("loop-0000-0001", status="completed", ended_at=2.0)
    assert await asyncio.wait_for(waiting, LONGEST) == second
    assert registry.row("loop-0000-0002") is not None


async def test_a_loop_that_stops_waiting_was_never_there(tmp_path: Path) -> None:
    told: list[str] = []
    registry = Registry(tmp_path / ".tenter" / "loops.db")
    await claim(registry, row(tmp_path), exclusive=False, told=unheard)
    second = row(tmp_path, "loop-0000-0002")
    waiting = asyncio.create_task(claim(registry, second, exclusive=True, told=told.append))
    assert await comes_true(lambda: bool(told))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, LONGEST)
    assert registry.row("loop-0000-0002") is None


async def test_a_project_that_was_not_committed_has_no_worktree_and_none_is_left(tmp_path: Path) -> None:
    repository(tmp_path)
    late = tmp_path / "late"
    late.mkdir()
    registry = registry_of(late)
    await claim(registry, row(late), exclusive=False, told=unheard)
    with pytest.raises(TenterError, match="commit the project first"):
        await claim(registry, row(late, "loop-0000-0002"), exclusive=False, told=unheard)
    assert not (tmp_path / ".worktrees" / "loop-0000-0002").exists()
    assert registry.row("loop-0000-0002") is None


async def test_a_loop_that_could_not_begin_leaves_nothing(tmp_path: Path) -> None:
    project = repository(tmp_path)
    registry = registry_of(project)
    await claim(registry, row(project), exclusive=False, told=unheard)
    moved = await claim(registry, row(project, "loop-0000-0002"), exclusive=False, told=unheard)
    place_of(moved).make()
    give_back(registry, moved)
    assert not Path(moved.workspace).exists()
    assert not place_of(moved).folder.exists()
    assert [one.loop_id for one in registry.rows(everything=True)] == ["loop-0000-0001"]


def test_all_folders_of_a_repository_have_one_registry(tmp_path: Path) -> None:
    project = repository(tmp_path, project="part")
    assert registry_of(project).path == registry_of(tmp_path).path
    assert registry_of(tmp_path).path.is_relative_to(os.path.realpath(tmp_path))


@pytest.mark.fault(47)
async def test_who_dies_while_the_worktree_is_made_leaves_none_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = repository(tmp_path)
    registry = registry_of(project)
    await claim(registry, row(project), exclusive=False, told=unheard)

    def dies(root: Path, loop_id: str) -> None:
        add_worktree(root, loop_id)
        raise KeyboardInterrupt

    monkeypatch.setattr("tenter.loop.claim.add_worktree", dies)
    with pytest.raises(KeyboardInterrupt):
        await claim(registry, row(project, "loop-0000-0002"), exclusive=False, told=unheard)
    left = registry.row("loop-0000-0002")
    assert left is not None
    assert Path(left.workspace).is_dir()
    (pruned,) = await prune(registry, [left.but(status="failed")])
    assert pruned.result == "removed"
    assert not Path(left.workspace).exists()


async def test_a_worktree_that_cannot_be_made_leaves_no_loop(tmp_path: Path) -> None:
    project = repository(tmp_path)
    registry = registry_of(project)
    await claim(registry, row(project), exclusive=False, told=unheard)
    (there := tmp_path / ".worktrees" / "loop-0000-0002").mkdir(parents=True)
    (there / "mine").touch()
    with pytest.raises(TenterError, match="something is there already"):
        await claim(registry, row(project, "loop-0000-0002"), exclusive=False, told=unheard)
    assert registry.row("loop-0000-0002") is None
    assert (there / "mine").exists()
