"""What loops that are over left is taken away; nobody's work, and nothing of a loop that is not over, goes with it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.loop.orphaned import orphan
from tests.outside import alive

from tenter.executors.process_id import ProcessId, this_process
from tenter.kernel import TenterError
from tenter.loop import LoopRow, place_of, prune, registry_of
from tenter.loop.suspension import Suspender, SuspendState, write_state
from tenter.loop.worktree import add_worktree

GONE = ProcessId(this_process().pid, "an earlier process of this number")


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *own, *words], cwd=folder, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    root = folder / "repo"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "tenter.yaml").write_text("version: 1\n")
    git(root, "add", "tenter.yaml")
    git(root, "commit", "--quiet", "--message=begin")
    return root


def registered(root: Path, loop_id: str, *, worktree: bool = False, process: ProcessId = GONE) -> LoopRow:
    """A loop of which all is there that one leaves."""
    tree = add_worktree(root, loop_id) if worktree else None
    row = LoopRow(
        loop_id=loop_id,
        primary=tree is None,
        project=str(root),
        workspace=str(root if tree is None else tree.path),
        config=str(root / "tenter.yaml"),
        branch=None if tree is None else tree.branch,
        pid=process.pid,
        started=process.started,
        started_at=1_000.0,
    )
    assert registry_of(root).add(row, hold=False) is None
    place = place_of(row)
    place.make()
    place.output.write_text("said\n")
    return row


def over(root: Path, row: LoopRow) -> None:
    registry_of(root).update(row.loop_id, status="completed", reason="completed", ended_at=2_000.0)


def ids(root: Path) -> set[str]:
    return {row.loop_id for row in registry_of(root).rows(everything=True)}


def state_of(row: LoopRow) -> SuspendState:
    by = Suspender(hook_name="gate", reason="look first", code="", suspend_mode="wait_for_resume")
    return SuspendState(
        loop_id=row.loop_id,
        phase_event="pre.iteration.start",
        hook_name="gate",
        reason="look first",
        suspend_mode="wait_for_resume",
        suspended_at="2026-02-28T15:31:00Z",
        suspension_id="00000000000000aa",
        suspensions=(by,),
    )


async def test_what_loops_that_have_ended_left_is_taken_away_and_of_a_crashed_one_only_by_name(tmp_path: Path) -> None:
    root = repository(tmp_path)
    crashed = registered(root, "loop-b", worktree=True)
    ended = [registered(root, loop_id, worktree=True) for loop_id in ("loop-a", "loop-c")]
    for row in ended:
        over(root, row)
    assert [(one.loop_id, one.result, one.message) for one in await prune(registry_of(root))] == [
        ("loop-c", "removed", "removed"),
        ("loop-a", "removed", "removed"),
    ]
    assert ids(root) == {"loop-b"}
    assert place_of(crashed).output.read_text() == "said\n"
    assert await prune(registry_of(root)) == ()
    assert [one.loop_id for one in await prune(registry_of(root), [crashed])] == ["loop-b"]
    assert ids(root) == set()
    for row in (crashed, *ended):
        assert not Path(row.workspace).exists()
        assert not place_of(row).folder.exists()
    assert git(root, "branch", "--format=%(refname:short)") == "main"
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("kept", [False, True])
async def test_what_a_crashed_loop_left_running_is_ended_and_that_is_said(kept: bool, tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a", worktree=True)
    if kept:
        (Path(row.workspace) / "new").write_text("not committed\n")
    with orphan(loop_id="loop-a") as agent:
        (pruned,) = await prune(registry_of(root), [row])
        assert not alive(agent)
    assert pruned.result == ("kept" if kept else "removed")
    assert "; ended 1 process that the loop loop-a had left running" in pruned.message


async def test_nothing_of_a_loop_that_is_not_over_is_touched(tmp_path: Path) -> None:
    root = repository(tmp_path)
    running = registered(root, "loop-running", worktree=True, process=this_process())
    waiting = registered(root, "loop-waiting", worktree=True)
    registry_of(root).suspend("loop-waiting", state_of(waiting))
    write_state(place_of(waiting), state_of(waiting))
    over(root, registered(root, "loop-over"))
    assert [one.loop_id for one in await prune(registry_of(root))] == ["loop-over"]
    assert ids(root) == {"loop-running", "loop-waiting"}
    for row in (running, waiting):
        assert place_of(row).output.read_text() == "said\n"
        assert (Path(row.workspace) / "tenter.yaml").exists()
    assert place_of(waiting).suspend_state.exists()


async def test_one_that_is_named_and_not_over_is_refused_before_anything_is_taken_away(tmp_path: Path) -> None:
    root = repository(tmp_path)
    ended = registered(root, "loop-over")
    over(root, ended)
    running = registered(root, "loop-running", worktree=True, process=this_process())
    rows = [row for row in registry_of(root).rows(everything=True) if row.loop_id in ("loop-over", "loop-running")]
    with pytest.raises(TenterError, match="loop-running is not over; 'tenter loop stop loop-running' ends it"):
        await prune(registry_of(root), rows)
    assert ids(root) == {"loop-over", "loop-running"}
    assert place_of(running).folder.exists()


async def test_only_those_that_are_named_are_taken_away(tmp_path: Path) -> None:
    root = repository(tmp_path)
    rows = [registered(root, f"loop-{name}") for name in "ab"]
    assert [one.loop_id for one in await prune(registry_of(root), rows[:1])] == ["loop-a"]
    assert ids(root) == {"loop-b"}
    assert place_of(rows[1]).folder.exists()


async def test_a_branch_with_commits_that_are_nowhere_else_stays_and_that_is_said(tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a", worktree=True)
    (Path(row.workspace) / "work").write_text("done\n")
    git(Path(row.workspace), "add", "work")
    git(Path(row.workspace), "commit", "--quiet", "--message=work")
    (pruned,) = await prune(registry_of(root), [row])
    assert pruned.result == "removed"
    assert "its branch 'tenter/loop-a' stays: it has commits that are nowhere else" in pruned.message
    assert git(root, "show", "tenter/loop-a:work") == "done"
    assert not Path(row.workspace).exists()
    assert ids(root) == set()


@pytest.mark.parametrize("change", ["new", "tenter.yaml"])
async def test_changes_that_are_not_committed_keep_all_of_a_loop(change: str, tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a", worktree=True)
    (Path(row.workspace) / change).write_text("not committed\n")
    (pruned,) = await prune(registry_of(root), [row])
    assert pruned.result == "kept"
    assert "git says:" in pruned.message
    assert (Path(row.workspace) / change).read_text() == "not committed\n"
    assert place_of(row).output.exists()
    assert ids(root) == {"loop-a"}


async def test_a_suspend_state_goes_with_the_loop_that_left_it_and_no_other(tmp_path: Path) -> None:
    root = repository(tmp_path)
    rows = [registered(root, f"loop-{name}") for name in "ab"]
    write_state(place_of(rows[0]), state_of(rows[0]))
    await prune(registry_of(root), rows[1:])
    assert place_of(rows[0]).suspend_state.exists()
    await prune(registry_of(root), rows[:1])
    assert not place_of(rows[0]).suspend_state.exists()


def nothing(row: LoopRow) -> None:
    """All is as the loop left it."""


def without_its_folder(row: LoopRow) -> None:
    place_of(row).output.unlink()
    place_of(row).folder.rmdir()


def without_its_worktree(row: LoopRow) -> None:
    git(Path(row.project), "worktree", "remove", "--force", row.workspace)


def with_a_damaged_state(row: LoopRow) -> None:
    place_of(row).suspend_state.write_bytes(b"{")


async def test_a_state_that_nobody_can_read_is_left_where_it_is(tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a")
    with_a_damaged_state(row)
    (pruned,) = await prune(registry_of(root), [row])
    assert (pruned.result, ids(root)) == ("removed", set())
    assert place_of(row).suspend_state.read_bytes() == b"{"


@pytest.mark.parametrize("befell", [nothing, without_its_folder, without_its_worktree, with_a_damaged_state])
async def test_what_is_gone_already_is_no_error(befell: Callable[[LoopRow], None], tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a", worktree=True)
    befell(row)
    (pruned,) = await prune(registry_of(root), [row])
    assert (pruned.result, ids(root)) == ("removed", set())


@pytest.mark.fault(64)
async def test_nothing_behind_a_link_that_leads_out_of_the_project_is_taken_away(tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a")
    outside = tmp_path / "outside"
    place_of(row).folder.parent.rename(outside)
    place_of(row).folder.parent.symlink_to(outside)
    (pruned,) = await prune(registry_of(root), [row])
    assert pruned.result == "kept"
    assert "leads out of the project" in pruned.message
    assert (outside / "loop-a" / "output.log").exists()
    assert ids(root) == {"loop-a"}


@pytest.mark.fault(45)
async def test_a_crashed_loop_that_somebody_continues_meanwhile_is_left_to_him(tmp_path: Path) -> None:
    root = repository(tmp_path)
    row = registered(root, "loop-a")
    code = (
        "from pathlib import Path\nfrom tenter.loop import registry_of\n"
        "from tenter.executors.process_id import this_process\n"
        f"registry_of(Path({str(root)!r})).take_over('loop-a', this_process())\nprint('taken', flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        (pruned,) = await prune(registry_of(root), [row])
        other.communicate("\n", timeout=10)
    assert pruned.result == "kept"
    assert f"process {other.pid} works where it was" in pruned.message
    assert place_of(row).output.exists()
    assert ids(root) == {"loop-a"}


async def test_where_nothing_ran_there_is_nothing_to_take_away(tmp_path: Path) -> None:
    root = repository(tmp_path)
    assert await prune(registry_of(root)) == ()
    assert not (root / ".tenter").exists()
