"""Records of hooks outside the process stand in the journal of the run that they ran for."""

from collections.abc import Mapping

import pytest
from tests.harness.test_ledger import Refusing
from tests.harness.world import ENVELOPE, OP, journal

from tenter.catalogue import ShutdownEvent, ToolCall, ToolCallEvent
from tenter.executors import HookEnded, HookStarted
from tenter.harness.sink import JournalSink
from tenter.journal import JournalError, MemoryStore, Stream

EVENT = ToolCallEvent(envelope=ENVELOPE, op=OP, call=ToolCall(id="c", name="shell"))
PROCESS = Stream("process", "p1")
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
    assert records[0].entry.content == {"id": "h1", "key": "k", "hook": "guard", "point": "tool.invoked.pre", "at": 1.5}


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
