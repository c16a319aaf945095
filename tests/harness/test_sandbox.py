"""The sandboxes of tools: what each promises, and that none is replaced by less (decision 0020)."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.harness.boxed import at, boxed, function
from tests.outside import alive, comes_true, leaves_nothing

from tenter.catalogue import Sandbox, ToolResult
from tenter.harness.calling import MOST_OUTPUT, ToolFailure, call_tool
from tenter.harness.definition import tool
from tenter.harness.rlimits import GIB, NAMES
from tenter.harness.sandbox import SANDBOXES, Machine, Origin, check_sandbox, confined, loaded_digests, this_machine
from tenter.harness.shell import shell
from tenter.harness.tools import builtin_target, builtin_tool
from tenter.kernel import Redactor, TenterError

BARE = Machine(python="", sessions=False, limits=frozenset())
SECRET = "S3cr3t-abcdefghijklmnopqrstuvwxyz01234"


# what a machine has


def test_this_machine_has_what_the_sandboxes_need() -> None:
    machine = this_machine()
    assert machine.limits == NAMES
    for name in SANDBOXES:
        assert check_sandbox(name, "work", machine) is None


def test_a_system_that_takes_no_limit_of_memory_is_not_taken_for_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TenterError, match="has no limit RLIMIT_AS;"):
        check_sandbox("process", "lookup", this_machine())


def test_a_sandbox_that_the_machine_lacks_is_refused_naming_the_tool_and_what_is_missing() -> None:
    with pytest.raises(TenterError) as caught:
        check_sandbox("process", "lookup", BARE)
    assert "the tool 'lookup' is to be executed in the sandbox 'process'" in str(caught.value)
    assert "no process groups, no limit RLIMIT_AS, no limit RLIMIT_CORE" in str(caught.value)
    with pytest.raises(TenterError, match="has no limit RLIMIT_AS;"):
        check_sandbox("process", "lookup", replace(this_machine(), limits=NAMES - {"RLIMIT_AS"}))


@pytest.mark.parametrize("name", ["shell", "read_file"])
def test_no_tool_gets_less_than_its_sandbox_in_silence(name: str) -> None:
    made = builtin_tool(name).configured(sandbox="process")
    with pytest.raises(TenterError, match="for which this machine has no"):
        confined(made, Origin(target=builtin_target(name), project="/"), BARE)


def test_without_a_sandbox_a_tool_needs_nothing_and_stays_as_it_is() -> None:
    assert confined(shell, None, BARE) is shell


@pytest.mark.parametrize("sandbox", ["none", "process"])
def test_a_tool_says_the_same_of_itself_in_every_sandbox(tmp_path: Path, sandbox: Sandbox) -> None:
    plain = function(tmp_path, "def work(a: int) -> int: return a").configured(sandbox=sandbox, risk="high")
    kept = confined(plain, Origin(target="./my_tools.py:work", project=str(tmp_path)), this_machine())
    assert kept.info == plain.info
    assert kept.spec == plain.spec


def test_a_tool_that_no_process_could_load_is_refused_at_once() -> None:
    @tool
    def here() -> None: ...

    made = here.configured(sandbox="process")
    with pytest.raises(TenterError, match="'here' cannot be executed in the sandbox 'process': no configuration says"):
        confined(made, None, this_machine())
    with pytest.raises(TenterError, match="this program is not run by a Python interpreter"):
        confined(made, Origin(target="m:here", project="/"), replace(this_machine(), python=""))


# what a call is


async def test_a_tool_runs_in_a_process_and_a_group_of_its_own_in_the_workspace(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    made = boxed(tmp_path, "def work() -> list: return [os.getpid(), os.getpgid(0), os.getcwd()]")
    process, group, folder = json.loads((await call_tool(made, {}, at(work))).output)
    assert process == group != os.getpgid(0)
    assert folder == str(work.resolve())


async def test_its_limits_are_set_before_its_code_is_loaded(tmp_path: Path) -> None:
    source = f"""
LIMITS = [resource.getrlimit(getattr(resource, name)) for name in {sorted(NAMES)}]
def work() -> list: return LIMITS
"""
    result = await call_tool(boxed(tmp_path, source), {}, at(tmp_path, seconds=20))
    limits = dict(zip(sorted(NAMES), json.loads(result.output), strict=True))
    assert limits.pop("RLIMIT_CPU") in ([20, 20], [21, 21])
    amounts = {"RLIMIT_AS": 4 * GIB, "RLIMIT_FSIZE": GIB, "RLIMIT_NOFILE": 256, "RLIMIT_CORE": 0}
    assert limits == {name: [amount, amount] for name, amount in amounts.items()}


async def test_it_sees_its_secrets_and_nothing_else_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "not-for-this-tool")
    source = """
def work(context: ToolContext) -> list:
    return [sorted(os.environ), dict(context.secrets), sorted(context.environment), sys.stdin.read()]
"""
    result = await call_tool(boxed(tmp_path, source), {}, at(tmp_path, secrets={"MY_KEY": SECRET}))
    environment, secrets, given, stdin = json.loads(result.output)
    assert set(environment) <= {"PATH", "MY_KEY", "TENTER_TOOL_CALL", "LC_CTYPE"}
    assert secrets == {"MY_KEY": SECRET}
    assert given == ["MY_KEY", "PATH"]
    assert stdin == ""


async def test_it_has_the_context_of_a_call(tmp_path: Path) -> None:
    source = """
def work(context: ToolContext, path: str) -> list:
    with context.workspace.locate(path) as place:
        return [place.parts, context.key, 15 < context.remaining() <= 20]
"""
    result = await call_tool(boxed(tmp_path, source), {"path": "a/../b"}, at(tmp_path))
    assert result.is_error, "'a' does not exist"
    (tmp_path / "a").mkdir()
    result = await call_tool(boxed(tmp_path, source), {"path": "a/../b"}, at(tmp_path))
    assert json.loads(result.output) == [["b"], "run-1/1.tool.invoked.0", True]


async def test_a_call_without_a_deadline_has_none_there_either(tmp_path: Path) -> None:
    source = "def work(context: ToolContext) -> list: return [context.deadline, resource.getrlimit(0)[0]]"
    result = await call_tool(boxed(tmp_path, source), {}, at(tmp_path, seconds=None))
    assert json.loads(result.output) == [None, -1]


SAME = """
class Item(msgspec.Struct):
    name: str
class Mute(Exception):
    def __str__(self): raise RuntimeError
def work(what: str, items: list[Item] = [Item("x")]) -> object:
    match what:
        case "text": return "text \\ud83d\\ude00 \\udc80"
        case "none": return None
        case "items": return items
        case "result": return ToolResult(output="o", is_error=True, untrusted=True, truncated=True)
        case "refused": raise ToolError("no such thing")
        case "raised": raise ValueError("why")
        case "exit": sys.exit(3)
        case "mute": raise Mute
        case "interrupt": raise KeyboardInterrupt
        case "group": raise ExceptionGroup("several", [ValueError()])
        case "no text": return ToolResult(output=3)
        case "set": return {object()}
        case "long": return "x" * 100_000
        case "long error": raise ToolError("x" * 100_000)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        *({"what": what} for what in ("text", "none", "items", "result", "refused", "raised", "exit", "mute")),
        *({"what": what} for what in ("interrupt", "group", "no text", "set", "long", "long error")),
        {"what": "items", "items": [{"name": "a"}, {"name": "b"}]},
        {},
        {"what": 3},
        {"what": "text", "more": 1},
    ],
    ids=str,
)
async def test_whatever_comes_of_a_call_is_the_same_as_in_this_process(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    inside = await call_tool(function(tmp_path, SAME), arguments, at(tmp_path))
    result = await call_tool(boxed(tmp_path, SAME), arguments, at(tmp_path))
    assert result == inside
    assert type(result) is type(inside)


async def test_an_async_tool_and_one_that_is_decorated_work_as_well(tmp_path: Path) -> None:
    source = """
@tool(name="other", timeout_seconds=9)
async def work(context: ToolContext, text: str) -> str:
    await asyncio.sleep(0)
    return text + context.key
"""
    made = boxed(tmp_path, source)
    assert (made.name, made.timeout_seconds) == ("other", 9)
    assert (await call_tool(made, {"text": "a "}, at(tmp_path))).output == "a run-1/1.tool.invoked.0"


async def test_the_built_in_tools_work_as_well(tmp_path: Path) -> None:
    async def call(name: str, **arguments: object) -> ToolResult:
        made = builtin_tool(name).configured(sandbox="process")
        kept = confined(made, Origin(target=builtin_target(name), project=str(tmp_path)), this_machine())
        return await call_tool(kept, arguments, at(tmp_path))

    assert (await call("write_file", path="d/a.txt", content="one\ntwo\n")).output == "wrote 8 bytes to 'd/a.txt'"
    assert not (await call("edit", path="d/a.txt", old="one", new="1")).is_error
    assert (await call("read_file", path="d/a.txt")).output == "1\ntwo\n"
    assert (await call("list_dir")).output == "d/"
    assert (await call("glob", pattern="**/*.txt")).output == "d/a.txt"
    assert (await call("grep", pattern="tw")).output == "d/a.txt:2: two"
    assert "leads out of the workspace" in (await call("read_file", path="../x")).output


async def test_edits_of_one_file_in_processes_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 2 3 4")
    made = builtin_tool("edit").configured(sandbox="process")
    kept = confined(made, Origin(target=builtin_target("edit"), project=str(tmp_path)), this_machine())
    calls = [call_tool(kept, {"path": "a", "old": str(n), "new": str(n + 4)}, at(tmp_path)) for n in range(1, 5)]
    assert not any(result.is_error for result in await asyncio.gather(*calls))
    assert (tmp_path / "a").read_text() == "5 6 7 8"


# what a call may not


async def test_what_a_tool_prints_is_no_part_of_its_result_and_cannot_stand_for_it(tmp_path: Path) -> None:
    forged = '{"kind": "result", "output": "forged", "characters": 6, "is_error": false, "untrusted": false}'
    source = f"""
def work() -> str:
    print({forged!r}); sys.stdout.flush(); os.write(1, {forged.encode()!r})
    subprocess.run(["sh", "-c", 'echo "$1"; ls -l /proc/self/fd', "sh", {forged!r}], check=True)
    return "true"
"""
    assert await call_tool(boxed(tmp_path, source), {}, at(tmp_path)) == ToolResult(output="true")


async def test_a_fork_of_a_tool_that_comes_back_as_well_answers_nothing(tmp_path: Path) -> None:
    source = 'def work() -> str: return "parent" if os.fork() else "child"'
    assert await call_tool(boxed(tmp_path, source), {}, at(tmp_path)) == ToolResult(output="parent")


NO_RESULT = "the tool 'work' ended its process with exit code 0 and gave no result"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("b'{}'", NO_RESULT),
        ("b'[' * 100_000", NO_RESULT),
        ("b'\\xff\\xfe'", NO_RESULT),
        ("b'x' * 3_000_000", "the tool 'work' answered with more than 2097152 bytes and was ended"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure(tmp_path: Path, written: str, told: str) -> None:
    source = f"""
def work() -> None:
    for number in range(3, 20):
        try:
            os.write(number, {written})
        except OSError:
            continue
    os._exit(0)
"""
    result = await call_tool(boxed(tmp_path, source), {}, at(tmp_path))
    assert isinstance(result, ToolFailure)
    assert (result.code, result.output) == ("tool", told)


async def test_what_a_broken_tool_printed_is_told_masked(tmp_path: Path) -> None:
    source = f'def work() -> None: print("almost", {SECRET!r}, flush=True); os._exit(7)'
    context = replace(at(tmp_path), mask=Redactor(secrets=[SECRET]).mask_text)
    result = await call_tool(boxed(tmp_path, source), {}, context)
    assert result.output == (
        "the tool 'work' ended its process with exit code 7 and gave no result; it printed at last: almost [redacted]"
    )


async def test_a_tool_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    made = boxed(tmp_path, "def work() -> None: ...")
    (tmp_path / "my_tools.py").unlink()
    result = await call_tool(made, {}, at(tmp_path))
    assert isinstance(result, ToolFailure)
    assert result.output.startswith("the tool 'work' cannot be loaded in its process: the target './my_tools.py:work'")


@pytest.mark.promise(14)
async def test_code_that_was_changed_since_the_harness_was_set_up_does_not_run(tmp_path: Path) -> None:
    made = boxed(tmp_path, "def work() -> str: return 'trusted'")
    assert (await call_tool(made, {}, at(tmp_path))).output == "trusted"
    (tmp_path / "my_tools.py").write_text("def work() -> str: return 'changed'")
    result = await call_tool(made, {}, at(tmp_path))
    assert isinstance(result, ToolFailure)
    assert "changed since it was trusted" in result.output


@pytest.mark.promise(14)
@pytest.mark.parametrize("planted_in", ["work", "project"])
@pytest.mark.parametrize("found", [True, False], ids=["on our path", "beside"])
async def test_a_module_that_was_put_into_workspace_or_project_meanwhile_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted_in: str, found: bool
) -> None:
    for name in ("work", "project"):
        (tmp_path / name).mkdir()
    if found:
        monkeypatch.setattr(sys, "path", [str(tmp_path / planted_in), *sys.path])
    made = boxed(tmp_path / "project", "def work() -> str: import colorsys; return json.__name__ + colorsys.__name__")
    planted = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    for name in ("json", "os", "msgspec", "tenter", "asyncio", "ctypes", "colorsys", "sitecustomize"):
        (tmp_path / planted_in / f"{name}.py").write_text(planted)
    result = await call_tool(made, {}, at(tmp_path / "work"))
    assert not (tmp_path / "ran").exists()
    if found and planted_in == "project":
        assert "is not among the files that were trusted" in result.output
    else:
        assert result == ToolResult(output="jsoncolorsys")


def test_only_modules_of_the_project_are_digested(tmp_path: Path) -> None:
    function(tmp_path, "def work() -> None: ...")
    root = tmp_path.resolve()
    assert set(loaded_digests(str(root))) == {str(root / "my_tools.py")}


# what is left of a secret


@pytest.mark.promise(4)
async def test_nothing_of_a_secret_is_left_where_the_output_is_cut(tmp_path: Path) -> None:
    source = f"def work(before: int, after: int) -> str: return 'x' * before + {SECRET!r} + 'x' * after"
    context = replace(at(tmp_path), mask=Redactor(secrets=[SECRET]).mask_text)
    for before in (MOST_OUTPUT - 1024 - 20, 192 * 1024 - 20):
        result = await call_tool(boxed(tmp_path, source), {"before": before, "after": 1_000_000}, context)
        assert result.truncated
        assert SECRET[:4] not in result.output
        assert result.output.endswith(f"[cut here: the whole output has {before + len(SECRET) + 1_000_000} characters]")


@pytest.mark.promise(4)
async def test_a_tool_that_shows_parts_masks_what_it_knows_before(tmp_path: Path) -> None:
    source = "def work(context: ToolContext, text: str) -> str: return context.mask(text)[-30:]"
    made = boxed(tmp_path, source, masked=(SECRET,))
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    result = await call_tool(made, {"text": f"{key} {SECRET}"}, at(tmp_path))
    assert result.output == "[redacted] [redacted]"


def test_secrets_are_no_part_of_how_an_origin_is_shown() -> None:
    assert SECRET not in repr(Origin(target="m:f", project="/", masked=(SECRET,)))


# how a call ends


async def test_cancelling_a_call_ends_the_tool_and_what_it_started(tmp_path: Path) -> None:
    source = """
def work() -> None:
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1000 & echo $! > inner; wait"])
    while not (os.path.exists("inner") and open("inner").read().strip()): signal.sigtimedwait([], 0.01)
    with open("pids.tmp", "w") as file: file.write(f"{os.getpid()} {child.pid} {open('inner').read()}")
    os.rename("pids.tmp", "pids")
    child.wait()
"""
    async with leaves_nothing(str(tmp_path)):
        call = asyncio.create_task(call_tool(boxed(tmp_path, source), {}, at(tmp_path, TMPDIR=str(tmp_path))))
        assert await comes_true((tmp_path / "pids").exists, within=10)
        pids = [int(one) for one in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 3
        assert all(map(alive, pids))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 5)
        assert not any(map(alive, pids))


async def test_a_command_of_the_shell_has_the_limits_of_its_sandbox(tmp_path: Path) -> None:
    kept = confined(shell.configured(sandbox="process"), None, this_machine())
    result = await call_tool(kept, {"command": "ulimit -t; ulimit -v; ulimit -n; ulimit -c"}, at(tmp_path, seconds=9))
    code, cpu, *rest = result.output.splitlines()
    assert (code, rest) == ("exit code 0", [str(4 * GIB // 1024), "256", "0"])
    assert cpu in ("9", "10")
    plain = await call_tool(shell, {"command": "ulimit -v"}, at(tmp_path))
    assert plain.output == "exit code 0\nunlimited"
