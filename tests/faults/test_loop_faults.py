"""Loops whose configuration, programs, workspace or command line are not what they should be (issue "Bad input").

Each case is a real `tenter` in a process of its own: what it says and how it ends, and what is left afterwards.
"""

import json
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.commandline import environment, hook_script, tenter
from tests.faults.living import (
    DONE,
    RUN,
    commit,
    ended_well,
    git,
    git_project,
    living,
    loop_id,
    nothing_left,
    rows,
    runs,
    started_nothing,
    summary,
    suspended,
)
from tests.looping import EMIT, command_hook, loop_project, run_loop, suspends
from tests.outside import alive, alive_with

RAN = "echo ran >> ran"

# what the file says


def written(folder: Path, loop: str, hook: str = "") -> Path:
    """A configuration as text, whose loop and whose one hook are given."""
    loop_project(folder, RAN)
    events = f"{{iteration.start.pre: [{{name: guard, command: [./agent.sh]{hook}}}]}}" if hook else "{}"
    (folder / "tenter.yaml").write_text(
        f"version: 1\nloop:\n  backend: {{command: [./agent.sh]}}\n{loop}\nhooks:\n  events: {events}\n"
    )
    return folder


@pytest.mark.parametrize(
    ("loop", "hook", "says"),
    [
        ("", ", timeout_seconds: 5", ("iteration.start.pre[0]", "'on_error'", "warn, block or suspend")),
        ("", ", on_error: block, timeout_seconds: 0", ("timeout_seconds", "above 0")),
        ("", ", on_error: block, timeout_seconds: -1", ("timeout_seconds", "above 0")),
        ("", ", on_error: fail", ("on_error", "'fail'")),
        ("", ", on_error: block, suspend_mode: wait", ("suspend_mode", "wait_for_resume")),
        ("  answer_timeout_seconds: 0", "", ("answer_timeout_seconds", "above 0")),
        ("  max_runtime_seconds: -5", "", ("max_runtime_seconds", "above 0")),
        ("  max_iterations: 0", "", ("max_iterations",)),
        ("  max_iterations: 1.5", "", ("max_iterations",)),
        ("  max_consecutive_failures: -1", "", ("max_consecutive_failures",)),
        ("  max_cost_usd: .nan", "", ("max_cost_usd",)),
        ("  max_iteration: 3", "", ("'max_iteration'", "'max_iterations'")),
        ("  max_iterations: 3\n  max_iterations: 4", "", ("tenter.yaml:5:", "'max_iterations'", "line 4")),
        ("  max_runtime_seconds: 1:30", "", ("max_runtime_seconds",)),
        ("  max_iterations: 017", "", ("max_iterations",)),
        ("  completion_promise: ''", "", ("completion_promise",)),
        ("  required_events: [a b]", "", ("required_events",)),
        ("  hats: {a: {triggers: []}}", "", ("triggers",)),
        ("  preflight: {skip: [trusts]}", "", ("'trusts'", "'trust'")),
    ],
)
@pytest.mark.fault(53)
@pytest.mark.fault(54)
def test_a_file_that_says_what_it_should_not_ends_with_2_names_the_place_and_starts_nothing(
    loop: str, hook: str, says: tuple[str, ...], tmp_path: Path
) -> None:
    done = tenter(*RUN, cwd=written(tmp_path, loop, hook))
    ended_well(done, tmp_path, code=2)
    assert [text for text in ("tenter.yaml", *says) if text not in done.err] == [], done.err
    started_nothing(tmp_path)


@pytest.mark.fault(54)
def test_words_that_yaml_takes_for_truths_are_taken_as_they_are_written(tmp_path: Path) -> None:
    written(tmp_path, "  completion_promise: no\n  required_events: [on]\n  max_iterations: 2")
    (tmp_path / "agent.sh").write_text(f"#!/bin/sh\n{RAN}\n[ $(wc -l < ran) = 2 ] && {EMIT} on\necho no\n")
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=0, reason="completed")
    assert runs(tmp_path) == 2, "at first 'no' did not count, for 'on' was not published"


# programs that vanish or change


def run_json_log(folder: Path) -> str:
    """What ran of the only loop's hooks."""
    done = tenter("hooks", "log", "--loop", loop_id(folder), "--json", cwd=folder)
    assert done.code == 0, done
    return done.out


@pytest.mark.parametrize(
    ("policy", "code", "reason", "ran"),
    [("warn", 2, "max_iterations", 2), ("block", 1, "blocked", 1)],
)
def test_a_hook_that_vanishes_while_the_loop_runs_does_what_on_error_says(
    policy: str, code: int, reason: str, ran: int, tmp_path: Path
) -> None:
    hook = command_hook(tmp_path, "guard", "exit 0", on_error=policy)
    loop_project(tmp_path, f"{RAN}; rm -f guard.sh", hooks={"iteration.start.pre": [hook]}, loop={"max_iterations": 2})
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=code, reason=reason)
    assert runs(tmp_path) == ran
    assert "'guard'" in done.err
    results = [one["result"] for one in json.loads(run_json_log(tmp_path))]
    assert results == ["ok", "spawn_failed"]
    if policy == "block":
        assert "guard.sh" in done.err, "the file at fault"


def test_a_loop_that_a_vanished_hook_suspends_goes_on_when_the_hook_is_back(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "guard", "exit 0", on_error="suspend", suspend_mode="wait_then_retry")
    loop_project(
        tmp_path, f"{RAN}; mv guard.sh gone.sh", hooks={"iteration.start.post": [hook]}, loop={"max_iterations": 2}
    )
    with living(cwd=tmp_path) as loop:
        loop.says(": suspended at post.iteration.start by guard: ")
        assert "guard.sh" in loop.err
        (tmp_path / "gone.sh").rename(tmp_path / "guard.sh")
        assert tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path).code == 0
        ended_well(loop.end(), tmp_path, code=2, reason="max_iterations")
    assert runs(tmp_path) == 2


def test_a_hook_that_vanishes_between_validate_and_run_starts_nothing(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "guard", "exit 0")
    loop_project(tmp_path, RAN, hooks={"iteration.start.pre": [hook]})
    assert tenter("hooks", "validate", cwd=tmp_path).code == 0
    trusted = environment(tmp_path)["TENTER_TRUST"]
    (tmp_path / "guard.sh").unlink()
    for arguments in (RUN, (*RUN, "--skip-preflight")):
        done = tenter(*arguments, cwd=tmp_path, TENTER_TRUST=trusted)
        ended_well(done, tmp_path, code=2)
        assert "guard.sh" in done.err
        started_nothing(tmp_path)


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    ("policy", "code", "reason", "ran"),
    [("warn", 2, "max_iterations", 2), ("block", 1, "blocked", 1)],
)
def test_a_hook_that_changes_while_the_loop_runs_is_not_run(
    policy: str, code: int, reason: str, ran: int, tmp_path: Path
) -> None:
    hook = command_hook(tmp_path, "guard", "echo asked >> asked", on_error=policy)
    change = "echo 'echo changed >> changed' >> guard.sh"
    loop_project(tmp_path, f"{RAN}; {change}", hooks={"iteration.start.pre": [hook]}, loop={"max_iterations": 2})
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=code, reason=reason)
    assert (runs(tmp_path), runs(tmp_path, "asked")) == (ran, 1)
    told = done.err if policy == "block" else tenter("hooks", "log", "--loop", loop_id(tmp_path), cwd=tmp_path).out
    assert "guard.sh' changed since it was trusted" in told
    assert "'guard'" in done.err
    assert not (tmp_path / "changed").exists()


@pytest.mark.fault(56)
@pytest.mark.parametrize("change", ["echo 'touch changed' >> agent.sh", "cp other.sh new && mv new agent.sh"])
def test_a_backend_that_changes_while_the_loop_runs_is_not_run(change: str, tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; {change}; exit 0", loop={"max_iterations": 3, "max_consecutive_failures": 2})
    (tmp_path / "other.sh").write_text("#!/bin/sh\ntouch changed\n")
    (tmp_path / "other.sh").chmod(0o755)
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=1)
    assert runs(tmp_path) == 1
    assert not (tmp_path / "changed").exists()
    assert "agent.sh" in done.err
    assert "tenter hooks trust" in done.err


@pytest.mark.promise(14)
@pytest.mark.fault(56)
@pytest.mark.parametrize("vouched", ["record", "nobody", "digest"])
def test_a_backend_that_is_mended_while_the_loop_is_suspended_runs_once_it_is_trusted(
    vouched: str, tmp_path: Path
) -> None:
    """Only a record can be renewed; a digest stands for the one state that it was given for."""
    loop_project(tmp_path, RAN, hooks={"loop.start.pre": [suspends(tmp_path)]})
    digest = environment(tmp_path)["TENTER_TRUST"] if vouched == "digest" else ""
    assert tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST=digest).code == 0
    with suspended(tmp_path, TENTER_TRUST=digest) as loop:
        hook_script(tmp_path, "agent.sh", f"{RAN}; {DONE}")
        if vouched != "nobody":
            assert tenter("hooks", "trust", "--yes", cwd=tmp_path, TENTER_TRUST=digest).code == 0
        assert tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path, TENTER_TRUST=digest).code == 0
        done = loop.end()
    if vouched == "record":
        ended_well(done, tmp_path, code=0, reason="completed")
        assert runs(tmp_path) == 1
    else:
        ended_well(done, tmp_path, code=1, reason="failed")
        assert runs(tmp_path) == 0
        assert "agent.sh' changed since it was trusted; look at it, then 'tenter hooks trust'" in done.err


@pytest.mark.fault(10)
@pytest.mark.parametrize(
    ("harm", "says", "reason"),
    [
        ("rm agent.sh", ("agent.sh", "ENOENT"), "failed"),
        ("chmod 644 agent.sh", ("agent.sh", "EACCES"), "consecutive_failures"),
        ("mv bin gone", ("bin/sh", "ENOENT"), "consecutive_failures"),
    ],
)
def test_a_backend_that_cannot_be_started_any_more_ends_the_loop(
    harm: str, says: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    loop_project(tmp_path, f"{RAN}; {harm}", loop={"max_consecutive_failures": 3})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    script = tmp_path / "agent.sh"
    script.write_text(script.read_text().replace("#!/bin/sh", f"#!{tmp_path}/bin/sh"))
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=1, reason=reason)
    assert runs(tmp_path) == 1
    assert [text for text in says if text not in done.err] == [], done.err
    assert summary(tmp_path)["iterations"] == (2 if reason == "failed" else 4)


@pytest.mark.parametrize(("harm", "says"), [("unlink", "agent.sh"), ("chmod", "agent.sh")])
def test_a_backend_that_is_not_there_or_no_program_starts_nothing(harm: str, says: str, tmp_path: Path) -> None:
    loop_project(tmp_path, RAN)
    if harm == "unlink":
        (tmp_path / "agent.sh").unlink()
    else:
        (tmp_path / "agent.sh").chmod(0o644)
    done = run_loop(tmp_path)
    ended_well(done, tmp_path, code=2)
    assert says in done.err
    started_nothing(tmp_path)


# a workspace that vanishes


def two_loops(folder: Path, agent: str, hooks: Mapping[str, object]) -> Path:
    """A git project, in which the first loop holds the project, and a later one gets a worktree."""
    waits = f"case $PWD in */.worktrees/*) ;; *) echo here > '{folder}/first'; exec sleep 60;; esac\n"
    return git_project(folder, waits + agent, hooks)


@pytest.mark.parametrize("phase", ["backend", "suspended", "question"])
def test_a_workspace_that_vanishes_ends_its_loop_with_1_and_no_other_loop(phase: str, tmp_path: Path) -> None:
    agents = {
        "backend": f"touch '{tmp_path}/began'; exec sleep 60",
        "suspended": "true",
        "question": f"{EMIT} human.interact 'which one?'",
    }
    guard = command_hook(tmp_path, "guard", "case $PWD in */.worktrees/*) exit 1;; esac", on_error="suspend")
    two_loops(tmp_path, agents[phase], {"iteration.start.post": [guard]} if phase == "suspended" else {})
    with living(cwd=tmp_path) as first:
        first.until((tmp_path / "first").exists, "the first loop works")
        with living(cwd=tmp_path) as second:
            match phase:
                case "backend":
                    second.until((tmp_path / "began").exists, "its agent runs")
                case "suspended":
                    second.says(": suspended at ")
                case _:
                    second.says("which one?")
            mine = rows(tmp_path)[1]
            shutil.rmtree(tmp_path / ".worktrees" / str(mine["loop_id"]))
            done = second.end(20)
        assert done.code == 1, done
        assert f"{tmp_path}/.worktrees/{mine['loop_id']}" in done.err
        assert "is gone" in done.err or "No such file" in done.err, "as who needs the folder first finds it"
        assert "Traceback" not in done.err
        one, other = rows(tmp_path)
        assert (one["status"], other["status"]) == ("running", "failed")
        assert other["reason"] in ("failed", "consecutive_failures"), "its agent may need the folder first, and fail"
        assert not alive_with(f".worktrees/{mine['loop_id']}"), "nothing of it lives on"
        assert alive(int(str(one["pid"])))
        first.process.send_signal(signal.SIGTERM)
        ended_well(first.end(), tmp_path, code=143)


def test_a_loop_whose_workspace_is_gone_with_its_process_is_not_continued_anew(tmp_path: Path) -> None:
    two_loops(tmp_path, RAN, {"iteration.start.post": [suspends(tmp_path)]})
    with living(cwd=tmp_path) as first:
        first.says(": suspended at ")
        with living(cwd=tmp_path) as second:
            second.says(": suspended at ")
            second.kill()
        gone = rows(tmp_path)[1]
        shutil.rmtree(str(gone["workspace"]))
        done = tenter("loop", "resume", str(gone["loop_id"]), cwd=tmp_path)
        assert done.code == 1, done
        assert str(gone["workspace"]) in done.err
        assert "Traceback" not in done.err
        assert not Path(str(gone["workspace"])).exists(), "it is not made up"
        stopped = tenter("loop", "stop", str(gone["loop_id"]), cwd=tmp_path)
        assert "Traceback" not in stopped.err
        assert rows(tmp_path)[1]["status"] == "failed", stopped
        assert rows(tmp_path)[0]["status"] == "suspended", "the other loop is as it was"


# a worktree that cannot be made


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        ("no commit", "no commit"),
        ("file", ".worktrees"),
        ("link", "is not in"),
        ("no git", "git"),
        ("no folder", "commit the project first"),
    ],
)
def test_a_second_loop_that_can_have_no_worktree_ends_with_2_and_leaves_nothing(
    harm: str, says: str, tmp_path: Path
) -> None:
    project, path = tmp_path, None
    if harm == "no folder":
        (project := tmp_path / "below").mkdir()
        git(tmp_path, "init", "--quiet")
        (tmp_path / "other").write_text("")
        commit(tmp_path)
    loop_project(project, RAN, hooks={"iteration.start.pre": [suspends(project)]})
    if harm == "no commit":
        git(project, "init", "--quiet")
    elif harm != "no folder":
        git(project, "init", "--quiet")
        commit(project)
    with living(cwd=project) as first:
        first.says(": suspended at ")
        match harm:
            case "file":
                (tmp_path / ".worktrees").write_text("mine")
            case "link":
                (tmp_path / ".worktrees").symlink_to(tmp_path.parent)
            case "no git":
                (path := tmp_path / "tools").mkdir()
                for name in ("sh", "env", "cat"):
                    (path / name).symlink_to(str(shutil.which(name)))
            case _:
                pass
        before = rows(tmp_path)
        done = tenter(*RUN, cwd=project, PATH=str(path or os.environ["PATH"]))
        assert done.code == 2, done
        assert says in done.err
        assert "Traceback" not in done.err
        assert rows(tmp_path) == before, "nothing is registered, and the other loop is as it was"
        assert len(list((project / ".tenter" / "loops").iterdir())) == 1
        if harm != "no git":
            assert "tenter/" not in git(tmp_path, "branch", "--list")
        assert tenter("loop", "resume", str(before[0]["loop_id"]), cwd=project).code in (0, 2)
        first.until(lambda: runs(project) > 0, "the first loop goes on")
    nothing_left(project)


# names of loops


@pytest.mark.fault(64)
def test_a_hostile_id_is_an_unknown_loop_and_touches_nothing(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE)
    assert run_loop(tmp_path).code == 0
    before = sorted(tmp_path.rglob("*"))
    for name in ("../../x", "", "/etc/passwd", "..", "con", "x" * 300, "a\nb", "%2e%2e", "loop-\u202e", "*", "-"):
        for verb in ("show", "resume") if name.startswith(".") else ("resume",):
            done = tenter("loop", verb, "--", name, cwd=tmp_path)
            assert (done.code, done.out) == (2, ""), done
            assert "there is no loop" in done.err
            assert len(done.err.splitlines()) == 1
            assert "\u202e" not in done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_the_beginning_of_two_ids_is_an_error_that_lists_both(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE)
    assert [run_loop(tmp_path).code for _ in range(2)] == [0, 0]
    ids = [str(one["loop_id"]) for one in rows(tmp_path)]
    for verb in ("show", "stop", "prune"):
        done = tenter("loop", verb, "loop-", cwd=tmp_path)
        assert (done.code, done.out) == (2, ""), done
        assert [one for one in ids if one not in done.err] == []
    assert tenter("loop", "show", ids[0], cwd=tmp_path).code == 0


# what a loop is given to do


@pytest.mark.parametrize(
    ("harm", "says"), [("missing", "cannot be read"), ("folder", "cannot be read"), ("bytes", "not UTF-8")]
)
def test_a_prompt_file_that_is_none_ends_with_2_and_starts_nothing(harm: str, says: str, tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; {DONE}")
    if harm == "folder":
        (tmp_path / "task.md").mkdir()
    elif harm == "bytes":
        (tmp_path / "task.md").write_bytes(b"do \xff\xfe")
    done = tenter("loop", "run", "--prompt-file", "task.md", cwd=tmp_path)
    ended_well(done, tmp_path, code=2)
    assert "'task.md'" in done.err
    assert says in done.err
    started_nothing(tmp_path)


@pytest.mark.parametrize("way", ["stdin", "argument"])
def test_a_prompt_of_10_mb_reaches_the_agent_whole(way: str, tmp_path: Path) -> None:
    script = "wc -c > size" if way == "stdin" else 'wc -c "$(echo "$1" | grep -o \'/[^ ]*\')" > size'
    loop_project(tmp_path, f"{script}; {DONE}")
    backend = {"command": ["./agent.sh"], "prompt": way}
    (tmp_path / "tenter.yaml").write_text(
        json.dumps({"version": 1, "loop": {"backend": backend}, "hooks": {"events": {}}})
    )
    size = 10_000_000
    (tmp_path / "task.md").write_bytes(b"word " * (size // 5))
    done = tenter("loop", "run", "--prompt-file", "task.md", cwd=tmp_path)
    ended_well(done, tmp_path, code=0, reason="completed")
    assert int((tmp_path / "size").read_text().split()[0]) > size
    listed = tenter("loop", "list", "--all", cwd=tmp_path)
    assert (listed.code, len(listed.out) < 1000) == (0, True)
