"""Tools in a process of their own that do their worst: in time, told apart, and nothing is left of them (FAULTS G1-G5).

What no test here asks for is what the sandbox does not promise: a tool that forks without end is ended at its deadline
and not before (decision 0020).
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.harness.boxed import at, boxed, function
from tests.harness.world import calls, project
from tests.outside import alive, comes_true, flat_memory, leaves_nothing, one_of_three, steady_loop

from tenter import Harness, hook
from tenter.catalogue import ToolResult, ToolResultEvent
from tenter.harness.calling import MOST_OUTPUT, ToolFailure, call_tool
from tenter.harness.sandbox import Origin, confined, this_machine
from tenter.harness.shell import KILL_AFTER_SECONDS, shell
from tenter.journal import MemoryStore

pytestmark = pytest.mark.timed

MB = 1024 * 1024
SECRET = "correct-horse-battery-staple"
LATE = 0.25
"""What a call may take beyond its deadline and its grace (G1)."""


async def called(folder: Path, source: str, seconds: float, *, grace: float = KILL_AFTER_SECONDS) -> ToolResult:
    """What comes of a tool of this source, within the bounds of G1 and G4."""
    made, results = boxed(folder, source), list[ToolResult]()

    async def attempt() -> None:
        loop = asyncio.get_running_loop()
        async with leaves_nothing(str(folder)), steady_loop():
            begun = loop.time()
            call = call_tool(made, {}, at(folder, seconds=seconds, TMPDIR=str(folder)))
            results.append(await asyncio.wait_for(call, seconds + 20))
            assert loop.time() - begun <= seconds + grace + LATE

    await one_of_three(attempt)
    return results[-1]


HANGS: Mapping[str, str] = {
    "waits": "def work() -> None: threading.Event().wait()",
    "ignores TERM": """
def work() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); threading.Event().wait()""",
    "stops itself": "def work() -> None: os.kill(os.getpid(), signal.SIGSTOP); threading.Event().wait()",
    "swallows cancellation": """
async def work() -> None:
    while True:
        try: await asyncio.Event().wait()
        except asyncio.CancelledError: continue""",
    "holds the interpreter": "def work() -> int: return len(str(10 ** (10 ** 8)))",
    "prints for ever": "def work() -> None:\n    while True: os.write(1, b'x' * 65536)",
    "burns its time": "def work() -> None:\n    while True: pass",
    "at its import": """
if "TENTER_TOOL_CALL" in os.environ: threading.Event().wait()
def work() -> None: ...""",
}


@pytest.mark.fault(2)
@pytest.mark.parametrize("how", HANGS)
async def test_a_tool_that_hangs_is_ended_at_its_deadline(tmp_path: Path, how: str) -> None:
    result = await called(tmp_path, HANGS[how], 0.6)
    assert isinstance(result, ToolFailure)
    assert result.code == "timeout"
    assert result.output == "the tool 'work' did not end within 0.6 s and was ended"


@pytest.mark.fault(3)
async def test_a_grandchild_that_left_the_group_and_keeps_the_pipes_is_ended_and_the_result_counts(
    tmp_path: Path,
) -> None:
    source = """
def work() -> str:
    subprocess.Popen(["setsid", "sleep", "1000"]); subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1000"])
    return "done"
"""
    assert await called(tmp_path, source, 5, grace=0) == ToolResult(output="done")


@pytest.mark.fault(3)
async def test_what_a_tool_that_hangs_started_ends_with_it(tmp_path: Path) -> None:
    source = """
def work() -> None:
    subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; sleep 1000 & wait"]); threading.Event().wait()
"""
    result = await called(tmp_path, source, 0.8)
    assert isinstance(result, ToolFailure)
    assert result.code == "timeout"


ENDINGS: Mapping[str, tuple[str, str]] = {
    "exits by itself": ("sys.exit(3)", "failed: SystemExit: 3"),
    "exits at once": ("os._exit(3)", "ended its process with exit code 3 and gave no result"),
    "exits well without a result": ("os._exit(0)", "ended its process with exit code 0 and gave no result"),
    "says why before": (
        "print('the reason', flush=True); os._exit(1)",
        "ended its process with exit code 1 and gave no result; it printed at last: the reason",
    ),
    "SEGV": ("ctypes.string_at(0)", "was killed by SIGSEGV"),
    "ABRT": ("os.abort()", "was killed by SIGABRT"),
    "KILL": (
        "os.kill(os.getpid(), signal.SIGKILL)",
        "was killed by SIGKILL (it may have used up its CPU time)",
    ),
    "139": ("os._exit(139)", "ended its process with exit code 139 and gave no result"),
    "no memory": ("bytearray(5 << 30)", "failed: MemoryError"),
    "too deep": ("work()", "failed: RecursionError: maximum recursion depth exceeded"),
}


@pytest.mark.fault(1)
@pytest.mark.parametrize("how", ENDINGS)
async def test_a_tool_that_ends_without_a_result_is_a_failure_that_says_how(tmp_path: Path, how: str) -> None:
    body, told = ENDINGS[how]
    result = await called(tmp_path, f"def work() -> None: {body}", 10, grace=0)
    assert isinstance(result, ToolFailure)
    assert (result.code, result.output) == ("tool", f"the tool 'work' {told}")


LIMITED: Mapping[str, tuple[str, str]] = {
    "a file": (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); os.truncate(open('big', 'w').name, (1 << 30) + 1)",
        "File too large",
    ),
    "open files": ("[open('/dev/null') for _ in range(300)]", "Too many open files"),
    "a core": ("raise ValueError(resource.getrlimit(resource.RLIMIT_CORE))", "(0, 0)"),
}


@pytest.mark.parametrize("how", LIMITED)
async def test_a_tool_gets_no_more_than_its_limits(tmp_path: Path, how: str) -> None:
    body, told = LIMITED[how]
    result = await called(tmp_path, f"def work() -> None: {body}", 10, grace=0)
    assert isinstance(result, ToolFailure)
    assert told in result.output


@pytest.mark.fault(7)
@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(1024): os.write(1, b'x' * (1 << 20))",
        "subprocess.run(['head', '-c', '1073741824', '/dev/zero'])",
        "return 'x' * (1 << 30)",
        "raise ToolError('x' * (1 << 30))",
    ],
)
async def test_a_gigabyte_of_output_is_bounded(tmp_path: Path, body: str) -> None:
    made = boxed(tmp_path, f"def work() -> str:\n    {body}\n    return 'done'")
    async with leaves_nothing(str(tmp_path)), flat_memory(2 * 2 * MB + 16 * MB):
        context = at(tmp_path, seconds=60, TMPDIR=str(tmp_path))
        result = await asyncio.wait_for(call_tool(made, {}, context), 90)
    assert type(result) is ToolResult
    assert len(result.output.encode()) <= MOST_OUTPUT
    assert result.output == "done" or result.truncated
    assert result.is_error == body.startswith("raise")


@pytest.mark.fault(14)
async def test_a_program_that_a_tool_starts_has_three_descriptors_and_the_environment_of_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:proxy-password@proxy")
    source = """
def work() -> str:
    return subprocess.run(["sh", "-c", "env; ls /proc/self/fd | wc -l"], capture_output=True, text=True).stdout
"""
    lines = (await called(tmp_path, source, 10, grace=0)).output.splitlines()
    assert lines[-1].strip() == "4", "0 to 2, and the one that ls opens"
    names = {line.partition("=")[0] for line in lines[:-1]}
    assert names <= {"PATH", "TMPDIR", "TENTER_TOOL_CALL", "PWD", "LC_CTYPE", "_", "SHLVL", "OLDPWD"}


@pytest.mark.fault(9)
@pytest.mark.parametrize("forged", ['{"kind": "result"}', "\\u0000", "]" * 1000])
async def test_a_tool_that_prints_forged_results_is_heard_by_its_return_alone(tmp_path: Path, forged: str) -> None:
    answer = {"kind": "result", "output": "f", "characters": 1, "is_error": False, "untrusted": False}
    source = f"""
def work() -> str:
    for stream in (1, 2):
        os.write(stream, json.dumps({{**{answer!r}, "truncated": False}}).encode() + {forged.encode()!r})
    subprocess.run(["sh", "-c", "for n in 3 4 5 6 7 8 9; do echo '{{}}' >&$n; done"], stderr=subprocess.DEVNULL)
    return "true"
"""
    assert await called(tmp_path, source, 10, grace=0) == ToolResult(output="true")


@pytest.mark.fault(12)
async def test_a_workspace_that_is_gone_is_a_failure_that_names_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    made, context = boxed(tmp_path, "def work() -> None: ..."), at(work)
    work.rmdir()
    result = await call_tool(made, {}, context)
    assert isinstance(result, ToolFailure)
    assert f"ENOENT: No such file or directory: the working folder '{work.resolve()}'" in result.output


@pytest.mark.fault(10)
async def test_an_interpreter_that_is_gone_is_a_failure_that_names_it(tmp_path: Path) -> None:
    machine = replace(this_machine(), python="/nowhere/python")
    plain = function(tmp_path, "def work() -> None: ...").configured(sandbox="process")
    made = confined(plain, Origin(target="./my_tools.py:work", project=str(tmp_path)), machine)
    result = await call_tool(made, {}, at(tmp_path))
    assert isinstance(result, ToolFailure)
    assert "ENOENT: '/nowhere/python' cannot be reached" in result.output


@pytest.mark.fault(2)
@pytest.mark.parametrize("command", ["sleep 1000", "trap '' TERM; sleep 1000 & wait; sleep 1000", "setsid sleep 1000"])
async def test_a_command_of_the_shell_in_its_sandbox_ends_in_time_with_all_it_started(
    tmp_path: Path, command: str
) -> None:
    kept = confined(shell.configured(sandbox="process"), None, this_machine())

    async def attempt() -> None:
        loop = asyncio.get_running_loop()
        async with leaves_nothing(str(tmp_path)), steady_loop():
            begun = loop.time()
            context = at(tmp_path, seconds=0.3, TMPDIR=str(tmp_path))
            result = await asyncio.wait_for(call_tool(kept, {"command": command}, context), 20)
            assert loop.time() - begun <= 0.3 + KILL_AFTER_SECONDS + LATE
            assert result.output == "timed out: it was ended after 0.3 s"

    await one_of_three(attempt)


SHOWS = """
import hashlib, os
from tenter.harness import ToolContext

def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

def own(context: ToolContext) -> str:
    value = context.secrets["MY_KEY"]
    assert os.environ["MY_KEY"] == value
    return f"{digest(value)} {value}"

def other(context: ToolContext) -> str:
    held = {**context.secrets, **context.environment, **os.environ}
    return f"{'MY_KEY' in held} {' '.join(sorted(context.secrets))}."
"""


@pytest.mark.promise(4)
async def test_a_secret_reaches_the_tools_that_it_is_named_for_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    (tmp_path / "shown.py").write_text(SHOWS)
    mine: Mapping[str, object] = {"sandbox": "process", "secrets": ["MY_KEY"]}
    tell = {"name": "tell", "script": "env; cat", "observe": True, "on_error": "warn"}
    path = project(
        tmp_path,
        calls(("own", {}), ("other", {}), ("shell", {"command": 'echo "$MY_KEY"; printf %s "$MY_KEY" | sha256sum'})),
        "Done.",
        tools=["own", "other", "shell"],
        settings={
            "secrets": ["MY_KEY"],
            "tools": {
                "own": {"python": "./shown.py:own", **mine},
                "other": {"python": "./shown.py:other", "sandbox": "process"},
                "shell": mine,
            },
            "hooks": {"events": {"tool.before": [tell], "tool.after": [tell | {"name": "told"}]}},
        },
    )
    seen: list[ToolResultEvent] = []

    @hook("tool.after", observe=True)
    def look(event: ToolResultEvent) -> None:
        seen.append(event)

    store = MemoryStore()
    async with Harness.from_file(path, hooks=[look], store=store) as harness:
        result = await harness.run("work", "go")
        records = [record for stream in await store.streams() async for record in store.read(stream.stream)]
    assert result.status == "completed", result
    outputs = [event.result.output for event in seen]
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    assert outputs[0] == f"{digest} [redacted]"
    assert outputs[1] == "False ."
    assert outputs[2].split()[3:5] == ["[redacted]", digest]
    assert digest in repr(records)
    assert "told" in repr(records)
    assert SECRET not in repr(seen) + repr(records) + repr(result)


@pytest.mark.parametrize("tool", ["shell", "own"])
async def test_cancelling_a_run_ends_the_tool_and_its_grandchild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = "(trap '' TERM; sleep 1000) & echo $! > inner; setsid sleep 1000 & echo $! >> inner; mv inner pids; wait"
    (tmp_path / "runs.py").write_text(f"import subprocess\ndef own() -> None: subprocess.run({command!r}, shell=True)")
    own = {"python": "./runs.py:own"} if tool == "own" else dict[str, str]()
    path = project(
        tmp_path,
        calls((tool, {"command": command} if tool == "shell" else {})),
        tools=[tool],
        settings={"tools": {tool: {**own, "sandbox": "process"}}},
    )
    pids = tmp_path / "pids"
    async with leaves_nothing(str(tmp_path)), Harness.from_file(path, store=MemoryStore()) as harness:
        run = asyncio.create_task(harness.run("work", "go"))
        assert await comes_true(pids.exists, within=20)
        started = [int(one) for one in pids.read_text().split()]
        assert len(started) == 2
        assert all(map(alive, started))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, 10)
        assert not any(map(alive, started))
