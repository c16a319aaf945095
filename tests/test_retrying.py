"""Retries (D§11): what may be done again is, after a pause, and whoever listens hears of each failure and retry."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from tests.harness.world import BOTH, Processes, after, calls, cut, journal, lines, of_kind, processes, project

from tenter import Block, Hook, hook
from tenter.catalogue import (
    ActivityFailedEvent,
    ActivityRetriedEvent,
    ActivityRetryEvent,
    ErrorInfo,
    ModelRequestEvent,
    ModelResponse,
    RetryPolicy,
    RunErrorEvent,
    ToolCallEvent,
)
from tenter.journal import MemoryStore
from tenter.kernel import OperationFailed, Policy
from tenter.testing import FakeClock, FakeModel, FakeRandom

FLAKY = """\
from pathlib import Path
from tenter import tool
from tenter.harness import ToolContext

def fails(context, times):
    path = Path(context.workspace.root) / "tries"
    with path.open("a") as file:
        print(context.key, file=file)
    if len(path.read_text().splitlines()) <= times:
        raise ValueError("not yet")
    return "done"

@tool(idempotent=True)
def flaky(context: ToolContext, times: int) -> str:
    return fails(context, times)

@tool
def once(context: ToolContext, times: int) -> str:
    return fails(context, times)
"""


def flaky(folder: Path, *turns: object, settings: Mapping[str, object] | None = None) -> Path:
    """A project with a tool that fails so many times, and one that is not idempotent."""
    (folder / "my_tools.py").write_text(FLAKY)
    tools = {name: {"python": f"./my_tools.py:{name}"} for name in ("flaky", "once")}
    return project(folder, *turns, tools=list(tools), settings={"tools": tools, **(settings or {})})


def tries(folder: Path) -> list[str]:
    """The key of each call of such a tool."""
    path = folder / "tries"
    return path.read_text().splitlines() if path.exists() else []


class Pauses:
    """In place of waiting: the clock goes on at once."""

    def __init__(self, clock: FakeClock) -> None:
        self.seconds: list[float] = []
        self._clock = clock

    async def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        self._clock.advance(seconds)
        return True


class Heard(Hook):
    """Hears of failures and retries."""

    name = "heard"
    observe = True

    def __init__(self) -> None:
        self.failed: list[tuple[str | None, int | None, str]] = []
        self.retried: list[tuple[str, int, float]] = []
        self.attempts: list[tuple[int, int]] = []
        self.last: str = ""

    def on_run_error(self, event: RunErrorEvent) -> None:
        self.failed.append((event.operation, event.attempt, event.error.code))

    def on_activity_retried_post(self, event: ActivityRetriedEvent) -> None:
        self.retried.append((event.operation, event.attempt, event.delay))

    def on_tool_before(self, event: ToolCallEvent) -> None:
        self.attempts.append((event.op.pass_, event.op.attempt))

    def on_model_before(self, event: ModelRequestEvent) -> None:
        self.last = event.request.messages[-1].content


CALL = calls(("flaky", {"times": 2}))


def process(made: Processes, *hooks: object, **given: Any) -> tuple[Any, Pauses]:
    clock = FakeClock()
    pauses = Pauses(clock)
    return made.harness(*hooks, clock=clock, pause=pauses, random=FakeRandom(3), **given), pauses


@pytest.mark.parametrize("kind", BOTH)
async def test_an_idempotent_tool_that_fails_is_called_again_after_growing_pauses(tmp_path: Path, kind: str) -> None:
    heard = Heard()
    async with processes(flaky(tmp_path, CALL, "Done."), kind) as made:
        harness, pauses = process(made, heard)
        result = await harness.run("work", "go")
    assert (result.status, heard.last) == ("completed", "done")
    assert heard.failed == [("tool.invoked", 1, "tool"), ("tool.invoked", 2, "tool")]
    assert [(operation, attempt) for operation, attempt, _ in heard.retried] == [
        ("tool.invoked", 1),
        ("tool.invoked", 2),
    ]
    first, second = pauses.seconds
    assert [first, second] == pytest.approx([delay for _, _, delay in heard.retried])
    assert 0.5 <= first <= 1.0
    assert 1.0 <= second <= 2.0
    assert heard.attempts == [(1, 1), (2, 2), (3, 3)]
    assert tries(tmp_path) == [f"{result.run_id}/1.tool.invoked.0"] * 3


async def test_the_pause_comes_of_the_seed_of_the_run_alone(tmp_path: Path) -> None:
    seconds: list[list[float]] = []
    for _ in range(2):
        (tmp_path / "tries").unlink(missing_ok=True)
        async with processes(flaky(tmp_path, CALL, "Done."), "memory") as made:
            harness, pauses = process(made)
            await harness.run("work", "go")
        seconds.append(pauses.seconds)
    assert seconds[0] == seconds[1]
    assert len(seconds[0]) == 2


async def test_a_tool_that_is_not_idempotent_is_called_once(tmp_path: Path) -> None:
    heard = Heard()
    async with processes(flaky(tmp_path, calls(("once", {"times": 1})), "Done."), "memory") as made:
        harness, pauses = process(made, heard)
        result = await harness.run("work", "go")
    assert (result.status, heard.failed, heard.retried, pauses.seconds) == (
        "completed",
        [("tool.invoked", 1, "tool")],
        [],
        [],
    )
    assert heard.last.startswith("The call failed: ")


async def test_what_fails_for_ever_is_given_up_after_five_attempts(tmp_path: Path) -> None:
    heard = Heard()
    async with processes(flaky(tmp_path, calls(("flaky", {"times": 9})), "Done."), "memory") as made:
        harness, pauses = process(made, heard)
        result = await harness.run("work", "go")
    assert (result.status, len(tries(tmp_path)), len(pauses.seconds)) == ("completed", 5, 4)
    assert [attempt for _, attempt, _ in heard.failed] == [1, 2, 3, 4, 5]
    assert heard.last.startswith("The call failed: ")


@pytest.mark.parametrize(
    ("code", "status", "asked"), [("provider_transient", "completed", 2), ("provider_permanent", "failed", 1)]
)
async def test_a_model_that_cannot_answer_now_is_asked_again(
    tmp_path: Path, code: str, status: str, asked: int
) -> None:
    model = FakeModel([OperationFailed("busy", code=code), ModelResponse(model="m", text="Done.")])
    async with processes(project(tmp_path), "memory") as made:
        harness, _ = process(made, model=model)
        result = await harness.run("work", "go")
    assert (result.status, len(model.requests)) == (status, asked)


async def test_a_hook_may_classify_a_failure_anew_and_change_how_it_is_tried_again(tmp_path: Path) -> None:
    @hook("run.error", name="transient")
    def transient(event: RunErrorEvent) -> RunErrorEvent:
        return event.replace(error=ErrorInfo(code="provider_transient", message="busy"))

    @hook("activity.failed.pre", name="patient")
    def patient(event: ActivityFailedEvent) -> ActivityFailedEvent:
        return event.replace(policy=RetryPolicy(first_seconds=8, attempts=3))

    model = FakeModel([OperationFailed("busy", code="provider_permanent")] * 5)
    async with processes(project(tmp_path), "memory") as made:
        harness, pauses = process(made, transient, patient, model=model)
        result = await harness.run("work", "go")
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "provider_transient"
    assert len(model.requests) == 3
    assert [4 <= seconds <= 8 for seconds in pauses.seconds[:1]] == [True]


@pytest.mark.parametrize(
    "policy",
    [
        {"first_seconds": 0.01},
        {"initial_seconds": 0.01},
        RetryPolicy(first_seconds=-1),
        RetryPolicy(first_seconds=cast("Any", "soon")),
        RetryPolicy(cap_seconds=float("inf")),
        RetryPolicy(factor=float("nan")),
        RetryPolicy(attempts=0),
        RetryPolicy(jitter=1.5),
        None,
    ],
    ids=str,
)
@pytest.mark.parametrize(("on_error", "made"), [("block", 1), ("fail", 1), ("warn", 2)])
async def test_a_hook_whose_retry_policy_is_none_has_failed(
    tmp_path: Path, policy: object, on_error: Policy, made: int
) -> None:
    @hook("activity.retried.pre", name="hasty", on_error=on_error)
    def hasty(event: ActivityRetryEvent) -> ActivityRetryEvent:
        return event.replace(policy=policy)

    async with processes(flaky(tmp_path, calls(("flaky", {"times": 1})), "Done."), "memory") as one:
        harness, pauses = process(one, hasty)
        result = await harness.run("work", "go")
    failures = [entry for entry in result.trace if (entry.kind, entry.source) == ("failure", "hasty")]
    assert (result.status, len(tries(tmp_path)), len(failures)) == ("completed", made, 1)
    assert all(0.5 <= seconds <= 1.0 for seconds in pauses.seconds), "that of the policy which it was given"


@pytest.mark.parametrize("delay", [-1.0, float("inf"), float("nan"), "soon", 31_536_001])
@pytest.mark.parametrize("at", ["in", "post"])
async def test_a_hook_whose_pause_is_none_has_failed(tmp_path: Path, at: str, delay: object) -> None:
    @hook(f"activity.retried.{at}", name="hasty")
    def hasty(event: ActivityRetryEvent | ActivityRetriedEvent) -> object:
        return event.result(delay) if isinstance(event, ActivityRetryEvent) else event.replace(delay=delay)

    async with processes(flaky(tmp_path, calls(("flaky", {"times": 1})), "Done."), "memory") as one:
        harness, pauses = process(one, hasty)
        result = await harness.run("work", "go")
    failures = [entry for entry in result.trace if (entry.kind, entry.source) == ("failure", "hasty")]
    assert (result.status, len(tries(tmp_path)), pauses.seconds, len(failures)) == ("completed", 1, [], 1)


async def test_a_command_hook_changes_how_long_is_waited_and_nonsense_is_its_failure(tmp_path: Path) -> None:
    def answers(policy: str) -> Mapping[str, object]:
        script = f"""echo '{{"decision": "pass", "replace": {{"policy": {policy}}}}}'"""
        hooks = [{"name": "calm", "script": script, "verdict": "json", "on_error": "block"}]
        return {"hooks": {"events": {"activity.retried.pre": hooks}}}

    paused: list[list[float]] = []
    for policy in ('{"first_seconds": 9}', '{"first_seconds": -9}', '{"initial_seconds": 9}'):
        (tmp_path / "tries").unlink(missing_ok=True)
        path = flaky(tmp_path, calls(("flaky", {"times": 1})), "Done.", settings=answers(policy))
        async with processes(path, "memory") as one:
            harness, pauses = process(one)
            await harness.run("work", "go")
        paused.append(pauses.seconds)
    assert paused == [[9.0], [], []], "what a policy leaves out has its default, and so chance takes nothing"


@pytest.mark.parametrize("change", ["delay", "block"])
async def test_a_hook_may_set_the_pause_or_refuse_the_retry(tmp_path: Path, change: str) -> None:
    @hook("activity.retried.in", name="plans")
    def plans(event: ActivityRetryEvent) -> object:
        return event.result(7.0) if change == "delay" else Block("enough")

    async with processes(flaky(tmp_path, calls(("flaky", {"times": 1})), "Done."), "memory") as made:
        harness, pauses = process(made, plans)
        result = await harness.run("work", "go")
    assert result.status == "completed"
    assert (pauses.seconds, len(tries(tmp_path))) == (([7.0], 2) if change == "delay" else ([], 1))


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_whose_process_ended_between_two_attempts_goes_on_with_the_next(tmp_path: Path, kind: str) -> None:
    source = MemoryStore()
    path = flaky(tmp_path, CALL, "Done.")
    async with processes(path, "memory") as made:
        made.store = source
        harness, _ = process(made)
        whole = await harness.run("work", "go")
        entries = await after(source, whole.run_id, "finished 1.activity.retried.0")
        (tmp_path / "tries").write_text("before\n")
        async with processes(path, kind) as others:
            await cut(source, whole.run_id, entries, others.store)
            heard = Heard()
            harness, pauses = process(others, heard)
            result = await harness.resume(whole.run_id)
    assert (result.status, heard.attempts) == ("completed", [(2, 2), (3, 3)])
    assert tries(tmp_path) == ["before"] + [f"{result.run_id}/1.tool.invoked.0"] * 2
    assert len(pauses.seconds) == 2


async def test_what_is_on_record_is_not_waited_for_again_though_the_clock_was_set_back(tmp_path: Path) -> None:
    source = MemoryStore()
    async with processes(flaky(tmp_path, CALL, "Done."), "memory") as made:
        made.store = source
        whole = await process(made)[0].run("work", "go")
        entries = await after(source, whole.run_id, "started 2.llm.invoked.0")
        async with processes(made.path, "memory") as others:
            await cut(source, whole.run_id, entries, others.store)
            clock = FakeClock(5.0)
            result = await others.harness(clock=clock, pause=(pauses := Pauses(clock))).resume(whole.run_id)
    assert (result.status, pauses.seconds) == ("completed", [])


async def test_a_deadline_before_the_next_attempt_ends_the_waiting_at_once(tmp_path: Path) -> None:
    async with processes(flaky(tmp_path, CALL, "Done."), "memory") as made:
        harness, pauses = process(made)
        result = await harness.run("work", "go", deadline=FakeClock().now() + 0.4)
    assert (len(tries(tmp_path)), pauses.seconds) == (1, [])
    assert result.status in ("completed", "failed")


PARALLEL = {
    "tasks": {
        "work": {
            "version": 3,
            "model": "default",
            "instructions": "Do it.",
            "tools": ["wait"],
            "parallel_tools": True,
        }
    },
    "tools": {"wait": {"python": "./waits.py:wait"}},
}

WAITS = """\
import asyncio
from tenter import tool

gates = {}

@tool
async def wait(own: str, opens: str) -> str:
    # Side by side alone they come to an end: each but the last waits for another to open its gate.
    gates.setdefault(opens, asyncio.Event()).set()
    await gates.setdefault(own, asyncio.Event()).wait()
    return own
"""


@pytest.mark.parametrize("kind", BOTH)
async def test_calls_side_by_side_are_told_in_their_order_whoever_ended_first(tmp_path: Path, kind: str) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    names = ["a", "b", "c"]
    turn = calls(*(("wait", {"own": own, "opens": names[place - 1]}) for place, own in enumerate(names)))
    told: list[list[str]] = []

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        told.append([message.content for message in event.request.messages if message.role == "tool"])

    async with processes(project(tmp_path, turn, "Done.", settings=PARALLEL), kind) as made:
        result = await asyncio.wait_for(made.harness(hear).run("work", "go"), 5)
        records = await journal(made.store, result.run_id)
    assert (result.status, told[-1]) == ("completed", names)
    begun = [line for line in lines(records) if line.startswith("acting 1.tool.")]
    assert begun == [f"acting 1.tool.invoked.{place}" for place in range(3)]
    assert len(of_kind(records, "finished", "1.tool.invoked.1")) == 1
