"""A process is run and its ending named, whatever it says or does not read, seen from outside."""

import asyncio
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.executors.programs import CAP, COOKIE_NAME, MB, PYTHON, busy_cores, run_bounded, script, spec
from tests.outside import comes_true, flat_memory, leaves_nothing

from tenter.executors.process import ProcessResult, run_process

pytestmark = pytest.mark.timed


async def test_a_program_that_exits_with_zero_is_ok() -> None:
    result = await run_bounded(spec("/bin/true"))
    assert (result.result, result.exit_code, result.signal, result.timed_out) == ("ok", 0, None, False)
    assert (result.error, result.ended_descendants, result.stdout.total_bytes) == ("", 0, 0)
    assert 0 < result.duration_seconds < 2


async def test_stdin_arrives_whole_and_both_outputs_come_back(tmp_path: Path) -> None:
    hook = script(tmp_path, "cat; echo on stderr >&2")
    result = await run_bounded(spec(hook), b"on stdin")
    assert (result.stdout.text, result.stderr.text, result.stderr.tail) == ("on stdin", "on stderr\n", "on stderr\n")


async def test_a_stdin_that_is_made_while_the_program_starts_arrives_whole(tmp_path: Path) -> None:
    async def made() -> bytes:
        await asyncio.sleep(0)
        return b"x" * (3 * MB)

    call = spec(script(tmp_path, "wc -c"))
    async with leaves_nothing(call.cookie):
        result = await run_process(call, made)
    assert (result.result, result.stdout.text) == ("ok", f"{3 * MB}\n")


async def test_a_program_that_is_gone_before_its_stdin_is_made_is_ok(tmp_path: Path) -> None:
    async def made() -> bytes:
        assert await comes_true((tmp_path / "gone").exists)
        return b"x" * MB

    call = spec(script(tmp_path, "exec 0</dev/null; echo > gone; echo the answer"), cwd=str(tmp_path))
    async with leaves_nothing(call.cookie):
        result = await run_process(call, made)
    assert (result.result, result.stdout.text) == ("ok", "the answer\n")


async def test_a_stdin_that_cannot_be_made_ends_the_program_and_is_told(tmp_path: Path) -> None:
    async def made() -> bytes:
        raise ValueError("no form")

    call = spec(script(tmp_path, "setsid sleep 60 & sleep 60"))
    async with leaves_nothing(call.cookie):
        with pytest.raises(ValueError, match="no form"):
            await run_process(call, made)


async def test_cancelling_while_stdin_is_made_ends_the_program(tmp_path: Path) -> None:
    making = asyncio.Event()

    async def made() -> bytes:
        making.set()
        await asyncio.wait_for(asyncio.Event().wait(), 5)
        return b""

    call = spec("/bin/sleep", "60")
    told: list[ProcessResult] = []
    async with leaves_nothing(call.cookie):
        task = asyncio.create_task(run_process(call, made, on_cancelled=told.append))
        await asyncio.wait_for(making.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert [(each.result, each.signal) for each in told] == [("cancelled", "SIGTERM")]


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


# output that is handed over


async def test_all_output_is_handed_over_as_it_comes_and_the_end_too(tmp_path: Path) -> None:
    waits = "while [ ! -e heard ]; do sleep 0.02; done"
    hook = script(tmp_path, f"echo one; echo two >&2; {waits}; echo three; exec head -c 300000 /dev/zero")
    heard: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def hear(output: str, piece: bytes) -> None:
        heard[output] += piece
        if all(heard.values()):
            (tmp_path / "heard").touch()

    call = spec(hook, cap=0, cwd=str(tmp_path), timeout=5)
    async with leaves_nothing(call.cookie):
        result = await run_process(call, b"", on_output=hear)
    assert (result.result, result.stdout.text, result.stdout.total_bytes) == ("ok", "", 300_010)
    assert heard == {"stdout": b"one\nthree\n" + b"\0" * 300_000, "stderr": b"two\n"}


async def test_a_program_without_a_deadline_runs_to_its_end(tmp_path: Path) -> None:
    call = spec(script(tmp_path, "sleep 0.1; echo done"), timeout=math.inf)
    async with leaves_nothing(call.cookie):
        assert (await asyncio.wait_for(run_process(call, b""), 5)).stdout.text == "done\n"


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
