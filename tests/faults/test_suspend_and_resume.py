"""Suspensions that several processes, dead processes and hostile files have to do with (FAULTS 45 to 48).

Every process is a real `tenter`, and every death a SIGKILL.
"""

import getpass
import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.commandline import LONGEST, TENTER, Ended, environment, tenter
from tests.faults.living import (
    DONE,
    RUN,
    ended_well,
    journaled,
    living,
    loop_id,
    release,
    row,
    runs,
    suspended,
    wait_until,
)
from tests.looping import EMIT, command_hook, loop_project, suspends
from tests.outside import alive

RAN = "echo ran >> ran"


def project(folder: Path, agent: str = f"{RAN}; {DONE}") -> Path:
    """A loop that is suspended before its agent runs for the first time."""
    return loop_project(folder, agent, hooks={"iteration.start.pre": [suspends(folder)]})


def at_once(folder: Path, *verbs: str) -> list[Ended]:
    """What `tenter loop VERB` of the only loop came to, all of them started at the same moment."""
    given, named = environment(folder), loop_id(folder)
    running = [
        subprocess.Popen(
            [TENTER, "loop", verb, named],
            cwd=folder,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for verb in verbs
    ]
    ended: list[Ended] = []
    for process in running:
        out, err = process.communicate(timeout=LONGEST)
        ended.append(Ended(process.returncode, out, err))
    return ended


def state_of(folder: Path) -> Path:
    return folder / ".tenter" / "suspend-state.json"


def signal_of(folder: Path, kind: str = "resume", **changes: object) -> bytes:
    """A signal as `tenter loop resume` writes it, with changes."""
    document = {
        "schema_version": 1,
        "kind": kind,
        "loop_id": loop_id(folder),
        "suspension_id": json.loads(state_of(folder).read_text())["suspension_id"],
        "at": "2026-02-28T15:31:00Z",
        "by": {"pid": 1, "user": "somebody"},
    }
    return json.dumps({**document, **changes}).encode()


# two who resume


@pytest.mark.fault(45)
def test_of_two_processes_that_resume_a_living_loop_one_wins_and_the_other_hears_by_whom_and_when(
    tmp_path: Path,
) -> None:
    with suspended(project(tmp_path)) as loop:
        told = at_once(tmp_path, "resume", "resume", "resume")
        ended_well(loop.end(), tmp_path, code=0, reason="completed")
    assert [one.code for one in told] == [0, 0, 0], told
    _, winner, at = release(tmp_path)
    by = f"(process {winner}) at {at}"
    first = [one for one in told if f"{loop_id(tmp_path)} goes on" in one.out]
    others = [one for one in told if one not in first]
    assert len(first) == 1, told
    assert [one for one in others if by not in one.out] == [], "by whom and when"
    assert (runs(tmp_path), journaled(tmp_path, "loop_released")) == (1, 1)


@pytest.mark.fault(45)
@pytest.mark.fault(47)
def test_of_two_processes_that_continue_a_dead_loop_one_does_and_the_other_hears_by_whom_and_when(
    tmp_path: Path,
) -> None:
    with suspended(project(tmp_path, f"{RAN}; while [ ! -e go ]; do :; done; {DONE}")) as loop:
        loop.kill()
    verb = ("loop", "resume", loop_id(tmp_path))
    with living(*verb, cwd=tmp_path) as one, living(*verb, cwd=tmp_path) as other:
        both = (one.process, other.process)
        wait_until(lambda: [each.poll() for each in both].count(None) == 1, "one of the two has ended")
        wait_until(lambda: runs(tmp_path) == 1, "the other one runs the agent")
        winner, loser = (one, other) if one.process.poll() is None else (other, one)
        (tmp_path / "go").touch()
        ended_well(winner.end(), tmp_path, code=0, reason="completed")
        lost = loser.end()
    assert lost.code in (0, 2), lost
    told = lost.out + lost.err
    assert "Traceback" not in told
    _, by, _ = release(tmp_path)
    if by == loser.process.pid:  # it came when the other one had the loop and waited yet: its request was the first
        assert "goes on" in told
    else:
        assert f"process {winner.process.pid}" in told
        assert re.search(r"at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told), told
    assert (runs(tmp_path), journaled(tmp_path, "loop_released")) == (1, 1)


@pytest.mark.fault(46)
def test_a_resume_that_races_a_stop_has_one_end_that_both_are_told(tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        with suspended(project(folder, f"{RAN}; exec sleep 60")) as loop:
            verbs = ("resume", "stop") if number % 2 else ("stop", "resume")
            told = dict(zip(verbs, at_once(folder, *verbs), strict=True))
            resumed, stopped = told["resume"], told["stop"]
            ended_well(loop.end(), folder, code=1, reason="stopped")
        how, _, _ = release(folder)
        assert stopped.code == 0, stopped
        assert "was stopped by" in stopped.out
        if how == "stop":
            assert "it was stopped by" in resumed.out, resumed
            assert ("was not resumed" in resumed.out) == bool(resumed.code), "it is no failure where all was over"
            assert runs(folder) == 0
        else:
            assert resumed.code == 0, resumed
            assert "goes on" in resumed.out


# a process that dies


@pytest.mark.fault(47)
def test_a_loop_killed_while_it_is_suspended_is_found_and_goes_on_once_in_another_process(tmp_path: Path) -> None:
    with suspended(project(tmp_path)) as loop:
        loop.kill()
    named = loop_id(tmp_path)
    listed = tenter("loop", "list", cwd=tmp_path)
    assert "suspended" in listed.out
    assert "its process is gone" in listed.out
    done = tenter("loop", "resume", named, cwd=tmp_path)
    ended_well(done, tmp_path, code=0, reason="completed")
    assert (runs(tmp_path), journaled(tmp_path, "loop_released")) == (1, 1)
    assert not state_of(tmp_path).exists()
    again = tenter("loop", "resume", named, cwd=tmp_path)
    assert (again.code, runs(tmp_path)) == (0, 1)
    assert "is not suspended" in again.out
    _, winner, at = release(tmp_path)
    assert f"it was resumed by {getpass.getuser()} (process {winner}) at {at}" in again.out


DIES_AFTER = """\
import os, pathlib, signal, sys
import tenter.loop.points as points
name, after = sys.argv[1:3]
owner = {"write_state": points, "clear_state": points}.get(name) or getattr(points, "Points")
if name in ("suspend", "go_on", "release"):
    from tenter.loop.registry import Registry as owner
if name in ("suspended", "released"):
    from tenter.loop.record import LoopRecord as owner
whole = getattr(owner, name)
def dies(*given, **named):
    if after == "after":
        whole(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
async def dies_later(*given, **named):
    if after == "after":
        await whole(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, dies_later if name in ("suspended", "released") else dies)
from tenter.cli import entry
sys.exit(entry.run(sys.argv[3:]))
"""
"""A `tenter` that is killed, as from outside, at one moment that nobody could hit: after a step, or before it."""


def dying(folder: Path, step: str, when: str, *arguments: str) -> "subprocess.Popen[bytes]":
    script = folder.parent / f"{folder.name}-dies.py"
    script.write_text(DIES_AFTER)
    python = str(TENTER.with_name("python"))
    return subprocess.Popen(
        [python, script, step, when, *arguments],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    ("step", "when"),
    [
        ("suspended", "after"),
        ("write_state", "after"),
        ("suspend", "after"),
    ],
)
def test_a_loop_killed_on_its_way_into_a_suspension_does_nothing_before_it_is_resumed(
    step: str, when: str, tmp_path: Path
) -> None:
    process = dying(project(tmp_path), step, when, *RUN)
    assert process.wait(LONGEST) == -signal.SIGKILL
    assert runs(tmp_path) == 0
    is_on_record = step == "suspend"
    listed = tenter("loop", "list", cwd=tmp_path)
    assert ("suspended" if is_on_record else "crashed") in listed.out, listed
    with living("loop", "resume", loop_id(tmp_path), cwd=tmp_path) as loop:
        if step == "suspended":  # its hooks are asked once more: nobody could be told of the suspension before
            loop.says(": suspended at ")
            assert runs(tmp_path) == 0
            assert tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path).code == 0
        ended_well(loop.end(), tmp_path, code=0, reason="completed")
    assert runs(tmp_path) == 1


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    ("step", "when"),
    [("release", "before"), ("release", "after"), ("released", "after"), ("clear_state", "after")],
)
def test_a_loop_killed_between_the_decision_and_the_effect_has_the_effect_once(
    step: str, when: str, tmp_path: Path
) -> None:
    process = dying(project(tmp_path), step, when, *RUN)
    wait_until(lambda: state_of(tmp_path).exists() and row(tmp_path)["status"] == "suspended", "it is suspended")
    told = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
    assert process.wait(LONGEST) == -signal.SIGKILL
    if told.code != 0 or runs(tmp_path) == 0:
        again = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
        told = Ended(again.code, told.out + again.out, told.err + again.err)
    ended_well(told, tmp_path, code=0, reason="completed")
    assert runs(tmp_path) == 1
    if (step, when) != ("release", "before"):
        assert "second time" in told.err, "the second try is marked as such"
    assert release(tmp_path)[0] == "resume"


@pytest.mark.fault(47)
def test_a_loop_killed_when_it_was_released_and_before_it_went_on_asks_no_hook_again(tmp_path: Path) -> None:
    process = dying(project(tmp_path), "go_on", "after", *RUN)
    wait_until(lambda: state_of(tmp_path).exists() and row(tmp_path)["status"] == "suspended", "it is suspended")
    assert tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path).code == 0
    assert process.wait(LONGEST) == -signal.SIGKILL
    done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
    ended_well(done, tmp_path, code=0, reason="completed")
    assert "suspended at" not in done.err
    assert (runs(tmp_path), journaled(tmp_path, "loop_released")) == (1, 1)


@pytest.mark.fault(47)
def test_a_loop_killed_while_its_agent_runs_says_so_and_is_continued(tmp_path: Path) -> None:
    loop_project(tmp_path, f"{RAN}; [ -e go ] || exec sleep 60; {DONE}")
    with living(cwd=tmp_path) as loop:
        loop.until(lambda: runs(tmp_path) == 1, "its agent runs")
        loop.kill()
    assert "crashed" in tenter("loop", "list", cwd=tmp_path).out
    (tmp_path / "go").touch()
    done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
    assert done.code == 0, done
    assert row(tmp_path)["reason"] == "completed"
    assert "has ended; it goes on in this one" in done.err


def test_the_suspend_state_of_another_loop_is_not_what_a_dead_loop_goes_on_from(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "asked", "echo asked >> asked")
    agent = f"{RAN}; [ -e go ] || exec sleep 60; {DONE}"
    with living(cwd=loop_project(tmp_path, agent, hooks={"loop.complete.pre": [hook]})) as loop:
        loop.until(lambda: runs(tmp_path) == 1, "its agent runs")
        loop.kill()
    (other := tmp_path.parent / f"{tmp_path.name}-other").mkdir()
    with suspended(project(other)):
        state_of(tmp_path).write_bytes(state_of(other).read_bytes())
    (tmp_path / "go").touch()
    done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
    assert (done.code, row(tmp_path)["reason"]) == (0, "completed"), done
    assert "suspended at" not in done.err
    assert runs(tmp_path, "asked") == 1


@pytest.mark.fault(47)
def test_a_dead_loop_whose_hook_is_there_no_more_goes_on_where_it_waited_and_asks_the_others(tmp_path: Path) -> None:
    asked = {"loop.complete.pre": [command_hook(tmp_path, "asked", "echo asked >> asked")]}
    agent = f"{RAN}; {EMIT} plan.made; {DONE}"
    with suspended(loop_project(tmp_path, agent, hooks={"plan.created.pre": [suspends(tmp_path)], **asked})) as loop:
        loop.kill()
    loop_project(tmp_path, agent, hooks=asked)
    ended_well(tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path), tmp_path, code=0, reason="completed")
    assert (runs(tmp_path), runs(tmp_path, "asked")) == (1, 1)


@pytest.mark.fault(48)
def test_a_loop_whose_number_another_process_has_now_is_dead(tmp_path: Path) -> None:
    with suspended(project(tmp_path)) as loop:
        loop.kill()
    started = str(row(tmp_path)["started"])
    boot, _, ticks = started.rpartition("/")
    with closing(sqlite3.connect(tmp_path / ".tenter" / "loops.db")) as registry:
        registry.execute("UPDATE loops SET pid = ?, started = ?", (os.getpid(), f"{boot}/{int(ticks) - 1}"))
        registry.commit()
    assert "its process is gone" in tenter("loop", "list", cwd=tmp_path).out
    done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
    assert (done.code, runs(tmp_path)) == (0, 1), done
    assert alive(os.getpid())


# a state file that is none


HARMS: dict[str, Callable[[Path], object]] = {
    "corrupt": lambda path: path.write_bytes(b'{"schema_version": 1, "loop'),
    "bytes": lambda path: path.write_bytes(b"\0\xff" * 50),
    "empty": lambda path: path.write_bytes(b""),
    "newer": lambda path: path.write_bytes(
        json.dumps({**json.loads(path.read_text()), "schema_version": 2, "more": 1}).encode()
    ),
    "other": lambda path: path.write_bytes(
        json.dumps({**json.loads(path.read_text()), "suspension_id": "0" * 16}).encode()
    ),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "link": lambda path: (path.rename(path.with_name("moved")), path.symlink_to("moved")),
    "gone": lambda path: path.unlink(),
    "fifo": lambda path: (path.unlink(), os.mkfifo(path)),
}

SAYS = {"newer": "upgrade tenter", "folder": "no regular file", "link": "it is a link", "gone": "is gone"}


@pytest.mark.parametrize("harm", [one for one in HARMS if one not in ("bytes", "link")])
def test_a_state_file_that_nobody_can_read_is_told_and_the_loop_can_be_stopped(harm: str, tmp_path: Path) -> None:
    with suspended(project(tmp_path)) as loop:
        loop.kill()
    HARMS[harm](state_of(tmp_path))
    done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1), done
    assert "suspend-state.json" in done.err
    assert SAYS.get(harm, "") in done.err
    assert (row(tmp_path)["status"], runs(tmp_path)) == ("suspended", 0), "nothing was changed"
    stopped = tenter("loop", "stop", loop_id(tmp_path), cwd=tmp_path)
    assert stopped.code in (0, 1), stopped
    assert "Traceback" not in stopped.err
    assert (row(tmp_path)["status"], row(tmp_path)["reason"], runs(tmp_path)) == ("failed", "stopped", 0), stopped


@pytest.mark.parametrize("harm", ["corrupt", "newer", "folder", "gone"])
def test_a_living_loop_needs_no_state_file_to_be_resumed(harm: str, tmp_path: Path) -> None:
    with suspended(project(tmp_path)) as loop:
        HARMS[harm](state_of(tmp_path))
        done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
        assert done.code == 0, done
        assert "goes on" in done.out
        ended_well(loop.end(), tmp_path, code=0, reason="completed")
    assert runs(tmp_path) == 1


# signals that are none


def of_another_suspension(folder: Path, path: Path) -> None:
    path.write_bytes(signal_of(folder, suspension_id="0" * 16))


def of_another_loop(folder: Path, path: Path) -> None:
    path.write_bytes(signal_of(folder, loop_id="loop-0000-0000"))


def a_link(folder: Path, path: Path) -> None:
    (folder / "elsewhere").write_bytes(signal_of(folder))
    path.symlink_to(folder / "elsewhere")


STRANGERS: dict[str, Callable[[Path, Path], object]] = {
    "of another suspension": of_another_suspension,
    "of another loop": of_another_loop,
    "empty": lambda _, path: path.touch(),
    "garbage": lambda _, path: path.write_bytes(b"\xff\0resume\x1b[31m please\n" * 10),
    "a folder": lambda _, path: path.mkdir(),
    "a full folder": lambda _, path: (path.mkdir(), (path / "in it").touch()),
    "a link": a_link,
    "a link to nowhere": lambda _, path: path.symlink_to("nowhere"),
    "a fifo": lambda _, path: os.mkfifo(path),
}


@pytest.mark.parametrize(
    ("stranger", "kind"),
    [*((one, "resume") for one in STRANGERS), *((one, "stop") for one in ("empty", "garbage", "of another loop"))],
)
def test_a_signal_that_is_none_of_ours_does_nothing_is_told_and_keeps_nobody_from_asking(
    stranger: str, kind: str, tmp_path: Path
) -> None:
    with suspended(project(tmp_path)) as loop:
        STRANGERS[stranger](tmp_path, tmp_path / ".tenter" / f"{kind}-requested")
        loop.says(f"a {kind} signal was set aside")
        assert "\x1b" not in loop.err
        assert (row(tmp_path)["status"], runs(tmp_path)) == ("suspended", 0)
        done = tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path)
        assert done.code == 0, done
        ended_well(loop.end(), tmp_path, code=0, reason="completed")
    assert runs(tmp_path) == 1


def test_what_an_earlier_suspension_left_resumes_no_later_one(tmp_path: Path) -> None:
    hooks = {"iteration.start.pre": [suspends(tmp_path)], "iteration.start.post": [suspends(tmp_path, "second")]}
    loop_project(tmp_path, f"{RAN}; {DONE}", hooks=hooks)
    with suspended(tmp_path) as loop:
        early = signal_of(tmp_path)
        assert tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path).code == 0
        loop.says(": suspended at post.iteration.start by second")
        (tmp_path / ".tenter" / "resume-requested").write_bytes(early)
        loop.says("a resume signal was set aside")
        assert (row(tmp_path)["status"], runs(tmp_path)) == ("suspended", 0)
        assert tenter("loop", "resume", loop_id(tmp_path), cwd=tmp_path).code == 0
        ended_well(loop.end(), tmp_path, code=0, reason="completed")


def test_a_signal_by_touch_does_nothing_to_a_loop_at_work(tmp_path: Path) -> None:
    with living(cwd=loop_project(tmp_path, f"{RAN}; while [ ! -e go ]; do :; done; {DONE}")) as loop:
        loop.until(lambda: runs(tmp_path) == 1, "its agent runs")
        for kind in ("stop", "restart"):
            (tmp_path / ".tenter" / f"{kind}-requested").touch()
            loop.says(f"a {kind} signal was set aside")
        (tmp_path / "go").touch()
        ended_well(loop.end(), tmp_path, code=0, reason="completed")
    assert runs(tmp_path) == 1
