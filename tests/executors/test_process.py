"""A process is run to its end, whatever it does, seen from outside."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from tests.outside import alive_with, comes_true, flat_memory, leaves_nothing, one_of_three, steady_loop

from tenter.executors.process import ProcessResult, ProcessSpec, run_process

DEADLINE, GRACE, CAP = 2.0, 0.5, 1 << 20
MB = 1 << 20
PYTHON = f"#!{sys.executable} -S"
COOKIE_NAME = "TENTER_TEST_CALL"


def script(folder: Path, *lines: str, first: str = "#!/bin/sh") -> str:
    """A program of these lines in a folder."""
    path = folder / f"hook-{uuid4().hex[:8]}"
    path.write_text("\n".join((first, *lines, "")))
    path.chmod(0o755)
    return str(path)


def spec(
    *argv: str,
    timeout: float = DEADLINE,
    grace: float = GRACE,
    cap: int = CAP,
    answer: bool = False,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
) -> ProcessSpec:
    return ProcessSpec(
        argv=argv,
        cwd=cwd,
        env={"PATH": os.environ["PATH"]} if env is None else env,
        timeout_seconds=timeout,
        grace_seconds=grace,
        max_output_bytes=cap,
        stdout_is_answer=answer,
        cookie_name=COOKIE_NAME,
        cookie=uuid4().hex,
    )


@asynccontextmanager
async def bounded(call: ProcessSpec) -> AsyncGenerator[None]:
    """G1 and G4: in time, a steady loop, and nothing left."""
    start = time.monotonic()
    async with leaves_nothing(call.cookie):
        async with steady_loop(0.05):
            yield
        elapsed = time.monotonic() - start
    limit = call.timeout_seconds + call.grace_seconds + 0.25
    assert elapsed <= limit, f"took {elapsed:.3f} s; at most {limit}"


async def run_bounded(call: ProcessSpec, stdin: bytes = b"") -> ProcessResult:
    """Run within the bounds of every case; one try of three must keep them."""
    results: list[ProcessResult] = []

    async def attempt() -> None:
        async with bounded(call):
            results.append(await run_process(call, stdin))

    await one_of_three(attempt)
    return results[-1]


@contextmanager
def busy_cores() -> Generator[None]:
    """Every core has something else to do."""
    spinners = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 2)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait(5)


async def test_a_program_that_exits_with_zero_is_ok() -> None:
    result = await run_bounded(spec("/bin/true"))
    assert (result.result, result.exit_code, result.signal, result.timed_out) == ("ok", 0, None, False)
    assert (result.error, result.ended_descendants, result.stdout.total_bytes) == ("", 0, 0)
    assert 0 < result.duration_seconds < DEADLINE


async def test_stdin_arrives_whole_and_both_outputs_come_back(tmp_path: Path) -> None:
    hook = script(tmp_path, "cat; echo on stderr >&2")
    result = await run_bounded(spec(hook), b"on stdin")
    assert (result.stdout.text, result.stderr.text, result.stderr.tail) == ("on stdin", "on stderr\n", "on stderr\n")


# case 1


@pytest.mark.fault(1)
async def test_a_program_that_exits_with_one_crashed_and_its_last_words_are_kept(tmp_path: Path) -> None:
    hook = script(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x >&2", r"printf 'the reason: \377' >&2; exit 1")
    result = await run_bounded(spec(hook))
    assert (result.result, result.exit_code, result.signal) == ("crashed", 1, None)
    assert result.stderr.tail.endswith("xxxthe reason: \\xff")
    assert len(result.stderr.tail) == 4096 + len("\\xff") - 1
    assert (result.stderr.truncated, len(result.stderr.raw), result.stderr.total_bytes) == (True, CAP, 3_000_013)


@pytest.mark.fault(1)
@pytest.mark.parametrize("name", ["SEGV", "KILL", "ABRT"])
async def test_a_program_that_a_signal_kills_says_which(tmp_path: Path, name: str) -> None:
    result = await run_bounded(spec(script(tmp_path, f"ulimit -c 0; kill -{name} $$")))
    assert (result.result, result.exit_code, result.signal) == ("signal", None, f"SIG{name}")


@pytest.mark.fault(1)
async def test_exit_code_139_is_no_signal(tmp_path: Path) -> None:
    result = await run_bounded(spec(script(tmp_path, "exit 139")))
    assert (result.result, result.exit_code, result.signal) == ("crashed", 139, None)


async def test_a_signal_without_a_name_has_a_number(tmp_path: Path) -> None:
    hook = script(tmp_path, f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 3})", first=PYTHON)
    result = await run_bounded(spec(hook))
    assert (result.result, result.signal) == ("signal", f"SIG{signal.SIGRTMIN + 3}")


# case 2


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


# case 3


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


# case 5


@pytest.mark.fault(5)
@pytest.mark.parametrize(("times", "size"), [(1000, 2048), (200, 200_000)])
async def test_programs_that_ignore_stdin_are_ok_a_thousand_times_while_all_cores_are_busy(
    times: int, size: int
) -> None:
    endings: list[str] = []
    payload = b"x" * size

    async def caller() -> None:
        for _ in range(times // 8):
            result = await run_process(spec("/bin/true", timeout=20), payload)
            endings.append(f"{result.result} {result.error}")

    async with leaves_nothing():
        with busy_cores():
            await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(8))), 50)
    assert endings == ["ok "] * times


# case 6


@pytest.mark.fault(6)
async def test_a_program_that_closes_stdin_early_and_writes_to_both_outputs_in_turn_does_not_hang(
    tmp_path: Path,
) -> None:
    hook = script(
        tmp_path,
        "import os",
        "os.read(0, 1); os.close(0)",
        "for _ in range(40):",
        "    os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)",
        "os.write(1, b'the answer')",
        first=PYTHON,
    )
    result = await run_bounded(spec(hook, cap=4 * MB), b"x" * (10 * MB))
    assert (result.result, result.stdout.text[-10:]) == ("ok", "the answer")
    assert (result.stdout.total_bytes, result.stderr.total_bytes) == (40 * 65536 + 10, 40 * 65536)


@pytest.mark.fault(6)
async def test_ten_megabytes_pass_while_the_program_writes_as_it_reads(tmp_path: Path) -> None:
    hook = script(
        tmp_path,
        "import os",
        "turn = 0",
        "while chunk := os.read(0, 50000):",
        "    turn += 1; os.write(1 + turn % 2, chunk)",
        first=PYTHON,
    )
    payload = b"x" * (10 * MB)
    async with flat_memory(CAP + 16 * MB):
        result = await run_bounded(spec(hook, timeout=10), payload)
    assert (result.result, result.stdout.total_bytes + result.stderr.total_bytes) == ("ok", 10 * MB)


# case 7


@pytest.mark.fault(7)
async def test_a_gigabyte_on_stdout_is_capped_at_once_where_it_is_the_answer() -> None:
    call = spec("/usr/bin/head", "-c", "1G", "/dev/zero", answer=True)
    async with flat_memory(CAP + 16 * MB):
        result = await run_bounded(call)
    assert (result.result, result.stdout.truncated, len(result.stdout.raw)) == ("output_capped", True, CAP)
    assert result.duration_seconds < 1
    assert result.stdout.total_bytes < 2 * CAP


@pytest.mark.fault(7)
async def test_an_answer_that_is_too_long_ends_a_stubborn_program_at_once(tmp_path: Path) -> None:
    call = spec(
        script(tmp_path, "trap '' TERM PIPE", "yes | head -c 2000000; sleep 60"), answer=True, timeout=10, grace=5
    )
    result = await run_bounded(call)
    assert (result.result, result.signal) == ("output_capped", "SIGKILL")
    assert result.duration_seconds < 2


@pytest.mark.fault(7)
async def test_an_answer_that_is_one_byte_too_long_is_capped_after_the_exit_too(tmp_path: Path) -> None:
    hook = script(tmp_path, "printf 12345678")
    assert (await run_bounded(spec(hook, answer=True, cap=8))).result == "ok"
    result = await run_bounded(spec(hook, answer=True, cap=7))
    assert (result.result, result.stdout.text, result.exit_code) == ("output_capped", "1234567", 0)


@pytest.mark.fault(7)
async def test_a_gigabyte_on_stdout_is_cut_and_drained_where_it_is_no_answer() -> None:
    call = spec("/usr/bin/head", "-c", "1G", "/dev/zero", timeout=20)
    async with flat_memory(CAP + 16 * MB):
        result = await run_bounded(call)
    assert (result.result, result.exit_code, result.stdout.truncated) == ("ok", 0, True)
    assert (len(result.stdout.raw), result.stdout.total_bytes) == (CAP, 1 << 30)


# case 8


@pytest.mark.fault(8)
async def test_bytes_that_are_no_text_are_kept_and_shown_escaped(tmp_path: Path) -> None:
    result = await run_bounded(spec(script(tmp_path, r"printf '\357\273\277a\000b\377c\355\240\200'")))
    assert result.stdout.raw == b"\xef\xbb\xbfa\0b\xffc\xed\xa0\x80"
    assert result.stdout.text == "\ufeffa\0b\\xffc\\xed\\xa0\\x80"


@pytest.mark.fault(8)
async def test_megabytes_of_noise_neither_stall_the_loop_nor_fill_memory() -> None:
    async with flat_memory(CAP + 16 * MB):
        result = await run_bounded(spec("/usr/bin/head", "-c", "4M", "/dev/urandom", timeout=10))
    assert (result.result, result.stdout.truncated, result.stdout.total_bytes) == ("ok", True, 4 * MB)


# cases 10 and 12: how each is explained is in test_spawn.py


@pytest.mark.fault(10)
async def test_a_program_that_cannot_start_is_spawn_failed(tmp_path: Path) -> None:
    result = await run_bounded(spec(str(tmp_path / "missing")), b"x" * MB)
    assert (result.result, result.exit_code, result.signal) == ("spawn_failed", None, None)
    assert result.error == f"ENOENT: {str(tmp_path / 'missing')!r} cannot be reached: No such file or directory"
    assert result.stdout.total_bytes == 0


@pytest.mark.fault(12)
async def test_a_program_that_changes_its_folder_changes_only_its_own(tmp_path: Path) -> None:
    before = Path.cwd()
    result = await run_bounded(spec(script(tmp_path, "cd / && pwd"), cwd=str(tmp_path)))
    assert (result.stdout.text, Path.cwd()) == ("/\n", before)


# case 14


@pytest.mark.fault(14)
async def test_a_program_inherits_three_files_and_exactly_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy")
    hook = script(
        tmp_path,
        "import os",
        "print(sorted(os.environ), [n for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')])",
        first=PYTHON,
    )
    with (tmp_path / "open").open("w") as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        call = spec(hook, env={"LC_CTYPE": "C.UTF-8", "ONLY": "this"})
        result = await run_bounded(call)
    assert result.stdout.text == f"{sorted(['LC_CTYPE', 'ONLY', COOKIE_NAME])} ['0', '1', '2']\n"


# case 15


@pytest.mark.fault(15)
async def test_no_argument_and_no_payload_is_ever_seen_by_a_shell(tmp_path: Path) -> None:
    hostile = ("-n", "$(touch stolen)", "`touch stolen`", "'\"; touch stolen #", "two\nlines", "*")
    hook = script(tmp_path, r"printf '<%s>' " + '"$@"', "cat")
    result = await run_bounded(spec(hook, *hostile, cwd=str(tmp_path)), "\n".join(hostile).encode())
    assert result.stdout.text == "".join(f"<{each}>" for each in hostile) + "\n".join(hostile)
    assert not (tmp_path / "stolen").exists()


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


# the program around us


async def test_the_exit_is_seen_where_children_are_reaped_by_the_system(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        failed = await run_process(spec(script(tmp_path, "sleep 0.05; exit 3", first="#!/bin/bash")), b"")
        hung = await run_process(spec("/bin/sleep", "60", timeout=0.2), b"")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (failed.result, failed.exit_code) in {("crashed", 3), ("unknown", None)}
    assert (failed.error == "") == (failed.result == "crashed")
    assert hung.result == "timeout"


async def test_an_exit_status_that_nobody_tells_is_never_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    def stolen(pid: int, options: int) -> tuple[int, int]:
        os.waitid(os.P_PID, pid, os.WEXITED)
        raise ChildProcessError

    def silent(*_: object) -> int:
        raise OSError

    monkeypatch.setattr("os.waitpid", stolen)
    monkeypatch.setattr("fcntl.ioctl", silent)
    result = await run_process(spec("/bin/true"), b"")
    assert (result.result, result.exit_code) == ("unknown", None)
    assert "taken by somebody else" in result.error


async def test_everything_works_without_pidfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open")
    passed = await run_bounded(spec(script(tmp_path, "sleep 60 & echo the answer; exit 4")))
    hung = await run_bounded(spec(script(tmp_path, "setsid sleep 60 & sleep 60"), timeout=0.3, grace=0.2))
    assert (passed.result, passed.exit_code, passed.stdout.text) == ("crashed", 4, "the answer\n")
    assert (passed.ended_descendants, hung.result) == (1, "timeout")


async def test_calls_side_by_side_do_not_touch_each_other(tmp_path: Path) -> None:
    quick = script(tmp_path, "setsid sleep 60 >/dev/null & sleep 0.1; cat")
    async with leaves_nothing():
        results = await asyncio.gather(*(run_process(spec(quick, timeout=20), f"{n}".encode()) for n in range(20)))
    assert [(each.result, each.stdout.text) for each in results] == [("ok", f"{n}") for n in range(20)]


def test_a_call_works_in_a_loop_of_another_thread() -> None:
    program = (
        "import asyncio, threading\n"
        "from tenter.executors.process import ProcessSpec, run_process\n"
        "spec = ProcessSpec(argv=('/bin/echo', 'hi'), cwd='/', env={}, timeout_seconds=5, max_output_bytes=9,\n"
        "                   cookie_name='C', cookie='c')\n"
        "def work(): print(asyncio.run(run_process(spec, b'')).stdout.text)\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == ("hi\n\n", "")


def test_importing_the_runner_opens_no_file() -> None:
    program = (
        "import os; before = len(os.listdir('/proc/self/fd'))\n"
        "import tenter.executors.process; print(len(os.listdir('/proc/self/fd')) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "0\n"


async def test_no_descriptor_is_free() -> None:
    """Out of files is a spawn that failed, and what was opened by then is closed."""
    program = (
        "import asyncio, os, resource\n"
        "from tenter.executors.process import ProcessSpec, run_process\n"
        "spec = ProcessSpec(argv=('/bin/true',), cwd='/', env={}, timeout_seconds=5, max_output_bytes=9,\n"
        "                   cookie_name='C', cookie='c')\n"
        "async def main():\n"
        "    free = os.dup(0); os.close(free)\n"
        "    for more in range(0, 12):\n"
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (free + more, 1024))\n"
        "        result = await run_process(spec, b'')\n"
        "        print(result.result, result.error[:6], os.dup(0) == free if more else True)\n"
        "        if more: os.close(free)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert lines[0] == "spawn_failed EMFILE True"
    assert lines[-1] == "ok  True"
    assert {line.split()[0] for line in lines} == {"spawn_failed", "ok"}
    assert all(line.endswith("True") for line in lines)
