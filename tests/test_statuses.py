"""Every status that a run comes to: what the result says of it, who hears of it, and what is on record by then."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.harness.world import (
    BOTH,
    STORES,
    act,
    acting,
    calls,
    journal,
    of_kind,
    only_run,
    processes,
    project,
    statuses,
    with_model,
)
from tests.outside import alive_with, comes_true, leaves_nothing, one_of_three

from tenter import Block, Escalate, Harness, Hook, RunResult, Suspend, hook
from tenter.catalogue import (
    Limits,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    OutputEvent,
    RunEndEvent,
    RunErrorEvent,
    RunStartEvent,
    TaskStateChangedEvent,
    ToolCallEvent,
)
from tenter.journal import MemoryStore, Store, Stream
from tenter.kernel import SYSTEM_CLOCK, Event
from tenter.testing import FakeClock, FakeRandom, assert_trace

LIST = calls(("list_dir", {"path": "."}), text="I look.")


class Seen(Hook):
    """Remembers how runs ended, and what was on record then."""

    name = "seen"
    observe = True

    def __init__(self, store: Store | None = None) -> None:
        self.ends: list[RunEndEvent] = []
        self.errors: list[RunErrorEvent] = []
        self.recorded: list[list[object]] = []
        self._store = store

    def on_run_error(self, event: RunErrorEvent) -> None:
        self.errors.append(event)

    async def on_run_end(self, event: RunEndEvent) -> None:
        self.ends.append(event)
        if self._store is not None:
            self.recorded.append(await statuses(self._store, event.envelope.run_id))


async def run(path: Path, *hooks: object, store: Store | None = None, **arguments: Any) -> RunResult:
    async with Harness.from_file(path, hooks=hooks, store=store or MemoryStore()) as harness:
        return await harness.run("work", "go", **arguments)


@pytest.mark.parametrize("kind", BOTH)
async def test_a_completed_run_says_everything(tmp_path: Path, kind: str) -> None:
    turns = [{**LIST, "usage": {"input_tokens": 3}, "cost_usd": 0.5}, {"text": "Done.", "cost_usd": 0.25}]
    store, clock = STORES[kind](tmp_path), FakeClock()
    seen = Seen(store)
    path = project(tmp_path, *turns, tools=["list_dir"])
    async with Harness.from_file(path, hooks=[seen], store=store, clock=clock, random=FakeRandom()) as harness:
        result = await harness.run("work", "go")
        records = await journal(store, result.run_id)
    assert (result.task, result.task_version, result.status, result.output) == ("work", 3, "completed", "Done.")
    assert (result.error, result.approval, result.cost_usd, result.cost_known) == (None, None, 0.75, True)
    assert (result.usage.input_tokens, result.started_at, result.ended_at) == (3, clock.now(), clock.now())
    assert seen.recorded == [["completed"]]
    assert [(end.output, end.cost_usd) for end in seen.ends] == [("Done.", 0.75)]
    assert of_kind(records, "result")[0]["output"] == "Done."


BLOCKING = [
    "run.start",
    "task.created.pre",
    "task.created.in",
    "input.before",
    "request.received.in",
    "model.before",
    "llm.invoked.in",
    "model.after",
    "tool_calls.extracted.pre",
    "tool_calls.extracted.in",
    "output.before",
    "task.complete.in",
]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("point", BLOCKING)
async def test_a_block_that_ends_the_run_ends_it_blocked(tmp_path: Path, point: str, kind: str) -> None:
    @hook(point, name="guard")
    def refuse(event: Event) -> Block:
        return Block("not here", code="policy_denied")

    store = STORES[kind](tmp_path)
    seen = Seen(store)
    async with Harness.from_file(project(tmp_path), hooks=[refuse, seen], store=store) as harness:
        result = await harness.run("work")
    assert result.status == "blocked"
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("policy", "not here")
    assert dict(result.error.details) == {"code": "policy_denied", "hook": "guard"}
    assert (seen.recorded, seen.ends[0].error) == ([["blocked"]], result.error)
    assert seen.errors == []


@pytest.mark.parametrize("point", ["tool.before", "tool.invoked.in", "tool.after"])
async def test_a_block_at_a_tool_is_an_error_result_unless_it_stops_the_run(tmp_path: Path, point: str) -> None:
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    for stop in (False, True):
        model_saw: list[str] = []

        @hook(point, name="guard")
        def refuse(event: Event, stop: bool = stop) -> Block:
            return Block("not this one", stop=stop)

        @hook("model.before", observe=True)
        def look(event: ModelRequestEvent, seen: list[str] = model_saw) -> None:
            seen.append(event.request.messages[-1].content)

        result = await run(path, refuse, look)
        assert result.status == ("blocked" if stop else "completed")
        if not stop:
            assert model_saw[-1] == "Refused by the hook 'guard': not this one"


async def test_an_escalated_run_names_its_queue(tmp_path: Path) -> None:
    @hook("input.before", name="guard")
    def escalate(event: Event) -> Escalate:
        return Escalate("too hard", queue="experts")

    store = MemoryStore()
    seen = Seen(store)
    result = await run(project(tmp_path), escalate, seen, store=store)
    assert result.status == "escalated"
    assert result.error is not None
    assert result.error.details["queue"] == "experts"
    assert seen.recorded == [["escalated"]]


async def test_a_model_that_fails_ends_the_run_failed(tmp_path: Path) -> None:
    store = MemoryStore()
    seen = Seen(store)
    result = await run(project(tmp_path, LIST, tools=["list_dir"]), seen, store=store)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "provider_permanent"
    assert (seen.recorded, [event.operation for event in seen.errors]) == ([["failed"]], ["llm.invoked"])


async def test_the_verdict_fail_ends_the_run_failed(tmp_path: Path) -> None:
    @hook("task.complete.in")
    def judge(event: OutputEvent) -> object:
        return event.result({"verdict": "fail", "output": None, "reason": "not good enough"})

    seen = Seen()
    result = await run(project(tmp_path), judge, seen)
    assert (result.status, result.output) == ("failed", None)
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("validation", "not good enough")
    assert len(seen.errors) == 1


async def test_a_run_that_takes_too_many_steps_ends_failed(tmp_path: Path) -> None:
    seen = Seen()
    result = await run(project(tmp_path, LIST, LIST, LIST, tools=["list_dir"]), seen, max_steps=2)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.details["code"] == "max_steps"
    assert len(seen.errors) == 1


class Stubborn:
    """A model that does not answer, and does not let itself be cancelled."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.stop = asyncio.Event()

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.asked.set()
        while not self.stop.is_set():
            try:
                await self.stop.wait()
            except asyncio.CancelledError:
                continue
        return ModelResponse(model="m", text="at last")


@pytest.mark.timed
async def test_a_deadline_that_passes_during_a_model_call_ends_the_run_failed_at_once(tmp_path: Path) -> None:
    async def attempt() -> None:
        model, seen = Stubborn(), Seen()
        async with with_model(project(tmp_path), model, seen, store=MemoryStore()) as harness:
            loop = asyncio.get_running_loop()
            began = loop.time()
            result = await asyncio.wait_for(harness.run("work", deadline=_in(0.1)), 5)
            took = loop.time() - began
        model.stop.set()
        assert result.status == "failed"
        assert result.error is not None
        assert (result.error.code, result.error.details["operation"]) == ("timeout", "llm.invoked")
        assert len(seen.errors) == 1
        assert took < 0.1 + 0.05 + 0.1

    await one_of_three(attempt)


def _in(seconds: float) -> float:
    return SYSTEM_CLOCK.now() + seconds


SLEEPER = """\
import asyncio, threading
from tenter import tool

@tool
async def patient() -> str:
    await asyncio.Event().wait()
    return ""

@tool
def hanging() -> str:
    threading.Event().wait(20)
    return ""
"""


@pytest.mark.parametrize("name", ["patient", "shell"])
async def test_a_deadline_that_passes_during_a_tool_call_ends_the_run_failed(tmp_path: Path, name: str) -> None:
    (tmp_path / "my_tools.py").write_text(SLEEPER)
    mark = f"sleep 31.{abs(hash(str(tmp_path))) % 10**9}"
    turn = calls((name, {"command": mark} if name == "shell" else {}))
    settings = {} if name == "shell" else {"tools": {name: {"python": "./my_tools.py:patient"}}}
    seen = Seen()
    result = await run(project(tmp_path, turn, tools=[name], settings=settings), seen, deadline=_in(0.3))
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "timeout"
    assert len(seen.errors) == 1
    assert not alive_with(mark)


async def test_a_deadline_that_has_passed_already_lets_nothing_begin(tmp_path: Path) -> None:
    asked: list[Event] = []

    @hook("input.before", observe=True)
    def look(event: Event) -> None:
        asked.append(event)

    seen = Seen()
    result = await run(project(tmp_path), look, seen, deadline=1.0)
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, asked) == ("timeout", [])
    assert len(seen.errors) == 1


async def test_a_hook_at_the_start_may_tighten_the_deadline(tmp_path: Path) -> None:
    @hook("run.start")
    def tighten(event: RunStartEvent) -> RunStartEvent:
        return event.replace(limits=Limits(deadline=1.0))

    result = await run(project(tmp_path), tighten, deadline=_in(60))
    assert result.error is not None
    assert result.error.code == "timeout"


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_is_cancelled_during_a_tool_leaves_no_process(tmp_path: Path, kind: str) -> None:
    mark = f"sleep 32.{abs(hash(str(tmp_path))) % 10**9}"
    store = STORES[kind](tmp_path)
    seen = Seen(store)
    path = project(tmp_path, calls(("shell", {"command": mark})), tools=["shell"])
    async with leaves_nothing(mark), Harness.from_file(path, hooks=[seen], store=store) as harness:
        task = asyncio.ensure_future(harness.run("work"))
        assert await comes_true(lambda: bool(alive_with(mark)), within=5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert not alive_with(mark)
        assert await statuses(store, await only_run(store)) == ["cancelled"]
    assert [(end.status, end.error.code if end.error else None) for end in seen.ends] == [("cancelled", "cancelled")]


async def test_a_run_that_is_cancelled_during_a_model_call_ends_cancelled(tmp_path: Path) -> None:
    store, model = MemoryStore(), Stubborn()
    async with with_model(project(tmp_path), model, store=store) as harness:
        task = asyncio.ensure_future(harness.run("work"))
        await asyncio.wait_for(model.asked.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert await statuses(store, await only_run(store)) == ["cancelled"]
    model.stop.set()


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_needs_a_person_waits_with_a_request_on_record(tmp_path: Path, kind: str) -> None:
    @hook("tool.before", name="ask")
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?", editable=("call",))

    @hook("tool.before", name="also")
    def also(event: ToolCallEvent) -> Suspend:
        return Suspend("really?", code="costly")

    store = STORES[kind](tmp_path)
    seen = Seen(store)
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    async with Harness.from_file(path, hooks=[ask, also, seen], store=store) as harness:
        result = await harness.run("work")
        records = await journal(store, result.run_id)
    assert (result.status, result.output, result.error) == ("awaiting_approval", None, None)
    assert result.approval is not None
    assert [(reason.hook, reason.reason) for reason in result.approval.reasons] == [
        ("ask", "sure?"),
        ("also", "really?"),
    ]
    assert (result.approval.operation, result.approval.path) == ("tool.invoked", "1.tool.invoked.0")
    assert of_kind(records, "approval_requested")[0]["id"] == result.approval.id
    assert of_kind(records, "checkpoint")[0]["approval"] == result.approval.id
    assert of_kind(records, "finished", "1.tool.invoked.0")[0]["outcome"] == "suspended"
    assert seen.ends == []
    assert_trace(result, ["hook tool.before approval_required", "outcome ask approval_required", "outcome also costly"])


ANSWERS = ["running", "blocked", "escalated", "cancelled"]
"""What a run that waits for a person goes to (seed 003, "Run statuses")."""


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("to", ANSWERS)
async def test_a_run_that_waits_goes_to_where_its_answer_leads(tmp_path: Path, kind: str, to: str) -> None:
    @hook("tool.before", name="ask")
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?", expires_in=60, on_timeout="escalate")

    changes, clock = Changes(), FakeClock()
    async with processes(acting(tmp_path, act("a"), "Done."), kind) as made:
        waiting = await made.harness(ask, changes, clock=clock).run("work", "go")
        harness = made.harness(ask, changes, clock=clock)
        match to:
            case "running":
                await harness.approve(waiting.run_id, by="ada")
            case "blocked":
                await harness.reject(waiting.run_id, by="ada")
            case "escalated":
                clock.advance(60)
            case _:
                await harness.cancel(waiting.run_id)
        result = waiting if to == "cancelled" else await harness.resume(waiting.run_id)
    assert changes.heard[:3] == ["pending->running", "running->awaiting_approval", f"awaiting_approval->{to}"]
    assert changes.heard[3:] == (["running->completed"] if to == "running" else [])
    assert result.run_id == waiting.run_id


class Changes(Hook):
    """Hears of every change of status."""

    name = "changes"
    observe = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_task_state_changed_pre(self, event: TaskStateChangedEvent) -> None:
        self.heard.append(f"{event.before}->{event.after}")


def says(outcome: object, point: str) -> object:
    @hook(point, name="guard")
    def guard(event: Event) -> object:
        return outcome

    return guard


def from_running(status: str) -> tuple[list[object], Sequence[object], str]:
    """Hooks and turns with which a run goes from the status before to this one."""
    match status:
        case "pending->blocked":
            return [says(Block("no"), "run.start")], ["Done."], "blocked"
        case "blocked":
            return [says(Block("no"), "model.before")], ["Done."], "blocked"
        case "escalated":
            return [says(Escalate("help", queue="experts"), "tool.before")], [LIST], "escalated"
        case "failed":
            return [], [LIST], "failed"
        case "awaiting_approval":
            return [says(Suspend("sure?"), "tool.before")], [LIST], "awaiting_approval"
        case _:
            return [], ["Done."], "completed"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "way", ["pending->blocked", "completed", "blocked", "escalated", "failed", "awaiting_approval", "cancelled"]
)
async def test_every_result_has_all_its_fields(tmp_path: Path, kind: str, way: str) -> None:
    hooks, turns, status = from_running(way)
    changes, reached, clock = Changes(), asyncio.Event(), FakeClock()

    @hook("model.after", observe=True, name="later")
    def later(event: ModelResponseEvent) -> None:
        clock.advance(7)

    @hook("model.before", name="waits")
    async def waits(event: ModelRequestEvent) -> None:
        reached.set()
        await asyncio.Event().wait()

    if way == "cancelled":
        hooks, status = [waits], "cancelled"
    answers = way in ("completed", "escalated", "failed", "awaiting_approval")
    turns = [
        {**cast("Any", {"text": one} if isinstance(one, str) else one), "usage": {"input_tokens": 3}} for one in turns
    ]
    async with processes(project(tmp_path, *turns, tools=["list_dir"]), kind) as made:
        harness = made.harness(changes, later, *hooks, clock=clock)
        began = clock.now()
        task = asyncio.ensure_future(harness.run("work", "go"))
        if way == "cancelled":
            await asyncio.wait_for(reached.wait(), 5)
            await harness.cancel(await only_run(made.store))
        result = await asyncio.wait_for(task, 5)
        head = await made.store.head(Stream("run", result.run_id))
    first = "pending" if way == "pending->blocked" else "running"
    assert changes.heard == (["pending->running"] if first == "running" else []) + [f"{first}->{status}"]
    assert (result.status, result.task, result.task_version, result.run_id != "") == (status, "work", 3, True)
    assert (result.output is not None) == (status == "completed")
    assert (result.error is not None) == (status not in ("completed", "awaiting_approval"))
    assert (result.approval is not None) == (status == "awaiting_approval")
    assert result.approvals == (() if result.approval is None else (result.approval,))
    assert result.journal_head == head.hash
    assert (result.started_at, result.ended_at) == (began, began + (7 if answers else 0))
    assert result.trace[0].sequence == 1
    assert (result.usage.input_tokens, result.cost_usd, result.cost_known) == (3 if answers else 0, 0.0, not answers)
    if status == "escalated":
        assert result.error is not None
        assert result.error.details["queue"] == "experts"
