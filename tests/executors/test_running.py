"""A process is followed to its end, and so is all that it started, seen from outside."""

import asyncio
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from tests.executors.programs import COOKIE_NAME, MB, bounded, run_bounded, script, spec
from tests.outside import alive_with, comes_true, leaves_nothing, one_of_three, steady_loop

from tenter.executors.process import ProcessResult, ProcessSpec, run_process

pytestmark = pytest.mark.timed

# hanging


@pytest.mark.fault(2)
@pytest.mark.parametrize(
    ("body", "killed_by"),
    [
        ("exec sleep 60", "SIGTERM"),
        ("sleep 60", "SIGTERM"),
        ("trap '' TERM; while :; do sleep 1; done", "SIGKILL"),
        ("kill -STOP $$; sleep 60", "SIGTERM"),
        ("trap '' TERM; kill -STOP $$; sleep 60", "SIGKILL"),
        ("while :; do :; done", "SIGTERM"),
    ],
    ids=["sleeps", "sleeps-in-a-child", "ignores-TERM", "stops-itself", "stops-and-ignores-TERM", "spins"],
)
async def test_a_program_that_hangs_is_a_timeout(tmp_path: Path, body: str, killed_by: str) -> None:
    result = await run_bounded(spec(script(tmp_path, body), timeout=0.3, grace=0.3))
    assert (result.result, result.timed_out, result.exit_code, result.signal) == ("timeout", True, None, killed_by)
    assert result.duration_seconds >= 0.3


@pytest.mark.fault(2)
async def test_a_program_that_hangs_may_clean_up_in_its_grace(tmp_path: Path) -> None:
    hook = script(tmp_path, "trap 'echo cleaned up; exit 7' TERM", "sleep 60 & wait")
    result = await run_bounded(spec(hook, timeout=0.3, grace=5.0))
    assert (result.result, result.exit_code, result.stdout.text) == ("timeout", 7, "cleaned up\n")
    assert result.duration_seconds < 3


@pytest.mark.fault(2)
async def test_a_child_of_a_program_that_hangs_may_clean_up_too(tmp_path: Path) -> None:
    inner = script(
        tmp_path, "trap 'sleep 0.2; echo cleaned up > done; exit' TERM; echo > ready; while :; do sleep 0.02; done"
    )
    call = spec(script(tmp_path, f"{inner} >/dev/null 2>&1", "echo"), cwd=str(tmp_path), timeout=0.5, grace=5.0)
    result = await run_bounded(call)
    assert (result.result, result.ended_descendants >= 1) == ("timeout", True)
    assert (tmp_path / "done").read_text() == "cleaned up\n"


@pytest.mark.fault(2)
async def test_a_program_that_never_reads_its_stdin_is_a_timeout_too(tmp_path: Path) -> None:
    result = await run_bounded(spec(script(tmp_path, "sleep 60"), timeout=0.3, grace=0.3), b"x" * (10 * MB))
    assert result.result == "timeout"


async def test_what_a_program_said_before_its_timeout_is_kept(tmp_path: Path) -> None:
    result = await run_bounded(spec(script(tmp_path, "echo half an answer; exec sleep 60"), timeout=0.3))
    assert (result.result, result.stdout.text) == ("timeout", "half an answer\n")


async def test_the_exit_counts_when_the_loop_wakes_after_the_deadline(tmp_path: Path) -> None:
    call = spec(script(tmp_path, "echo done; exit 0"), timeout=0.2)
    task = asyncio.create_task(run_process(call, b""))
    stall = subprocess.Popen(["/bin/sleep", "0.5"])
    asyncio.get_running_loop().call_later(0.001, stall.wait)
    result = await asyncio.wait_for(task, 5)
    assert (result.result, result.stdout.text) == ("ok", "done\n")


# silence


async def test_a_program_that_says_nothing_for_too_long_is_ended(tmp_path: Path) -> None:
    hook = script(tmp_path, "trap '' TERM; echo a word; while :; do sleep 1; done")
    result = await run_bounded(replace(spec(hook, timeout=30, grace=0.3), silence_seconds=0.4))
    assert (result.result, result.was_silent, result.signal) == ("timeout", True, "SIGKILL")
    assert (result.stdout.text, 0.4 <= result.duration_seconds < 3) == ("a word\n", True)


@pytest.mark.parametrize("output", [1, 2])
async def test_a_program_that_says_something_again_and_again_is_not_silent(tmp_path: Path, output: int) -> None:
    hook = script(tmp_path, f"for each in 1 2 3 4 5 6 7 8 9; do echo $each >&{output}; sleep 0.1; done")
    result = await run_bounded(replace(spec(hook), silence_seconds=0.6))
    assert (result.result, result.was_silent) == ("ok", False)
    assert result.duration_seconds > 0.6


async def test_a_deadline_before_the_end_of_a_silence_is_an_ordinary_timeout(tmp_path: Path) -> None:
    result = await run_bounded(replace(spec(script(tmp_path, "exec sleep 60"), timeout=0.3), silence_seconds=20))
    assert (result.result, result.was_silent) == ("timeout", False)


async def test_what_came_while_the_loop_stood_still_breaks_the_silence(tmp_path: Path) -> None:
    hook = script(tmp_path, "echo one; sleep 0.3; echo two; sleep 0.3; echo three")
    task = asyncio.create_task(run_process(replace(spec(hook), silence_seconds=0.4), b""))
    stall = subprocess.Popen(["/bin/sleep", "0.45"])
    asyncio.get_running_loop().call_later(0.001, stall.wait)
    result = await asyncio.wait_for(task, 5)
    assert (result.result, result.stdout.text) == ("ok", "one\ntwo\nthree\n")


# leaving something behind


@pytest.mark.fault(3)
@pytest.mark.parametrize("keep", ["", "2>/dev/null", ">/dev/null"], ids=["both", "stdout", "stderr"])
async def test_a_grandchild_that_keeps_the_pipes_does_not_hold_an_answer(tmp_path: Path, keep: str) -> None:
    call = spec(script(tmp_path, f"sleep 60 {keep} &", "echo the answer"))
    results: list[ProcessResult] = []

    async def attempt() -> None:
        async with bounded(call):
            results.append(await run_process(call, b""))
        assert results[-1].duration_seconds <= 0.25 + 0.25

    await one_of_three(attempt)
    assert (results[-1].result, results[-1].exit_code, results[-1].stdout.text) == ("ok", 0, "the answer\n")
    assert results[-1].ended_descendants == 1


@pytest.mark.fault(3)
async def test_a_grandchild_that_soon_lets_go_of_the_pipes_is_waited_for(tmp_path: Path) -> None:
    result = await run_bounded(spec(script(tmp_path, "(sleep 0.05; echo later) &", "echo first")))
    assert (result.result, result.stdout.text, result.ended_descendants) == ("ok", "first\nlater\n", 0)


@pytest.mark.fault(3)
async def test_a_grandchild_that_keeps_the_pipes_of_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    hook = script(tmp_path, "(trap '' TERM; sleep 60; sleep 60) &", "sleep 60")
    result = await run_bounded(spec(hook, timeout=0.3, grace=0.3))
    assert (result.result, result.ended_descendants >= 2) == ("timeout", True)


@pytest.mark.fault(3)
async def test_a_grandchild_that_floods_the_pipes_after_the_exit_is_ended(tmp_path: Path) -> None:
    result = await run_bounded(spec(script(tmp_path, "yes &", "echo first; exit 0")))
    assert (result.result, result.stdout.truncated, result.ended_descendants) == ("ok", True, 1)


LEAVING = {
    "background": "sleep 60 >/dev/null 2>&1 &",
    "setsid": "setsid sleep 60 >/dev/null 2>&1 &",
    "double-fork": "(setsid sh -c 'sleep 60 & sleep 60 &' >/dev/null 2>&1 &)",
    "nohup": "trap '' HUP TERM; nohup setsid sleep 60 >/dev/null 2>&1 &",
}


@pytest.mark.fault(3)
@pytest.mark.parametrize("leaving", LEAVING.values(), ids=LEAVING.keys())
async def test_what_a_program_leaves_running_is_ended_with_it(tmp_path: Path, leaving: str) -> None:
    result = await run_bounded(spec(script(tmp_path, leaving, "sleep 0.05", "echo the answer")))
    assert (result.result, result.stdout.text, result.ended_descendants >= 1) == ("ok", "the answer\n", True)


@pytest.mark.fault(3)
@pytest.mark.parametrize("leaving", LEAVING.values(), ids=LEAVING.keys())
async def test_what_left_a_program_that_hangs_is_ended_with_it(tmp_path: Path, leaving: str) -> None:
    result = await run_bounded(spec(script(tmp_path, leaving, "sleep 60"), timeout=0.3, grace=0.2))
    assert (result.result, result.ended_descendants >= 1) == ("timeout", True)


@pytest.mark.fault(3)
async def test_a_crowd_that_left_is_ended_without_stalling_the_loop(tmp_path: Path) -> None:
    each = "setsid sleep 60 >/dev/null 2>&1 &"
    result = await run_bounded(spec(script(tmp_path, *[each] * 300, "sleep 0.1", "echo the answer"), timeout=10))
    assert (result.result, result.stdout.text, result.ended_descendants) == ("ok", "the answer\n", 300)


@pytest.mark.fault(3)
async def test_what_leaves_at_the_very_moment_of_the_exit_is_found_each_time(tmp_path: Path) -> None:
    hook = script(tmp_path, "setsid sleep 61 >/dev/null 2>&1 &", "exit 0")
    cookies: list[str] = []
    for _ in range(40):
        call = spec(hook)
        cookies.append(call.cookie)
        assert (await run_process(call, b"")).result == "ok"
    assert await comes_true(lambda: not any(alive_with(cookie) for cookie in cookies))


async def test_a_group_member_without_our_environment_is_ended_too(tmp_path: Path) -> None:
    seconds = f"60.{uuid4().int}"
    hook = script(tmp_path, f"env -i sleep {seconds} >/dev/null 2>&1 &", "sleep 0.05")
    assert (await run_bounded(spec(hook))).result == "ok"
    assert await comes_true(lambda: not alive_with(seconds))


async def test_processes_of_others_live_on(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"], env={COOKIE_NAME: "another"}, start_new_session=True) as other:
        await run_bounded(spec(script(tmp_path, "setsid sleep 60 & exec sleep 60"), timeout=0.2, grace=0.1))
        assert other.poll() is None
        other.kill()


# cancellation


async def started(call: ProcessSpec, ready: Path, told: list[ProcessResult]) -> asyncio.Task[ProcessResult]:
    """The task of a call whose program has come so far as to write `ready`."""
    task = asyncio.create_task(run_process(call, b"", on_cancelled=told.append))
    assert await comes_true(ready.exists, within=5)
    return task


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM;"])
async def test_cancelling_ends_the_whole_group_and_is_raised_again(tmp_path: Path, stubborn: str) -> None:
    hook = script(tmp_path, f"{stubborn} setsid sleep 60 & sleep 60 & echo said; echo > ready; sleep 60; sleep 60")
    call = spec(hook, cwd=str(tmp_path), timeout=30, grace=0.3)
    told: list[ProcessResult] = []
    async with leaves_nothing(call.cookie), steady_loop():
        task = await started(call, tmp_path / "ready", told)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert time.monotonic() - start < 0.3 + 0.5
    (result,) = told
    assert (result.result, result.signal) == ("cancelled", "SIGKILL" if stubborn else "SIGTERM")
    assert (result.stdout.text, result.ended_descendants >= 2) == ("said\n", True)


async def test_cancelling_twice_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    hook = script(tmp_path, "trap '' TERM; setsid sleep 60 & echo > ready; sleep 60; sleep 60")
    call = spec(hook, cwd=str(tmp_path), timeout=30, grace=30)
    told: list[ProcessResult] = []
    async with leaves_nothing(call.cookie):
        task = await started(call, tmp_path / "ready", told)
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert [(each.result, each.signal) for each in told] == [("cancelled", "SIGKILL")]


async def test_cancelling_in_the_grace_of_a_timeout_does_not_begin_it_anew(tmp_path: Path) -> None:
    hook = script(tmp_path, "trap 'echo > ready' TERM; while :; do sleep 0.02; done")
    call = spec(hook, cwd=str(tmp_path), timeout=0.2, grace=0.8)
    told: list[ProcessResult] = []
    async with leaves_nothing(call.cookie):
        start = time.monotonic()
        task = await started(call, tmp_path / "ready", told)
        await asyncio.wait([task], timeout=0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert time.monotonic() - start < 0.2 + 0.8 + 0.3
    assert [each.result for each in told] == ["cancelled"]


async def test_cancelling_while_a_busy_program_is_tried_again_starts_nothing(tmp_path: Path) -> None:
    hook = script(tmp_path, "echo > started")
    told: list[ProcessResult] = []
    with Path(hook).open("a"):
        task = asyncio.create_task(run_process(spec(hook, cwd=str(tmp_path)), b"", on_cancelled=told.append))
        await asyncio.wait([task], timeout=0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert [each.result for each in told] == ["cancelled"]
    assert not (tmp_path / "started").exists()


async def test_a_call_that_is_thrown_away_unfinished_leaves_nothing(tmp_path: Path) -> None:
    hook = script(tmp_path, "trap '' TERM; setsid sleep 60 & echo > ready; sleep 60")
    call = spec(hook, cwd=str(tmp_path), timeout=30)
    async with leaves_nothing(call.cookie):
        coroutine = run_process(call, b"x" * MB)
        coroutine.send(None)
        assert await comes_true((tmp_path / "ready").exists, within=5)
        coroutine.close()
