"""Runs that another process goes on with: what they may rest on, what is left of them, and who hears of their end."""

import asyncio
import json
import socket
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    ACT,
    BOTH,
    STORES,
    act,
    acted,
    acting,
    after,
    cut,
    go_on,
    journal,
    keys,
    lines,
    of_kind,
    processes,
    project,
    spawn,
    spawning,
    statuses,
    whole,
)

from tenter import Harness, Hook, Suspend, hook
from tenter.catalogue import (
    CATALOGUE,
    ErrorInfo,
    ModelRequestEvent,
    RunEndEvent,
    RunErrorEvent,
    TaskStateChangedEvent,
    ToolCallEvent,
)
from tenter.executors import ProcessId
from tenter.harness import held, recording
from tenter.harness.held import claimed
from tenter.harness.replay import ReplayDiverged
from tenter.harness.resuming import end_on_record
from tenter.harness.setup import Given, set_up
from tenter.journal import Entry, MemoryStore, Recorded, SqliteStore, Store, Stream
from tenter.kernel import Declaration, Event, TenterError
from tenter.testing import FakeClock, FakeRandom

ONCE = act("a")


def listeners(fired: list[str]) -> list[Declaration]:
    """An observer at every point, which names the operation once that begins or is told."""

    def listen(point: str) -> Declaration:
        def heard(event: Event) -> None:
            change = f" {event.before}->{event.after}" if isinstance(event, TaskStateChangedEvent) else ""
            fired.append(point + change)

        return Declaration(name="listener", point=point, call=heard, observe=True)

    return [listen(point) for point in CATALOGUE if point.endswith("pre") or point in ("run.post", "run.pre")]


@pytest.mark.promise(9)
@pytest.mark.parametrize("risk", ["medium", "high"])
async def test_wherever_its_process_ended_a_run_comes_to_the_same_end_and_nothing_is_done_twice(
    tmp_path: Path, risk: str
) -> None:
    path = acting(tmp_path, ONCE, "Done.", tool={"risk": risk})
    told: list[str] = []

    @hook("input.before", "model.before", "tool.before", "output.before", "approval.resolved", observe=True)
    def look(event: Any) -> None:
        told.append(event.op.id)

    source, run_id = await asked_and_done(path, look)
    records = await journal(source, run_id)
    setup = set_up(path, (look,), Given(store=MemoryStore(), clock=FakeClock()))
    reasons: dict[str, int] = {}
    first = 1 if risk == "medium" else [one.entry.kind for one in records].index("approval_requested")
    assert records[-1].entry.kind == "released"
    for entries in range(first, len(records) - 1):  # before that its end was told
        (tmp_path / "acted").unlink(missing_ok=True)
        store, done, began = MemoryStore(), records[:entries], of_kind(records[:entries], "acting", TOOL)
        await cut(source, run_id, entries, store)
        told.clear()
        harness = Harness(replace(setup, store=store))
        result = await harness.resume(run_id)
        assert not set(told) & {one["op"] for one in of_kind(done, "started") if finished(done, one)}, entries
        while (request := result.approval) is not None:
            code = request.reasons[0].code
            reasons[code] = reasons.get(code, 0) + 1
            assert (code == "unknown") == bool(began)
            began = []
            await harness.approve(run_id, by="ada")
            result = await harness.resume(run_id)
        assert (result.status, result.output) == ("completed", "Done."), entries
        assert len(acted(tmp_path)) == (not of_kind(done, "acted", TOOL)), entries
    assert reasons.get("unknown") == 1
    assert ("risk" in reasons) == (risk == "high")


TOOL = "1.tool.invoked.0"


async def asked_and_done(path: Path, *hooks: object) -> tuple[MemoryStore, str]:
    """A run to its end, whatever a person is asked on the way."""
    store = MemoryStore()
    harness = Harness.from_file(path, hooks=hooks, store=store, clock=FakeClock(), random=FakeRandom(7))
    result = await harness.run("work", "go")
    while result.status == "awaiting_approval":
        await harness.approve(result.run_id, by="ada")
        result = await harness.resume(result.run_id)
    assert result.status == "completed"
    return store, result.run_id


def finished(records: Sequence[Recorded], started: Mapping[str, Any]) -> bool:
    """Whether a pass has ended by these entries, which hooks were told of at its beginning."""
    place = {key: started.get(key) for key in ("path", "pass", "phase")}
    ended = of_kind(records, "finished", started["path"])
    return any({key: one.get(key) for key in place} == place for one in ended)


@pytest.mark.parametrize("kind", BOTH)
async def test_what_is_on_record_fires_no_hook_again(tmp_path: Path, kind: str) -> None:
    path, fired = acting(tmp_path, ONCE, "Done."), list[str]()
    source, result = await whole(path, *listeners(fired))
    fired.clear()
    store = STORES[kind](tmp_path)
    await cut(source, result.run_id, await after(source, result.run_id, "finished 2.tool_calls.extracted.0"), store)
    again = await go_on(path, store, result.run_id, *listeners(fired))
    await store.close()
    assert again.status == "completed"
    assert fired == [
        "task.complete.pre",
        "task.state_changed.pre running->completed",
        "persistence.write.pre",
        "run.post",
    ]
    assert acted(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_tool_that_may_have_acted_is_a_persons_to_judge_and_an_idempotent_one_is_called_again(
    tmp_path: Path, kind: str
) -> None:
    for idempotent in (False, True):
        folder = tmp_path / str(idempotent)
        folder.mkdir()
        path = acting(folder, ONCE, "Done.", tool={"idempotent": idempotent})
        source, result = await whole(path)
        async with processes(path, kind) as made:
            await cut(source, result.run_id, await after(source, result.run_id, "acting 1.tool.invoked.0"), made.store)
            again = await made.harness().resume(result.run_id)
            if not idempotent:
                assert (again.status, acted(folder)) == ("awaiting_approval", ["a"])
                assert again.approval is not None
                assert "it may have been done, or not" in again.approval.reasons[0].reason
                await made.harness().approve(result.run_id, by="ada")
                again = await made.harness().resume(result.run_id)
        assert again.status == "completed"
        assert keys(folder) == [f"a {result.run_id}/1.tool.invoked.0"] * 2


class Ends(Hook):
    """Hears how runs end."""

    name = "ends"
    observe = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_run_error(self, event: RunErrorEvent) -> None:
        self.heard.append("error")

    def on_run_end(self, event: RunEndEvent) -> None:
        code = "" if event.error is None else f" {event.error.code}"
        self.heard.append(f"end {event.status}{code} {event.output}")


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("entry", ["status", "result"])
async def test_whoever_opens_a_run_that_nobody_told_of_its_end_tells_of_it_once(
    tmp_path: Path, kind: str, entry: str
) -> None:
    path = project(tmp_path, "Done.")
    source, result = await whole(path, Ends())
    entries = await after(source, result.run_id, entry)
    async with processes(path, kind) as made:
        await cut(source, result.run_id, entries, made.store)
        ends = Ends()
        again = await made.harness(ends).resume(result.run_id)
        assert (again.status, again.output, ends.heard) == ("completed", "Done.", ["end completed Done."])
        with pytest.raises(TenterError, match=f"the run {result.run_id} is over: it ended completed"):
            await made.harness(ends).resume(result.run_id)
        records = await journal(made.store, result.run_id)
        assert len(of_kind(records, "result")) == 1
        assert await statuses(made.store, result.run_id) == ["completed"]
    assert ends.heard == ["end completed Done."]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("stored", [True, False])
async def test_an_end_that_the_record_does_not_lead_to_is_told_as_it_is_recorded(
    tmp_path: Path, kind: str, stored: bool
) -> None:
    path = acting(tmp_path, ONCE, "Done.")
    source, result = await whole(path, Ends())
    async with processes(path, kind) as made:
        await cut(source, result.run_id, await after(source, result.run_id, "acting 1.tool.invoked.0"), made.store)
        error: dict[str, object] = {"code": "cancelled", "message": "the run was cancelled", "details": {}}
        end: list[Entry] = [Entry(kind="status", time=1, content={"status": "cancelled", "code": "cancelled"})]
        if stored:
            content: dict[str, object] = {
                "status": "cancelled",
                "output": "half",
                "error": error,
                "usage": {},
                "cost_usd": None,
            }
            end.append(Entry(kind="result", time=1, content=content))
        await made.store.append(Stream("run", result.run_id), end)
        ends = Ends()
        again = await made.harness(ends).resume(result.run_id)
        assert again.status == "cancelled"
        assert again.error is not None
        assert again.error.message.startswith(
            "the run was cancelled" if stored else "how it came to that was not stored"
        )
        assert ends.heard == [f"end cancelled {again.error.code} {'half' if stored else None}"]
        told = [line for line in lines(await journal(made.store, result.run_id)) if line != "released"]
        assert told[-2:] == ["started 0.run.0", "finished 0.run.0"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_does_something_else_now_is_left_as_it_was_and_the_first_difference_is_named(
    tmp_path: Path, kind: str
) -> None:
    path = acting(tmp_path, ONCE, "Done.", tool={"risk": "high"})
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        before = await journal(made.store, waiting.run_id)
        tools = tmp_path / "my_tools.py"
        tools.write_text(ACT.replace('mark: str = ""', 'mark: str = "none"'))  # the model would be told another tool
        with pytest.raises(ReplayDiverged, match=r"replay_diverged at 1\.llm\.invoked\.0: ") as raised:
            await made.harness().resume(waiting.run_id)
        assert raised.value.path == "1.llm.invoked.0"
        records = await journal(made.store, waiting.run_id)
        assert records[: len(before)] == before
        assert lines(records[len(before) :]) == ["resumed", "released"]
        summary = await made.store.summary(Stream("run", waiting.run_id))
        assert summary is not None
        assert (summary.status, summary.holder) == ("awaiting_approval", "")
        assert [row.request for row in await made.store.approvals()] == list(waiting.approvals)
        path = acting(tmp_path, ONCE, "Done.", tool={"risk": "high"})
        await made.harness().approve(waiting.run_id, by="ada")
        result = await made.harness().resume(waiting.run_id)
    assert (result.status, acted(tmp_path)) == ("completed", ["a"])


async def test_only_a_run_that_is_there_can_be_gone_on_with(tmp_path: Path) -> None:
    async with processes(project(tmp_path), "memory") as made:
        await made.store.append(Stream("process", "p"), [Entry(kind="note", time=1, content={})])
        for run_id in ("none", "p"):
            with pytest.raises(TenterError, match="the journal holds no run"):
                await made.harness().resume(run_id)
            with pytest.raises(TenterError, match="the journal holds no run"):
                await made.harness().cancel(run_id)


async def test_a_run_of_a_task_that_is_gone_says_so(tmp_path: Path) -> None:
    path = project(tmp_path)
    source, result = await whole(path)
    store = MemoryStore()
    await cut(source, result.run_id, 1, store)
    config = json.loads(path.read_text())
    config["tasks"] = {"other": config["tasks"]["work"]}
    path.write_text(json.dumps(config))
    with pytest.raises(TenterError, match="has no task 'work'"):
        await go_on(path, store, result.run_id)


async def test_a_run_that_goes_on_is_as_far_in_its_deadline_steps_and_use_as_it_was(tmp_path: Path) -> None:
    turns = [{**ONCE, "usage": {"input_tokens": 3}, "cost_usd": 0.5}, {"text": "Done.", "cost_usd": 0.25}]
    path = acting(tmp_path, *turns)
    source, result = await whole(path)
    store = MemoryStore()
    await cut(source, result.run_id, await after(source, result.run_id, "finished 1.llm.invoked.0"), store)
    asked: list[ModelRequestEvent] = []

    @hook("model.before", observe=True)
    def look(event: ModelRequestEvent) -> None:
        asked.append(event)

    again = await go_on(path, store, result.run_id, look)
    assert (again.usage.input_tokens, again.cost_usd, again.cost_known) == (3, 0.75, True)
    assert [one.op.path for one in asked] == ["2.llm.invoked.0"]
    assert [message.role for message in asked[0].request.messages] == ["system", "user", "assistant", "tool"]
    assert asked[0].envelope.run_id == result.run_id


async def test_what_hooks_outside_the_process_told_before_goes_on_with_the_run(tmp_path: Path) -> None:
    verdict = '{\\"metadata\\": {\\"n\\": 1}}'
    command = {"name": "meta", "script": f'printf "{verdict}"', "verdict": "json", "on_error": "block"}
    hooks = {"events": {"tool.before": [{**command, "mutate": {"enabled": True}}]}}
    path = acting(tmp_path, ONCE, "Done.", settings={"hooks": hooks})
    source, result = await whole(path)
    store = MemoryStore()
    await cut(source, result.run_id, await after(source, result.run_id, "finished 1.tool.invoked.0"), store)
    kept: list[object] = []

    @hook("model.before", observe=True)
    def look(event: ModelRequestEvent) -> None:
        kept.append(setup.sink.accumulated(event))

    setup = set_up(path, (look,), Given(store=store))
    assert (await Harness(setup).resume(result.run_id)).status == "completed"
    assert kept == [{"hook_metadata": {"meta": {"n": 1}}}]


async def test_a_harness_that_was_closed_goes_on_with_nothing(tmp_path: Path) -> None:
    harness = Harness.from_file(project(tmp_path), store=MemoryStore())
    await harness.close()
    for going_on in (harness.resume("r"), harness.cancel("r")):
        with pytest.raises(TenterError, match="this harness was closed"):
            await going_on


async def test_a_run_whose_process_died_before_it_heard_that_it_is_to_end_ends(tmp_path: Path) -> None:
    path, ends = acting(tmp_path, ONCE, "Done."), Ends()
    source, result = await whole(path)
    store = MemoryStore()
    await cut(source, result.run_id, await after(source, result.run_id, "finished 1.llm.invoked.0"), store)
    (tmp_path / "acted").unlink()
    asked = Entry(kind="cancel_requested", time=1, content={"reason": "by ada: enough"})
    await store.append(Stream("run", result.run_id), [asked])
    again = await go_on(path, store, result.run_id, ends)
    assert (again.status, acted(tmp_path), ends.heard) == ("cancelled", [], ["end cancelled cancelled None"])
    assert again.error is not None
    assert again.error.message == "by ada: enough"


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_of_a_task_that_is_gone_can_be_cancelled_on_record(tmp_path: Path, kind: str) -> None:
    path, ends = acting(tmp_path, ONCE, "Done.", tool={"risk": "high"}), Ends()
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        config = json.loads(path.read_text())
        config["tasks"] = {"other": config["tasks"]["work"]}
        path.write_text(json.dumps(config))
        result = await made.harness(ends).cancel(waiting.run_id, by="ada")
        assert (await statuses(made.store, waiting.run_id))[-1] == "cancelled"
        assert await made.store.approvals() == []
        with pytest.raises(TenterError, match="is over: it ended cancelled"):
            await made.harness(ends).cancel(waiting.run_id)
    assert result is not None
    assert (result.status, result.task, ends.heard) == ("cancelled", "work", [])


async def standings(store: Store) -> list[str]:
    """The status of each run that has ended and that nobody has, the last begun first."""
    return [one.status for one in await store.streams("run") if one.ended is not None and not one.holder]


CHANGED = {"tool": {"risk": "high"}, "work": {"tools": ["act"]}}
"""What a run of `spawning` cannot be followed with any more: its first request would name another tool."""


async def test_a_sub_run_that_a_changed_run_does_not_come_to_any_more_is_cancelled_with_it(tmp_path: Path) -> None:
    store, ends = MemoryStore(), Ends()
    path = spawning(tmp_path, [spawn("x"), "Done."], [ONCE, "part done"], settings={"tool": {"risk": "high"}})
    waiting = await Harness.from_file(path, store=store).run("work", "go")
    path = spawning(tmp_path, [spawn("x"), "Done."], [ONCE, "part done"], settings=CHANGED)
    result = await Harness.from_file(path, hooks=[ends], store=store).cancel(waiting.run_id, by="ada")
    assert result is not None
    assert result.status == "cancelled"
    assert await standings(store) == ["cancelled", "cancelled"]
    assert await store.approvals() == []
    assert [said.split()[1] for said in ends.heard] == ["cancelled"]


async def test_a_sub_run_ends_with_a_run_that_is_cancelled_before_it_comes_to_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pausing(MemoryStore):
        async def read(self, stream: Stream, *, after: int = 0, **named: Any) -> AsyncGenerator[Recorded]:
            if after and not reached.is_set():
                reached.set()
                await asyncio.Event().wait()
            async for recorded in super().read(stream, after=after, **named):
                yield recorded

    store, reached = Pausing(), asyncio.Event()
    path = spawning(tmp_path, [spawn("x"), "Done."], [ONCE, "part done"], settings={"tool": {"risk": "high"}})
    harness = Harness.from_file(path, store=store)
    run_id = (await harness.run("work", "go")).run_id
    monkeypatch.setattr(recording, "PAGE", 4)
    task = asyncio.ensure_future(harness.resume(run_id))
    await asyncio.wait_for(reached.wait(), 5)
    assert await asyncio.wait_for(harness.cancel(run_id), 5) is not None
    assert (await asyncio.wait_for(task, 5)).status == "cancelled"
    assert await standings(store) == ["cancelled", "cancelled"]


async def test_a_sub_run_whose_run_is_over_can_be_ended_with_the_name_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(run_id: str) -> int:
        left.append(run_id)
        return 0

    left: list[str] = []
    monkeypatch.setattr(held, "end_leftovers", end)
    store = MemoryStore()
    path = spawning(tmp_path, [spawn("x"), "Done."], [ONCE, "part done"], settings={"tool": {"risk": "high"}})
    harness = Harness.from_file(path, store=store)
    run_id = (await harness.run("work", "go")).run_id
    await store.append(Stream("run", run_id), [Entry(kind="status", time=1, content={"status": "cancelled"})])
    (part,) = [one.stream for one in await store.streams("run") if one.parent]
    died = {**held.claim_of(""), "process": ProcessId(pid=2**22 + 1, started="1")}
    await store.append(part, [Entry(kind="resumed", time=1, content=died)])
    with pytest.raises(TenterError, match="is over: it ended cancelled; what it had spawned had not, and ended now"):
        await harness.cancel(run_id)
    assert await standings(store) == ["cancelled", "cancelled"]
    assert (left, await store.approvals()) == ([part.id], [])
    with pytest.raises(TenterError, match=r"is over: it ended cancelled$"):
        await harness.cancel(run_id)


@pytest.mark.parametrize("place", [1, 3, 5])
async def test_a_run_with_a_damaged_entry_can_be_cancelled(tmp_path: Path, place: int) -> None:
    @hook("tool.before", name="ask")
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?")

    database = tmp_path / "journal.db"
    path = acting(tmp_path, act("a"), "Done.")
    harness = Harness.from_file(path, hooks=[ask], store=SqliteStore(database))
    run_id = (await harness.run("work", "go")).run_id
    await harness.close()
    with closing(sqlite3.connect(database)) as tables, tables:
        damage = "UPDATE entries SET content = CAST('[' AS BLOB) WHERE id % 4294967296 = ?"
        assert tables.execute(damage, (place,)).rowcount == 1
    store = SqliteStore(database)
    harness = Harness.from_file(path, hooks=[ask], store=store)
    result = await harness.cancel(run_id, by="ada", reason="it is damaged")
    assert result is not None
    assert (result.status, acted(tmp_path)) == ("cancelled", [])
    summary = await store.summary(Stream("run", run_id))
    await harness.close()
    assert summary is not None
    assert (summary.status, summary.ended is None) == ("cancelled", False)


async def test_what_the_runs_below_a_run_left_running_ends_with_it_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock, ended = MemoryStore(), FakeClock(), list[str]()

    async def end_leftovers(run_id: str) -> int:
        ended.append(run_id)
        return 1

    monkeypatch.setattr("tenter.harness.held.end_leftovers", end_leftovers)
    gone = {"process": ProcessId(7, "gone"), "host": socket.gethostname()}
    for run_id, parent in (("outer", None), ("inner", "outer"), ("innermost", "inner")):
        content = {"task": "work", "envelope": {"parent_run_id": parent}, **gone}
        await store.append(Stream("run", run_id), [Entry(kind="run", time=1, content=content)])
    stream, error = Stream("run", "outer"), ErrorInfo(code="cancelled", message="enough")
    async with claimed(store, stream, by="ada", clock=clock):
        await end_on_record(store, stream, error, now=clock.now())
    assert ended == ["outer", "innermost", "inner"]
    listed = [(one.stream.id, one.status, one.holder) for one in await store.streams("run")]
    assert listed == [(run_id, "cancelled", "") for run_id in ("innermost", "inner", "outer")]
