"""However a run comes to its end: it is on record where that can be, and whoever must hear of it does, once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    BOTH,
    STORES,
    after,
    calls,
    cut,
    journal,
    lines,
    of_kind,
    only_run,
    project,
    statuses,
    with_model,
)

from tenter import Hook
from tenter.catalogue import (
    ModelRequestEvent,
    ModelResponse,
    OutputEvent,
    RunEndEvent,
    RunErrorEvent,
    RunStartEvent,
    TaskStateChangedEvent,
    ToolCall,
)
from tenter.harness import Harness, RunResult, recording
from tenter.journal import Entry, JournalError, MemoryStore, Recorded, Stream
from tenter.kernel import hook
from tenter.testing import FakeModel, assert_trace

SHELL = calls(("shell", {"command": "echo ran >> ran.txt"}))


class Witness(Hook):
    """Hears of everything that a run's end is told through."""

    name = "witness"
    observe = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_task_state_changed_pre(self, event: TaskStateChangedEvent) -> None:
        self.heard.append(f"{event.before}->{event.after}")

    def on_run_error(self, event: RunErrorEvent) -> None:
        self.heard.append(f"error {event.error.details.get('code', event.error.code)}")

    def on_run_end(self, event: RunEndEvent) -> None:
        self.heard.append(f"end {event.status}")


class Failing(MemoryStore):
    """Takes so many appends and then none, or none of them once `full` is set."""

    def __init__(self, appends: int) -> None:
        super().__init__()
        self.left = appends

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Any:
        self.left -= 1
        if self.left < 0 and stream.kind == "run":
            raise JournalError("full", "the journal '/j.db' is full: no space left; make room")
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


async def appends_of(path: Path) -> int:
    store = Failing(10_000)
    async with Harness.from_file(path, store=store) as harness:
        assert (await harness.run("work")).status == "completed"
        return 10_000 - store.left


@pytest.mark.fault(38)
async def test_wherever_the_journal_stops_taking_entries_the_run_ends_failed_and_everybody_hears(
    tmp_path: Path,
) -> None:
    path = project(tmp_path, SHELL, "Done.", tools=["shell"])
    whole = await appends_of(path)
    ran = tmp_path / "ran.txt"
    ended: dict[str, int] = {}
    for appends in range(whole):
        ran.unlink(missing_ok=True)
        witness = Witness()
        async with Harness.from_file(path, hooks=[witness], store=Failing(appends)) as harness:
            result = await harness.run("work")
        ended[result.status] = ended.get(result.status, 0) + 1
        assert [said for said in witness.heard if said.startswith("end")] == [f"end {result.status}"], appends
        if result.status == "failed":
            assert result.error is not None
            assert dict(result.error.details) == {"code": "journal", "trouble": "full"}
            assert "make room" in result.error.message
            assert "error journal" in witness.heard
            assert_trace(result, ["note journal full"])
    # Once the end is on record (its status; then what is told of it, and that the run is let go of), it stands.
    assert ended == {"failed": whole - 4, "completed": 4}


@pytest.mark.fault(38)
async def test_a_tool_acts_only_when_that_is_on_record(tmp_path: Path) -> None:
    path = project(tmp_path, SHELL, "Done.", tools=["shell"])
    ran = tmp_path / "ran.txt"
    for appends in range(await appends_of(path)):
        ran.unlink(missing_ok=True)
        store = Failing(appends)
        async with Harness.from_file(path, store=store) as harness:
            result = await harness.run("work")
        records = await reopened(store, result.run_id)
        recorded = of_kind(records, "acting", "1.tool.invoked.0")
        assert ran.exists() == bool(recorded), appends


async def reopened(store: Failing, run_id: str) -> list[Any]:
    store._closed = False  # pyright: ignore[reportPrivateUsage]  # a memory store cannot be opened anew
    return await journal(store, run_id)


@pytest.mark.parametrize("kind", BOTH)
async def test_content_that_no_journal_takes_ends_the_run_failed_on_record(tmp_path: Path, kind: str) -> None:
    call = ToolCall(id="c", name="shell", arguments={"command": "ls", "n": 2**60})
    store, witness = STORES[kind](tmp_path), Witness()
    model = FakeModel([ModelResponse(model="m", tool_calls=(call,))])
    async with with_model(project(tmp_path, tools=["shell"]), model, witness, store=store) as harness:
        result = await harness.run("work")
        assert result.status == "failed"
        assert result.error is not None
        assert "past 2^53-1" in result.error.message
        assert await statuses(store, result.run_id) == ["failed"]
        assert of_kind(await journal(store, result.run_id), "result")[0]["status"] == "failed"
    assert witness.heard == ["pending->running", "error journal", "running->failed", "end failed"]


async def test_an_end_that_cannot_be_recorded_is_not_the_end_that_counts(tmp_path: Path) -> None:
    path = project(tmp_path, "Done.")
    store, witness = Failing(await appends_of(path) - 5), Witness()
    async with Harness.from_file(path, hooks=[witness], store=store) as harness:
        result = await harness.run("work")
    assert result.status == "failed"
    assert witness.heard == [
        "pending->running",
        "running->completed",
        "error journal",
        "completed->failed",
        "end failed",
    ]


async def test_an_end_that_somebody_asked_for_and_no_journal_takes_is_failed_to_both_callers(tmp_path: Path) -> None:
    class Unwilling(MemoryStore):
        async def append(self, stream: Stream, entries: Sequence[Entry], **named: Any) -> Any:
            if entries[0].kind == "status":
                raise JournalError("full", "the journal is full")
            return await super().append(stream, entries, **named)

    store, running, witness = Unwilling(), Pausing("running"), Witness()
    async with Harness.from_file(project(tmp_path), hooks=[running, witness], store=store) as harness:
        task = await begun(harness, running)
        told = await asyncio.wait_for(harness.cancel(await only_run(store)), 5)
        result = await asyncio.wait_for(task, 5)
    assert told is not None
    assert (told.status, result.status, told.error) == ("failed", "failed", result.error)
    assert witness.heard == ["running->cancelled", "error journal", "cancelled->failed", "end failed"]


@pytest.mark.parametrize("has_room", [True, False])
async def test_a_run_that_is_asked_to_end_while_its_failure_is_told_fails_for_both_callers(
    tmp_path: Path, has_room: bool
) -> None:
    store, ending, witness = Failing(6), Pausing(at_end=True), Witness()
    async with Harness.from_file(project(tmp_path), hooks=[ending, witness], store=store) as harness:
        task = await begun(harness, ending)
        asking = asyncio.ensure_future(harness.cancel(await only_run(store)))
        await asyncio.wait({asking}, timeout=0.01)
        store.left = 10_000 if has_room else 0
        ending.go_on.set()
        told, result = await asyncio.wait_for(asyncio.gather(asking, task), 5)
    assert told is not None
    assert (told.status, result.status, told.error) == ("failed", "failed", result.error)
    assert [said for said in witness.heard if said.startswith("end")] == ["end failed"]


@pytest.mark.parametrize("asked", [False, True])
async def test_an_error_of_our_own_is_raised_after_the_run_ended_failed(tmp_path: Path, asked: bool) -> None:
    class Broken(MemoryStore):
        async def append(self, stream: Stream, entries: Sequence[Entry], **named: Any) -> Any:
            if entries[0].kind == "acted":
                raise ZeroDivisionError("a bug")
            return await super().append(stream, entries, **named)

    store, ending, witness = Broken(), Pausing(at_end=True), Witness()
    async with Harness.from_file(project(tmp_path), hooks=[witness, ending], store=store) as harness:
        task = await begun(harness, ending)
        run_id = await only_run(store)
        asking = asyncio.ensure_future(harness.cancel(run_id)) if asked else None
        if asking is not None:
            await asyncio.wait({asking}, timeout=0.01)
        ending.go_on.set()
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(task, 5)
        told = None if asking is None else await asyncio.wait_for(asking, 5)
        assert await statuses(store, run_id) == ["failed"]
    assert (None if told is None else told.status) == ("failed" if asked else None)
    assert witness.heard == ["pending->running", "running->failed", "end failed"]


async def test_a_user_who_interrupts_a_hook_gets_the_interrupt_and_a_cancelled_run(tmp_path: Path) -> None:
    @hook("model.before")
    def interrupted(event: ModelRequestEvent) -> None:
        raise KeyboardInterrupt

    store, witness = MemoryStore(), Witness()
    harness = Harness.from_file(project(tmp_path), hooks=[interrupted, witness], store=store)
    running = harness.run("work")
    with pytest.raises(KeyboardInterrupt):
        await running
    assert await statuses(store, await only_run(store)) == ["cancelled"]
    assert witness.heard[-1] == "end cancelled"
    await harness.close()


class Pausing(Hook):
    """Stops a run at one moment, until it is told to go on."""

    name = "pausing"
    observe = True

    def __init__(self, status: str = "", *, at_end: bool = False) -> None:
        self.status = status
        self.at_end = at_end
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def _pause(self) -> None:
        self.reached.set()
        await self.go_on.wait()

    async def on_run_start(self, event: RunStartEvent) -> None:
        if self.status == "start":
            await self._pause()

    async def on_task_state_changed_pre(self, event: TaskStateChangedEvent) -> None:
        if event.after == self.status:
            await self._pause()

    async def on_run_end(self, event: RunEndEvent) -> None:
        if self.at_end:
            await self._pause()


async def begun(harness: Harness, pausing: Pausing) -> asyncio.Task[RunResult]:
    task = asyncio.ensure_future(harness.run("work"))
    await asyncio.wait_for(pausing.reached.wait(), 5)
    return task


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("moment", "status"), [("start", "cancelled"), ("running", "cancelled"), ("completed", "completed")]
)
async def test_a_cancelled_run_comes_to_its_end_and_the_cancellation_is_raised(
    tmp_path: Path, kind: str, moment: str, status: str
) -> None:
    store, pausing, witness = STORES[kind](tmp_path), Pausing(moment), Witness()
    async with Harness.from_file(project(tmp_path), hooks=[pausing, witness], store=store) as harness:
        task = await begun(harness, pausing)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert await statuses(store, await only_run(store)) == [status]
    assert witness.heard[-1] == f"end {status}"
    assert sum(said.startswith("end") for said in witness.heard) == 1


async def test_a_run_that_is_cancelled_again_while_it_ends_is_told_to_everybody_all_the_same(tmp_path: Path) -> None:
    store, running, ending, witness = MemoryStore(), Pausing("running"), Pausing(at_end=True), Witness()
    ending.name = "ending"
    async with Harness.from_file(project(tmp_path), hooks=[running, witness, ending], store=store) as harness:
        task = await begun(harness, running)
        task.cancel()
        await asyncio.wait_for(ending.reached.wait(), 5)
        for _ in range(3):
            task.cancel()
            await asyncio.wait({task}, timeout=0.01)
        assert not task.done()
        ending.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert await statuses(store, await only_run(store)) == ["cancelled"]
    assert witness.heard[-1] == "end cancelled"


async def test_a_run_that_is_cancelled_again_while_its_status_is_told_tells_it_to_everybody(tmp_path: Path) -> None:
    running, changing, witness = Pausing("running"), Pausing("cancelled"), Witness()
    changing.name = "changing"
    hooks = [running, changing, witness]
    async with Harness.from_file(project(tmp_path), hooks=hooks, store=MemoryStore()) as harness:
        task = await begun(harness, running)
        task.cancel()
        await asyncio.wait_for(changing.reached.wait(), 5)
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
        changing.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert witness.heard == ["running->cancelled", "end cancelled"]


async def test_a_run_that_is_cancelled_while_its_end_is_told_has_the_end_that_it_had(tmp_path: Path) -> None:
    store, ending, witness = MemoryStore(), Pausing(at_end=True), Witness()
    async with Harness.from_file(project(tmp_path), hooks=[ending, witness], store=store) as harness:
        task = await begun(harness, ending)
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
        ending.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        run_id = await only_run(store)
        assert await statuses(store, run_id) == ["completed"]
        (*_, told, released) = await journal(store, run_id)
        assert told.entry.content["outcome"] == "done"
        assert released.entry.kind == "released"
    assert witness.heard == ["pending->running", "running->completed", "end completed"]


async def test_a_run_that_is_cancelled_while_its_failure_is_told_raises_the_cancellation(tmp_path: Path) -> None:
    ending, witness = Pausing(at_end=True), Witness()
    async with Harness.from_file(project(tmp_path), hooks=[ending, witness], store=Failing(6)) as harness:
        task = await begun(harness, ending)
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
        ending.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert witness.heard[-1] == "end failed"


def test_a_run_that_the_end_of_the_event_loop_cuts_off_is_on_record(tmp_path: Path) -> None:
    store = MemoryStore()

    async def main() -> None:
        running, ending = Pausing("running"), Pausing(at_end=True)
        ending.name = "ending"
        harness = Harness.from_file(project(tmp_path), hooks=[running, ending], store=store)
        task = await begun(harness, running)
        task.cancel()
        await asyncio.wait_for(ending.reached.wait(), 5)  # and now everything is cancelled

    async def afterwards() -> list[object]:
        return await statuses(store, await only_run(store))

    asyncio.run(main())
    assert asyncio.run(afterwards()) == ["cancelled"]


def test_a_run_that_is_cut_off_before_its_end_is_on_record_is_marked(tmp_path: Path) -> None:
    store = MemoryStore()

    async def main() -> None:
        running, changing = Pausing("running"), Pausing("cancelled")
        changing.name = "changing"
        harness = Harness.from_file(project(tmp_path), hooks=[running, changing], store=store)
        task = await begun(harness, running)
        task.cancel()
        await asyncio.wait_for(changing.reached.wait(), 5)

    async def afterwards() -> list[object]:
        return await statuses(store, await only_run(store))

    asyncio.run(main())
    assert asyncio.run(afterwards()) == ["cancelled"]


async def begun_before(path: Path, line: str, store: MemoryStore) -> str:
    """A run whose process ended after that entry; its id."""
    source = MemoryStore()
    whole = await Harness.from_file(path, store=source).run("work", "go")
    await cut(source, whole.run_id, await after(source, whole.run_id, line), store)
    return whole.run_id


class Gated(MemoryStore):
    """Reads no more once it is told so: it waits, or it cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: asyncio.Event | None = None
        self.breaks: JournalError | None = None
        self.left = 1000
        """Pages that can be read."""

    async def read(self, *args: Any, **named: Any) -> AsyncGenerator[Recorded]:
        self.left -= 1
        if self.left < 0 and self.waits is not None:
            self.waits.set()
            await asyncio.Event().wait()
        if self.left < 0 and self.breaks is not None:
            raise self.breaks
        async for recorded in super().read(*args, **named):
            yield recorded


async def gated(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Gated, str]:
    """A run that is gone on with in many pages, of which the third cannot be read."""
    monkeypatch.setattr(recording, "PAGE", 3)
    store = Gated()
    run_id = await begun_before(path, "finished 0.request.received.0", store)
    store.left = 2
    return store, run_id


async def left_as_it_was(path: Path, store: Gated, run_id: str) -> None:
    """It was let go of."""
    store.left = 1000
    assert lines(await journal(store, run_id))[-2:] == ["resumed", "released"]
    assert (await Harness.from_file(path, store=store).resume(run_id)).status == "completed"


async def test_a_run_whose_record_cannot_be_read_to_its_end_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, witness = project(tmp_path, "Done."), Witness()
    store, run_id = await gated(path, monkeypatch)
    store.breaks = JournalError("damaged", "entry 7 is not what was written")
    with pytest.raises(JournalError, match="not what was written"):
        await Harness.from_file(path, hooks=[witness], store=store).resume(run_id)
    assert witness.heard == []
    await left_as_it_was(path, store, run_id)


async def test_a_caller_that_is_cancelled_while_the_record_is_gone_through_leaves_the_run_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, witness = project(tmp_path, "Done."), Witness()
    store, run_id = await gated(path, monkeypatch)
    store.waits = asyncio.Event()
    task = asyncio.ensure_future(Harness.from_file(path, hooks=[witness], store=store).resume(run_id))
    await asyncio.wait_for(store.waits.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert witness.heard == []
    await left_as_it_was(path, store, run_id)


async def test_a_run_that_goes_on_and_cannot_be_recorded_fails_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path, witness, store = project(tmp_path, "Done."), Witness(), Failing(10)
    run_id = await begun_before(path, "finished 0.request.received.0", store)
    store.left = 2
    failed = await Harness.from_file(path, hooks=[witness], store=store).resume(run_id)
    assert failed.status == "failed"
    assert failed.error is not None
    assert failed.error.details["code"] == "journal"
    assert witness.heard[-2:] == ["running->failed", "end failed"]
    store.left = 1000
    assert (await Harness.from_file(path, store=store).resume(run_id)).status == "completed"


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_goes_on_and_is_cancelled_by_its_caller_ends_cancelled(tmp_path: Path, kind: str) -> None:
    path, witness, reached = project(tmp_path, "Done."), Witness(), asyncio.Event()
    source = MemoryStore()
    run_id = await begun_before(path, "finished 1.llm.invoked.0", source)
    store = STORES[kind](tmp_path)
    await cut(source, run_id, 1000, store)

    @hook("output.before", name="waits")
    async def waits(event: OutputEvent) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with Harness.from_file(path, hooks=[witness, waits], store=store) as harness:
        task = asyncio.ensure_future(harness.resume(run_id))
        await asyncio.wait_for(reached.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert await statuses(store, run_id) == ["cancelled"]
    assert witness.heard == ["running->cancelled", "end cancelled"]
