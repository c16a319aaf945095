"""`tenter loop prune` takes away what loops that are over left, and says what it kept and why."""

import json
import subprocess
from pathlib import Path

from tests.commandline import LONGEST, gate, heard, run_json, started, tenter
from tests.looping import loop_project, loops, run_loop
from tests.outside import alive_with

DONE = "echo LOOP_COMPLETE"
RUN = ("loop", "run", "--prompt", "do it")


def git(folder: Path, *words: str) -> None:
    own = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *words], cwd=folder, capture_output=True, timeout=LONGEST, check=True)


def test_loops_that_are_over_are_taken_away(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE)
    for _ in range(2):
        run_loop(tmp_path)
    ids = [str(row["loop_id"]) for row in loops(tmp_path)]
    done = tenter("loop", "prune", ids[0], cwd=tmp_path)
    assert (done.code, done.out) == (0, f"{ids[0]}: removed\n")
    assert run_json("loop", "prune", cwd=tmp_path) == {
        "loops": [{"loop_id": ids[1], "result": "removed", "message": "removed"}]
    }
    assert loops(tmp_path) == []
    assert list((tmp_path / ".tenter" / "loops").iterdir()) == []
    done = tenter("loop", "prune", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "there is nothing to take away\n")


def test_a_crashed_loop_is_taken_away_only_by_name(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(tmp_path, f"echo now > '{tmp_path}/began' && exec sleep 60")
        with started(*RUN, cwd=tmp_path) as crashed:
            heard(began)
            crashed.kill()
            crashed.wait(LONGEST)
    loop_id = str(loops(tmp_path)[0]["loop_id"])
    done = tenter("loop", "prune", cwd=tmp_path)
    assert (done.code, done.out) == (0, "")
    assert done.err == "1 crashed left: 'tenter loop prune LOOP' takes one away, 'resume' continues it\n"
    assert [row["status"] for row in loops(tmp_path)] == ["crashed"]
    done = tenter("loop", "prune", loop_id, cwd=tmp_path)
    assert done.code == 0, done
    assert done.out.startswith(f"{loop_id}: removed; ended 1 process that the loop {loop_id} had left running")
    assert not alive_with(f"TENTER_LOOP_ID={loop_id}")
    assert loops(tmp_path) == []


def test_a_loop_that_runs_is_left_and_one_with_changes_of_its_own_is_kept(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(
            tmp_path,
            f'[ -e .git ] && [ -d .git ] && echo now > "{tmp_path}/began" && exec sleep 60; echo work > work; {DONE}',
        )
        git(tmp_path, "init", "--quiet")
        git(tmp_path, "add", "tenter.yaml", "agent.sh")
        git(tmp_path, "commit", "--quiet", "--message=begin")
        with started(*RUN, cwd=tmp_path) as running:
            heard(began)
            second = run_loop(tmp_path, "--json")
            assert second.code == 0, second.err
            told = json.loads(second.out)
            running_id = next(str(row["loop_id"]) for row in loops(tmp_path) if row["status"] == "running")
            done = tenter("loop", "prune", cwd=tmp_path)
            refused = tenter("loop", "prune", running_id, cwd=tmp_path)
            running.terminate()
            running.wait(LONGEST)
    assert done.code == 1
    assert done.out.startswith(f"{told['loop_id']}: kept: ")
    assert (Path(told["workspace"]) / "work").read_text() == "work\n"
    assert (refused.code, refused.out) == (2, "")
    assert f"'tenter loop stop {running_id}' ends it" in refused.err
