"""What a loop left running when its process died is ended, and nothing else is."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.loop.orphaned import LONGEST, LOOP, environment, orphan
from tests.outside import alive, comes_true

from tenter.executors import descendants, left_behind
from tenter.kernel import TenterError
from tenter.loop import orphans
from tenter.loop.orphans import end_orphans, told_of_orphans


async def test_what_a_dead_loop_left_running_is_ended_and_what_another_one_did_is_not() -> None:
    with orphan() as ours, orphan() as second, orphan(loop_id=f"{LOOP}2") as theirs:
        assert await end_orphans(LOOP) == 2
        assert [alive(one) for one in (ours, second, theirs)] == [False, False, True]
        assert await end_orphans(LOOP) == 0


async def test_an_orphan_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    script = f"trap 'echo asked > {tmp_path}/asked; exit' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    with orphan(script) as process:
        assert await comes_true((tmp_path / "ready").exists, within=LONGEST)
        assert await end_orphans(LOOP) >= 1  # it, and the sleep that it waits for
        assert not alive(process)
    assert (tmp_path / "asked").read_text() == "asked\n"


async def test_an_orphan_that_ignores_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_behind, "GRACE_SECONDS", 0.1)
    with orphan(begin="trap '' TERM") as process:
        assert await end_orphans(LOOP) == 1
        assert not alive(process)


async def test_an_orphan_that_is_stopped_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_behind, "GRACE_SECONDS", 2 * LONGEST)
    with orphan() as process:
        os.kill(process, signal.SIGSTOP)
        stat = Path(f"/proc/{process}/stat")
        assert await comes_true(lambda: b") T " in stat.read_bytes(), within=LONGEST)
        assert await asyncio.wait_for(end_orphans(LOOP), LONGEST) == 1
        assert not alive(process)


async def test_what_an_orphan_starts_while_it_is_ended_is_ended_too(tmp_path: Path) -> None:
    late = f"sleep 60 & echo $! > {tmp_path}/late; exit"
    with orphan(f"trap '{late}' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"):
        assert await comes_true((tmp_path / "ready").exists, within=LONGEST)
        assert await end_orphans(LOOP) >= 2
    assert not alive(int((tmp_path / "late").read_text()))


def test_who_asks_and_what_it_comes_from_and_what_it_started_are_left_alone() -> None:
    code = (
        "import asyncio, subprocess\nfrom tenter.loop.orphans import end_orphans\n"
        "with subprocess.Popen(['sleep', '60']) as child:\n"
        f"    print(asyncio.run(end_orphans({LOOP!r})), child.poll())\n"
        "    child.kill()"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -c "$1"; echo goes on', sys.executable, code],
        env=environment(LOOP),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0 None\ngoes on\n", "", 0)


@pytest.mark.parametrize("removed", [False, True])
async def test_another_loop_that_an_agent_began_goes_on_with_what_it_started(tmp_path: Path, removed: bool) -> None:
    registry = tmp_path / ".tenter" / "loops.db"
    registry.parent.mkdir()
    registry.touch()
    child = f"sleep 60 3<&- & echo $! > {tmp_path}/child.new; mv {tmp_path}/child.new {tmp_path}/child; wait"
    with orphan(f"exec 3< {registry}; {child}") as other, orphan() as ours:
        assert await comes_true((tmp_path / "child").exists, within=LONGEST)
        if removed:
            registry.unlink()
        started = int((tmp_path / "child").read_text())
        try:
            assert await end_orphans(LOOP) == 1
            assert [alive(one) for one in (other, started, ours)] == [True, True, False]
        finally:
            os.kill(started, signal.SIGKILL)


async def test_what_belongs_to_another_user_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with orphan() as process:
        with monkeypatch.context() as patch:
            somebody = os.geteuid() + 1
            patch.setattr("os.geteuid", lambda: somebody)
            assert await end_orphans(LOOP) == 0
        assert alive(process)


async def test_where_the_system_tells_of_no_processes_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with orphan() as process:
        for module, name in ((descendants, "PROCESSES"), (orphans, "_PROC")):
            monkeypatch.setattr(module, name, "/nowhere")
        assert await end_orphans(LOOP) == 0
        assert alive(process)


async def test_one_that_cannot_be_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    never: Callable[..., bool] = lambda *_: False  # noqa: E731  # as `end` where the kernel holds the process
    monkeypatch.setattr(descendants, "end", never)
    monkeypatch.setattr(descendants, "GONE_SECONDS", 0.05)
    monkeypatch.setattr(left_behind, "GRACE_SECONDS", 0.05)
    with orphan() as process, pytest.raises(TenterError, match=rf"{LOOP} left running .* \(process {process}\)"):
        await end_orphans(LOOP)


def test_people_are_told_how_many_and_whose() -> None:
    assert told_of_orphans(LOOP, 1).startswith(f"ended 1 process that the loop {LOOP} had left running")
    assert told_of_orphans(LOOP, 3).startswith("ended 3 processes ")
