"""Records of hooks outside the process stand in the journal of the run that they ran for."""

from collections.abc import Mapping

import pytest
from tests.harness.test_ledger import Refusing
from tests.harness.world import ENVELOPE, OP, journal

from tenter.catalogue import LoopFacts, LoopStartEvent, Op, ShutdownEvent, ToolCall, ToolCallEvent
from tenter.executors import HookEnded, HookStarted
from tenter.harness.sink import JournalSink
from tenter.journal import JournalError, MemoryStore, Stream
from tenter.kernel import FrozenDict

EVENT = ToolCallEvent(envelope=ENVELOPE, op=OP, call=ToolCall(id="c", name="shell"))
PROCESS = Stream("process", "p1")
LOOP = Stream("loop", "loop-1")
FACTS = LoopFacts(loop=FrozenDict({"id": "loop-1"}))
AT_START = LoopStartEvent(envelope=None, op=Op(id="loop-1/start#1", loop=FACTS), prompt="do it", topic="task.start")
STARTED = HookStarted(id="h1", key="k", hook="guard", point="tool.invoked.pre", at=1.5)


def ended(metadata: Mapping[str, object] | None = None, hook: str = "guard") -> HookEnded:
    return HookEnded(
        id="h1",
        key="k",
        hook=hook,
        point="tool.invoked.pre",
        started_at=1.5,
        ended_at=2.5,
        duration_ms=1000.0,
        result="ok",
        disposition="pass",
        metadata=metadata,
    )


async def test_both_records_stand_in_the_stream_of_the_run() -> None:
    store = MemoryStore()
    sink = JournalSink(store, PROCESS)
    await sink.started(EVENT, STARTED)
    await sink.ended(EVENT, ended())
    records = await journal(store, "run-1")
    assert [(one.entry.kind, one.entry.time) for one in records] == [
        ("hook_started", 1_500_000),
        ("hook_ended", 2_500_000),
    ]
    assert records[0].entry.content == {
        "id": "h1",
        "key": "k",
        "hook": "guard",
        "point": "tool.invoked.pre",
        "at": 1.5,
        "attempt": 1,
    }


async def test_what_belongs_to_no_run_stands_in_the_stream_of_the_process() -> None:
    store = MemoryStore()
    await JournalSink(store, PROCESS).started(ShutdownEvent(reason="closed"), STARTED)
    assert [one.entry.kind async for one in store.read(PROCESS)] == ["hook_started"]


async def test_metadata_of_a_run_add_up_by_hook_until_it_is_forgotten() -> None:
    sink = JournalSink(MemoryStore(), PROCESS)
    assert sink.accumulated(EVENT) == {}
    await sink.ended(EVENT, ended({"a": 1}))
    await sink.ended(EVENT, ended({"b": 2}, hook="other"))
    await sink.ended(EVENT, ended())
    assert sink.accumulated(EVENT) == {"hook_metadata": {"guard": {"a": 1}, "other": {"b": 2}}}
    sink.forget("run-1")
    assert sink.accumulated(EVENT) == {}


async def test_what_could_not_be_recorded_is_raised_and_remembered_until_the_run_is_forgotten() -> None:
    error = JournalError("full", "no room")
    sink = JournalSink(Refusing(error), PROCESS)
    with pytest.raises(JournalError, match="no room"):
        await sink.started(EVENT, STARTED)
    assert sink.trouble("run-1") is error
    assert sink.trouble("run-2") is None
    sink.forget("run-1")
    assert sink.trouble("run-1") is None


async def test_metadata_that_could_not_be_recorded_do_not_count() -> None:
    sink = JournalSink(Refusing(JournalError("full", "no room")), PROCESS)
    with pytest.raises(JournalError):
        await sink.ended(EVENT, ended({"a": 1}))
    assert sink.accumulated(EVENT) == {}


async def test_what_a_loop_fires_stands_in_the_stream_of_the_loop_and_its_runs_in_their_own() -> None:
    store = MemoryStore()
    sink = JournalSink(store, PROCESS)
    await sink.started(AT_START, STARTED)
    await sink.ended(AT_START, ended({"a": 1}))
    inside = ToolCallEvent(envelope=ENVELOPE, op=Op(id="x", loop=FACTS), call=EVENT.call)
    await sink.started(inside, STARTED)
    assert [one.entry.kind async for one in store.read(LOOP)] == ["hook_started", "hook_ended"]
    assert [one.entry.kind for one in await journal(store, "run-1")] == ["hook_started"]
    assert [one.entry.kind async for one in store.read(PROCESS)] == []


async def test_metadata_of_a_loop_replace_those_that_the_same_hook_gave_before() -> None:
    sink = JournalSink(MemoryStore(), PROCESS)
    await sink.ended(AT_START, ended({"a": 1, "b": 2}))
    await sink.ended(AT_START, ended({"c": 3}, hook="other"))
    await sink.ended(AT_START, ended({"a": 4}))
    assert sink.metadata(LOOP) == {"guard": {"a": 4}, "other": {"c": 3}}
    assert sink.accumulated(AT_START) == {"hook_metadata": {"guard": {"a": 4}, "other": {"c": 3}}}
    assert sink.metadata(Stream("loop", "loop-2")) == {}


async def test_a_loop_goes_on_with_the_metadata_that_it_had_in_another_process() -> None:
    sink = JournalSink(MemoryStore(), PROCESS)
    sink.remember(LOOP, FrozenDict({"guard": FrozenDict({"a": 1})}))
    await sink.ended(AT_START, ended({"b": 2}, hook="other"))
    assert sink.accumulated(AT_START) == {"hook_metadata": {"guard": {"a": 1}, "other": {"b": 2}}}


async def test_a_run_in_a_loop_sees_the_loops_metadata_below_its_own() -> None:
    told = FrozenDict({"hook_metadata": FrozenDict({"guard": FrozenDict({"a": 0}), "told": FrozenDict({"t": 1})})})
    op = Op(id="x", loop=LoopFacts(loop=FACTS.loop, accumulated=told))
    event = ToolCallEvent(envelope=ENVELOPE, op=op, call=ToolCall(id="c", name="shell"))
    sink = JournalSink(MemoryStore(), PROCESS)
    assert sink.accumulated(event) == told
    await sink.ended(AT_START, ended({"a": 1}))
    await sink.ended(AT_START, ended({"b": 1}, hook="other"))
    await sink.ended(event, ended({"b": 2}, hook="other"))
    said = {"guard": {"a": 1}, "told": {"t": 1}, "other": {"b": 2}}
    assert sink.accumulated(event) == {"hook_metadata": said}
    assert sink.accumulated(AT_START) == {"hook_metadata": {"guard": {"a": 1}, "other": {"b": 1}}}
    sink.forget("run-1")
    assert sink.metadata(LOOP) == {"guard": {"a": 1}, "other": {"b": 1}}


async def test_what_could_not_be_recorded_of_a_loop_is_remembered_too() -> None:
    error = JournalError("full", "no room")
    sink = JournalSink(Refusing(error), PROCESS)
    with pytest.raises(JournalError, match="no room"):
        await sink.started(AT_START, STARTED)
    assert sink.trouble("loop-1") is error
