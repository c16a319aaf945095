"""Command hooks that fail, whatever they do: the outcome, the records, and what is left behind (FAULTS)."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.executors.programs import MB, PYTHON, busy_cores, script as program
from tests.executors.workshop import REDACTOR, SECRET, Kept, body, run, run_bounded, settings, surroundings, tool_call
from tests.outside import flat_memory, leaves_nothing

from tenter.catalogue import CATALOGUE, TOOL_INVOKED
from tenter.executors import HookEnded, HookStarted, command_hook
from tenter.kernel import Blocked, Done, Event, Failed, Policy, Runtime, Suspended

pytestmark = pytest.mark.timed

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
