"""The runs of a harness: how they are begun and recalled, and how each is ended from outside, wherever it is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    BOTH,
    act,
    acted,
    acting,
    after,
    calls,
    cut,
    journal,
    lines,
    of_kind,
    only_run,
    processes,
    project,
    spawn,
    spawning,
    statuses,
    with_model,
)
from tests.outside import alive_with, comes_true, leaves_nothing

from tenter import Harness, Hook, RunResult, hook
from tenter.catalogue import (
    HelpRequestEvent,
    ModelRequestEvent,
    ModelResponse,
    RunEndEvent,
    TaskStateChangedEvent,
)
from tenter.harness import watching
from tenter.harness.held import HERE
from tenter.journal import ApprovalRow, JournalError, MemoryStore, Store, Stream, StreamSummary, verify
from tenter.kernel import TenterError
from tenter.testing import FakeClock, FakeModel, FakeRandom, assert_trace

RISKY = {"risk": "high"}


class Witness(Hook):
    """Hears of changes and ends; stops a run before its first model call, where it is told to."""

    name = "witness"
    observe = True

    def __init__(self, *, pausing: bool = False) -> None:
        self.heard: list[str] = []
        self.pausing = pausing
        self.reached = asyncio.Event()

    async def on_model_before(self, event: ModelRequestEvent) -> None:
        if self.pausing:
            self.reached.set()
            await asyncio.Event().wait()

    def on_task_state_changed_pre(self, event: TaskStateChangedEvent) -> None:
        self.heard.append(f"{event.before}->{event.after}")

    def on_run_end(self, event: RunEndEvent) -> None:
        self.heard.append(f"end {event.status}: {event.error.message if event.error else ''}")


async def running(harness: Harness, witness: Witness) -> "asyncio.Task[RunResult]":
    """A run that stands before its first model call."""
    task = asyncio.ensure_future(harness.run("work", "go"))
    await asyncio.wait_for(witness.reached.wait(), 5)
    return task


@pytest.mark.timed
@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_of_another_harness_is_asked_to_end_and_sees_that_soon(tmp_path: Path, kind: str) -> None:
    witness = Witness(pausing=True)
    async with processes(project(tmp_path), kind) as made:
        task = await running(made.harness(witness), witness)
        run_id = await only_run(made.store)
        loop = asyncio.get_running_loop()
        asked = loop.time()
        assert await made.harness().cancel(run_id, by="ada", reason="enough") is None
        result = await asyncio.wait_for(task, 5)
        took = loop.time() - asked
        (request,) = of_kind(await journal(made.store, run_id), "cancel_requested")
        assert await made.store.cancelling() == frozenset()
    assert request == {"reason": "the run was cancelled by ada: enough"}
    assert (result.status, witness.heard[-1]) == (
        "cancelled",
        "end cancelled: the run was cancelled by ada: enough",
    )
    assert took < 3


def test_a_run_looks_four_times_a_second_whether_it_is_to_end() -> None:
    assert watching.LOOK_SECONDS == 0.25


async def test_what_the_journal_cannot_tell_ends_no_run_and_it_is_looked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    again = asyncio.Event()

    class Unwilling(MemoryStore):
        async def cancelling(self) -> frozenset[str]:
            looked.append(1)
            if len(looked) < 3:
                raise JournalError("locked", "not now")
            again.set()
            return frozenset({"none"})

    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.005)
    troubles: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    witness = Witness(pausing=True)
    async with Harness.from_file(project(tmp_path), hooks=[witness], store=Unwilling()) as harness:
        task = await running(harness, witness)
        await asyncio.wait_for(again.wait(), 5)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert troubles == []


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_waits_is_ended_by_anybody_and_asks_nobody_any_more(tmp_path: Path, kind: str) -> None:
    witness = Witness()
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        result = await made.harness(witness).cancel(waiting.run_id, by="ada")
        assert await made.store.approvals() == []
        assert [row.state for row in await made.store.approvals(state=None)] == ["withdrawn"]
        assert (await statuses(made.store, waiting.run_id))[-1] == "cancelled"
        with pytest.raises(TenterError, match="is over: it ended cancelled"):
            await made.harness().resume(waiting.run_id)
    assert result is not None
    assert (result.status, result.approvals, acted(tmp_path)) == ("cancelled", (), [])
    assert (result.usage, result.started_at) == (waiting.usage, waiting.started_at)
    assert witness.heard == ["awaiting_approval->cancelled", "end cancelled: the run was cancelled by ada"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_is_asked_to_end_just_as_it_begins_to_wait_ends(tmp_path: Path, kind: str) -> None:
    told: list[object] = []

    @hook("help.requested.pre", observe=True)
    async def asks(event: HelpRequestEvent) -> None:
        told.append(await other.cancel(event.request.run_id, by="ada"))

    async with processes(acting(tmp_path, act("a"), "Done.", tool=RISKY), kind) as made:
        other = made.harness()
        result = await made.harness(asks).run("work", "go")
        assert (await statuses(made.store, result.run_id))[-1] == "cancelled"
        assert await made.store.approvals() == []
    assert told == [None]
    assert (result.status, acted(tmp_path)) == ("cancelled", [])
    assert result.error is not None
    assert result.error.message == "the run was cancelled by ada"


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_whose_request_has_expired_can_be_cancelled_and_nobody_decides_on_it(
    tmp_path: Path, kind: str
) -> None:
    rule = {"name": "ask", "at": "tool.before", "then": "suspend", "reason": "sure?", "expires_in_seconds": 5}
    clock = FakeClock()
    async with processes(acting(tmp_path, act("a"), settings={"policy": [rule]}), kind) as made:
        waiting = await made.harness(clock=clock).run("work", "go")
        clock.advance(60)
        result = await made.harness(clock=clock).cancel(waiting.run_id)
        assert [row.state for row in await made.store.approvals(state=None)] == ["withdrawn"]
    assert result is not None
    assert result.status == "cancelled"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("line", ["run", "finished 1.llm.invoked.0", "acting 1.tool.invoked.0"])
async def test_a_run_whose_process_is_gone_is_ended_and_does_nothing_more(tmp_path: Path, kind: str, line: str) -> None:
    path, witness = acting(tmp_path, act("a"), "Done."), Witness()
    source = MemoryStore()
    whole = await Harness.from_file(path, store=source).run("work", "go")
    (tmp_path / "acted").unlink()
    async with processes(path, kind) as made:
        await cut(source, whole.run_id, await after(source, whole.run_id, line), made.store)
        result = await made.harness(witness).cancel(whole.run_id)
        records = await journal(made.store, whole.run_id)
        assert await statuses(made.store, whole.run_id) == ["cancelled"]
        assert verify(records) is None
    assert result is not None
    assert (result.status, acted(tmp_path)) == ("cancelled", [])
    assert [said for said in witness.heard if said.startswith("end")] == ["end cancelled: the run was cancelled"]
    assert lines(records)[-3:] == ["started 0.run.0", "finished 0.run.0", "released"]


async def test_a_program_that_a_run_started_ends_with_it(tmp_path: Path) -> None:
    mark = f"sleep 33.{abs(hash(str(tmp_path))) % 10**9}"
    path = project(tmp_path, calls(("shell", {"command": mark})), tools=["shell"])
    async with leaves_nothing(mark), processes(path, "memory") as made:
        harness = made.harness()
        task = asyncio.ensure_future(harness.run("work"))
        assert await comes_true(lambda: bool(alive_with(mark)), within=5)
        result = await asyncio.wait_for(harness.cancel(await only_run(made.store)), 5)
        assert result is not None
        assert not alive_with(mark)
        assert (result.status, (await task).status) == ("cancelled", "cancelled")


async def test_a_run_is_ended_with_its_sub_runs_and_no_sub_run_alone(tmp_path: Path) -> None:
    witness = Witness()
    reached = asyncio.Event()

    @hook("tool.before", name="waits")
    async def waits(event: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with processes(spawning(tmp_path, [spawn("a"), "Done."], [act("a"), "Done."]), "memory") as made:
        harness = made.harness(witness, waits)
        task = asyncio.ensure_future(harness.run("work", "go"))
        await asyncio.wait_for(reached.wait(), 5)
        found = {summary.parent: summary.stream.id for summary in await made.store.streams("run")}
        with pytest.raises(TenterError, match=f"is a part of the run {found['']}: name that"):
            await harness.cancel(found[found[""]])
        assert not task.done()
        assert await asyncio.wait_for(harness.cancel(found[""]), 5) is not None
        assert (await asyncio.wait_for(task, 5)).status == "cancelled"
        assert [summary.status for summary in await made.store.streams("run")] == ["cancelled"] * 2
    assert [said.partition(":")[0] for said in witness.heard if said.startswith("end")] == ["end cancelled"] * 2
    assert acted(tmp_path) == []


async def test_the_head_is_empty_where_the_journal_does_not_tell_any_more(tmp_path: Path) -> None:
    store = MemoryStore()

    def answer(request: object) -> ModelResponse:
        store._closed = True  # pyright: ignore[reportPrivateUsage]  # as when somebody closes it meanwhile
        return ModelResponse(model="m", text="Done.")

    harness = with_model(project(tmp_path), FakeModel([answer]), store=store)
    result = await harness.run("work")
    assert (result.status, result.journal_head) == ("failed", "")
    await harness.close()


@pytest.mark.fault(30)
async def test_a_hook_that_starts_runs_in_a_circle_fails_and_every_run_ends(tmp_path: Path) -> None:
    store, results = MemoryStore(), list[RunResult]()

    @hook("model.before", name="again")
    async def again(event: ModelRequestEvent) -> None:
        results.append(await harness.run("work"))

    harness: Harness = Harness.from_file(project(tmp_path), hooks=[again], store=store)
    await asyncio.wait_for(harness.run("work"), 20)
    runs = await store.streams("run")
    assert [run.status for run in runs] == ["failed", "blocked", *["completed"] * 7]
    assert_trace(results[0], ["failure again recursion"])
    await harness.close()


async def test_a_run_that_closing_waits_for_can_be_cancelled(tmp_path: Path) -> None:
    reached = asyncio.get_running_loop().create_future()

    @hook("model.before", name="slow")
    async def slow(event: ModelRequestEvent) -> None:
        reached.set_result(event.envelope.run_id)
        await asyncio.wait_for(asyncio.Event().wait(), 5)

    harness = Harness.from_file(project(tmp_path), hooks=[slow], store=MemoryStore())
    running = asyncio.ensure_future(harness.run("work"))
    run_id = await asyncio.wait_for(reached, 5)
    closing = asyncio.ensure_future(harness.close())
    await asyncio.wait({closing}, timeout=0.02)
    ended = await asyncio.wait_for(harness.cancel(run_id, by="ann"), 5)
    await asyncio.wait_for(closing, 5)
    assert ended is not None
    assert (ended.status, (await running).status) == ("cancelled", "cancelled")
    with pytest.raises(TenterError, match="this harness was closed"):
        await harness.cancel(run_id)


async def begun(path: Path, store: Store, random: FakeRandom) -> RunResult:
    """A run of a process of its own."""
    return await Harness.from_file(path, store=store, random=random).run("work", "go")


async def test_chance_that_says_the_same_again_makes_a_run_of_another_id(tmp_path: Path) -> None:
    path, store = project(tmp_path), MemoryStore()
    ids = [(await begun(path, store, FakeRandom(7))).run_id for _ in range(2)]
    assert len(set(ids)) == 2
    assert [lines(await journal(store, one)).count("run") for one in ids] == [1, 1]


async def test_chance_that_says_nothing_new_makes_no_run(tmp_path: Path) -> None:
    class Same(FakeRandom):
        def getrandbits(self, k: int, /) -> int:
            return 5

    path, store = project(tmp_path), MemoryStore()
    done = await begun(path, store, Same(7))
    before = await journal(store, done.run_id)
    with pytest.raises(TenterError, match="whose ids `random` gave; give another one"):
        await begun(path, store, Same(7))
    assert await journal(store, done.run_id) == before


class CutShort(MemoryStore):
    """The caller of a run is cancelled as soon as that waits and `look` is asked for."""

    def __init__(self, look: str) -> None:
        super().__init__()
        self.look = look

    def cut(self, look: str, summary: StreamSummary | None) -> None:
        if look == self.look and summary is not None and summary.status == "awaiting_approval":
            self.look = ""
            raise asyncio.CancelledError

    async def summary(self, stream: Stream) -> StreamSummary | None:
        found = await super().summary(stream)
        self.cut("summary", found)
        return found

    async def request(self, run_id: str, request_id: str) -> ApprovalRow | None:
        self.cut("request", await super().summary(Stream("run", run_id)))
        return await super().request(run_id, request_id)


@pytest.mark.parametrize("look", ["summary", "request"])
async def test_a_run_that_lets_go_to_wait_as_its_caller_is_cancelled_ends_cancelled(tmp_path: Path, look: str) -> None:
    store, witness = CutShort(look), Witness()
    path = acting(tmp_path, act("a"), "Done.", tool={"risk": "high"})
    async with Harness.from_file(path, hooks=[witness], store=store) as harness:
        with pytest.raises(asyncio.CancelledError):
            await harness.run("work", "go")
        run_id = await only_run(store)
        assert await harness.approvals() == ()
        assert (await statuses(store, run_id))[-2:] == ["awaiting_approval", "cancelled"]
        with pytest.raises(TenterError, match="is over: it ended cancelled"):
            await harness.resume(run_id)
    assert [said for said in witness.heard if said.startswith("end")] == ["end cancelled: the run was cancelled"]
    assert HERE == {}


async def test_a_resume_that_is_cancelled_as_it_finds_that_the_run_waits_on_leaves_it_so(tmp_path: Path) -> None:
    store = CutShort("")
    path = acting(tmp_path, act("a"), "Done.", tool={"risk": "high"})
    async with Harness.from_file(path, store=store) as harness:
        waiting = await harness.run("work", "go")
        store.look = "request"
        with pytest.raises(asyncio.CancelledError):
            await harness.resume(waiting.run_id)
        assert await harness.approvals() == waiting.approvals


async def test_a_run_that_is_over_is_let_go_of_once_its_end_was_told(tmp_path: Path) -> None:
    store = MemoryStore()
    seen: list[StreamSummary | None] = []

    @hook("run.end", observe=True)
    async def ends(event: RunEndEvent) -> None:
        seen.append(await store.summary(Stream("run", event.envelope.run_id)))

    async with Harness.from_file(project(tmp_path), hooks=[ends], store=store) as harness:
        result = await harness.run("work")
        after, head = await store.summary(Stream("run", result.run_id)), await store.head(Stream("run", result.run_id))
    assert [one and (one.status, one.holder != "") for one in seen] == [("completed", True)]
    assert after is not None
    assert (after.status, after.holder, result.journal_head) == ("completed", "", head.hash)
