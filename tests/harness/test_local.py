"""The local engine: what it journals, when, and what it makes of records, watchers and the two ends of a run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.test_ledger import Refusing
from tests.harness.world import BOTH, ENVELOPE, STORES, journal, lines, of_kind, statuses

from tenter.agent import BLANK, Waiting
from tenter.catalogue import (
    CATALOGUE,
    REQUEST_RECEIVED,
    ApprovalDecision,
    ApprovalReason,
    ApprovalRequest,
    Budgets,
    ErrorInfo,
    InputEvent,
    Limits,
    PersistenceWriteEvent,
    RunEndEvent,
    RunStartEvent,
    ToolCall,
    ToolCallEvent,
    ToolResult,
)
from tenter.controls import FUZZY_PAIRS, Account
from tenter.harness.local import LocalEngine
from tenter.harness.parts import Run
from tenter.journal import JournalError, MemoryStore, SqliteStore, Store
from tenter.kernel import Done, Event, FrozenDict, Redactor, Runtime, Trace, hook
from tenter.testing import FakeClock

TASK = ENVELOPE.task
START = RunStartEvent(envelope=ENVELOPE, op=BLANK, task=TASK, input="go")
END = RunEndEvent(envelope=ENVELOPE, op=BLANK, task=TASK, input="go", status="completed", output="done")
INPUT = InputEvent(envelope=ENVELOPE, op=BLANK, input="go")
CALL = ToolCallEvent(envelope=ENVELOPE, op=BLANK, call=ToolCall(id="c", name="shell"))
REQUEST = ApprovalRequest(
    id="q1",
    run_id="run-1",
    operation="tool.invoked",
    path="1.tool.invoked.0",
    call={},
    digest="sha256:1",
    reasons=(ApprovalReason(hook="guard", reason="sure?", code="approval_required"),),
    requested_at=1.0,
)
WAITING = Waiting(requests=(REQUEST,))


async def received(event: InputEvent) -> object:
    return event.input


async def ran(event: ToolCallEvent) -> object:
    return ToolResult(output="ok")


async def classified(event: Any) -> object:
    return event.error


BODIES: Mapping[str, Callable[[Any], Awaitable[object]]] = {
    "request.received": received,
    "tool.invoked": ran,
    "activity.failed": classified,
}


async def spawns_nothing(event: object) -> Any:
    raise AssertionError(f"nothing is spawned, and {event!r} was asked for")


async def no_pause(seconds: float) -> bool:
    raise AssertionError(f"nothing waits, and {seconds} s were asked for")


def engine(store: Store, *hooks: object, **changes: Any) -> LocalEngine:
    settings: dict[str, Any] = {
        "envelope": ENVELOPE,
        "runtime": Runtime(CATALOGUE, hooks),
        "redactor": Redactor(),
        "store": store,
        "trace": Trace(),
        "clock": FakeClock(),
        "pause": no_pause,
        "seed": "seed",
        "began": FakeClock().now(),
        "bodies": BODIES,
        "account": Account(Budgets()),
        "spawn": spawns_nothing,
        "end_subtask": spawns_nothing,
        **changes,
    }
    return LocalEngine(Run(**settings))


class Watched(SqliteStore):
    """Remembers of each append whether it was to be on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.durable: list[bool] = []

    async def append(self, *args: Any, durable: bool = False, **named: Any) -> Any:
        self.durable.append(durable)
        return await super().append(*args, durable=durable, **named)


@pytest.mark.promise(9)
async def test_both_ends_of_a_run_are_on_disk_when_it_is_told_that_they_ended(tmp_path: Path) -> None:
    store = Watched(tmp_path / "journal.db")
    one = engine(store)
    await one.open(START)
    assert store.durable == [False, True]
    await one.close(END)
    assert (lines(await journal(store, "run-1"))[-1], store.durable[-1]) == ("finished 0.run.0", True)
    await store.close()


async def test_both_ends_of_a_run_have_the_same_op_by_which_a_hook_pairs_them() -> None:
    store, seen = MemoryStore(), list[tuple[str, str]]()

    @hook("run.start", "run.end", observe=True)
    def look(event: RunStartEvent | RunEndEvent) -> None:
        seen.append((type(event).__name__, event.op.id))

    one = engine(store, look)
    await one.open(START)
    await one.close(END)
    assert seen == [("RunStartEvent", "run-1/0.run.0#1"), ("RunEndEvent", "run-1/0.run.0#1")]
    records = await journal(store, "run-1")
    assert [content["phase"] for content in of_kind(records, "started")] == ["pre", "post"]
    assert [content["phase"] for content in of_kind(records, "finished")] == ["pre", "post"]


async def test_what_a_hook_changed_at_the_start_is_on_record_and_in_force() -> None:
    store, account = MemoryStore(), Account(Budgets(tokens=9, tool_calls=1))

    @hook("run.start")
    def tighten(event: RunStartEvent) -> RunStartEvent:
        return event.replace(input="stop", limits=Limits(budgets=Budgets(tokens=5, tool_calls=7)))

    opened = await engine(store, tighten, account=account).open(START)
    assert isinstance(opened, Done)
    assert opened.event.input == "stop"
    (finished,) = of_kind(await journal(store, "run-1"), "finished")
    assert finished["event"]["input"] == "stop"
    assert (account.budgets.tokens, account.budgets.tool_calls) == (5, 1)


async def test_the_end_is_on_record_before_it_is_told_and_told_once() -> None:
    store, found = MemoryStore(), list[list[str]]()

    @hook("run.end", observe=True)
    async def look(event: RunEndEvent) -> None:
        found.append([one.entry.kind for one in await journal(store, "run-1")])

    one = engine(store, look)
    await one.close(END)
    await one.close(END)
    assert found == [["status", "result", "started"]]
    assert one.closed


async def test_an_end_is_told_even_when_the_caller_is_cancelled_meanwhile() -> None:
    store, heard, go_on = MemoryStore(), list[str](), asyncio.Event()

    @hook("run.end", observe=True)
    async def first(event: RunEndEvent) -> None:
        heard.append("first")
        await go_on.wait()

    @hook("run.end", observe=True, priority=1)
    async def last(event: RunEndEvent) -> None:
        heard.append("last")

    task = asyncio.ensure_future(engine(store, first, last).close(END))
    while not heard:
        await asyncio.wait({task}, timeout=0.01)
    task.cancel()
    await asyncio.wait({task}, timeout=0.01)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert heard == ["first", "last"]
    assert lines(await journal(store, "run-1"))[-1] == "finished 0.run.0"


async def test_an_error_is_masked_as_people_may_see_it() -> None:
    store, seen = MemoryStore(), list[Any]()

    @hook("run.end", observe=True)
    def look(event: RunEndEvent) -> None:
        seen.append(event.error)

    error = ErrorInfo(code="policy", message="password: hunter2")
    await engine(store, look, redactor=Redactor(fuzzy=FUZZY_PAIRS)).close(END.replace(status="failed", error=error))
    assert "hunter2" not in seen[0].message
    assert "hunter2" not in str(await journal(store, "run-1"))


@pytest.mark.parametrize("kind", BOTH)
async def test_a_request_for_a_person_is_on_disk_before_the_engine_tells_of_it(tmp_path: Path, kind: str) -> None:
    store, seen = STORES[kind](tmp_path), list[list[str]]()

    @hook("persistence.write.pre", observe=True)
    async def look(event: PersistenceWriteEvent) -> None:
        seen.append([one.entry.kind for one in await journal(store, "run-1")])

    await engine(store, look).suspend(WAITING)
    records = await journal(store, "run-1")
    await store.close()
    assert seen == [["approval_requested"]]
    assert [recorded.entry.kind for recorded in records] == ["approval_requested", "checkpoint"]
    assert records[0].entry.content["reasons"][0]["reason"] == "sure?"  # type: ignore[index]  # as it is read
    assert records[1].entry.content == {
        "key": "run-1",
        "approval": "q1",
        "path": "1.tool.invoked.0",
    }


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_is_let_go_of_as_waiting_only_where_nobody_has_decided(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    one = engine(store)
    await one.begin({"task": "work"})
    await one.suspend(WAITING)
    assert await one.decisions(WAITING.requests) is None
    assert await statuses(store, "run-1") == ["awaiting_approval"]
    decision = ApprovalDecision(request_id="q1", run_id="run-1", decision="approve", by="ada", decided_at=2.0)
    await store.decide(decision)
    assert await one.decisions(WAITING.requests) == (decision,)
    assert await statuses(store, "run-1") == ["awaiting_approval"]
    await store.close()


async def test_a_request_that_could_not_be_recorded_is_not_told() -> None:
    told = list[Event]()

    @hook("persistence.write.pre", observe=True)
    def look(event: PersistenceWriteEvent) -> None:
        told.append(event)

    one = engine(Refusing(JournalError("full", "no room")), look)
    with pytest.raises(JournalError):
        await one.suspend(WAITING)
    assert told == []


class Choosy(MemoryStore):
    """Takes no entry of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    async def append(self, stream: Any, entries: Any, **named: Any) -> Any:
        if any(entry.kind == self.kind for entry in entries):
            raise JournalError("full", "no room")
        return await super().append(stream, entries, **named)


async def test_the_same_number_comes_of_the_same_seed_and_path() -> None:
    one, other = engine(MemoryStore()), engine(MemoryStore(), seed="other")
    assert one.random("1.llm.invoked.0") == engine(MemoryStore()).random("1.llm.invoked.0")
    assert len({one.random("a"), one.random("b"), other.random("a")}) == 3
    assert all(0 <= one.random(str(number)) < 1 for number in range(100))


async def test_the_first_entry_has_the_seed_and_the_loop_that_the_run_continues_from() -> None:
    store = MemoryStore()
    await engine(store).begin({"task": "work"})
    (content,) = of_kind(await journal(store, "run-1"), "run")
    assert content == {"task": "work", "loop": None, "seed": "seed"}


async def test_a_mark_records_a_status_and_tells_nobody() -> None:
    store, heard = MemoryStore(), list[Event]()

    @hook("run.end", observe=True)
    def look(event: RunEndEvent) -> None:
        heard.append(event)

    one = engine(store, look)
    await one.mark("cancelled")
    await one.close(END)
    assert [recorded.entry.content for recorded in await journal(store, "run-1")] == [{"status": "cancelled"}]
    assert heard == []


async def test_what_is_waited_is_the_rest_since_the_last_outcome_there_and_never_more() -> None:
    clock, paused = FakeClock(), list[float]()

    async def pause(seconds: float) -> bool:
        paused.append(seconds)
        return True

    one = engine(MemoryStore(), clock=clock, pause=pause)
    await one.run("0.request.received.0", REQUEST_RECEIVED, INPUT)
    clock.advance(2)
    await one.wait("0.request.received.0", 5, before="next")
    await one.wait("0.request.received.0", 2, before="next")
    await one.wait("0.request.received.0", 1, before="next")
    earlier = engine(MemoryStore(), clock=FakeClock(1000.0), pause=pause)
    earlier._passes.places.times["a"] = 2000.0  # pyright: ignore[reportPrivateUsage]  # a clock that was set back meanwhile
    await earlier.wait("a", 5, before="next")
    assert paused == [3, 5]


@pytest.mark.promise(4)
async def test_the_first_entry_of_a_run_tells_no_secret() -> None:
    store = MemoryStore()
    one = engine(store, redactor=Redactor(secrets=["opensesame"]), loop=FrozenDict({"note": "opensesame"}))
    await one.begin({"task": "work", "metadata": {"opensesame": ["say opensesame"]}})
    (first,) = await journal(store, "run-1")
    assert "opensesame" not in str(first.entry.content)
    assert first.entry.content["metadata"] == {"[redacted]": ["say [redacted]"]}
