"""A command hook at a real point, whatever its program does: the outcome, the records, and what is left behind."""

import asyncio
import dataclasses
import json
import os
import random
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.executors.programs import MB, PYTHON, busy_cores, script as program
from tests.outside import comes_true, flat_memory, leaves_nothing, one_of_three, steady_loop

from tenter.catalogue import (
    CATALOGUE,
    TOOL_INVOKED,
    Envelope,
    LoopFacts,
    Op,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolResult,
)
from tenter.controls.secrets import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.executors.capture import Captured
from tenter.executors.command import CommandHook, command_hook, interpret
from tenter.executors.kind import HookEnded, HookStarted, Sink, Surroundings
from tenter.executors.process import ProcessResult
from tenter.kernel import (
    RESULTS,
    SYSTEM_CLOCK,
    Block,
    Blocked,
    Declaration,
    Done,
    Event,
    Failed,
    FrozenDict,
    HookFailure,
    Link,
    Policy,
    Redactor,
    Runtime,
    Suspended,
    freeze,
    hook,
)
from tenter.wire.verdict import Verdict

TIMEOUT, GRACE = 2.0, 0.5
SECRET = "correct-horse-battery"
REDACTOR = Redactor(secrets=[SECRET], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
POINT = CATALOGUE["tool.before"]


@dataclass
class Kept:
    """A sink that keeps its records in memory, in order."""

    starts: list[HookStarted] = field(default_factory=list[HookStarted])
    ends: list[HookEnded] = field(default_factory=list[HookEnded])
    facts: Mapping[str, object] = field(default_factory=FrozenDict[str, object])

    async def started(self, event: Event, record: HookStarted, /) -> None:
        self.starts.append(record)

    async def ended(self, event: Event, record: HookEnded, /) -> None:
        self.ends.append(record)

    def accumulated(self, event: Event, /) -> Mapping[str, object]:
        return self.facts

    @property
    def end(self) -> HookEnded:
        """The one execution that there was, started and ended."""
        (start,), (end,) = self.starts, self.ends
        assert (start.id, start.key, start.hook, start.point) == (end.id, end.key, end.hook, end.point)
        assert start.at == end.started_at <= end.ended_at
        assert end.result in RESULTS
        return end


def surroundings(folder: Path, sink: Sink, environment: Mapping[str, str] | None = None) -> Surroundings:
    return Surroundings(
        workspace=str(folder),
        project_dir=str(folder),
        environment={"PATH": os.environ["PATH"]} if environment is None else environment,
        sink=sink,
        redactor=REDACTOR,
        clock=SYSTEM_CLOCK,
        random=random.Random(),
    )


def settings(script: str | None = None, **more: Any) -> CommandHook:
    """A hook called `guard` before a tool, with a mark in its environment by which its processes are found."""
    defaults: dict[str, Any] = {
        "name": "guard",
        "point": POINT,
        "script": script,
        "on_error": "block",
        "timeout_seconds": TIMEOUT,
        "grace_seconds": GRACE,
        "env": {"MARK": uuid4().hex},
    }
    return CommandHook(**(defaults | more))


def tool_call(arguments: Mapping[str, object] | None = None, **op: Any) -> ToolCallEvent:
    envelope = Envelope(run_id="run-1", task=TaskRef(id="t-1", name="fix"), correlation_id="c-1")
    call = ToolCall(id="call-1", name="shell", arguments=freeze(arguments or {}))
    return ToolCallEvent(envelope=envelope, op=Op(id="op-1", path="3.tool.invoked.0", **op), call=call)


async def body(event: ToolCallEvent) -> ToolResult:
    return ToolResult(output="the tool ran")


@dataclass
class Outcome:
    """What came of one operation with the hook at its point."""

    ending: object
    link: Link


async def run(
    hook: CommandHook, folder: Path, sink: Sink, event: ToolCallEvent | None = None, *, others: tuple[object, ...] = ()
) -> Outcome:
    runtime = Runtime(CATALOGUE, [command_hook(hook, surroundings(folder, sink)), *others], redactor=REDACTOR)
    ending = await runtime.run(TOOL_INVOKED, event or tool_call(), body)
    return Outcome(ending, next(link for link in runtime.links() if link.name == hook.name))


@asynccontextmanager
async def bounded(hook: CommandHook) -> AsyncGenerator[None]:
    """G1 and G4: in time, a steady loop, and nothing left."""
    async with leaves_nothing(hook.env["MARK"]):
        start = time.monotonic()
        async with steady_loop(0.05):
            yield
        elapsed = time.monotonic() - start
    limit = hook.timeout_seconds + hook.grace_seconds + 0.25
    assert elapsed <= limit, f"took {elapsed:.3f} s; at most {limit}"


async def run_bounded(
    hook: CommandHook, folder: Path, event: ToolCallEvent | None = None
) -> tuple[object, HookEnded, Link]:
    """One operation within the bounds of every case; one try of three must keep them."""
    found: list[tuple[object, HookEnded, Link]] = []

    async def attempt() -> None:
        sink = Kept()
        async with bounded(hook):
            outcome = await run(hook, folder, sink, event)
        found.append((outcome.ending, sink.end, outcome.link))

    await one_of_three(attempt)
    return found[-1]


def test_a_declaration_shows_the_deadline_and_keeps_it_itself(tmp_path: Path) -> None:
    hook = settings(
        "true", timeout_seconds=7.5, band="baseline", priority=3, match={"tool": "shell"}, source="t.yaml:4"
    )
    declared = command_hook(hook, surroundings(tmp_path, Kept()))
    (link,) = Runtime(CATALOGUE, [declared]).links()
    assert (declared.kind, declared.self_timed, declared.source) == ("command", True, "t.yaml:4")
    assert (link.timeout, link.hard, link.soft, link.on_error) == (7.5, True, False, "block")
    assert (declared.band, declared.priority, declared.match) == ("baseline", 3, {"tool": "shell"})


@pytest.mark.parametrize(("argv", "script"), [(None, None), ((), None), (("/bin/true",), "true")])
def test_a_hook_that_is_not_exactly_a_program_or_a_script_is_refused(
    argv: tuple[str, ...] | None, script: str | None
) -> None:
    with pytest.raises(ValueError, match="needs either argv or script"):
        settings(script, argv=argv)


async def test_a_hook_that_exits_with_zero_lets_the_call_pass(tmp_path: Path) -> None:
    ending, end, link = await run_bounded(settings("echo fine"), tmp_path)
    assert isinstance(ending, Done)
    assert (end.result, end.disposition, end.exit_code, end.stdout) == ("ok", "pass", 0, "fine\n")
    assert (end.error, end.timed_out, end.signal, end.metadata) == ("", False, None, None)
    assert (link.calls, link.failures, link.passed_on_failure) == (1, 0, 0)
    assert end.duration_ms > 0


async def test_a_hook_whose_match_does_not_fit_starts_nothing(tmp_path: Path) -> None:
    sink = Kept()
    outcome = await run(settings("exit 1", match={"tool": "write_*"}), tmp_path, sink)
    assert isinstance(outcome.ending, Done)
    assert (sink.starts, sink.ends) == ([], [])


# every way to fail, under every policy

FAILURES: dict[str, dict[str, Any]] = {
    "crashed": {"script": "echo why >&2; exit 3"},
    "signal": {"script": "kill -KILL $$"},
    "timeout": {"script": "sleep 60", "timeout_seconds": 0.3, "grace_seconds": 0.1},
    "spawn_failed": {"argv": ("/nowhere/to/be/found",)},
    "bad_output": {"script": 'echo \'{"decision": "block"}\''},
    "output_capped": {"script": "head -c 100000 /dev/zero", "verdict": True, "max_output_bytes": 1000},
}


@pytest.mark.promise(6)
@pytest.mark.promise(8)
@pytest.mark.parametrize("policy", ["warn", "block", "suspend", "fail"])
@pytest.mark.parametrize("result", FAILURES)
async def test_a_failure_does_what_the_policy_says_and_is_on_record(
    tmp_path: Path, result: str, policy: Policy
) -> None:
    ending, end, link = await run_bounded(settings(**FAILURES[result], on_error=policy), tmp_path)
    assert (end.result, end.disposition) == (result, policy)
    assert end.error
    assert (link.calls, link.failures, link.passed_on_failure) == (1, 1, int(policy == "warn"))
    match policy:
        case "warn":
            assert isinstance(ending, Done)
        case "block":
            assert isinstance(ending, Blocked)
            assert (ending.hook, ending.code, ending.failed) == ("guard", "hook_failed", True)
            assert ending.reason == end.error
        case "suspend":
            assert isinstance(ending, Suspended)
            assert [(each.hook, each.reason) for each in ending.requirements] == [("guard", end.error)]
        case "fail":
            assert isinstance(ending, Failed)
            assert (ending.hook, ending.message) == ("guard", end.error)


@pytest.mark.promise(8)
async def test_without_a_policy_a_hook_that_answers_blocks_and_an_observer_warns(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings("exit 1", on_error=None), tmp_path)
    assert (type(ending), end.disposition) == (Blocked, "block")
    ending, end, link = await run_bounded(settings("exit 1", on_error=None, observe=True), tmp_path)
    assert (type(ending), end.disposition, link.passed_on_failure) == (Done, "warn", 1)


async def test_a_shadow_hook_only_warns(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings("exit 1", mode="shadow"), tmp_path)
    assert (type(ending), end.result, end.disposition) == (Done, "crashed", "warn")


# case 1


@pytest.mark.fault(1)
@pytest.mark.promise(6)
async def test_the_reason_of_a_crash_is_the_last_4_kb_of_stderr_escaped(tmp_path: Path) -> None:
    script = r"head -c 20000 /dev/zero | tr '\0' x >&2; printf 'the reason: \377\n' >&2; exit 1"
    ending, end, _ = await run_bounded(settings(script), tmp_path)
    assert isinstance(ending, Blocked)
    assert ending.reason == "x" * (4096 - 14) + "the reason: \\xff"
    assert (end.result, end.exit_code, end.error) == ("crashed", 1, ending.reason)
    assert (end.stderr, end.stderr_truncated, end.stderr_bytes) == ("x" * 8192, True, 20_014)


@pytest.mark.fault(1)
async def test_a_crash_without_a_word_tells_the_exit_code(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings("exit 139"), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.exit_code, end.signal) == ("crashed", 139, None)
    assert ending.reason == "the hook 'guard' exited with 139 and wrote nothing to stderr"


@pytest.mark.fault(1)
@pytest.mark.parametrize("name", ["SEGV", "KILL", "ABRT"])
async def test_a_hook_that_a_signal_kills_says_which(tmp_path: Path, name: str) -> None:
    ending, end, _ = await run_bounded(settings(f"ulimit -c 0; echo bye >&2; kill -{name} $$"), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.exit_code, end.signal) == ("signal", None, f"SIG{name}")
    assert ending.reason == f"the hook 'guard' was killed by SIG{name}; it said: bye"


# case 2


@pytest.mark.fault(2)
@pytest.mark.promise(6)
@pytest.mark.parametrize(
    "script", ["sleep 60", "trap '' TERM; while :; do sleep 1; done", "trap '' TERM; kill -STOP $$; sleep 60"]
)
async def test_ac_06_a_hook_that_hangs_is_ended_and_recorded_as_timed_out(tmp_path: Path, script: str) -> None:
    ending, end, _ = await run_bounded(settings(script, timeout_seconds=0.3, grace_seconds=0.3), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.timed_out, end.exit_code) == ("timeout", True, None)
    assert ending.reason == "the hook 'guard' was not done within 0.3 s and was ended"
    assert end.duration_ms >= 300


# case 3


@pytest.mark.fault(3)
async def test_an_answer_counts_although_a_grandchild_keeps_the_pipes(tmp_path: Path) -> None:
    script = """sleep 60 & setsid sleep 60 & echo '{"decision": "block", "reason": "no"}'"""
    ending, end, _ = await run_bounded(settings(script, verdict=True), tmp_path)
    assert isinstance(ending, Blocked)
    assert (ending.reason, ending.failed) == ("no", False)
    assert (end.result, end.ended_descendants) == ("denied", 2)
    assert end.duration_ms < 1000


@pytest.mark.fault(3)
async def test_a_grandchild_does_not_survive_a_hook_that_hangs(tmp_path: Path) -> None:
    script = "(trap '' TERM; sleep 60; sleep 60) & setsid sleep 60 & sleep 60"
    ending, end, _ = await run_bounded(settings(script, timeout_seconds=0.3, grace_seconds=0.3), tmp_path)
    assert (type(ending), end.result, end.ended_descendants >= 2) == (Blocked, "timeout", True)


# case 5


@pytest.mark.fault(5)
async def test_a_hook_that_ignores_stdin_is_ok_a_thousand_times_while_all_cores_are_busy(tmp_path: Path) -> None:
    sink = Kept()
    hook = settings(None, argv=("/bin/true",), timeout_seconds=20)
    runtime = Runtime(CATALOGUE, [command_hook(hook, surroundings(tmp_path, sink))], redactor=REDACTOR)

    async def caller() -> None:
        for _ in range(125):
            ending = await runtime.run(TOOL_INVOKED, tool_call({"text": "x" * 2048}), body)
            assert isinstance(ending, Done)

    async with leaves_nothing(hook.env["MARK"]):
        with busy_cores():
            await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(8))), 50)
    assert [end.result for end in sink.ends] == ["ok"] * 1000
    assert len({start.id for start in sink.starts}) == 1000


# case 6


@pytest.mark.fault(6)
async def test_ten_megabytes_to_a_hook_that_closes_stdin_early_pass_without_a_stall(tmp_path: Path) -> None:
    hook = settings(
        None,
        argv=(
            program(
                tmp_path,
                "import os",
                "os.read(0, 1); os.close(0)",
                "for _ in range(20): os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)",
                first=PYTHON,
            ),
        ),
        timeout_seconds=5,
    )
    ending, end, _ = await run_bounded(hook, tmp_path, tool_call({"text": "x" * (10 * MB)}))
    assert (type(ending), end.result) == (Done, "ok")
    assert (end.stdout_bytes, end.stderr_bytes) == (20 * 65536, 20 * 65536)


@pytest.mark.fault(6)
async def test_a_hook_reads_ten_megabytes_whole(tmp_path: Path) -> None:
    hook = settings("wc -c", timeout_seconds=10)
    async with flat_memory(16 * MB + 3 * 10 * MB):
        _, end, _ = await run_bounded(hook, tmp_path, tool_call({"text": "x" * (10 * MB)}))
    assert int(end.stdout) > 10 * MB


# case 7


@pytest.mark.fault(7)
async def test_a_gigabyte_as_an_answer_is_capped_at_once(tmp_path: Path) -> None:
    async with flat_memory(MB + 16 * MB):
        ending, end, _ = await run_bounded(settings("head -c 1G /dev/zero", verdict=True), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.stdout_truncated, end.timed_out) == ("output_capped", True, False)
    assert ending.reason == "the hook 'guard' answered more than 1048576 bytes (max_output_bytes) and was ended"
    assert end.duration_ms < 1000


@pytest.mark.fault(7)
async def test_a_gigabyte_that_is_no_answer_is_cut_and_drained(tmp_path: Path) -> None:
    async with flat_memory(MB + 16 * MB):
        ending, end, _ = await run_bounded(settings("head -c 1G /dev/zero", timeout_seconds=20), tmp_path)
    assert (type(ending), end.result) == (Done, "ok")
    assert (end.stdout, end.stdout_truncated, end.stdout_bytes) == ("\0" * 8192, True, 1 << 30)


async def test_ac_07_output_beyond_the_limit_is_cut_at_the_same_whole_character_each_time(tmp_path: Path) -> None:
    hook = settings("while :; do echo äöü; done 2>&1 | head -c 3000; yes é | head -c 99999 >&2", max_output_bytes=100)
    records = [(await run_bounded(hook, tmp_path))[1] for _ in range(3)]
    kept = {(end.stdout, end.stderr, end.stdout_truncated, end.stderr_truncated) for end in records}
    assert kept == {("äöü\n" * 14 + "ä", "é\n" * 33, True, True)}


# cases 8 and 9

NO_VERDICT = {
    "no UTF-8": (8, r"""printf '{"decision": "pass", "reason": "\377"}'""", "byte 32"),
    "NUL": (8, r"""printf '{"decision": "pass"}\000'""", "byte 20"),
    "BOM": (8, r"""printf '\357\273\277{"decision": "pass"}'""", "byte 0"),
    "a lone surrogate": (8, r"""echo '{"decision": "block", "reason": "\ud800"}'""", "reason"),
    "nothing": (9, "true", "empty"),
    "half a document": (9, """echo '{"decision": "pa'""", "byte"),
    "a line before it": (9, """echo starting; echo '{"decision": "pass"}'""", "byte 0"),
    "two documents": (9, """echo '{"decision": "pass"}'; echo '{"decision": "block"}'""", "byte 21"),
    "a bare string": (9, """echo '"pass"'""", "a string"),
    "NaN": (9, """echo '{"decision": "pass", "metadata": {"a": NaN}}'""", "byte 39"),
    "200,000 brackets": (9, "head -c 200000 /dev/zero | tr '\\0' '['", "100 levels"),
    "a key twice": (9, """echo '{"decision": "block", "decision": "allow", "reason": "x"}'""", "twice"),
    "an unknown key": (9, """echo '{"decision": "pass", "reasn": "x"}'""", "'reason'"),
    "an unknown decision": (9, """echo '{"decision": "deny"}'""", "'deny'"),
}


@pytest.mark.fault(8)
@pytest.mark.fault(9)
@pytest.mark.promise(6)
@pytest.mark.parametrize("name", NO_VERDICT)
async def test_an_answer_that_is_not_exactly_one_verdict_is_bad_output_and_names_the_place(
    tmp_path: Path, name: str
) -> None:
    _, script, place = NO_VERDICT[name]
    ending, end, _ = await run_bounded(settings(script, verdict=True), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.exit_code, ending.failed) == ("bad_output", 0, True)
    assert place in ending.reason
    assert ending.reason.startswith("the hook 'guard': the answer")


@pytest.mark.fault(8)
async def test_bytes_that_are_no_text_are_kept_escaped(tmp_path: Path) -> None:
    _, end, _ = await run_bounded(settings(r"printf '\377\000\355\240\200'", verdict=True), tmp_path)
    assert (end.result, end.stdout, end.stdout_bytes) == ("bad_output", "\\xff\0\\xed\\xa0\\x80", 5)


@pytest.mark.fault(9)
async def test_a_large_verdict_of_tiny_values_does_not_stall_the_loop(tmp_path: Path) -> None:
    made = """import json; print(json.dumps({"metadata": {"k%d" % n: [1, 2] for n in range(20000)}}))"""
    hook = settings(None, argv=(program(tmp_path, made, first=PYTHON),), verdict=True, mutate=True, timeout_seconds=10)
    ending, end, _ = await run_bounded(hook, tmp_path)
    assert (type(ending), end.result) == (Done, "ok")
    assert end.metadata is not None
    assert len(end.metadata) == 20000


# case 10


@pytest.mark.fault(10)
@pytest.mark.parametrize("broken", ["missing", "interpreter", "mode", "no-shebang", "folder"])
async def test_a_program_that_cannot_start_is_spawn_failed_with_errno_and_path(tmp_path: Path, broken: str) -> None:
    match broken:
        case "missing":
            path, told = str(tmp_path / "gone"), ("ENOENT", str(tmp_path / "gone"))
        case "interpreter":
            path, told = program(tmp_path, first="#!/no/such/interpreter"), ("ENOENT", "/no/such/interpreter")
        case "mode":
            path = program(tmp_path)
            Path(path).chmod(0o644)
            told = ("EACCES", path)
        case "no-shebang":
            path = program(tmp_path, first="exit 0")
            told = ("ENOEXEC", path)
        case _:
            path, told = str(tmp_path), ("EACCES", str(tmp_path))
    ending, end, _ = await run_bounded(settings(None, argv=(path,)), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.exit_code, end.signal) == ("spawn_failed", None, None)
    assert ending.reason.startswith(f"the hook 'guard' could not be started: {told[0]}: ")
    assert repr(told[1]) in ending.reason


@pytest.mark.fault(10)
async def test_arguments_that_are_too_long_are_spawn_failed(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings(None, argv=("/bin/true", "x" * (4 * MB))), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, "E2BIG" in ending.reason) == ("spawn_failed", True)


@pytest.mark.fault(10)
async def test_a_busy_program_is_tried_again_until_it_is_free(tmp_path: Path) -> None:
    path = program(tmp_path, "echo ran")
    held = Path(path).open("a")  # noqa: SIM115  # closed by the loop
    asyncio.get_running_loop().call_later(0.03, held.close)
    _, end, _ = await run_bounded(settings(None, argv=(path,)), tmp_path)
    assert (end.result, end.stdout) == ("ok", "ran\n")


@pytest.mark.fault(10)
async def test_a_program_that_stays_busy_is_spawn_failed(tmp_path: Path) -> None:
    path = program(tmp_path, "echo ran")
    with Path(path).open("a"):
        ending, end, _ = await run_bounded(settings(None, argv=(path,)), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, "ETXTBSY" in ending.reason) == ("spawn_failed", True)


# case 12


@pytest.mark.fault(12)
async def test_a_working_folder_that_is_gone_is_spawn_failed_and_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    ending, end, _ = await run_bounded(settings("true", cwd=str(gone)), tmp_path)
    assert isinstance(ending, Blocked)
    assert end.result == "spawn_failed"
    assert ending.reason.endswith(f"ENOENT: No such file or directory: the working folder {str(gone)!r}")


@pytest.mark.fault(12)
async def test_a_hook_runs_in_the_workspace_or_in_its_own_folder_and_changes_only_that(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    before = Path.cwd()
    places = [
        (await run_bounded(settings("pwd; cd /", cwd=cwd), tmp_path))[1].stdout for cwd in (None, "inner", "/usr")
    ]
    assert places == [f"{tmp_path}\n", f"{tmp_path}/inner\n", "/usr\n"]
    assert Path.cwd() == before


# case 14


@pytest.mark.fault(14)
async def test_a_hook_gets_exactly_the_environment_that_it_may_have_and_three_files(tmp_path: Path) -> None:
    lines = (
        "import json, os",
        "files = [n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)]",
        "print(json.dumps([dict(os.environ), sorted(files)]))",
    )
    parent = {
        "PATH": "/usr/bin:/bin", "HOME": "/home/me", "USER": "me", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC",
        "TMPDIR": "/tmp", "OPENAI_API_KEY": SECRET, "HTTPS_PROXY": "http://u:p@proxy", "PYTHONPATH": "/x",
        "LANGUAGE": "de", "TICKET": "4711", "LD_PRELOAD": "/x.so", "TENTER_RUN_ID": "another",
    }  # fmt: skip
    sink = Kept()
    hook = settings(
        None,
        argv=(program(tmp_path, *lines, first=PYTHON),),
        env={"OWN": "yes", "TZ": "CET"},
        pass_env=("TICKET", "NOT_SET"),
        max_output_bytes=MB,
    )
    declared = command_hook(hook, surroundings(tmp_path, sink, parent))
    await Runtime(CATALOGUE, [declared], redactor=REDACTOR).run(TOOL_INVOKED, tool_call(), body)
    environment, files = json.loads(sink.end.stdout)
    assert files == ["0", "1", "2"]
    assert environment == {
        "PATH": "/usr/bin:/bin", "HOME": "/home/me", "USER": "me", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "CET",
        "TMPDIR": "/tmp", "OWN": "yes", "TICKET": "4711",
        "TENTER_HOOK_ID": sink.end.id, "TENTER_HOOK_POINT": "tool.invoked.pre", "TENTER_HOOK_EVENT": "tool.invoked",
        "TENTER_HOOK_PHASE": "pre", "TENTER_HOOK_PHASE_EVENT": "pre.tool.invoked", "TENTER_RUN_ID": "run-1",
        "TENTER_WORKSPACE": str(tmp_path), "TENTER_PROJECT_DIR": str(tmp_path),
    }  # fmt: skip


# case 15


@pytest.mark.fault(15)
async def test_no_payload_and_no_argument_is_ever_seen_by_a_shell_or_as_an_option(tmp_path: Path) -> None:
    hostile = ("-n", "$(touch stolen)", "`touch stolen`", "'\"; touch stolen #", "two\nlines", "*")
    path = program(tmp_path, r"printf '<%s>' " + '"$@"', "cat")
    hook = settings(None, argv=(path, *hostile), max_output_bytes=MB)
    _, end, _ = await run_bounded(hook, tmp_path, tool_call({"command": "\n".join(hostile), "-x": "-x"}))
    arguments = "".join(f"<{each}>" for each in hostile)
    assert end.stdout.startswith(arguments)
    assert json.loads(end.stdout[len(arguments) :])["payload"]["call"]["arguments"]["command"] == "\n".join(hostile)
    assert not (tmp_path / "stolen").exists()


@pytest.mark.fault(15)
async def test_a_script_that_begins_with_a_dash_is_no_option(tmp_path: Path) -> None:
    _, end, _ = await run_bounded(settings('-x 2>/dev/null || echo "$0: ran"'), tmp_path)
    ending, failed, _ = await run_bounded(settings("-e"), tmp_path)
    assert (end.stdout, type(ending), failed.result) == ("guard: ran\n", Blocked, "crashed")


# what it is told


async def test_ac_05_a_hook_receives_one_json_document_and_it_bears_the_ids_of_the_record(tmp_path: Path) -> None:
    sink = Kept(facts={"hook_metadata": {"gate": {"risk": 0.5}}})
    await run(settings("cat", max_output_bytes=MB), tmp_path, sink, tool_call({"command": "ls"}))
    told = json.loads(sink.end.stdout)
    assert (told["schema_version"], told["point"], told["alias"]) == (1, "tool.invoked.pre", "tool.before")
    assert (told["id"], told["key"]) == (sink.end.id, sink.end.key)
    assert told["key"] == "run-1/3.tool.invoked.0#1/pre/guard"
    assert told["payload"]["call"] == {"id": "call-1", "name": "shell", "arguments": {"command": "ls"}}
    assert told["metadata"] == {"accumulated": {"hook_metadata": {"gate": {"risk": 0.5}}}}
    assert "ended" not in told


async def test_metadata_of_the_loop_are_told_where_the_sink_knows_none(tmp_path: Path) -> None:
    sink = Kept()
    facts = LoopFacts(accumulated=FrozenDict({"from": "the loop"}))
    await run(settings("cat", max_output_bytes=MB), tmp_path, sink, tool_call(loop=facts))
    assert json.loads(sink.end.stdout)["metadata"] == {"accumulated": {"from": "the loop"}}


async def test_nothing_secret_leaves_the_process(tmp_path: Path) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    sink = Kept(facts={"said": "password: hunter22"})
    arguments = {"a": SECRET, "b": f"export K={key}", "c": "password: hunter22", "api_key": "hunter22"}
    path = tmp_path / "told"
    await run(settings("cat > told"), tmp_path, sink, tool_call(arguments))
    told = path.read_text()
    assert sink.end.result == "ok"
    assert (SECRET in told, key in told, "hunter22" in told) == (False, False, False)


@pytest.mark.parametrize(
    ("blocker", "expected"),
    [
        ("exit 0", None),
        (
            """echo '{"decision": "block", "reason": "no, password: hunter22", "code": "mine"}'""",
            {"decision": "block", "reason": "no, password: [redacted]", "code": "mine", "hook": "guard"},
        ),
    ],
)
async def test_an_observer_is_told_how_the_chain_ended_and_by_whom(
    tmp_path: Path, blocker: str, expected: object
) -> None:
    sink = Kept()
    around = surroundings(tmp_path, sink)
    guard = settings(blocker, verdict=blocker != "exit 0")
    audit = settings("cat", name="audit", observe=True, on_error="warn", max_output_bytes=MB)
    runtime = Runtime(CATALOGUE, [command_hook(audit, around), command_hook(guard, around)], redactor=REDACTOR)
    await runtime.run(TOOL_INVOKED, tool_call(), body)
    assert [end.hook for end in sink.ends] == ["guard", "audit"]
    assert json.loads(sink.ends[1].stdout)["ended"] == expected


async def test_a_guard_that_judges_once_more_says_so_in_its_key(tmp_path: Path) -> None:
    @hook("tool.before", name="rewriter")
    async def rewriter(event: ToolCallEvent) -> ToolCallEvent:
        return event.with_arguments(command="another")

    sink = Kept()
    await run(settings("cat", band="baseline", max_output_bytes=MB), tmp_path, sink, others=(rewriter,))
    key = "run-1/3.tool.invoked.0#1/pre/guard"
    assert [start.key for start in sink.starts] == [key, f"{key}/recheck"]
    assert [json.loads(end.stdout)["key"] for end in sink.ends] == [key, f"{key}/recheck"]
    assert [json.loads(end.stdout)["payload"]["call"]["arguments"] for end in sink.ends] == [{}, {"command": "another"}]


# what it answers


@pytest.mark.parametrize("decision", ["block", "suspend", "escalate"])
async def test_a_verdict_is_an_outcome_and_no_failure(tmp_path: Path, decision: str) -> None:
    script = f"""echo '{{"decision": "{decision}", "reason": "because"}}'"""
    ending, end, link = await run_bounded(settings(script, verdict=True), tmp_path)
    assert type(ending).__name__ == {"block": "Blocked", "suspend": "Suspended", "escalate": "Escalated"}[decision]
    assert (end.result, end.disposition) == ("denied" if decision == "block" else "ok", decision)
    assert (link.failures, end.error) == (0, "")


async def test_a_replacement_is_what_the_tool_is_called_with(tmp_path: Path) -> None:
    call = {"id": "call-1", "name": "shell", "arguments": {"command": "ls -l"}}
    script = f"echo '{json.dumps({'decision': 'pass', 'replace': {'call': call}})}'"
    ending, end, _ = await run_bounded(settings(script, verdict=True), tmp_path, tool_call({"command": "ls"}))
    assert isinstance(ending, Done)
    assert ending.event.call.arguments == {"command": "ls -l"}  # pyright: ignore[reportUnknownMemberType]  # of the after-event
    assert (end.result, end.disposition) == ("ok", "pass")


@pytest.mark.promise(6)
async def test_an_exit_code_other_than_zero_is_a_failure_whatever_the_verdict_says(tmp_path: Path) -> None:
    script = """echo '{"decision": "pass"}'; exit 1"""
    ending, end, _ = await run_bounded(settings(script, verdict=True), tmp_path)
    assert (type(ending), end.result) == (Blocked, "crashed")


@pytest.mark.promise(6)
@pytest.mark.parametrize("decision", ["block", "pass", "nonsense"])
async def test_a_decision_that_nobody_asked_for_is_bad_output_and_says_what_to_do(
    tmp_path: Path, decision: str
) -> None:
    script = f"""echo checking; echo '{{"decision": "{decision}"}}'"""
    ending, end, _ = await run_bounded(settings(script), tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, "set 'verdict: json'" in ending.reason) == ("bad_output", True)


@pytest.mark.promise(6)
async def test_a_decision_that_nobody_asked_for_is_found_at_the_end_of_more_output_than_is_kept(
    tmp_path: Path,
) -> None:
    script = """yes log | head -c 5000000; echo '{"decision": "block", "reason": "no"}'"""
    ending, end, _ = await run_bounded(settings(script), tmp_path)
    assert (type(ending), end.result, end.stdout_bytes) == (Blocked, "bad_output", 5_000_038)
    _, end, _ = await run_bounded(settings(script.replace("decision", "d")), tmp_path)
    assert (end.result, end.stdout_truncated) == ("ok", True)


async def test_an_observer_that_prints_a_decision_is_told_that_it_has_none(tmp_path: Path) -> None:
    _, end, _ = await run_bounded(settings("""echo '{"decision": "block"}'""", observe=True), tmp_path)
    assert (end.result, end.disposition) == ("bad_output", "block")
    assert "an observer decides nothing" in end.error


@pytest.mark.promise(6)
async def test_an_answer_that_the_point_does_not_take_is_bad_output_in_the_record_too(tmp_path: Path) -> None:
    hook = settings("""echo '{"decision": "retry", "reason": "again"}'""", verdict=True)
    ending, end, link = await run_bounded(hook, tmp_path)
    assert isinstance(ending, Blocked)
    assert (end.result, end.disposition, link.failures) == ("bad_output", "block", 1)
    assert ending.reason == "the hook 'guard' answered Retry, which 'tool.before' does not take"


@pytest.mark.parametrize("mutate", [True, False])
async def test_metadata_count_only_where_the_hook_may_give_some(tmp_path: Path, mutate: bool) -> None:
    script = f"""echo '{{"metadata": {{"risk": 0.5, "note": "{SECRET}"}}}}'"""
    ending, end, _ = await run_bounded(settings(script, verdict=True, mutate=mutate), tmp_path)
    assert (type(ending), end.result) == (Done, "ok")
    assert end.metadata == ({"risk": 0.5, "note": "[redacted]"} if mutate else None)


# records


async def test_no_secret_stands_in_a_record_or_reason(tmp_path: Path) -> None:
    script = f"echo {SECRET}; echo password: hunter22; echo {SECRET} api_key=hunter22 >&2; exit 1"
    ending, end, _ = await run_bounded(settings(script), tmp_path)
    written = msgspec.json.encode(end).decode() + repr(ending)
    assert (SECRET in written, "hunter22" in written) == (False, False)
    assert (end.stdout, end.stderr) == ("[redacted]\npassword: [redacted]\n", "[redacted] api_key=[redacted]\n")


async def test_half_a_secret_at_a_cut_is_masked(tmp_path: Path) -> None:
    noise = f"head -c 90 /dev/zero | tr '\\0' x; printf {SECRET}; head -c 9000 /dev/zero | tr '\\0' y"
    script = f"{noise}; ({noise}; head -c 4085 /dev/zero | tr '\\0' z) >&2; exit 1"
    ending, end, _ = await run_bounded(settings(script, max_output_bytes=100), tmp_path)
    assert (end.stdout, end.stderr) == ("x" * 90 + "[redacted]", "x" * 90 + "[redacted]")
    script = f"(printf {SECRET}; head -c 4085 /dev/zero | tr '\\0' z) >&2; exit 1"
    ending, end, _ = await run_bounded(settings(script), tmp_path)
    assert isinstance(ending, Blocked)
    assert ending.reason == end.stderr_tail == "[redacted]" + "z" * 4085


async def test_a_failure_that_names_a_secret_path_does_not_show_it(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings(None, argv=(f"/{SECRET}/gone",)), tmp_path)
    assert SECRET not in repr(ending) + end.error
    assert "[redacted]" in end.error


# cancellation


async def test_cancelling_ends_the_hook_and_puts_it_on_record(tmp_path: Path) -> None:
    sink = Kept()
    hook = settings("echo said; setsid sleep 60 & echo > ready; sleep 60", timeout_seconds=30)
    async with leaves_nothing(hook.env["MARK"]), steady_loop():
        task = asyncio.create_task(run(hook, tmp_path, sink))
        assert await comes_true((tmp_path / "ready").exists, within=5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert (sink.end.result, sink.end.disposition, sink.end.signal) == ("cancelled", "pass", "SIGTERM")
    assert (sink.end.stdout, sink.end.ended_descendants >= 1) == ("said\n", True)


async def test_cancelling_while_a_long_output_is_read_keeps_what_the_process_did(tmp_path: Path) -> None:
    sink, reading, go_on = Kept(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Waits(Redactor):
        def mask_cut(self, text: str, *, start: bool = False, end: bool = True) -> str:
            loop.call_soon_threadsafe(reading.set)
            assert go_on.wait(5)
            return super().mask_cut(text, start=start, end=end)

    around = dataclasses.replace(surroundings(tmp_path, sink), redactor=Waits())
    hook = settings("head -c 100000 /dev/zero; exit 3", max_output_bytes=MB)
    runtime = Runtime(CATALOGUE, [command_hook(hook, around)])
    async with leaves_nothing(hook.env["MARK"]):
        task = asyncio.create_task(runtime.run(TOOL_INVOKED, tool_call(), body))
        await asyncio.wait_for(reading.wait(), 5)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert (sink.end.result, sink.end.exit_code, sink.end.stdout_bytes) == ("cancelled", 3, 100_000)


@dataclass
class Slow(Kept):
    """A sink that takes its time with one kind of record, and keeps what it was given, cancelled or not."""

    slow: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    in_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def started(self, event: Event, record: HookStarted, /) -> None:
        await self._keep("started", super().started(event, record))

    async def ended(self, event: Event, record: HookEnded, /) -> None:
        await self._keep("ended", super().ended(event, record))

    async def _keep(self, what: str, keeping: Coroutine[object, object, None]) -> None:
        async def slowly() -> None:
            async with self.in_turn:
                if what == self.slow:
                    self.begun.set()
                    await asyncio.wait_for(self.go_on.wait(), 5)
                await keeping

        await asyncio.shield(asyncio.create_task(slowly()))


@pytest.mark.parametrize(("slow", "result"), [("started", "cancelled"), ("ended", "ok")])
async def test_cancelling_while_a_record_is_written_leaves_one_start_and_one_end(
    tmp_path: Path, slow: str, result: str
) -> None:
    sink = Slow(slow=slow)
    task = asyncio.create_task(run(settings("touch ran"), tmp_path, sink))
    await asyncio.wait_for(sink.begun.wait(), 5)
    task.cancel()
    asyncio.get_running_loop().call_later(0.05, sink.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert await comes_true(lambda: bool(sink.ends))
    assert sink.end.result == result
    assert (tmp_path / "ran").exists() == (slow == "ended")


# case 38


@dataclass
class Full(Kept):
    """A sink that cannot write."""

    full: str = "started"

    async def started(self, event: Event, record: HookStarted, /) -> None:
        if self.full == "started":
            raise OSError(f"no room for {SECRET}")
        await super().started(event, record)

    async def ended(self, event: Event, record: HookEnded, /) -> None:
        if self.full == "ended":
            raise OSError(f"no room for {SECRET}")
        await super().ended(event, record)


@pytest.mark.fault(38)
@pytest.mark.parametrize("full", ["started", "ended"])
@pytest.mark.parametrize("policy", ["warn", "block", "fail"])
async def test_a_record_that_cannot_be_written_reaches_the_failure_policy(
    tmp_path: Path, full: str, policy: Policy
) -> None:
    outcome = await run(settings("touch ran", on_error=policy), tmp_path, Full(full=full))
    assert type(outcome.ending) is {"warn": Done, "block": Blocked, "fail": Failed}[policy]
    assert (outcome.link.failures, outcome.link.passed_on_failure) == (1, int(policy == "warn"))
    assert (tmp_path / "ran").exists() == (full == "ended")
    if isinstance(outcome.ending, Blocked):
        assert outcome.ending.code == "journal_failed"
        assert outcome.ending.reason.endswith("could not be put on record: OSError: no room for [redacted]")


@pytest.mark.fault(38)
async def test_a_refusal_stands_although_its_record_cannot_be_written(tmp_path: Path) -> None:
    hook = settings("""echo '{"decision": "block", "reason": "no"}'""", verdict=True, on_error="warn")
    outcome = await run(hook, tmp_path, Full(full="ended"))
    assert isinstance(outcome.ending, Blocked)
    assert (outcome.ending.reason, outcome.ending.failed) == ("no", False)


async def test_an_event_that_cannot_be_told_is_a_failure_on_record(tmp_path: Path) -> None:
    sink = Kept(facts={"unspeakable": object()})
    outcome = await run(settings("touch ran"), tmp_path, sink)
    assert (type(outcome.ending), sink.end.result, sink.end.exit_code) == (Blocked, "crashed", None)
    assert not (tmp_path / "ran").exists()


# interpreting, without a process

ENDINGS = ("crashed", "signal", "timeout", "spawn_failed", "output_capped", "unknown", "cancelled")


@pytest.mark.promise(6)
@given(
    ending=st.sampled_from(ENDINGS),
    stdout=st.sampled_from([b"", b'{"decision": "pass"}', b'{"decision": "allow"}']),
    said=st.text(max_size=20),
    verdict=st.booleans(),
)
def test_whatever_did_not_end_well_is_a_failure_with_a_reason(
    ending: Any, stdout: bytes, said: str, verdict: bool
) -> None:
    result = ProcessResult(
        result=ending,
        exit_code=1 if ending == "crashed" else None,
        stdout=Captured(stdout.decode(), stdout, total_bytes=len(stdout)),
        stderr=Captured(tail=said),
        duration_seconds=0.1,
        error="ENOENT",
    )
    failure = interpret(result, settings("true", verdict=verdict), event=tool_call())
    assert isinstance(failure, HookFailure)
    assert (failure.result, bool(failure.reason.strip())) == (ending, True)


@pytest.mark.promise(6)
@given(stdout=st.binary(max_size=60), verdict=st.booleans())
def test_a_good_end_with_any_output_passes_denies_or_is_bad_output(stdout: bytes, verdict: bool) -> None:
    result = ProcessResult(result="ok", exit_code=0, stdout=Captured(raw=stdout), duration_seconds=0.1)
    said = interpret(result, settings("true", verdict=verdict), event=tool_call())
    if isinstance(said, HookFailure):
        assert said.result == "bad_output"
    else:
        assert said.answer is None
        assert not verdict


def test_a_denial_is_told_with_its_words() -> None:
    stdout = b'{"decision": "block", "reason": "no", "code": "mine", "stop": true}'
    result = ProcessResult(result="ok", exit_code=0, stdout=Captured(raw=stdout), duration_seconds=0.1)
    said = interpret(result, settings("true", verdict=True), event=tool_call())
    assert said == Verdict(Block("no", code="mine", stop=True))


def test_declarations_are_what_a_runtime_takes(tmp_path: Path) -> None:
    assert isinstance(command_hook(settings("true"), surroundings(tmp_path, Kept())), Declaration)
