"""What is on record is held against what the loop asks for, and given out once; where they part, that is named."""

from typing import Any

import pytest
from tests.harness.test_local import BODIES, CALL, INPUT, engine
from tests.harness.test_spanned import SPAWN
from tests.harness.world import ENVELOPE, journal, lines

from tenter.agent import BLANK, Waiting
from tenter.catalogue import (
    ACTIVITY_FAILED,
    REQUEST_RECEIVED,
    TASK_STATE_CHANGED,
    TOOL_INVOKED,
    ActivityFailedEvent,
    ErrorInfo,
    InputEvent,
    SubtaskResult,
    SubtaskSpawnEvent,
    TaskStateChangedEvent,
    ToolCallEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
)
from tenter.harness.local import LocalEngine
from tenter.harness.parts import Run
from tenter.harness.recording import Recording
from tenter.harness.replay import Incomplete, ReplayDiverged
from tenter.journal import Entry, MemoryStore, Stream
from tenter.kernel import Block, Blocked, Done, Failed, OperationFailed, Unknown, hook
from tenter.testing import FakeClock

STREAM = Stream("run", "run-1")
TOOLS = {"shell": ToolInfo(name="shell", idempotent=True)}
PATH = "1.tool.invoked.0"
CHANGE = TaskStateChangedEvent(envelope=ENVELOPE, op=BLANK, before="running", after="failed", reason="x")
FAILURE = ActivityFailedEvent(envelope=ENVELOPE, op=BLANK, error=ErrorInfo(code="tool", message="no"), step=1)


async def again(store: MemoryStore, *hooks: object, entries: int | None = None, **changes: Any) -> LocalEngine:
    """An engine that goes on with the run as far as these entries of it."""
    records = await journal(store, "run-1")
    part = MemoryStore()
    await part.append(STREAM, [recorded.entry for recorded in records[:entries]])
    fresh = engine(part, *hooks, **changes)
    run: Run = fresh._run  # pyright: ignore[reportPrivateUsage]  # the same, with a recording
    return LocalEngine(run, await Recording.begin(part, STREAM))


def store_of(one: LocalEngine) -> MemoryStore:
    store = one._run.store  # pyright: ignore[reportPrivateUsage]  # what it appends to
    assert isinstance(store, MemoryStore)
    return store


async def recorded(*hooks: object, **changes: Any) -> MemoryStore:
    """A run that received its input and called a tool."""
    store = MemoryStore()
    one = engine(store, *hooks, **changes)
    await one.begin({"task": "work"})
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    await one.run(PATH, TOOL_INVOKED, CALL)
    return store


def counting(fired: list[str]) -> tuple[object, ...]:
    @hook("input.before", "tool.before", "tool.after", observe=True)
    def look(event: Any) -> None:
        fired.append(event.op.id)

    return (look,)


async def test_what_is_on_record_is_given_out_and_nothing_is_done_or_fired() -> None:
    acted, fired = list[str](), list[str]()

    async def act(event: ToolCallEvent) -> object:
        acted.append(event.call.name)
        return ToolResult(output="ok")

    changes: dict[str, Any] = {"bodies": {**BODIES, "tool.invoked": act}, "tools": TOOLS}
    store = await recorded(**changes)
    one = await again(store, *counting(fired), **changes)
    before = lines(await journal(store_of(one), "run-1"))
    assert isinstance(await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT), Done)
    ended = await one.run(PATH, TOOL_INVOKED, CALL)
    assert isinstance(ended, Done)
    assert isinstance(ended.event, ToolResultEvent)
    assert ended.event.result == ToolResult(output="ok")
    assert one.replaying
    assert (acted, fired) == (["shell"], [])
    assert lines(await journal(store_of(one), "run-1")) == before
    assert (one.attempts(PATH), one.worked(PATH)) == (1, ended.event)
    assert isinstance(await one.run(PATH, TOOL_INVOKED, CALL), Done)
    assert not one.replaying
    assert (acted, fired) == (["shell"] * 2, [f"run-1/{PATH}#2"] * 2)


async def test_the_time_and_the_use_are_those_of_the_record() -> None:
    store = await recorded()
    whole = await journal(store, "run-1")
    one = await again(store)
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    await one.run(PATH, TOOL_INVOKED, CALL)
    account = one._run.account  # pyright: ignore[reportPrivateUsage]  # what was settled
    assert (account.used.tool_calls, account.streak) == (1, 1)
    assert one.now() == whole[-1].entry.time / 1e6 == one.now(PATH)


@pytest.mark.parametrize("ending", ["blocked", "failed"])
async def test_however_a_pass_ended_is_how_it_ends_again(ending: str) -> None:
    @hook("tool.before", name="guard")
    def guard(event: ToolCallEvent) -> Block | None:
        return Block("no", code="policy_denied") if ending == "blocked" else None

    async def fails(event: ToolCallEvent) -> object:
        raise OperationFailed("broken", code="tool")

    changes: dict[str, Any] = {"bodies": {**BODIES, "tool.invoked": fails}}
    store = MemoryStore()
    first = engine(store, guard, **changes)
    await first.begin({"task": "work"})
    was = await first.run(PATH, TOOL_INVOKED, CALL)
    assert isinstance(was, Blocked | Failed)
    one = await again(store, guard, **changes)
    assert await one.run(PATH, TOOL_INVOKED, CALL) == was
    assert one.attempts(PATH) == (ending == "failed")


async def asks(store: MemoryStore, path: str, event: Any, operation: Any) -> ReplayDiverged:
    """What is raised where the loop asks for this in place of its input."""
    one = await again(store)
    before = lines(await journal(store_of(one), "run-1"))
    with pytest.raises(ReplayDiverged, match="tenter runs cancel") as raised:
        await one.run(path, operation, event)
    assert lines(await journal(store_of(one), "run-1")) == before
    return raised.value


@pytest.mark.fault(46)
async def test_where_the_loop_asks_for_something_else_the_path_is_named_and_nothing_appended() -> None:
    store, path = await recorded(), "0.request.received.0"
    other = InputEvent(envelope=ENVELOPE, op=BLANK, input="something else")
    given = await asks(store, path, other, REQUEST_RECEIVED)
    assert given.path == path
    assert "is given something else than what is on record" in str(given)
    operation = await asks(store, path, CALL, TOOL_INVOKED)
    assert operation.path == path
    assert "request.received is on record there, and tool.invoked is asked for" in str(operation)
    beyond = await asks(store, "2.tool.invoked.0", CALL, TOOL_INVOKED)
    assert beyond.path == path
    assert "it is on record, and 2.tool.invoked.0 is asked for in its place" in str(beyond)


@pytest.mark.parametrize("event", [CHANGE, FAILURE])
async def test_who_was_told_of_an_end_that_did_not_come_is_told_of_another(event: Any) -> None:
    operation: Any = TASK_STATE_CHANGED if event is CHANGE else ACTIVITY_FAILED
    path = f"1.{operation.name}.0"
    store = await recorded()
    first = await again(store)
    await first.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    await first.run(PATH, TOOL_INVOKED, CALL)
    await first.run(path, operation, event)
    one = await again(store_of(first))
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    await one.run(PATH, TOOL_INVOKED, CALL)
    await one.run("2.tool.invoked.0", TOOL_INVOKED, CALL)
    assert not one.replaying
    assert lines(await journal(store_of(one), "run-1"))[-1] == "finished 2.tool.invoked.0"


async def test_the_next_pass_of_a_path_that_was_left_out_is_numbered_after_it() -> None:
    store = MemoryStore()
    first = engine(store)
    await first.begin({"task": "work"})
    await first.run("1.task.state_changed.0", TASK_STATE_CHANGED, CHANGE)
    one = await again(store)
    other = TaskStateChangedEvent(envelope=ENVELOPE, op=BLANK, before="running", after="completed")
    await one.run("1.task.state_changed.0", TASK_STATE_CHANGED, other)
    told = [
        (recorded.entry.content["pass"], recorded.entry.kind)
        for recorded in await journal(store_of(one), "run-1")
        if "pass" in recorded.entry.content
    ]
    assert told == [(1, "started"), (1, "finished"), (2, "started"), (2, "finished")]


async def test_what_told_of_an_end_that_did_not_come_is_passed_over_by_every_process_after_it() -> None:
    path, store = "1.task.state_changed.0", MemoryStore()
    one = engine(store)
    await one.begin({"task": "work"})
    await one.run(path, TASK_STATE_CHANGED, CHANGE)
    for number, after in enumerate(("completed", "awaiting_approval", "cancelled"), 2):
        one = await again(store_of(one))
        other = TaskStateChangedEvent(envelope=ENVELOPE, op=BLANK, before="running", after=after)
        done = await one.run(path, TASK_STATE_CHANGED, other)
        assert isinstance(done, Done)
        await one.run(f"{number}.tool.invoked.0", TOOL_INVOKED, CALL)
        last = await again(store_of(one))
        await last.run(path, TASK_STATE_CHANGED, other)
        await last.run(f"{number}.tool.invoked.0", TOOL_INVOKED, CALL)
        assert last.replaying
        one = await again(store_of(one), entries=-4)  # the tool was not called: the change alone told of an end
    assert [place for place in lines(await journal(store_of(one), "run-1")) if place.startswith("finished")] == [
        f"finished {path}"
    ] * 4


async def test_a_sub_run_that_ended_with_the_run_may_be_told_of_otherwise_when_that_is_gone_through_again() -> None:
    async def waits(event: SubtaskSpawnEvent) -> Waiting:
        return Waiting(requests=())

    def ending(model_calls: int) -> Any:
        async def ends(event: SubtaskSpawnEvent) -> SubtaskResult:
            return SubtaskResult(run_id="run-9", task="part", status="cancelled", model_calls=model_calls)

        return {"spawn": waits, "end_subtask": ends}

    store, path = MemoryStore(), "1.subtask.spawned.0"
    one = engine(store, **ending(1))
    await one.begin({"task": "work"})
    await one.spawn(path, SPAWN)
    assert [each.model_calls for each in await one.end_subtasks()] == [1]
    one = await again(store, **ending(0))
    await one.spawn(path, SPAWN)
    told = lines(await journal(store_of(one), "run-1"))
    assert [each.status for each in await one.end_subtasks()] == ["cancelled"]
    assert lines(await journal(store_of(one), "run-1")) == told


async def test_work_that_was_begun_and_may_not_be_done_twice_is_unknown() -> None:
    store = await recorded()
    entries = lines(await journal(store, "run-1")).index(f"acting {PATH}") + 1
    for tools in ({}, {"shell": ToolInfo(name="shell")}):
        acted = list[str]()

        async def act(event: ToolCallEvent, acted: list[str] = acted) -> object:
            acted.append(event.call.name)
            return ToolResult(output="ok")

        one = await again(store, entries=entries, tools=tools, bodies={**BODIES, "tool.invoked": act})
        await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
        ended = await one.run(PATH, TOOL_INVOKED, CALL)
        assert isinstance(ended, Unknown)
        assert ended.digest == one.digest(CALL)
        assert (acted, one.attempts(PATH)) == ([], 1)


@pytest.mark.parametrize("line", ["acting", "acted"])
async def test_work_that_was_begun_goes_on_from_where_it_stands_without_its_pre_hooks(line: str) -> None:
    fired, acted = list[str](), list[int]()

    @hook("tool.before", observe=True)
    def before(event: ToolCallEvent) -> None:
        fired.append("before")

    @hook("tool.after", observe=True)
    def later(event: ToolResultEvent) -> None:
        fired.append("after")

    async def act(event: ToolCallEvent) -> object:
        acted.append(event.op.attempt)
        return ToolResult(output="ok")

    store = await recorded(tools=TOOLS)
    entries = lines(await journal(store, "run-1")).index(f"{line} {PATH}") + 1
    one = await again(store, before, later, entries=entries, tools=TOOLS, bodies={**BODIES, "tool.invoked": act})
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    ended = await one.run(PATH, TOOL_INVOKED, CALL)
    assert isinstance(ended, Done)
    assert fired == ["after"]
    assert acted == ([2] if line == "acting" else [])
    account = one._run.account  # pyright: ignore[reportPrivateUsage]  # what was settled
    assert account.used.tool_calls == 1


async def test_side_by_side_what_one_branch_does_not_ask_for_another_may() -> None:
    store = await recorded()
    one = await again(store)
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)

    async def branch(index: int) -> str:
        ended = await one.run(f"1.tool.invoked.{index}", TOOL_INVOKED, CALL)
        return type(ended).__name__

    assert await one.together([branch(1), branch(0)]) == ["Done", "Done"]
    started = [line for line in lines(await journal(store_of(one), "run-1")) if line.startswith("started 1.")]
    assert started == ["started 1.tool.invoked.0", "started 1.tool.invoked.1"]


@pytest.mark.parametrize("over", [True, False])
async def test_a_run_that_is_over_or_frozen_does_nothing_that_is_not_on_record(over: bool) -> None:
    store = await recorded()
    if over:
        await store.append(STREAM, [Entry(kind="status", time=1, content={"status": "cancelled"})])
    one = await again(store)
    if not over:
        one.freeze()
    before = lines(await journal(store_of(one), "run-1"))
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    await one.run(PATH, TOOL_INVOKED, CALL)
    with pytest.raises(Incomplete):
        await one.run("2.tool.invoked.0", TOOL_INVOKED, CALL)
    assert lines(await journal(store_of(one), "run-1")) == before
    if not over:
        one.thaw()
        assert isinstance(await one.run("2.tool.invoked.1", TOOL_INVOKED, CALL), Done)


async def test_a_record_that_was_left_is_asked_for_no_more() -> None:
    store = await recorded()
    one = await again(store)
    one.leave_record()
    assert isinstance(await one.run("5.tool.invoked.0", TOOL_INVOKED, CALL), Done)


async def test_side_by_side_the_time_is_that_of_the_last_that_ended_whoever_is_asked_for_last() -> None:
    store, clock = MemoryStore(), FakeClock()
    first = engine(store, clock=clock)
    await first.begin({"task": "work"})
    for index in range(2):
        clock.advance(10)
        await first.run(f"1.tool.invoked.{index}", TOOL_INVOKED, CALL)
    one = await again(store)
    for index in (1, 0):
        await one.run(f"1.tool.invoked.{index}", TOOL_INVOKED, CALL)
    assert one.now() == one.now("1.tool.invoked.1") == clock.now()
    assert one.now("1.tool.invoked.0") == clock.now() - 10
