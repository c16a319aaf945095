"""A command hook at a real point: what it is told, what its answer does, and what is put on record."""

import asyncio
import dataclasses
import json
import os
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests.executors.programs import MB
from tests.executors.workshop import REDACTOR, SECRET, Kept, body, run, run_bounded, settings, surroundings, tool_call
from tests.outside import comes_true, leaves_nothing, steady_loop

from tenter.catalogue import CATALOGUE, TOOL_INVOKED, LoopFacts, LoopStartEvent, Op, ToolCallEvent
from tenter.executors import HookEnded, HookStarted, command_hook
from tenter.kernel import (
    Block,
    Blocked,
    Declaration,
    Done,
    Event,
    FrozenDict,
    Redactor,
    Runtime,
    hook,
)

pytestmark = pytest.mark.timed


def test_a_declaration_shows_the_deadline_and_keeps_it_itself(tmp_path: Path) -> None:
    hook = settings(
        "true", timeout_seconds=7.5, band="baseline", priority=3, match={"tool": "shell"}, source="t.yaml:4"
    )
    declared = command_hook(hook, surroundings(tmp_path, Kept()))
    (link,) = Runtime(CATALOGUE, [declared]).links()
    assert (declared.kind, declared.self_timed, declared.source) == ("command", True, "t.yaml:4")
    assert (link.timeout, link.hard, link.soft, link.on_error) == (7.5, True, False, "block")
    assert (declared.band, declared.priority, declared.match) == ("baseline", 3, {"tool": "shell"})


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


MUTATION = """echo '{"metadata": {"risk": 0.5, "by": ["a"]}}'"""


async def test_ac_14_metadata_are_all_that_a_hook_without_a_verdict_can_say(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings(MUTATION, mutate=True), tmp_path)
    assert (type(ending), end.result, end.disposition) == (Done, "ok", "pass")
    assert end.metadata == {"risk": 0.5, "by": ("a",)}
    ending, end, _ = await run_bounded(settings("echo", mutate=True), tmp_path)
    assert (type(ending), end.result, end.metadata) == (Done, "ok", None)


async def test_ac_13_metadata_of_a_hook_that_may_give_none_are_ignored(tmp_path: Path) -> None:
    ending, end, _ = await run_bounded(settings(MUTATION), tmp_path)
    assert (type(ending), end.result, end.metadata) == (Done, "ok", None)


@pytest.mark.promise(6)
@pytest.mark.parametrize("policy", ["block", "warn"])
@pytest.mark.parametrize("output", ["risk: high", '{"metadata": {}, "prompt": "x"}', '{"decision": "block"}'])
async def test_ac_15_other_output_of_a_hook_that_mutates_is_a_failure_of_its_own(
    tmp_path: Path, output: str, policy: str
) -> None:
    ending, end, _ = await run_bounded(settings(f"echo '{output}'", mutate=True, on_error=policy), tmp_path)
    assert (type(ending), end.result) == ({"block": Blocked, "warn": Done}[policy], "bad_output")
    assert (end.disposition, end.metadata) == (policy, None)
    assert end.error.startswith("the hook 'guard': invalid mutation output: ")
    assert 'expected exactly {"metadata": {…}}, or nothing' in end.error


async def test_metadata_past_the_limit_are_a_failure_that_names_it(tmp_path: Path) -> None:
    script = """printf '{"metadata": {"x": "%09000d"}}' 1"""
    ending, end, _ = await run_bounded(settings(script, mutate=True), tmp_path)
    assert (type(ending), end.result, end.metadata) == (Blocked, "output_capped", None)
    assert end.error == "the hook 'guard' answered more than 8192 bytes (max_output_bytes) and was ended"
    _, end, _ = await run_bounded(settings(script, mutate=True, max_output_bytes=9500), tmp_path)
    assert (end.result, end.metadata) == ("ok", {"x": "1".rjust(9000, "0")})


async def test_metadata_of_a_hook_that_fails_or_is_a_shadow_do_not_count(tmp_path: Path) -> None:
    ends = [
        (await run_bounded(settings(script, mutate=True, **more), tmp_path))[1]
        for script, more in ((f"{MUTATION}; exit 1", {}), (MUTATION, {"mode": "shadow"}))
    ]
    assert [(end.result, end.metadata) for end in ends] == [("crashed", None), ("ok", None)]


async def test_nothing_is_replaced_at_the_point_of_a_loop(tmp_path: Path) -> None:
    sink = Kept()
    script = """echo '{"decision": "pass", "replace": {"prompt": "another"}}'"""
    hook = settings(script, point=CATALOGUE["loop.start.pre"], verdict=True)
    runtime = Runtime(CATALOGUE, [command_hook(hook, surroundings(tmp_path, sink))])
    event = LoopStartEvent(envelope=None, op=Op(id="loop-1/1#1"), prompt="do it", topic="task.start")
    decision = await runtime.dispatch("loop.start.pre", event)
    assert isinstance(decision.outcome, Block)
    assert (decision.event, sink.end.result) == (event, "bad_output")
    assert decision.outcome.reason == "the hook 'guard' answered a replacement, which 'loop.start.pre' does not take"


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


async def test_an_event_that_cannot_be_told_is_a_failure_on_record(tmp_path: Path) -> None:
    sink = Kept(facts={"unspeakable": object()})
    outcome = await run(settings("cat; touch ran"), tmp_path, sink)
    assert (type(outcome.ending), sink.end.result, sink.end.exit_code) == (Blocked, "crashed", None)
    assert not (tmp_path / "ran").exists()


def test_declarations_are_what_a_runtime_takes(tmp_path: Path) -> None:
    assert isinstance(command_hook(settings("true"), surroundings(tmp_path, Kept())), Declaration)


@pytest.mark.fault(13)
async def test_a_hook_of_a_tenter_that_a_hook_runs_is_found_by_the_outer_hook_too(tmp_path: Path) -> None:
    sink = Kept()
    outer = {"PATH": os.environ["PATH"], "TENTER_HOOK_ID": "outer", "TENTER_TOOL_CALL": "call"}
    declared = command_hook(
        settings('cat >/dev/null; echo "$TENTER_HOOK_ID $TENTER_TOOL_CALL"'), surroundings(tmp_path, sink, outer)
    )
    runtime = Runtime(CATALOGUE, [declared])
    assert isinstance(await runtime.run(TOOL_INVOKED, tool_call(), body), Done)
    assert sink.end.stdout == f"outer.{sink.end.id} call\n"
