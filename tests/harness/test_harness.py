"""The front door: what a harness takes, how runs share it, and what it does when it is closed."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    calls,
    journal,
    of_kind,
    project,
    with_model,
)

from tenter import Harness, Hook, Retry, RunResult, hook
from tenter.catalogue import (
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    Participant,
    RunEndEvent,
    RunStartEvent,
    ShutdownEvent,
    ToolCall,
    ToolCallEvent,
    ToolResultEvent,
)
from tenter.harness.setup import Given, set_up
from tenter.journal import JournalError, MemoryStore, SqliteStore, Store
from tenter.kernel import Event, TenterError
from tenter.testing import FakeClock, FakeModel, FakeRandom

LIST = calls(("list_dir", {"path": "."}), text="I look.")


async def run(path: Path, *hooks: object, store: Store | None = None, **arguments: Any) -> RunResult:
    async with Harness.from_file(path, hooks=hooks, store=store or MemoryStore()) as harness:
        return await harness.run("work", "go", **arguments)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            calls(("rm", {})),
            "'resolve': there is no tool called 'rm'; the task offers 'list_dir'",
        ),
        (
            calls(("list_dir", {"pat": "."})),
            "Refused by the hook 'arguments': the arguments of 'list_dir' do not fit",
        ),
        ({"tool_calls": [{"name": "list_dir", "arguments": "{broken"}]}, "expected an object with the arguments"),
    ],
)
async def test_a_call_that_does_not_fit_is_an_error_result(tmp_path: Path, call: Any, said: str) -> None:
    tools: list[object] = []
    last: list[str] = []

    @hook("tool.before", observe=True)
    def look(event: ToolCallEvent) -> None:
        tools.append(event.tool and event.tool.name)

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        last.append(event.request.messages[-1].content)

    result = await run(project(tmp_path, call, "Done.", tools=["list_dir"]), look, hear)
    assert result.status == "completed"
    assert said in last[-1]
    assert tools == [None if "rm" in said else "list_dir"]


async def told(
    tmp_path: Path, change: Callable[[ToolCallEvent], object], *, tools: Sequence[str] = ("list_dir", "read_file")
) -> str:
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
    assert said.startswith("Refused by the hook 'arguments'")
    assert "at path: expected text, got 7" in said


async def test_arguments_that_could_not_be_recorded_are_an_error_result(tmp_path: Path) -> None:
    said = await told(tmp_path, lambda event: event.with_arguments(n=2**60))
    assert said.startswith("Refused by the hook 'arguments'")


async def test_a_call_that_a_hook_renamed_is_that_tools_call(tmp_path: Path) -> None:
    call = ToolCall(id="x", name="read_file", arguments={"path": "note.txt"})
    assert "a note" in await told(tmp_path, lambda event: event.replace(call=call))


async def test_a_call_that_a_hook_renamed_to_what_is_not_offered_is_an_error_result(tmp_path: Path) -> None:
    call = ToolCall(id="x", name="shell", arguments={"command": "ls"})
    said = await told(tmp_path, lambda event: event.replace(call=call))
    assert said.startswith("Refused by the hook 'resolve': there is no tool called 'shell'")


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
        ({"max_steps": 0}, "max_steps must be a number from 1 to 2.53 - 1, not 0"),
        ({"deadline": 10**400}, "the deadline of a run must be in seconds since the epoch, not a number that large"),
        ({"entities": 5}, "the argument 'entities' of a run must be a tuple of texts, not 5"),
        ({"loop": "x"}, "the argument 'loop' of a run must be LoopFacts or None, not str"),
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


async def test_a_run_whose_envelope_holds_a_secret_has_one_masked_envelope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "correct-horse")
    envelopes: list[Any] = []

    @hook("run.start", "model.before", "run.end", observe=True)
    def look(event: Event) -> None:
        envelopes.append(event.envelope)

    path = project(tmp_path, settings={"secrets": ["TOKEN"]})
    await run(path, look, principal="correct-horse")
    assert envelopes[0] is envelopes[1] is envelopes[2]
    assert "horse" not in envelopes[0].principal


async def test_a_tool_whose_description_holds_a_secret_is_shown_masked_and_passes_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "correct-horse")
    (tmp_path / "my_tools.py").write_text(
        'from tenter import tool\n\n@tool(description="Uses correct-horse.")\ndef act() -> str:\n    return "acted"\n'
    )
    settings = {"secrets": ["TOKEN"], "tools": {"act": {"python": "./my_tools.py:act"}}}
    path = project(tmp_path, calls(("act", {})), "Done.", tools=["act"], settings=settings)
    described: list[str] = []

    @hook("tool.before", observe=True)
    def look(event: ToolCallEvent) -> None:
        described.append(event.tool.description if event.tool else "")

    result = await run(path, look)
    assert result.status == "completed"
    assert "horse" not in described[0]
    assert [entry.source for entry in result.trace if entry.kind == "outcome"] == []


@pytest.mark.promise(4)
async def test_nothing_of_a_secret_is_left_at_a_cut_or_in_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "correct-horse-battery-staple")
    (tmp_path / "long.txt").write_text("x" * 290 + "correct-horse-battery-staple")

    @hook("tool.before", on_error="warn")
    def breaks(event: ToolCallEvent) -> None:
        raise type("correct-horse-battery-staple", (Exception,), {})

    store = MemoryStore()
    path = project(
        tmp_path, calls(("grep", {"pattern": "x"})), "Done.", tools=["grep"], settings={"secrets": ["TOKEN"]}
    )
    async with Harness.from_file(path, hooks=[breaks], store=store) as harness:
        result = await harness.run("work", "go")
        told = repr([recorded.entry.content for recorded in await journal(store, result.run_id)])
    assert [entry.source for entry in result.trace if entry.kind == "failure"] == ["breaks"]
    assert "horse" not in repr(result)
    assert "long.txt:1: " in told
    assert "correct" not in told


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", ["hook_started", "hook_ended"])
async def test_a_run_stops_before_a_tool_acts_when_an_observers_run_cannot_be_recorded(
    tmp_path: Path, kind: str
) -> None:
    class Choosy(MemoryStore):
        async def append(self, stream: Any, entries: Any, **named: Any) -> Any:
            if entries[0].kind == kind:
                raise JournalError("full", "no room for hooks")
            return await super().append(stream, entries, **named)

    watching = {"name": "watching", "observe": True, "script": "true", "on_error": "warn"}
    path = project(
        tmp_path,
        calls(("shell", {"command": "touch ran"})),
        "Done.",
        tools=["shell"],
        settings={"hooks": {"events": {"tool.before": [watching]}}},
    )
    result = await run(path, store=Choosy())
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.message == "no room for hooks"
    assert not (tmp_path / "ran").exists()


async def test_the_programs_of_a_run_get_the_variables_that_it_was_given_besides_their_own(tmp_path: Path) -> None:
    last: list[str] = []

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        last.append(event.request.messages[-1].content)

    turn = calls(("shell", {"command": 'echo "$WHERE ${PATH:+and PATH}"'}))
    async with Harness.from_file(project(tmp_path, turn, "Done.", tools=["shell"]), hooks=[hear]) as harness:
        await harness.run("work", "go", environment={"WHERE": "in a loop"})
        assert last[-1].endswith("in a loop and PATH")
        await harness.run("work", "go")
        assert last[-1].endswith("\n and PATH")


@pytest.mark.parametrize("run_id", [None, 7, "\ud800"])
async def test_what_is_no_id_of_a_run_is_refused_by_every_call_that_takes_one(tmp_path: Path, run_id: Any) -> None:
    async with Harness.from_file(project(tmp_path), store=MemoryStore()) as harness:
        for call in (harness.resume, harness.cancel, partial(harness.approve, by="ada")):
            with pytest.raises(TenterError, match="the id of a run must be a text"):
                await call(run_id)


async def test_a_harness_that_was_closed_takes_no_decisions_and_says_so(tmp_path: Path) -> None:
    harness = Harness.from_file(project(tmp_path), store=MemoryStore())
    await harness.close()
    for call in (partial(harness.approve, "r1", by="ada"), partial(harness.reject, "r1", by="ada"), harness.approvals):
        with pytest.raises(TenterError, match="this harness was closed"):
            await call()
