"""How each pass of a run is recorded, and what may begin once that is on disk."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.harness.test_local import CALL, INPUT, Choosy, Watched, engine
from tests.harness.world import ENVELOPE, journal, lines

from tenter.agent import BLANK
from tenter.catalogue import (
    REQUEST_RECEIVED,
    TASK_STATE_CHANGED,
    TOOL_INVOKED,
    InputEvent,
    Op,
    TaskStateChangedEvent,
    ToolCallEvent,
    ToolInfo,
    ToolResult,
)
from tenter.journal import JournalError, MemoryStore
from tenter.kernel import Block, Blocked, Event, hook
from tenter.testing import FakeClock


async def test_a_leaf_is_recorded_in_four_entries_and_a_fact_in_two() -> None:
    store = MemoryStore()
    one = engine(store)
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    change = TaskStateChangedEvent(envelope=ENVELOPE, op=BLANK, before="pending", after="running")
    await one.run("0.task.state_changed.0", TASK_STATE_CHANGED, change)
    assert lines(await journal(store, "run-1")) == [
        "started 0.request.received.0",
        "acting 0.request.received.0",
        "acted 0.request.received.0",
        "finished 0.request.received.0",
        "started 0.task.state_changed.0",
        "finished 0.task.state_changed.0",
    ]


async def test_a_path_that_is_run_again_is_its_next_pass() -> None:
    store, seen = MemoryStore(), list[Any]()

    @hook("input.before", observe=True)
    def look(event: InputEvent) -> None:
        seen.append(event.op)

    one = engine(store, look)
    event = InputEvent(envelope=ENVELOPE, op=Op(id="", deadline=9e9), input="go")
    for _ in range(2):
        await one.run("0.request.received.0", REQUEST_RECEIVED, event)
    assert [(op.id, op.pass_, op.attempt, op.deadline) for op in seen] == [
        ("run-1/0.request.received.0#1", 1, 1, 9e9),
        ("run-1/0.request.received.0#2", 2, 2, 9e9),
    ]


async def test_a_pass_that_was_refused_before_its_body_is_no_attempt() -> None:
    seen = list[int]()

    @hook("input.before")
    def refuse(event: InputEvent) -> Block:
        seen.append(event.op.attempt)
        return Block("no")

    one = engine(MemoryStore(), refuse)
    for _ in range(2):
        assert isinstance(await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT), Blocked)
    assert seen == [1, 1]


@pytest.mark.promise(9)
@pytest.mark.parametrize("idempotent", [False, True])
async def test_that_a_tool_will_act_is_on_disk_before_it_does_unless_it_may_act_twice(
    tmp_path: Path, idempotent: bool
) -> None:
    store = Watched(tmp_path / "journal.db")
    found: list[tuple[list[str], bool]] = []

    async def look(event: ToolCallEvent) -> object:
        with sqlite3.connect(tmp_path / "journal.db") as other:
            kinds = [kind for (kind,) in other.execute("SELECT kind FROM entries ORDER BY id")]
        other.close()
        found.append((kinds, store.durable[-1]))
        return ToolResult(output="")

    tools = {"shell": ToolInfo(name="shell", idempotent=idempotent)}
    await engine(store, bodies={"tool.invoked": look}, tools=tools).run("1.tool.invoked.0", TOOL_INVOKED, CALL)
    await store.close()
    assert found == [(["started", "acting"], not idempotent)]


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", ["started", "acting"])
async def test_a_tool_does_not_act_when_that_cannot_be_recorded(kind: str) -> None:
    acted = list[str]()

    async def act(event: ToolCallEvent) -> object:
        acted.append(event.call.name)
        return ToolResult(output="")

    with pytest.raises(JournalError):
        await engine(Choosy(kind), bodies={"tool.invoked": act}).run("1.tool.invoked.0", TOOL_INVOKED, CALL)
    assert acted == []


@pytest.mark.fault(38)
async def test_a_tool_does_not_act_when_a_hooks_record_is_missing() -> None:
    acted = list[str]()

    async def act(event: ToolCallEvent) -> object:
        acted.append(event.call.name)
        return ToolResult(output="")

    one = engine(MemoryStore(), bodies={"tool.invoked": act}, trouble=lambda: JournalError("full", "no room"))
    with pytest.raises(JournalError, match="no room"):
        await one.run("1.tool.invoked.0", TOOL_INVOKED, CALL)
    assert acted == []


async def test_the_time_is_that_of_the_last_outcome_and_is_on_record() -> None:
    store, clock = MemoryStore(), FakeClock(start=1000.123_456_78)

    async def slow(event: Event) -> object:
        clock.advance(2)
        return "go"

    one = engine(store, clock=clock, began=1000.123457, bodies={"request.received": slow})
    await one.begin({"task": "work"})
    first = one.now()
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    clock.advance(5)
    records = await journal(store, "run-1")
    assert (first, one.now()) == (records[0].entry.time / 1e6, records[-1].entry.time / 1e6)
    assert one.now() == pytest.approx(first + 2)
