"""Sub-runs (D§4.3): runs of their own in the journal, of the run around them in everything else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    BOTH,
    Processes,
    act,
    acted,
    cut,
    journal,
    of_kind,
    processes,
    spawn,
    spawning,
    statuses,
)

from tenter import Block, Harness, Hook, RunResult, hook
from tenter.catalogue import (
    ModelRequestEvent,
    RunEndEvent,
    RunStartEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    ToolCallEvent,
    Usage,
)
from tenter.journal import JournalError, MemoryStore, Stream
from tenter.kernel import TenterError
from tenter.testing import FakeClock, FakeRandom

DONE = "The part is done."


class Heard(Hook):
    """A hook of the outer run hears of the inner one."""

    name = "heard"
    observe = True

    def __init__(self) -> None:
        self.envelopes: dict[str, Any] = {}
        self.heard: list[str] = []
        self.tools: list[ToolCallEvent] = []
        self.told: list[str] = []
        self.results: list[SubtaskSpawnedEvent] = []
        self.ends: list[RunEndEvent] = []

    def on_run_start(self, event: RunStartEvent) -> None:
        self.envelopes[event.task.name] = event.envelope
        self.heard.append(f"start {event.task.name} {event.input}")

    def on_run_end(self, event: RunEndEvent) -> None:
        self.heard.append(f"end {event.task.name} {event.status}")
        self.ends.append(event)

    def on_subtask_spawned_pre(self, event: SubtaskSpawnEvent) -> None:
        self.heard.append("spawn")

    def on_subtask_spawned_post(self, event: SubtaskSpawnedEvent) -> None:
        self.heard.append(f"spawned {event.result.status}")
        self.results.append(event)

    def on_tool_before(self, event: ToolCallEvent) -> None:
        self.tools.append(event)

    def on_model_before(self, event: ModelRequestEvent) -> None:
        self.told.append(event.request.messages[-1].content)


ORDER = ["start work go", "spawn", "start part first", "end part completed", "spawned completed", "end work completed"]


async def child_of(made: Processes, run_id: str) -> str:
    """The id of the one run that it spawned."""
    (child,) = [one.stream.id for one in await made.store.streams("run") if one.parent == run_id]
    return child


@pytest.mark.parametrize("kind", BOTH)
async def test_a_sub_run_has_a_stream_of_its_own_and_the_hooks_and_the_story_of_the_run_around_it(
    tmp_path: Path, kind: str
) -> None:
    heard = Heard()
    path = spawning(tmp_path, [spawn("first"), "All done."], [act("a"), {"text": DONE, "cost_usd": 0.5}])
    async with processes(path, kind) as made:
        result = await made.harness(heard).run("work", "go", correlation_id="story", principal="ada")
        child = await child_of(made, result.run_id)
        records = await journal(made.store, child)
        assert await statuses(made.store, child) == ["completed"]
        with pytest.raises(TenterError, match=f"the run {child} is a part of the run {result.run_id}: name that"):
            await made.harness().resume(child)
    inner, outer = heard.envelopes["part"], heard.envelopes["work"]
    assert (result.status, result.output, heard.heard) == ("completed", "All done.", ORDER)
    assert (inner.run_id, inner.parent_run_id, inner.task.name, inner.task.version) == (child, outer.run_id, "part", 2)
    assert (inner.correlation_id, inner.principal) == ("story", "ada") == (outer.correlation_id, outer.principal)
    assert heard.tools[0].op.parent == f"{result.run_id}/1.subtask.spawned.0#1"
    assert heard.results[0].result.run_id == child
    assert heard.told[-1] == DONE
    first = of_kind(records, "run")[0]
    assert (first["root"], first["depth"], first["input"]) == (result.run_id, 2, "first")
    assert acted(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_sub_run_that_waits_makes_the_run_around_it_wait_and_is_gone_on_with_through_it(
    tmp_path: Path, kind: str
) -> None:
    path = spawning(tmp_path, [spawn("first"), "All done."], [act("a"), DONE], settings=RISKY)
    before, after = Heard(), Heard()
    async with processes(path, kind) as made:
        waiting = await made.harness(before).run("work", "go")
        child = await child_of(made, waiting.run_id)
        assert waiting.status == "awaiting_approval"
        assert waiting.approval is not None
        assert (waiting.approval.run_id, waiting.approval.root_run_id, waiting.approval.task) == (
            child,
            waiting.run_id,
            "part",
        )
        assert await statuses(made.store, child) == ["awaiting_approval"]
        with pytest.raises(TenterError, match=f"is a part of the run {waiting.run_id}: name that"):
            await made.harness().resume(child)
        with pytest.raises(TenterError, match=f"is a part of the run {waiting.run_id}: name that"):
            await made.harness().cancel(child)
        still = await made.harness(after).resume(waiting.run_id)
        assert (still.status, still.approvals, after.heard) == ("awaiting_approval", waiting.approvals, [])
        await made.harness().approve(waiting.run_id, by="ada")
        result = await made.harness(after).resume(waiting.run_id)
        assert await statuses(made.store, child) == ["awaiting_approval", "completed"]
    assert (result.status, result.output, acted(tmp_path)) == ("completed", "All done.", ["a"])
    assert before.heard + after.heard == ORDER
    assert after.told[-1] == DONE


RISKY: Mapping[str, object] = {"tool": {"risk": "high"}}


@pytest.mark.parametrize("kind", BOTH)
async def test_a_rejection_in_a_sub_run_is_told_to_the_model_of_the_run_around_it(tmp_path: Path, kind: str) -> None:
    heard = Heard()
    path = spawning(tmp_path, [spawn("first"), "Never mind."], [act("a"), DONE], settings=RISKY)
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        await made.harness().reject(waiting.run_id, by="ada", reason="no")
        result = await made.harness(heard).resume(waiting.run_id)
    assert (result.status, result.output, acted(tmp_path)) == ("completed", "Never mind.", [])
    assert heard.told[-1] == "The task 'part' ended blocked: ada rejected tool.invoked: no"


@pytest.mark.parametrize("kind", BOTH)
async def test_what_a_sub_run_used_is_of_the_run_around_it_too(tmp_path: Path, kind: str) -> None:
    use = {"usage": {"input_tokens": 3, "output_tokens": 1}, "cost_usd": 0.25}
    path = spawning(
        tmp_path,
        [{**spawn("first"), **use}, {"text": "All done.", **use}],
        [{**act("a"), **use}, {"text": DONE, **use}],
        settings=RISKY,
    )
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        await made.harness().approve(waiting.run_id, by="ada")
        result = await made.harness().resume(waiting.run_id)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (12, 4)
    assert (result.cost_usd, result.cost_known) == (1.0, True)


async def test_a_refused_sub_run_is_told_to_the_model_and_leaves_no_run(tmp_path: Path) -> None:
    @hook("subtask.spawned.pre", name="guard")
    def guard(event: SubtaskSpawnEvent) -> Block:
        return Block("not now")

    heard = Heard()
    async with processes(spawning(tmp_path, [spawn("first"), "Done."], [DONE]), "memory") as made:
        result = await made.harness(guard, heard).run("work", "go")
        assert [one.stream.id for one in await made.store.streams("run")] == [result.run_id]
    assert result.status == "completed"
    assert heard.told[-1] == "Refused by the hook 'guard': not now"
    assert heard.heard == ["start work go", "spawn", "spawned blocked", "end work completed"]


async def test_a_hook_may_answer_in_place_of_a_sub_run(tmp_path: Path) -> None:
    @hook("subtask.spawned.in", name="cache")
    def cache(event: SubtaskSpawnEvent) -> object:
        return event.result(
            SubtaskResult(run_id=event.task.id, task="part", status="completed", output="from before", cost_usd=0.0)
        )

    heard = Heard()
    async with processes(spawning(tmp_path, [spawn("first"), "Done."], [DONE]), "memory") as made:
        result = await made.harness(cache, heard).run("work", "go")
        assert len(await made.store.streams("run")) == 1
    assert (result.status, heard.told[-1]) == ("completed", "from before")


@pytest.mark.parametrize("point", ["subtask.spawned.pre", "subtask.spawned.in"])
async def test_a_hook_may_change_what_a_sub_run_is_given(tmp_path: Path, point: str) -> None:
    @hook(point, name="narrows")
    def narrows(event: SubtaskSpawnEvent) -> SubtaskSpawnEvent:
        return event.replace(input="a part of it")

    heard = Heard()
    async with processes(spawning(tmp_path, [spawn("all"), "Done."], [DONE]), "memory") as made:
        assert (await made.harness(narrows, heard).run("work", "go")).status == "completed"
    assert "start part a part of it" in heard.heard
    assert heard.results[0].input == "a part of it"


async def test_a_hook_of_the_work_is_asked_once_however_often_the_sub_run_waits(tmp_path: Path) -> None:
    asked: list[str] = []

    @hook("subtask.spawned.in", name="looks")
    def looks(event: Any) -> None:
        asked.append(event.op.id)

    path = spawning(tmp_path, [spawn("first"), "Done."], [act("a"), act("b"), DONE], settings=RISKY)
    async with processes(path, "memory") as made:
        result = await made.harness(looks).run("work", "go")
        for _ in range(2):
            await made.harness().approve(result.run_id, by="ada")
            result = await made.harness(looks).resume(result.run_id)
    assert (result.status, acted(tmp_path)) == ("completed", ["a", "b"])
    assert asked == [f"{result.run_id}/1.subtask.spawned.0#1"]


async def test_a_sub_run_that_fails_is_told_to_the_model(tmp_path: Path) -> None:
    heard = Heard()
    async with processes(spawning(tmp_path, [spawn("first"), "Oh."], [act("a")]), "memory") as made:
        result = await made.harness(heard).run("work", "go")
    assert (result.status, result.output) == ("completed", "Oh.")
    assert heard.told[-1].startswith("The task 'part' ended failed: the scripted model has no turn 2")


@pytest.mark.parametrize("kind", BOTH)
async def test_sub_runs_side_by_side_end_in_the_order_of_their_calls_and_wait_together(
    tmp_path: Path, kind: str
) -> None:
    heard = Heard()
    settings = {**RISKY, "work": {"parallel_tools": True}}
    path = spawning(tmp_path, [spawn("first", "second"), "Done."], [act("a"), DONE], settings=settings)
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        assert len({request.run_id for request in waiting.approvals}) == 2
        for request in waiting.approvals:
            await made.harness().approve(waiting.run_id, request.id, by="ada")
        result = await made.harness(heard).resume(waiting.run_id)
        children = [one for one in await made.store.streams("run") if one.parent == waiting.run_id]
    assert (result.status, acted(tmp_path)) == ("completed", ["a", "a"])
    assert {child.status for child in children} == {"completed"}
    assert len(children) == 2


async def whole(path: Path) -> tuple[MemoryStore, RunResult, str]:
    store = MemoryStore()
    result = await Harness.from_file(path, store=store, clock=FakeClock(), random=FakeRandom()).run("work", "go")
    (child,) = [one.stream.id for one in await store.streams("run") if one.parent]
    return store, result, child


@pytest.mark.promise(9)
async def test_a_sub_run_whose_process_ended_is_gone_on_with_and_its_tool_acts_once(tmp_path: Path) -> None:
    path = spawning(tmp_path, [spawn("first"), "All done."], [act("a"), DONE])
    source, result, child = await whole(path)
    outer, inner = await journal(source, result.run_id), await journal(source, child)
    spawned = [one.entry.content.get("phase") for one in outer if "subtask" in str(one.entry.content.get("path"))]
    began = next(place for place, one in enumerate(outer, 1) if one.entry.content.get("phase") == "in")
    assert spawned == ["pre", "pre", "in", "in", "post", "post"]
    for entries in (1, 5, *(range(len(inner) - 8, len(inner) + 1))):
        (tmp_path / "acted").unlink(missing_ok=True)
        store, heard = MemoryStore(), Heard()
        await cut(source, result.run_id, began, store)
        await cut(source, child, entries, store)
        again = await Harness.from_file(path, hooks=[heard], store=store, clock=FakeClock()).resume(result.run_id)
        done = bool(of_kind(inner[:entries], "finished", "1.tool.invoked.0"))
        assert (again.status, again.output) == ("completed", "All done."), entries
        assert acted(tmp_path) == ([] if done else ["a"]), entries
        told = inner[-1].entry.kind == "released" and entries >= len(inner) - 1
        assert heard.heard.count("end part completed") == (not told), entries


async def test_a_sub_run_that_was_cancelled_as_its_process_ended_is_what_the_run_around_it_hears(
    tmp_path: Path,
) -> None:
    path = spawning(tmp_path, [spawn("first"), "All done."], [act("a"), DONE])
    source, result, child = await whole(path)
    outer, inner = await journal(source, result.run_id), await journal(source, child)
    began = next(place for place, one in enumerate(outer, 1) if one.entry.content.get("phase") == "in")
    acting = next(place for place, one in enumerate(inner, 1) if one.entry.content.get("path") == "1.tool.invoked.0")
    end = next(one.entry for one in inner if one.entry.kind == "status")
    store, heard = MemoryStore(), Heard()
    await cut(source, result.run_id, began, store)
    await cut(source, child, acting, store)
    cancelled = type(end)(kind="status", time=end.time, content={"status": "cancelled", "code": "cancelled"})
    await store.append(Stream("run", child), [cancelled])
    again = await Harness.from_file(path, hooks=[heard], store=store, clock=FakeClock()).resume(result.run_id)
    assert (again.status, again.output) == ("completed", "All done.")
    assert heard.told[-1].startswith("The task 'part' ended cancelled: how it came to that was not stored")
    assert [(one.result.model_calls, one.result.tool_calls) for one in heard.results] == [(1, 0)]
    assert heard.heard == ["end part cancelled", "spawned cancelled", "end work completed"]


@pytest.mark.parametrize("kind", BOTH)
async def test_what_a_sub_run_used_that_ends_with_the_run_around_it_is_told_of_that(tmp_path: Path, kind: str) -> None:
    used = {"usage": {"input_tokens": 60, "output_tokens": 40}, "cost_usd": 0.5}
    asks = {**spawn("first"), "cost_usd": 0}
    path = spawning(tmp_path, [asks, "All done."], [{**act("a"), **used}, DONE], settings=RISKY)
    heard = Heard()
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        ended = await made.harness(heard).cancel(waiting.run_id)
        stored = of_kind(await journal(made.store, waiting.run_id), "result")[-1]
    assert ended is not None
    assert (ended.status, ended.usage, ended.cost_usd) == ("cancelled", Usage(input_tokens=60, output_tokens=40), 0.5)
    assert [(event.task.name, event.usage, event.cost_usd) for event in heard.ends] == [
        ("part", ended.usage, 0.5),
        ("work", ended.usage, 0.5),
    ]
    assert (stored["usage"]["input_tokens"], stored["cost_usd"]) == (60, 0.5)


class Fails(MemoryStore):
    """Takes nothing of one run, so many times."""

    run_id = ""
    times = 0

    async def append(self, stream: Stream, *args: Any, **named: Any) -> Any:
        if stream.id == self.run_id and self.times:
            self.times -= 1
            raise JournalError("full", "no room")
        return await super().append(stream, *args, **named)


@pytest.mark.parametrize(("times", "tokens"), [(1, 200), (2, 100)])
async def test_what_a_sub_run_used_is_told_also_where_another_cannot_be_ended(
    tmp_path: Path, times: int, tokens: int
) -> None:
    used = {"usage": {"input_tokens": 60, "output_tokens": 40}, "cost_usd": 0.5}
    asks = {**spawn("first", "second"), "cost_usd": 0}
    settings = {**RISKY, "work": {"parallel_tools": True}}
    path, store = spawning(tmp_path, [asks, "All done."], [{**act("a"), **used}, DONE], settings=settings), Fails()
    harness = Harness.from_file(path, store=store, clock=FakeClock())
    waiting = await harness.run("work", "go")
    store.run_id, store.times = waiting.approvals[0].run_id, times
    ended = await harness.cancel(waiting.run_id)
    assert ended is not None
    assert (ended.status, ended.usage.input_tokens + ended.usage.output_tokens) == ("failed", tokens)
