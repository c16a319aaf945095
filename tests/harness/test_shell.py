"""The shell tool: what a command prints and how it ended, in time, in the workspace, with nothing of our secrets."""

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.outside import comes_true, leaves_nothing

from tenter.catalogue import ToolResult
from tenter.harness.calling import MOST_OUTPUT, call_tool
from tenter.harness.context import ToolContext
from tenter.harness.shell import MOST_BYTES, inherited_environment, shell
from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK, Redactor


def at(folder: Path, *, seconds: float | None = None, **environment: str) -> ToolContext:
    deadline = None if seconds is None else SYSTEM_CLOCK.now() + seconds
    given = {"PATH": os.environ["PATH"], **environment}
    return ToolContext(workspace=Workspace.at(folder), environment=given, deadline=deadline)


async def run(command: str, context: ToolContext, **arguments: object) -> ToolResult:
    return await asyncio.wait_for(call_tool(shell, {"command": command, **arguments}, context), 20)


async def test_a_command_runs_in_the_workspace_and_tells_its_exit_code_and_output(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    root = tmp_path.resolve()
    assert await run("pwd", at(tmp_path)) == ToolResult(output=f"exit code 0\n{root}")
    assert (await run("pwd", at(tmp_path), cwd="src")).output == f"exit code 0\n{root}/src"
    assert (await run("true", at(tmp_path))).output == "exit code 0"


async def test_both_streams_come_in_the_order_of_printing_and_a_failure_is_an_error(tmp_path: Path) -> None:
    result = await run("echo one; echo two >&2; echo three; exit 3", at(tmp_path))
    assert result == ToolResult(output="exit code 3\none\ntwo\nthree", is_error=True)


async def test_a_syntax_error_names_line_one(tmp_path: Path) -> None:
    result = await run("if", at(tmp_path))
    assert result.is_error
    assert "1: Syntax error" in result.output or "line 1" in result.output


async def test_a_command_killed_by_a_signal_is_told_apart_from_an_exit_code(tmp_path: Path) -> None:
    assert (await run("kill -SEGV $$", at(tmp_path))).output == "killed by SIGSEGV"
    assert (await run("exit 139", at(tmp_path))).output == "exit code 139"


@pytest.mark.parametrize(
    ("cwd", "told"),
    [
        ("..", "leads out of the workspace"),
        ("link", "leads out of the workspace"),
        ("/", "leads out of the workspace"),
        ("missing", "does not exist"),
        ("file", "is not a folder"),
        ("", "is empty"),
    ],
)
async def test_a_working_folder_outside_or_none_is_refused_and_nothing_is_run(
    tmp_path: Path, cwd: str, told: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "file").touch()
    (work / "link").symlink_to("..")
    result = await run(f"touch {work}/ran", at(work), cwd=cwd)
    assert result.is_error
    assert told in result.output
    assert not (work / "ran").exists()


async def test_a_command_sees_the_environment_of_its_context_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-commands")
    result = await run("env; ls /proc/self/fd | wc -l", at(tmp_path, LANG="C"))
    names = {line.partition("=")[0] for line in result.output.splitlines() if "=" in line}
    assert names <= {"PATH", "LANG", "PWD", "TENTER_TOOL_CALL", "_", "SHLVL", "OLDPWD"}
    assert "not-for-commands" not in result.output
    assert result.output.splitlines()[-1].strip() == "4", "0 to 2, and the one that ls opens"


def test_what_is_inherited_is_a_closed_list() -> None:
    ours = {
        "PATH": "p",
        "HOME": "h",
        "LC_ALL": "C",
        "TZ": "UTC",
        "https_proxy": "http://u:p@h",
        "API_KEY": "k",
        "LC": "x",
    }
    assert inherited_environment(ours) == {"PATH": "p", "HOME": "h", "LC_ALL": "C", "TZ": "UTC"}


async def test_a_command_gets_no_input(tmp_path: Path) -> None:
    assert (await run("cat; echo end", at(tmp_path))).output == "exit code 0\nend"


async def test_a_command_that_does_not_end_is_ended_with_all_its_children_and_tells_what_it_printed(
    tmp_path: Path,
) -> None:
    command = "echo begun; (trap '' TERM; sleep 1000) & setsid sleep 1000 & wait"
    async with leaves_nothing(str(tmp_path)):
        result = await run(command, at(tmp_path, seconds=0.3, TMPDIR=str(tmp_path)))
    assert result.is_error
    assert result.output == "timed out: it was ended after 0.3 s\nbegun"


async def test_cancelling_the_call_ends_the_command(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    async with leaves_nothing(str(tmp_path)):
        call = asyncio.create_task(run("echo > begun; sleep 1000", at(tmp_path, TMPDIR=str(tmp_path))))
        assert await comes_true(begun.exists, within=5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 5)


async def test_output_is_cut_once_with_its_whole_length_told(tmp_path: Path) -> None:
    result = await run("head -c 300000 /dev/zero | tr '\\0' x; exit 1", at(tmp_path))
    assert result.truncated
    assert result.is_error
    assert result.output.startswith("exit code 1\nxxx")
    assert result.output.endswith("x\n[cut here: the whole output has 300000 bytes]")
    assert len(result.output) <= MOST_OUTPUT


async def test_bytes_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    assert (await run(r"printf 'a\377b'", at(tmp_path))).output == "exit code 0\na\\xffb"


async def test_a_command_that_could_not_be_is_an_error(tmp_path: Path) -> None:
    result = await run("echo a\0b", at(tmp_path))
    assert result.is_error
    assert "NUL" in result.output
    result = await run("echo " + "x" * 3_000_000, at(tmp_path))
    assert result.is_error
    assert result.output.startswith("could not be started: E2BIG")


def test_its_deadline_is_half_a_minute_unless_a_configuration_says_otherwise() -> None:
    assert shell.timeout_seconds == 30
    assert not shell.idempotent
    assert shell.configured(timeout_seconds=5).grace_seconds == shell.grace_seconds


@pytest.mark.promise(4)
@pytest.mark.parametrize("letter", ["x", "𝄞"])
async def test_nothing_of_a_secret_is_left_where_the_output_is_cut(tmp_path: Path, letter: str) -> None:
    secret = "S3cr3t-abcdefghijklmnopqrstuvwxyz01234"
    context = replace(at(tmp_path), mask=Redactor(secrets=[secret]).mask_text)
    text = letter * ((MOST_BYTES - 20) // len(letter.encode()))
    (tmp_path / "text").write_text(text + secret + letter * 1_000_000)
    result = await run("cat text", context)
    assert result.truncated
    assert secret[:4] not in result.output
    assert result.output.count(letter) >= len(text) - len(secret)


async def test_a_limited_command_runs_as_another_does_and_errors_still_name_line_one(tmp_path: Path) -> None:
    limited = replace(shell, function=shell.limited or shell.function)

    async def call(command: str) -> ToolResult:
        return await asyncio.wait_for(call_tool(limited, {"command": command}, at(tmp_path)), 20)

    assert await call("echo one; echo two >&2; exit 3") == ToolResult(output="exit code 3\none\ntwo", is_error=True)
    assert "1: Syntax error" in (await call("if")).output or "line 1" in (await call("if")).output
    assert (await call("ulimit -n; ulimit -c")).output == "exit code 0\n256\n0"


async def test_a_command_that_cannot_be_limited_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(_: float) -> dict[str, int]:
        return {"RLIMIT_NOFILE": 1 << 62}

    monkeypatch.setattr("tenter.harness.shell.process_limits", too_much)
    limited = replace(shell, function=shell.limited or shell.function)
    result = await asyncio.wait_for(call_tool(limited, {"command": "touch ran"}, at(tmp_path)), 20)
    assert result.is_error
    assert not (tmp_path / "ran").exists()


async def test_a_command_within_a_call_is_found_by_the_outer_call_too(tmp_path: Path) -> None:
    outer = {"TENTER_HOOK_ID": "hook", "TENTER_TOOL_CALL": "outer"}
    assert inherited_environment(outer) == outer
    result = await run(
        'echo "$TENTER_HOOK_ID $TENTER_TOOL_CALL"', at(tmp_path, TENTER_HOOK_ID="hook", TENTER_TOOL_CALL="outer")
    )
    assert re.fullmatch("exit code 0\nhook outer\\.[0-9a-f]{32}", result.output)
