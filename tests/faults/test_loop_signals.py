"""A loop that is told to end by the system, in whatever it is doing: its code, its hooks, and nothing left running."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.commandline import LONGEST, TENTER, environment, tenter
from tests.faults.living import DONE, RUN, Living, ended_well, kept, living, loop_id, row, runs, suspended
from tests.looping import EMIT, command_hook, loop_project, suspends

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

HANGS = "echo $$ > began; trap '' TERM; (trap '' TERM; exec sleep 60) & while :; do sleep 1; done"
"""A program that lets nobody end it by asking, and has a child that does not either."""


def at_work(folder: Path, phase: str, *, hangs: str = "echo $$ > began; exec sleep 60") -> str:
    """A loop that comes to a phase and stays there; what it says when it has."""
    hooks: dict[str, list[Mapping[str, object]]] = {"loop.error.post": [command_hook(folder, "tells", "cat >> told")]}
    agent, says = DONE, ""
    slow = command_hook(folder, "slow", hangs, timeout_seconds=60)
    match phase:
        case "a hook runs":
            hooks["iteration.start.pre"] = [slow]
        case "its first hook runs":
            hooks["loop.start.pre"] = [slow]
        case "its agent runs":
            agent = hangs
        case "it is suspended":
            hooks["iteration.start.pre"] = [suspends(folder)]
            says = ": suspended at "
        case "a hook is tried again":
            fails = "echo $$ > began; exit 1"
            retried = command_hook(folder, "gate", fails, on_error="suspend", suspend_mode="retry_backoff")
            hooks["iteration.start.pre"] = [retried]
        case "it waits for an answer":
            agent = f"{EMIT} human.interact 'which one?'"
            says = "which one?"
        case "its ending is told":
            agent = f"{EMIT} loop.cancel"
            hooks["loop.error.pre"] = [slow]
        case "its completion is told":
            hooks["loop.complete.pre"] = [slow]
        case _:
            raise AssertionError(phase)
    loop_project(folder, agent, hooks=hooks)
    return says


def comes_to(loop: Living, folder: Path, says: str) -> None:
    if says:
        loop.says(says)
    else:
        loop.until(lambda: (folder / "began").exists() and (folder / "began").read_text() != "", "it is at work")


PHASES = (
    "its first hook runs",
    "a hook runs",
    "its agent runs",
    "it is suspended",
    "a hook is tried again",
    "it waits for an answer",
    "its ending is told",
    "its completion is told",
)


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        *((phase, signal.SIGTERM) for phase in PHASES),
        *((phase, number) for phase in PHASES[1:4] for number in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_a_loop_that_is_told_to_end_ends_in_whatever_it_does_and_tells_its_hooks_once(
    phase: str, number: signal.Signals, tmp_path: Path
) -> None:
    says = at_work(tmp_path, phase)
    with living(cwd=tmp_path) as loop:
        comes_to(loop, tmp_path, says)
        loop.process.send_signal(number)
        done = loop.end(15)
    # a loop whose hooks are told already how it ended has ended for that reason
    reason = "cancelled" if phase == "its ending is told" else "interrupted"
    ended_well(done, tmp_path, code=CODES[number], reason=reason)
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [one["context"]["termination_reason"] for one in told] == [row(tmp_path)["reason"]]
    assert json.loads(kept(tmp_path, "summary.json").read_text())["reason"] == row(tmp_path)["reason"]
    assert not (tmp_path / ".tenter" / "suspend-state.json").exists()


@pytest.mark.parametrize("phase", PHASES)
def test_a_second_ctrl_c_is_not_one_too_many_anywhere(phase: str, tmp_path: Path) -> None:
    says = at_work(tmp_path, phase)
    (tmp_path / "tells.sh").write_text("#!/bin/sh\ncat > payload; echo told >> told; exec sleep 60\n")
    with living(cwd=tmp_path) as loop:
        comes_to(loop, tmp_path, says)
        loop.process.send_signal(signal.SIGINT)
        loop.until(lambda: runs(tmp_path, "told") == 1, "its hooks are told")
        loop.process.send_signal(signal.SIGINT)
        done = loop.end(15)
    ended_well(done, tmp_path, code=130)
    assert row(tmp_path)["status"] in ("failed", "cancelled")
    assert kept(tmp_path, "summary.json").exists()


@pytest.mark.parametrize("phase", ["a hook runs", "its agent runs"])
def test_what_cannot_be_asked_to_end_is_ended_with_all_that_it_started(phase: str, tmp_path: Path) -> None:
    says = at_work(tmp_path, phase, hangs=HANGS)
    with living(cwd=tmp_path) as loop:
        comes_to(loop, tmp_path, says)
        loop.process.send_signal(signal.SIGTERM)
        ended_well(loop.end(15), tmp_path, code=143, reason="interrupted")
    assert row(tmp_path)["status"] == "failed"


def test_a_loop_that_is_killed_is_listed_as_crashed_with_what_to_do(
    tmp_path: Path,
) -> None:
    with living(cwd=loop_project(tmp_path, "echo $$ > began; exec sleep 60")) as loop:
        comes_to(loop, tmp_path, "")
        loop.kill()
    agent = int((tmp_path / "began").read_text())
    try:
        listed = tenter("loop", "list", cwd=tmp_path)
        assert "crashed" in listed.out
        assert f"'tenter loop resume {loop_id(tmp_path)}' continues it" in listed.out
    finally:
        os.kill(agent, signal.SIGKILL)


def test_a_loop_that_waits_for_another_one_is_told_to_end_before_it_has_begun(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE, hooks={"iteration.start.pre": [suspends(tmp_path)]})
    with suspended(tmp_path), living(*RUN, "--exclusive", cwd=tmp_path) as waiting:
        waiting.says(f"waits for the loop {loop_id(tmp_path)}, which holds {tmp_path} (suspended)")
        waiting.process.send_signal(signal.SIGTERM)
        done = waiting.end(15)
        assert (done.code, "Traceback" in done.err) == (143, False), done
        assert row(tmp_path)["status"] == "suspended", "the other loop is as it was, and the only one"


def test_a_loop_that_nobody_listens_to_any_more_goes_on(tmp_path: Path) -> None:
    loop_project(
        tmp_path, f"echo x >> began; while [ ! -e go ]; do :; done; [ $(wc -l < began) = 20 ] && {DONE}; exit 0"
    )
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [TENTER, *RUN],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
    )
    os.close(writing)
    assert os.read(reading, 4096)
    os.close(reading)
    (tmp_path / "go").touch()
    process.wait(LONGEST)
    assert (row(tmp_path)["reason"], row(tmp_path)["iteration"]) == ("completed", 20)
