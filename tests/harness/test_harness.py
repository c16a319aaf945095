"""Runs through the front door: every status, what the result says of it, and what is on record."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import BOTH, STORES, calls, journal, of_kind, only_run, project, statuses, with_model
from tests.outside import alive_with, comes_true, leaves_nothing, one_of_three

from tenter import Block, Escalate, Harness, Hook, Retry, RunResult, Suspend, hook
from tenter.catalogue import (
    Limits,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    OutputEvent,
    Participant,
    RunEndEvent,
    RunErrorEvent,
    RunStartEvent,
    ShutdownEvent,
    ToolCall,
    ToolCallEvent,
    ToolResultEvent,
)
from tenter.journal import MemoryStore, SqliteStore, Store
from tenter.kernel import Event, TenterError
from tenter.testing import FakeClock, FakeModel, FakeRandom, assert_trace

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
    assert result.trace[0].source == "run.start"
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
    from tenter.kernel import SYSTEM_CLOCK

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
    assert_trace(result, ["hook tool.before approval_required", "hook task.state_changed.pre"])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("rm", {}), "Refused by the hook 'known-tool': the task offers no tool called 'rm'; it offers 'list_dir'"),
        (("list_dir", {"pat": "."}), "Refused by the hook 'valid-arguments': the arguments of 'list_dir' do not fit"),
        (("list_dir", "{broken"), "expected an object with the arguments"),
    ],
)
async def test_a_call_that_does_not_fit_is_an_error_result(tmp_path: Path, call: tuple[str, Any], said: str) -> None:
    tools: list[object] = []
    last: list[str] = []

    @hook("tool.before", observe=True)
    def look(event: ToolCallEvent) -> None:
        tools.append(event.tool and event.tool.name)

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        last.append(event.request.messages[-1].content)

    result = await run(project(tmp_path, calls(call), "Done.", tools=["list_dir"]), look, hear)
    assert result.status == "completed"
    assert said in last[-1]
    assert tools == [None if call[0] == "rm" else "list_dir"]


async def told(tmp_path: Path, change: Any, *, tools: Sequence[str] = ("list_dir", "read_file")) -> str:
    """What the model hears of a call of `list_dir` that a hook changed."""
    last: list[str] = []

    @hook("tool.before", name="change")
    def changing(event: ToolCallEvent) -> object:
        return change(event)

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        last.append(event.request.messages[-1].content)

    (tmp_path / "note.txt").write_text("a note")
    path = project(tmp_path, calls(("list_dir", {"path": "."})), "Done.", tools=tools)
    result = await run(path, changing, hear)
    assert result.status == "completed"
    return last[-1]


async def test_arguments_that_a_hook_made_invalid_are_an_error_result(tmp_path: Path) -> None:
    said = await told(tmp_path, lambda event: event.with_arguments(path=7))
    assert said.startswith("Refused by the hook 'valid-arguments'")
    assert "at path: expected text, got 7" in said


async def test_arguments_that_could_not_be_recorded_are_an_error_result(tmp_path: Path) -> None:
    said = await told(tmp_path, lambda event: event.with_arguments(n=2**60))
    assert said.startswith("Refused by the hook 'valid-arguments'")


async def test_a_call_that_a_hook_renamed_is_that_tools_call(tmp_path: Path) -> None:
    call = ToolCall(id="x", name="read_file", arguments={"path": "note.txt"})
    assert "a note" in await told(tmp_path, lambda event: event.replace(call=call))


async def test_a_call_that_a_hook_renamed_to_what_is_not_offered_is_an_error_result(tmp_path: Path) -> None:
    call = ToolCall(id="x", name="shell", arguments={"command": "ls"})
    said = await told(tmp_path, lambda event: event.replace(call=call))
    assert said.startswith("Refused by the hook 'known-tool': the task offers no tool called 'shell'")


async def test_a_model_that_is_asked_again_hears_why_and_only_so_often(tmp_path: Path) -> None:
    @hook("model.after", name="again")
    def again(event: ModelResponseEvent) -> Retry:
        return Retry("too long", feedback="shorter, please")

    model = FakeModel([ModelResponse(model="m", text=str(number)) for number in range(5)])
    async with with_model(project(tmp_path), model, again, store=MemoryStore()) as harness:
        result = await harness.run("work")
    assert result.status == "blocked"
    assert result.error is not None
    assert result.error.details["code"] == "repairs_exhausted"
    assert [request.messages[-1].content for request in model.requests[1:]] == ["shorter, please"] * 2
    assert result.cost_known is False


async def test_the_model_is_shown_the_tools_and_the_instructions(tmp_path: Path) -> None:
    model = FakeModel([ModelResponse(model="m", text="Done.", cost_usd=1.0)])
    async with with_model(project(tmp_path, tools=["shell"]), model, store=MemoryStore()) as harness:
        await harness.run("work", "go")
    (request,) = model.requests
    assert [(message.role, message.content) for message in request.messages] == [("system", "Do it."), ("user", "go")]
    assert [tool.name for tool in request.tools] == ["shell"]


async def test_who_a_run_is_stands_in_every_event_and_on_record(tmp_path: Path) -> None:
    envelopes: list[object] = []

    class All(Hook):
        name = "all"
        observe = True

        def on_run_start(self, event: RunStartEvent) -> None:
            envelopes.append(event.envelope)

        def on_model_after(self, event: ModelResponseEvent) -> None:
            envelopes.append(event.envelope)

        def on_run_end(self, event: RunEndEvent) -> None:
            envelopes.append(event.envelope)

    store = MemoryStore()
    async with Harness.from_file(project(tmp_path), hooks=[All()], store=store) as harness:
        result = await harness.run(
            "work",
            "go",
            principal="ada",
            session_id="s1",
            correlation_id="c1",
            participants=(Participant(id="ada", kind="human"),),
            entities=("ticket:1",),
            metadata={"team": ["a", "b"]},
        )
        (first,) = of_kind(await journal(store, result.run_id), "run")
    assert envelopes[0] is envelopes[1] is envelopes[2]
    assert (first["task"], first["version"], first["input"]) == ("work", 3, "go")
    assert first["envelope"]["metadata"] == {"team": ["a", "b"]}
    assert first["envelope"]["principal"] == "ada"


async def test_the_same_clock_and_chance_make_the_same_run(tmp_path: Path) -> None:
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    (tmp_path / ".tenter").mkdir()
    seen: list[tuple[str, object, object]] = []
    for _ in range(2):
        store = MemoryStore()
        async with Harness.from_file(path, store=store, clock=FakeClock(), random=FakeRandom(7)) as harness:
            result = await harness.run("work", "go")
            records = await journal(store, result.run_id)
        seen.append((result.run_id, result, records))
    assert seen[0] == seen[1]


async def test_two_runs_at_once_do_not_mix(tmp_path: Path) -> None:
    path = project(tmp_path, LIST, LIST, "Done.", tools=["list_dir"])
    store = SqliteStore(tmp_path / ".tenter" / "journal.db")
    async with Harness.from_file(path, store=store) as harness:
        results = await asyncio.gather(*(harness.run("work", f"input {number}") for number in range(4)))
        for number, result in enumerate(results):
            records = await journal(store, result.run_id)
            assert result.status == "completed"
            assert of_kind(records, "run")[0]["input"] == f"input {number}"
            assert len(of_kind(records, "started")) == len(of_kind(records, "finished"))
            assert {entry.op.split("/")[0] for entry in result.trace if entry.op} == {result.run_id}


def test_run_sync_is_a_run_without_an_event_loop(tmp_path: Path) -> None:
    harness = Harness.from_file(project(tmp_path), store=MemoryStore())
    result = harness.run_sync("work", "go", principal="ada")
    assert result.status == "completed"
    asyncio.run(harness.close())


async def test_run_sync_inside_an_event_loop_says_what_to_write(tmp_path: Path) -> None:
    async with Harness.from_file(project(tmp_path), store=MemoryStore()) as harness:
        with pytest.raises(TenterError, match=r"write `await harness\.run\(…\)` there"):
            harness.run_sync("work")


def test_one_harness_runs_in_several_threads(tmp_path: Path) -> None:
    harness = Harness.from_file(project(tmp_path), store=SqliteStore(tmp_path / ".tenter" / "journal.db"))
    results: list[RunResult] = []
    threads = [threading.Thread(target=lambda: results.append(harness.run_sync("work"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [result.status for result in results] == ["completed"] * 4
    asyncio.run(harness.close())


async def test_closing_fires_shutdown_once_and_takes_no_more_runs(tmp_path: Path) -> None:
    reasons: list[str] = []

    @hook("shutdown.pre", observe=True)
    def look(event: ShutdownEvent) -> None:
        reasons.append(event.reason)

    harness = Harness.from_file(project(tmp_path), hooks=[look], store=MemoryStore())
    await harness.close("enough")
    await harness.close()
    with pytest.raises(TenterError, match="this harness was closed"):
        await harness.run("work")
    assert reasons == ["enough"]


async def test_leaving_by_an_exception_is_the_reason_of_the_shutdown(tmp_path: Path) -> None:
    reasons: list[str] = []

    @hook("shutdown.pre", observe=True)
    def look(event: ShutdownEvent) -> None:
        reasons.append(event.reason)

    async def leave() -> None:
        async with Harness.from_file(project(tmp_path), hooks=[look], store=MemoryStore()):
            raise ValueError("a secret text")

    with pytest.raises(ValueError, match="a secret text"):
        await leave()
    assert reasons == ["ValueError"]


async def test_closing_waits_for_the_runs_that_are_going_on(tmp_path: Path) -> None:
    order: list[str] = []
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Hook):
        name = "slow"
        observe = True

        async def on_model_before(self, event: ModelRequestEvent) -> None:
            reached.set()
            await go_on.wait()

        def on_run_end(self, event: RunEndEvent) -> None:
            order.append("run.end")

        def on_shutdown_pre(self, event: ShutdownEvent) -> None:
            order.append("shutdown")

    harness = Harness.from_file(project(tmp_path), hooks=[Slow()], store=MemoryStore())
    task = asyncio.ensure_future(harness.run("work"))
    await asyncio.wait_for(reached.wait(), 5)
    closing = asyncio.ensure_future(harness.close())
    await asyncio.wait({closing}, timeout=0.02)
    go_on.set()
    await asyncio.wait_for(closing, 5)
    assert (await task).status == "completed"
    assert order == ["run.end", "shutdown"]


async def test_closing_inside_a_run_is_refused_since_it_would_wait_for_itself(tmp_path: Path) -> None:
    @hook("model.before", name="closes")
    async def closes(event: ModelRequestEvent) -> None:
        await harness.close()

    harness: Harness = Harness.from_file(project(tmp_path), hooks=[closes], store=MemoryStore())
    result = await asyncio.wait_for(harness.run("work"), 5)
    assert result.error is not None
    assert "close was called inside a run" in result.error.message
    await harness.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"deadline": float("nan")}, "the deadline of a run must be in seconds since the epoch, not nan"),
        ({"max_steps": 0}, "max_steps must be at least 1, not 0"),
        ({"metadata": {"a": object()}}, "the metadata of a run must be data"),
    ],
)
async def test_arguments_that_cannot_be_used_are_refused_before_anything_begins(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    store = MemoryStore()
    with pytest.raises(TenterError, match=said):
        await run(project(tmp_path), store=store, **arguments)


async def test_an_unknown_task_is_refused_before_anything_begins(tmp_path: Path) -> None:
    store = MemoryStore()
    harness = Harness.from_file(project(tmp_path), store=store)
    with pytest.raises(TenterError, match="has no task 'wark'"):
        await harness.run("wark")
    assert list(await store.streams()) == []
    await harness.close()


async def test_what_hooks_outside_the_process_said_is_forgotten_with_the_run(tmp_path: Path) -> None:
    from tenter.harness.setup import Given, set_up

    verdict = '{\\"metadata\\": {\\"n\\": 1}}'
    events = {
        "tool.before": [
            {
                "name": "meta",
                "script": f'printf "{verdict}"',
                "verdict": "json",
                "mutate": {"enabled": True},
                "on_error": "block",
            }
        ]
    }
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"], settings={"hooks": {"events": events}})
    kept: list[object] = []

    @hook("tool.after", observe=True)
    def look(event: ToolResultEvent) -> None:
        kept.append(setup.sink.accumulated(event))

    setup = set_up(path, (look,), Given(store=MemoryStore()))
    async with Harness(setup) as harness:
        result = await harness.run("work")
    assert result.status == "completed"
    assert kept == [{"hook_metadata": {"meta": {"n": 1}}}]
    assert setup.sink._metadata == {}  # pyright: ignore[reportPrivateUsage]  # nothing else shows what is kept
