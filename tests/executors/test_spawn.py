"""Starting, and the reason when it fails: errno and the path at fault."""

import asyncio
import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.outside import leaves_nothing, one_of_three, steady_loop

from tenter.executors.spawn import Spawned, SpawnFailed, explain, spawn

ENV = {"PATH": os.environ["PATH"]}


def program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


async def start(*argv: str, stdin: bytes | None = b"", cwd: str = "/", env: Mapping[str, str] = ENV) -> Spawned:
    until = asyncio.get_running_loop().time() + 5
    return await spawn(argv, stdin, cwd=cwd, env=env, until=until)


def finish(spawned: Spawned) -> bytes:
    """What the child says on stdout until it ends."""
    os.set_blocking(spawned.stdout, True)
    with open(spawned.stdout, "rb") as output:  # noqa: PTH123  # a descriptor is no path
        said = output.read()
    os.close(spawned.stderr)
    if spawned.stdin is not None:
        os.close(spawned.stdin)
    spawned.process.wait(5)
    return said


async def failure(*argv: str, cwd: str = "/", env: Mapping[str, str] = ENV) -> str:
    """Why it does not start; nothing is left of the attempt."""
    async with leaves_nothing():
        with pytest.raises(SpawnFailed) as caught:
            await start(*argv, stdin=b"x" * 100_000, cwd=cwd, env=env)
    return str(caught.value)


async def test_a_small_stdin_is_written_and_closed_before_the_child_runs() -> None:
    async with leaves_nothing():
        spawned = await start("/bin/cat", stdin=b"all of it")
        assert (spawned.stdin, bytes(spawned.unwritten)) == (None, b"")
        assert finish(spawned) == b"all of it"


async def test_a_stdin_that_comes_later_has_a_pipe_that_stays_open() -> None:
    async with leaves_nothing():
        spawned = await start("/bin/cat", stdin=None)
        assert spawned.stdin is not None
        os.write(spawned.stdin, b"later")
        os.close(spawned.stdin)
        spawned.stdin = None
        assert finish(spawned) == b"later"


async def test_of_a_large_stdin_a_pipeful_is_written_and_the_rest_left() -> None:
    async with leaves_nothing():
        spawned = await start("/bin/true", stdin=b"x" * 200_000)
        assert spawned.stdin is not None
        assert 0 < len(spawned.unwritten) < 200_000
        assert not os.get_blocking(spawned.stdin)
        finish(spawned)


async def test_the_child_leads_a_session_of_its_own_in_its_folder(tmp_path: Path) -> None:
    spawned = await start("/bin/sh", "-c", 'pwd; ps -o sid= -p $$ | tr -d " "; echo $$', cwd=str(tmp_path))
    pid = str(spawned.process.pid)
    assert finish(spawned).decode().split() == [str(tmp_path), pid, pid]


@pytest.mark.fault(10)
async def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert await failure(missing) == f"ENOENT: {missing!r} cannot be reached: No such file or directory"


@pytest.mark.fault(10)
async def test_a_bare_word_that_is_missing_is_named_with_path() -> None:
    assert (
        await failure("no-such-program") == "ENOENT: No such file or directory: 'no-such-program', looked for on PATH"
    )


@pytest.mark.fault(10)
async def test_a_missing_interpreter_is_named_and_not_the_script_alone(tmp_path: Path) -> None:
    hook = program(tmp_path / "hook", "#!/no/such/interpreter -x\n")
    assert await failure(hook) == (
        f"ENOENT: '/no/such/interpreter', the interpreter of {hook!r}, cannot be reached: No such file or directory"
    )


@pytest.mark.fault(10)
async def test_the_interpreter_of_an_interpreter_is_named(tmp_path: Path) -> None:
    inner = program(tmp_path / "inner", "#!\t/no/such\n")
    hook = program(tmp_path / "hook", f"#! {inner}\n")
    assert await failure(hook) == (
        f"ENOENT: '/no/such', the interpreter of {inner!r}, cannot be reached: No such file or directory"
    )


@pytest.mark.fault(10)
async def test_a_carriage_return_after_the_interpreter_is_shown(tmp_path: Path) -> None:
    hook = program(tmp_path / "hook", "#!/bin/sh\r\nexit 0\r\n")
    assert (await failure(hook)).startswith("ENOENT: '/bin/sh\\r', the interpreter of ")


@pytest.mark.fault(10)
async def test_an_interpreter_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    inner = program(tmp_path / "inner", "", 0o644)
    hook = program(tmp_path / "hook", f"#!{inner}\n")
    assert (await failure(hook)).startswith(f"EACCES: {inner!r}, the interpreter of {hook!r}, may not be executed")


@pytest.mark.fault(10)
async def test_a_file_that_is_not_executable_says_its_mode(tmp_path: Path) -> None:
    hook = program(tmp_path / "hook", "#!/bin/sh\n", 0o644)
    assert await failure(hook) == (
        f"EACCES: {hook!r} may not be executed (mode 0644); chmod +x it, or name its interpreter in front"
    )


def test_a_program_that_its_file_system_forbids_says_so() -> None:
    refused = PermissionError(errno.EACCES, "Permission denied", "/bin/cat")
    assert "mounted noexec" in explain(refused, ("/bin/cat",), cwd="/", env={})


@pytest.mark.fault(10)
@pytest.mark.parametrize("text", ["echo hello\n", "", "#!\n"])
async def test_a_file_without_an_interpreter_line_says_so(tmp_path: Path, text: str) -> None:
    hook = program(tmp_path / "hook", text)
    assert (await failure(hook)).startswith(f"ENOEXEC: {hook!r} is no program and has no #! line")


@pytest.mark.fault(10)
async def test_a_folder_is_no_program(tmp_path: Path) -> None:
    assert await failure(str(tmp_path)) == f"EACCES: {str(tmp_path)!r} is a folder and no program"


@pytest.mark.fault(10)
async def test_arguments_that_are_too_long_are_counted_and_not_shown() -> None:
    text = await failure("/bin/true", "x" * 200_000, "short")
    assert text.startswith("E2BIG: arguments and environment of '/bin/true' have 200")
    assert "the longest argument 200000" in text
    assert "xxx" not in text


@pytest.mark.fault(10)
async def test_a_busy_text_file_is_tried_again_until_it_is_free(tmp_path: Path) -> None:
    hook = program(tmp_path / "hook", "#!/bin/sh\necho started\n")
    writer = Path(hook).open("a")  # noqa: SIM115  # closed by the loop, in the middle of the call
    asyncio.get_running_loop().call_later(0.02, writer.close)
    assert finish(await start(hook)) == b"started\n"


@pytest.mark.timed
@pytest.mark.fault(10)
async def test_a_text_file_that_stays_busy_is_given_up_after_a_tenth_of_a_second(tmp_path: Path) -> None:
    hook = program(tmp_path / "hook", "#!/bin/sh\n")

    async def attempt() -> None:
        begin = time.monotonic()
        async with steady_loop(0.05):
            assert await failure(hook) == f"ETXTBSY: {hook!r} could not be executed: Text file busy"
        assert 0.1 <= time.monotonic() - begin <= 0.2

    with Path(hook).open("a"):
        await one_of_three(attempt)


@pytest.mark.fault(10)
async def test_a_busy_text_file_is_not_tried_again_after_the_deadline(tmp_path: Path) -> None:
    hook = program(tmp_path / "hook", "#!/bin/sh\n")
    now = asyncio.get_running_loop().time()
    with Path(hook).open("a"), pytest.raises(SpawnFailed, match="ETXTBSY"):
        await spawn((hook,), b"", cwd="/", env=ENV, until=now)
    assert asyncio.get_running_loop().time() - now < 0.1


@pytest.mark.fault(12)
async def test_a_working_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert (
        await failure("/bin/true", cwd=str(gone)) == f"ENOENT: No such file or directory: the working folder '{gone}'"
    )


@pytest.mark.fault(12)
async def test_a_working_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    file = program(tmp_path / "file", "")
    assert await failure("/bin/true", cwd=file) == f"ENOTDIR: Not a directory: the working folder {file!r}"


@pytest.mark.fault(12)
async def test_the_fault_of_a_relative_program_is_looked_for_in_the_working_folder(tmp_path: Path) -> None:
    program(tmp_path / "hook", "echo\n")
    assert (await failure("./hook", cwd=str(tmp_path))).startswith("ENOEXEC: './hook' is no program")


@pytest.mark.parametrize(
    ("argv", "env"), [(("/bin/true", "a\0b"), ENV), (("/bin/true", "\ud800"), ENV), (("/bin/true",), {"A=B": "c"})]
)
async def test_what_no_system_can_pass_on_is_refused(argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    assert (await failure(*argv, env=env)).startswith("EINVAL: ")


def test_a_loader_that_is_missing_is_told_from_a_missing_program() -> None:
    text = explain(FileNotFoundError(errno.ENOENT, "No such file", "/bin/cat"), ("/bin/cat",), cwd="/", env={})
    assert text == "ENOENT: '/bin/cat' is there, but the loader that it needs is not"


def test_a_system_that_is_out_of_processes_is_named_without_a_path() -> None:
    text = explain(OSError(errno.EAGAIN, "Resource temporarily unavailable"), ("/bin/cat",), cwd="/", env={})
    assert text == "EAGAIN: Resource temporarily unavailable, so '/bin/cat' could not be started"


def test_a_pipe_in_place_of_a_program_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "pipe"))
    assert "may not be executed" in explain(refused, (str(tmp_path / "pipe"),), cwd="/", env={})
