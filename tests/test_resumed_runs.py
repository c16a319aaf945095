"""Runs that another process goes on with at the awkward places: nothing is done twice, and nobody is left untold."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    act,
    acted,
    acting,
    after,
    cut,
    go_on,
    journal,
    lines,
    only_run,
    project,
    spawn,
    spawning,
)

from tenter import Harness, Hook, RunResult, Suspend, hook
from tenter.catalogue import (
    ActivityFailedEvent,
    ErrorInfo,
    HelpRequestedEvent,
    ModelRequestEvent,
    PersistenceWriteEvent,
    RunEndEvent,
    RunErrorEvent,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from tenter.harness.setup import Given, set_up
from tenter.journal import Entry, Head, JournalError, MemoryStore, Stream
from tenter.kernel import Event, TenterError
from tenter.testing import FakeClock, FakeRandom

RISKY = {"risk": "high"}
TOOL = "1.tool.invoked.0"


async def ran(path: Path, store: MemoryStore, *hooks: object) -> RunResult:
    """A run of a process of its own, to where it stands."""
    return await Harness.from_file(path, hooks=hooks, store=store, clock=FakeClock(), random=FakeRandom(7)).run("work")


async def left(source: MemoryStore, run_id: str, entries: int) -> MemoryStore:
    """A journal in which the run's process ended after so many entries."""
    store = MemoryStore()
    await cut(source, run_id, entries, store)
    return store


class Halting(MemoryStore):
    """Stands still at the first entry that fits, or with an error does not take it."""

    def __init__(self, fits: Callable[[Entry], bool], error: JournalError | None = None) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._fits = fits
        self._error = error

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        if any(map(self._fits, entries)) and not self.reached.is_set():
            self.reached.set()
            if self._error is not None:
                raise self._error
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


def begins(path: str, phase: str | None = None) -> Callable[[Entry], bool]:
    """Whether an entry is the beginning of a pass."""
    return lambda entry: (
        entry.kind == "started" and entry.content["path"] == path and entry.content.get("phase") == phase
    )


# tools


@pytest.mark.promise(9)
async def test_a_tool_that_acted_before_its_process_ended_is_not_called_again_when_a_later_hook_fails(
    tmp_path: Path,
) -> None:
    path, source = acting(tmp_path, act("a"), "Done."), MemoryStore()
    run_id = (await ran(path, source)).run_id
    store = await left(source, run_id, await after(source, run_id, f"acted {TOOL}"))
    failed: list[str] = []

    @hook("tool.after", on_error="fail", name="checks")
    def checks(event: ToolResultEvent) -> None:
        failed.append(event.op.id)
        raise ValueError("not now")

    @hook("run.error", name="hopes")
    def hopes(event: RunErrorEvent) -> RunErrorEvent:
        return event.replace(error=ErrorInfo(code="provider_transient", message=event.error.message))

    result = await go_on(path, store, run_id, checks, hopes)
    assert (result.status, len(failed), acted(tmp_path)) == ("completed", 1, ["a"])


@pytest.mark.promise(10)
async def test_a_lost_call_that_a_person_approved_is_asked_for_anew_where_a_hook_makes_another_of_it(
    tmp_path: Path,
) -> None:
    @hook("tool.before", name="rewrites")
    def rewrites(event: ToolCallEvent) -> ToolCallEvent | None:
        return event.with_arguments(mark="b") if event.approval else None

    path, source = acting(tmp_path, act("a"), "Done."), MemoryStore()
    run_id = (await ran(path, source, rewrites)).run_id
    store = await left(source, run_id, await after(source, run_id, f"acting {TOOL}"))
    (tmp_path / "acted").unlink()
    asked = await go_on(path, store, run_id, rewrites)
    await Harness.from_file(path, hooks=[rewrites], store=store, clock=FakeClock()).approve(run_id, by="ada")
    again = await go_on(path, store, run_id, rewrites)
    assert (again.status, acted(tmp_path)) == ("awaiting_approval", [])
    assert again.approvals[0].digest != asked.approvals[0].digest
    await Harness.from_file(path, hooks=[rewrites], store=store, clock=FakeClock()).approve(run_id, by="bob")
    assert ((await go_on(path, store, run_id, rewrites)).status, acted(tmp_path)) == ("completed", ["b"])


async def test_a_run_is_gone_on_with_that_failed_after_a_person_had_judged_a_lost_call(tmp_path: Path) -> None:
    path, source = acting(tmp_path, act("a"), "Done."), MemoryStore()
    run_id = (await ran(path, source)).run_id
    store = await left(source, run_id, await after(source, run_id, f"acting {TOOL}"))
    assert (await go_on(path, store, run_id)).status == "awaiting_approval"

    @hook("tool.before", on_error="fail", name="broken")
    def broken(event: ToolCallEvent) -> None:
        raise ValueError("no")

    await Harness.from_file(path, hooks=[broken], store=store, clock=FakeClock()).approve(run_id, by="ada")
    assert (await go_on(path, store, run_id, broken)).status == "completed"
    kinds = lines(await journal(store, run_id))
    again = await left(store, run_id, len(kinds) - kinds[::-1].index("finished 1.activity.failed.0") + 2)
    assert (await go_on(path, again, run_id, broken)).status == "completed"


@pytest.mark.parametrize("rewrites", [False, True])
async def test_a_call_that_fails_again_and_again_is_noticed_also_where_a_hook_rewrites_it(
    tmp_path: Path, rewrites: bool
) -> None:
    (tmp_path / "my_tools.py").write_text(
        "from tenter import tool\n\n@tool\ndef act(mark: str = '', more: str = '') -> str:\n    raise ValueError('x')\n"
    )
    settings = {"tools": {"act": {"python": "./my_tools.py:act"}}}
    path = project(tmp_path, *([act("a")] * 20), "Done.", tools=["act"], settings=settings)

    @hook("tool.before", name="adds")
    def adds(event: ToolCallEvent) -> ToolCallEvent | None:
        return event.with_arguments({"more": "same"}) if rewrites else None

    result = await ran(path, MemoryStore(), adds)
    assert result.error is not None
    assert (result.status, result.error.details["code"]) == ("blocked", "loop_detected")


# ends


def ending(heard: list[str]) -> object:
    @hook("run.end", observe=True, name="ends")
    def ends(event: RunEndEvent) -> None:
        heard.append(event.status)

    return ends


@pytest.mark.promise(5)
@pytest.mark.parametrize("waits", [True, False], ids=["while it waited", "between two operations"])
async def test_the_end_of_a_cancelled_run_is_told_by_who_opens_it_next(tmp_path: Path, waits: bool) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    source = MemoryStore() if waits else Halting(begins("1.tool_calls.extracted.0"))
    if waits:
        run_id = (await ran(path, source)).run_id
        await Harness.from_file(path, store=source, clock=FakeClock()).cancel(run_id)
    else:
        running = asyncio.create_task(ran(path, source))
        await asyncio.wait_for(source.reached.wait(), 5) if isinstance(source, Halting) else None
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        run_id = await only_run(source)
    kinds = lines(await journal(source, run_id))
    store = await left(source, run_id, len(kinds) - kinds[::-1].index("started 0.run.0"))
    heard: list[str] = []
    result = await go_on(path, store, run_id, ending(heard))
    assert (result.status, heard) == ("cancelled", ["cancelled"])


async def test_a_run_that_is_over_asks_nobody(tmp_path: Path) -> None:
    source = Halting(lambda entry: entry.kind == "approval_requested", JournalError("full", "no room"))
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    run = await ran(path, source)
    assert run.status == "failed"
    kinds = lines(await journal(source, run.run_id))
    store = await left(source, run.run_id, len(kinds) - 1 - kinds[::-1].index("finished 0.run.0"))
    heard: list[str] = []
    assert (await go_on(path, store, run.run_id, ending(heard))).status == "failed"
    assert (await store.approvals(), heard) == ([], ["failed"])


async def test_a_run_that_is_cancelled_before_its_request_is_on_record_asks_nobody(tmp_path: Path) -> None:
    path, source = acting(tmp_path, act("a"), "Done.", tool=RISKY), MemoryStore()
    run_id = (await ran(path, source)).run_id
    entries = [one.entry.kind for one in await journal(source, run_id)].index("approval_requested")
    store = await left(source, run_id, entries)
    result = await Harness.from_file(path, store=store, clock=FakeClock()).cancel(run_id)
    assert result is not None
    assert (result.status, await store.approvals(state=None)) == ("cancelled", [])


async def test_cancelling_waits_for_no_retry(tmp_path: Path) -> None:
    async def pause(seconds: float) -> bool:
        paused.append(seconds)
        return True

    paused, source = list[float](), MemoryStore()
    path = acting(tmp_path, act("flaky"), "Done.", tool={"idempotent": True})

    def process(store: MemoryStore) -> Harness:
        return Harness(set_up(path, (), Given(store=store, clock=FakeClock(), random=FakeRandom(7), pause=pause)))

    run_id = (await process(source).run("work")).run_id
    store = await left(source, run_id, await after(source, run_id, "finished 1.activity.retried.0"))
    paused.clear()
    result = await process(store).cancel(run_id)
    assert result is not None
    assert (result.status, paused) == ("cancelled", [])


async def test_each_checkpoint_of_a_run_has_an_op_of_its_own_whatever_process_stores_it(tmp_path: Path) -> None:
    @hook("persistence.write.pre", observe=True, name="look")
    def look(event: PersistenceWriteEvent) -> None:
        if event.kind == "checkpoint":
            stored.append(event.op.id)

    stored, store = list[str](), MemoryStore()
    path = acting(tmp_path, act("a"), act("b"), "Done.", tool=RISKY)
    result = await ran(path, store, look)
    while result.status == "awaiting_approval":
        await Harness.from_file(path, store=store, clock=FakeClock()).approve(result.run_id, by="ada")
        result = await go_on(path, store, result.run_id, look)
    assert (result.status, len(stored), len(set(stored))) == ("completed", 2, 2)


async def test_a_run_that_was_about_to_be_cancelled_is_gone_on_with_as_often_as_it_waits(tmp_path: Path) -> None:
    path = acting(tmp_path, act("a"), act("b"), "Done.", tool=RISKY)
    source = Halting(begins(TOOL))
    running = asyncio.create_task(ran(path, source))
    await asyncio.wait_for(source.reached.wait(), 5)
    running.cancel()
    await asyncio.wait({running}, timeout=5)
    run_id = await only_run(source)
    store = await left(source, run_id, await after(source, run_id, "finished 1.task.state_changed.1"))
    result = await go_on(path, store, run_id)
    for _ in range(2):
        assert result.status == "awaiting_approval"
        await Harness.from_file(path, store=store, clock=FakeClock()).approve(run_id, by="ada")
        result = await go_on(path, store, run_id)
    assert (result.status, acted(tmp_path)) == ("completed", ["a", "b"])


async def test_work_that_was_begun_and_then_asked_for_in_the_next_process_is_no_attempt_in_any(tmp_path: Path) -> None:
    journals, attempts = [MemoryStore()], list[int | None]()
    path = project(tmp_path)

    @hook("llm.invoked.in", name="asks")
    def asks(event: ModelRequestEvent) -> Suspend:
        return Suspend("may it be sent?")

    @hook("help.requested.post", name="answers", observe=True)
    async def answers(event: HelpRequestedEvent) -> None:
        if len(journals) > 1:
            await Harness.from_file(path, store=journals[-1], clock=FakeClock()).approve(
                event.envelope.run_id, by="ada"
            )

    @hook("model.before", name="fails", on_error="fail")
    def fails(event: ModelRequestEvent) -> None:
        if event.op.pass_ == 2:
            raise ValueError("no")

    @hook("activity.failed.pre", name="notes", observe=True)
    def notes(event: ActivityFailedEvent) -> None:
        attempts.append(event.attempt)

    hooks = (asks, answers, fails, notes)
    run_id = (await ran(path, journals[0], *hooks)).run_id
    for line in ("acting 1.llm.invoked.0", "finished 1.activity.failed.0"):
        journals.append(await left(journals[-1], run_id, await after(journals[-1], run_id, line)))
        assert (await go_on(path, journals[-1], run_id, *hooks)).status == "failed"
    assert attempts == [1]


# sub-runs


class Spans(Hook):
    """Hears of both ends of sub-runs."""

    name = "spans"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_subtask_spawned_pre(self, event: SubtaskSpawnEvent) -> None:
        self.heard.append("begins")

    def on_subtask_spawned_post(self, event: SubtaskSpawnedEvent) -> None:
        self.heard.append("ended")

    def abandon(self, point: str, event: Event, error: Any) -> None:
        self.heard.append("abandoned")


@pytest.mark.promise(5)
@pytest.mark.parametrize("error", [JournalError("full", "no room"), None], ids=["not taken", "cancelled"])
async def test_who_heard_that_a_sub_run_begins_hears_the_end_where_that_cannot_be_told(
    tmp_path: Path, error: JournalError | None
) -> None:
    spans, store = Spans(), Halting(begins("1.subtask.spawned.0", "post"), error)
    path = spawning(tmp_path, [spawn("x"), "Done."], ["part done"])
    running = asyncio.create_task(ran(path, store, spans))
    await asyncio.wait_for(store.reached.wait(), 5)
    if error is None:
        running.cancel()
    await asyncio.wait({running}, timeout=5)
    assert spans.heard == ["begins", "abandoned"]
    assert running.cancelled() == (error is None)


@pytest.mark.promise(5)
@pytest.mark.parametrize("error", [JournalError("full", "no room"), None], ids=["not taken", "cancelled"])
async def test_a_sub_run_that_begins_to_wait_as_the_run_around_it_ends_is_brought_to_its_end_and_told_of(
    tmp_path: Path, error: JournalError | None
) -> None:
    def came_to_wait(entry: Entry) -> bool:
        return entry.kind == "finished" and entry.content.get("outcome") == "waiting"

    spans, store = Spans(), Halting(came_to_wait, error)
    path = spawning(tmp_path, [spawn("x"), "Done."], [act("a"), "part"], settings={"tool": RISKY})
    running = asyncio.create_task(ran(path, store, spans))
    await asyncio.wait_for(store.reached.wait(), 5)
    if error is None:
        running.cancel()
    await asyncio.wait({running}, timeout=5)
    assert spans.heard == ["begins", "ended"]
    assert sorted(one.status for one in await store.streams("run")) == ["cancelled", "failed" if error else "cancelled"]


@pytest.mark.promise(5)
async def test_who_heard_that_a_sub_run_begins_hears_of_it_also_where_nothing_can_be_recorded_any_more(
    tmp_path: Path,
) -> None:
    class Full(MemoryStore):
        is_full = False

        async def append(self, stream: Stream, entries: Sequence[Entry], **how: Any) -> Head:
            self.is_full |= any(entry.content.get("outcome") == "waiting" for entry in entries)
            if self.is_full:
                raise JournalError("full", "no room")
            return await super().append(stream, entries, **how)

    spans, store = Spans(), Full()
    path = spawning(tmp_path, [spawn("x"), "Done."], [act("a"), "part"], settings={"tool": RISKY})
    assert ((await ran(path, store, spans)).status, spans.heard) == ("failed", ["begins", "abandoned"])


async def test_a_run_that_waits_tells_who_heard_that_its_sub_run_began(tmp_path: Path) -> None:
    spans, store = Spans(), MemoryStore()
    path = spawning(tmp_path, [spawn("x"), "Done."], [act("a"), "part"], settings={"tool": RISKY})
    assert (await ran(path, store, spans)).status == "awaiting_approval"
    assert spans.heard == ["begins", "abandoned"]


async def test_a_sub_run_that_ends_with_its_parent_is_told_of(tmp_path: Path) -> None:
    spans, store = Spans(), MemoryStore()
    path = spawning(tmp_path, [spawn("x"), "Done."], [act("a"), "part"], settings={"tool": RISKY})
    run_id = (await ran(path, store)).run_id
    harness = Harness.from_file(path, hooks=[spans], store=store, clock=FakeClock())
    result = await harness.cancel(run_id)
    assert result is not None
    assert (result.status, spans.heard) == ("cancelled", ["ended"])
    assert {one.status for one in await store.streams("run")} == {"cancelled"}
    with pytest.raises(TenterError, match="is over"):
        await harness.cancel(run_id)
