"""A program does an iteration: what it is given, what comes of its end, and that nothing of it is left."""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.loop.equipment import SECRET, World, world
from tests.outside import alive_with, comes_true, flat_memory, one_of_three, steady_loop

from tenter.config import CommandBackendSpec
from tenter.config.loop_spec import PromptWay
from tenter.executors import PinnedFile, file_digest
from tenter.kernel import FrozenDict, TenterError
from tenter.loop.command_backend import CommandBackend
from tenter.loop.work import Worked

MB = 1 << 20


async def run(
    here: World,
    *argv: str,
    prompt: str = "Do it.",
    way: PromptWay = "stdin",
    silence: float = 30.0,
    seconds: float | None = None,
) -> Worked:
    spec = CommandBackendSpec(command=argv, prompt=way, inactivity_timeout_seconds=silence)
    return await asyncio.wait_for(CommandBackend(spec, here.equipment).run(here.work(prompt, seconds=seconds)), 40)


def sh(text: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", text)


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", text)


# what it is given


async def test_it_runs_in_the_workspace_with_the_users_environment_and_that_of_the_loop(tmp_path: Path) -> None:
    code = "import os, json; print(json.dumps([os.getcwd(), dict(os.environ), os.getpgrp() == os.getpid()]))"
    async with world(tmp_path) as here:
        worked = await run(here, *python(code))
    folder, environment, leads = json.loads(worked.last_line)
    assert (worked.status, worked.error, folder, leads) == ("ok", "", str(here.workspace), True)
    assert {name: environment[name] for name in ("MY_KEY", "PATH", "PWD")} == {
        "MY_KEY": "of the user",
        "PATH": os.environ["PATH"],
        "PWD": str(here.workspace),
    }
    assert environment | here.work().environment == environment


@pytest.mark.fault(15)
@pytest.mark.parametrize("prompt", ["$(touch no) `touch no` 'a' \"b\"\n; touch no\n--help é €", "", "x" * 90_000])
async def test_a_prompt_arrives_as_it_is_on_stdin_and_as_the_last_argument(prompt: str, tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await run(here, *sh("cat > got; [ $# = 1 ]"), "name", "given", prompt=prompt)
        assert (here.workspace / "got").read_text() == prompt
        worked = await run(
            here, *sh('printf %s "$2" > got; cat > stdin'), "name", "given", prompt=prompt, way="argument"
        )
        assert (here.workspace / "got").read_text() == prompt
        assert (worked.status, (here.workspace / "stdin").read_bytes()) == ("ok", b"")
        assert not (here.workspace / "no").exists()


@pytest.mark.fault(15)
async def test_a_prompt_that_begins_with_a_dash_is_never_an_option(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await run(here, *sh('printf %s "$1" > got'), "name", prompt="-rf /", way="argument")
        assert (here.workspace / "got").read_text() == "\n-rf /"
        await run(here, *sh("cat > got"), prompt="-rf /")
        assert (here.workspace / "got").read_text() == "-rf /"


LOOK = """
import os, re, stat, sys
name = re.search(r"Read the file (\\S+) and do", sys.argv[1])[1]
with open(name, "rb") as file:
    data = file.read()
print(name, len(data), data[:3], data[-3:], oct(stat.S_IMODE(os.stat(name).st_mode)), len(sys.argv))
"""


@pytest.mark.parametrize("prompt", ["é" * 100_000, "a\0b"], ids=["200-kB", "NUL"])
async def test_a_prompt_that_cannot_be_an_argument_is_in_a_file_of_the_users_alone(
    prompt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    async with world(tmp_path) as here:
        worked = await run(here, *python(LOOK), prompt=prompt, way="argument")
    data = prompt.encode()
    name, told = worked.last_line.split(" ", 1)
    assert told == f"{len(data)} {data[:3]!r} {data[-3:]!r} 0o600 2"
    assert Path(name).parent == tmp_path / "temporary"
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_a_program_may_take_the_file_of_its_prompt_away(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        take = "import os, sys; os.unlink(sys.argv[1].split()[3])"
        worked = await run(here, *python(take), prompt="x" * 200_000, way="argument")
    assert worked == Worked(status="ok")


async def test_a_prompt_that_cannot_be_put_into_a_file_is_a_failure_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    async with world(tmp_path) as here:
        worked = await run(here, "/bin/true", prompt="x" * 200_000, way="argument")
    assert worked == Worked(status="failed", error="the prompt could not be put into a file: No such file or directory")


@pytest.mark.fault(6)
async def test_a_program_that_reads_none_of_its_prompt_is_ok(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await run(here, "/bin/true", prompt="x" * MB)).status == "ok"


# how it ends


@pytest.mark.fault(1)
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("echo one; echo why >&2; exit 3", "'/bin/sh' exited with 3; its last words: why"),
        ("echo one; exit 1", "'/bin/sh' exited with 1; its last words: one"),
        ("exit 139", "'/bin/sh' exited with 139; it said nothing"),
        ("kill -KILL $$", "'/bin/sh' was killed by SIGKILL; it said nothing"),
        (f"echo the key {SECRET} >&2; exit 2", "'/bin/sh' exited with 2; its last words: the key [redacted]"),
    ],
)
async def test_an_end_that_is_not_well_is_a_failure_that_says_how(text: str, error: str, tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        worked = await run(here, *sh(text))
    assert (worked.status, worked.error, worked.queue, worked.run_id) == ("failed", error, "", None)


@pytest.mark.fault(10)
async def test_a_program_that_cannot_start_is_a_failure_that_says_why(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        missing = await run(here, str(tmp_path / "missing"))
        here.workspace.rmdir()
        homeless = await run(here, "/bin/true")
    assert missing.error.startswith(
        f"'{tmp_path}/missing' could not be started: ENOENT: '{tmp_path}/missing' cannot be"
    )
    assert homeless.error.endswith(f"No such file or directory: the working folder '{tmp_path}/workspace'")
    assert (missing.status, homeless.status) == ("failed", "failed")


@pytest.mark.promise(4)
async def test_a_secret_in_the_name_of_the_program_is_not_told(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        worked = await run(here, str(tmp_path / SECRET))
    assert SECRET not in worked.error
    assert "[redacted]" in worked.error


@pytest.mark.timed
@pytest.mark.fault(2)
async def test_a_program_that_says_nothing_for_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    text = "trap '' TERM; setsid sleep 60 & sleep 60 & echo started; while :; do sleep 1; done"
    async with world(tmp_path) as here:
        start = time.monotonic()
        worked = await run(here, *sh(text), silence=0.5)
        elapsed = time.monotonic() - start
    assert worked.error == (
        "'/bin/sh' printed nothing for 0.5 s (inactivity_timeout_seconds) and was ended; its last words: started"
    )
    assert (worked.status, worked.last_line, 2.5 <= elapsed < 5) == ("failed", "started", True)


async def test_a_program_that_says_something_now_and_then_is_not_inactive(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        worked = await run(here, *sh("for each in 1 2 3 4 5; do echo $each >&2; sleep 0.2; done"), silence=0.7)
    assert worked == Worked(status="ok")


async def test_the_time_of_the_loop_ends_it_too(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        worked = await run(here, *sh("echo begun; exec sleep 60"), seconds=0.4)
        late = await run(here, *sh("echo > ran"), seconds=-1)
        assert not (here.workspace / "ran").exists()
    assert worked.error == (
        "'/bin/sh' was ended because the time of the loop was up (max_runtime_seconds); its last words: begun"
    )
    assert (worked.status, late.status) == ("failed", "failed")
    assert late.error == "the time of the loop was up before the work began"


@pytest.mark.timed
@pytest.mark.fault(3)
async def test_what_it_leaves_running_is_ended_and_noted_and_holds_nobody(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        start = time.monotonic()
        worked = await run(here, *sh("setsid sleep 60 & sleep 60 & echo done"))
        elapsed = time.monotonic() - start
    assert (worked, elapsed < 3) == (Worked(status="ok", last_line="done"), True)
    assert here.log[-1] == "loop| ended what the backend left running: 2 processes"


@pytest.mark.timed
@pytest.mark.parametrize("stubborn", [True, False])
@pytest.mark.parametrize("way", ["stdin", "argument"])
async def test_cancelling_ends_the_group_and_what_left_it_and_is_raised_again(
    stubborn: bool, way: PromptWay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    trap = "trap '' TERM; " if stubborn else ""
    argv = sh(f"{trap}setsid sleep 60 & sleep 60 & echo > ready; echo half; wait; while :; do sleep 1; done")
    async with world(tmp_path) as here:
        spec = CommandBackendSpec(command=argv, prompt=way)
        task = asyncio.create_task(CommandBackend(spec, here.equipment).run(here.work("x" * 150_000)))
        assert await comes_true((here.workspace / "ready").exists, within=5)
        assert len(alive_with(here.mark)) >= 3
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert not alive_with(here.mark)
        assert time.monotonic() - start < (3 if stubborn else 1)
    assert here.log == ["out| half"]
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_a_descendant_of_a_call_around_it_is_found_by_that_call_too(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        first = await run(here, *sh("echo $TENTER_BACKEND_CALL"))
        inner = FrozenDict({**here.equipment.environment, "TENTER_BACKEND_CALL": "outer"})
        backend = CommandBackend(
            CommandBackendSpec(command=sh("echo $TENTER_BACKEND_CALL")),
            type(here.equipment)(
                workspace=here.equipment.workspace,
                environment=inner,
                log=here.equipment.log,
                mask=str,
                clock=here.equipment.clock,
                harness=here.equipment.harness,
            ),
        )
        second = await backend.run(here.work())
    assert (len(first.last_line), second.last_line.partition(".")[0]) == (32, "outer")


# what it says


@pytest.mark.promise(4)
async def test_its_output_is_in_the_log_as_it_comes_without_secrets(tmp_path: Path) -> None:
    text = f"printf 'half {SECRET[:9]}'; echo err >&2; sleep 0.1; echo '{SECRET[9:]} whole'; cat; echo LOOP_COMPLETE"
    async with world(tmp_path) as here:
        worked = await run(here, *sh(text), prompt="the prompt\n")
    assert here.log == ["err| err", "out| half [redacted] whole", "out| the prompt", "out| LOOP_COMPLETE"]
    assert worked == Worked(status="ok", last_line="LOOP_COMPLETE")


async def test_one_iteration_knows_nothing_of_what_the_last_one_said(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await run(here, *sh("printf LOOP_COMPLETE"))
        assert await run(here, "/bin/true") == Worked(status="ok")


@pytest.mark.timed
@pytest.mark.fault(7)
@pytest.mark.parametrize("source", ["yes a line of some words", "tr '\\0' x < /dev/zero"], ids=["lines", "one-line"])
async def test_a_hundred_megabytes_neither_fill_memory_nor_stall_the_loop(source: str, tmp_path: Path) -> None:
    async def attempt() -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        async with world(folder) as here:
            await run(here, *sh("head -c 1000000 /dev/zero | tr '\\0' x"))  # what is made once is made
            async with flat_memory(16 * MB), steady_loop(0.25):
                worked = await run(here, *sh(f"{source} | head -c 100000000; echo; echo end"))
            logs = [folder / "output.log.1", folder / "output.log"]
            size = sum(path.stat().st_size for path in logs)
            for path in logs:
                path.unlink()
        assert (worked, size > 100_000_000) == (Worked(status="ok", last_line="end"), True)

    await one_of_three(attempt)


@pytest.mark.promise(14)
@pytest.mark.fault(56)
async def test_a_program_that_changed_since_it_was_trusted_is_not_run(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        script = here.workspace / "agent.sh"
        script.write_text("#!/bin/sh\ntouch ran\n")
        script.chmod(0o755)
        spec = CommandBackendSpec(command=(str(script),))
        backend = CommandBackend(spec, here.equipment, (PinnedFile(str(script), file_digest(script)),))
        assert (await backend.run(here.work())).status == "ok"
        (here.workspace / "ran").unlink()
        script.write_text("#!/bin/sh\ntouch ran && touch more\n")
        with pytest.raises(TenterError, match=r"agent\.sh' changed since it was trusted"):
            await backend.run(here.work())
        assert not (here.workspace / "ran").exists()
