"""Loops that are interrupted, cannot write, lose their files, or are flooded: each ends once, and leaves word of it."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.loop.world import (
    EVERYTHING,
    LONGEST,
    LOOP,
    OK,
    POINTS,
    Died,
    Turn,
    World,
    continued,
    die,
    resume,
    says,
    wait,
    world,
)

from tenter.catalogue import LoopEndedEvent, LoopEndEvent, PlanEvent
from tenter.journal import Entry, Head, JournalError, MemoryStore, Stream
from tenter.kernel import Block, Declaration, Event, Suspend
from tenter.loop.state import Published
from tenter.loop.suspension import read_state
from tenter.loop.work import Work, Worked

Told = list[tuple[str, str]]
"""Which ends a loop's hooks were told of, each with its reason."""
SURE = Suspend("sure?")
CANCELLED: Turn = [("loop.cancel", None)]


def ends(told: Told) -> list[Declaration]:
    """Hooks that hear of the end before any other hook does."""

    def hear(point: str, priority: int) -> Declaration:
        def heard(event: Event) -> None:
            assert isinstance(event, LoopEndEvent | LoopEndedEvent)
            told.append((point, event.reason))

        return Declaration(name="first", point=point, call=heard, priority=priority)

    points = [f"{operation}.{phase}" for operation in ("loop.complete", "loop.error") for phase in ("pre", "post")]
    return [hear(point, 0 if point.endswith("pre") else 999) for point in points]


def once(reason: str) -> Told:
    return [("loop.error.pre", reason), ("loop.error.post", reason)]


async def interrupted(run: World, when: asyncio.Event) -> None:
    """Runs a loop that is interrupted `when` it says so."""
    running = asyncio.create_task(run.run())
    await asyncio.wait_for(when.wait(), LONGEST)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)


def hangs_at(point: str, here: asyncio.Event) -> Declaration:
    async def hangs(event: Event) -> None:
        here.set()
        await asyncio.get_running_loop().create_future()

    return Declaration(name="hangs", point=point, call=hangs)


def leading_to(point: str) -> Turn:
    return CANCELLED if point.startswith("loop.error") else EVERYTHING


@pytest.mark.parametrize("point", POINTS)
async def test_a_loop_that_is_interrupted_at_a_hook_tells_its_end_once(tmp_path: Path, point: str) -> None:
    told: Told = []
    here = asyncio.Event()
    run = world(tmp_path, leading_to(point), hooks=[*ends(told), hangs_at(point, here)])
    await interrupted(run, here)
    (result,) = run.ended
    reason = "cancelled" if point.startswith("loop.error") else "interrupted"
    assert result.reason == reason
    assert [one for one in told if one[0].startswith("loop.error")] == once(reason)
    assert (run.row.reason, run.row.ended_at is not None) == (reason, True)
    assert run.place.summary.exists()


@pytest.mark.parametrize("point", POINTS)
async def test_a_loop_that_is_interrupted_while_it_is_suspended_tells_its_end_once(tmp_path: Path, point: str) -> None:
    told: Told = []
    run = world(tmp_path, leading_to(point), hooks=[*ends(told), says(point, SURE, None)], when_held=[wait])
    running = asyncio.create_task(run.run())
    await run.until_told("held")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    reason = "cancelled" if point.startswith("loop.error") else "interrupted"
    assert [one for one in told if one[0].startswith("loop.error")] == once(reason)
    assert (run.row.reason, run.row.suspension, run.place.suspend_state.exists()) == (reason, None, False)


@pytest.mark.parametrize("point", ["loop.error.pre", "loop.error.post"])
async def test_another_process_that_is_interrupted_where_the_end_is_held_up_does_not_tell_it_again(
    tmp_path: Path, point: str
) -> None:
    told: Told = []
    hooks = [*ends(told), says(point, SURE)]
    run = world(tmp_path, CANCELLED, hooks=hooks, when_held=[die])
    await run.run_and_die()
    again = await continued(run, hooks=hooks, when_held=[wait])
    running = asyncio.create_task(again.run())
    await again.until_told("held")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    assert told == once("cancelled")


async def takes_a_moment() -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, over.set)
    await over.wait()


async def test_a_loop_that_is_interrupted_while_its_backend_runs_ends_the_backend_first(tmp_path: Path) -> None:
    here = asyncio.Event()
    told: Told = []

    async def hangs(work: Work) -> Worked:
        here.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await takes_a_moment()
            told.append(("backend", "ended"))
        return OK

    run = world(tmp_path, hangs, hooks=ends(told))
    await interrupted(run, here)
    assert told == [("backend", "ended"), *once("interrupted")]


async def test_a_second_interruption_cuts_the_hooks_of_the_end_short_and_the_end_is_on_record(tmp_path: Path) -> None:
    told: Told = []
    here, ending = asyncio.Event(), asyncio.Event()
    hooks = [hangs_at("loop.start.pre", here), hangs_at("loop.error.pre", ending), *ends(told)]
    run = world(tmp_path, hooks=hooks)
    running = asyncio.create_task(run.run())
    await asyncio.wait_for(here.wait(), LONGEST)
    running.cancel()
    await asyncio.wait_for(ending.wait(), LONGEST)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    assert told == once("interrupted")[:1]
    assert (run.row.reason, run.row.status, run.place.summary.exists()) == ("interrupted", "failed", True)


async def test_an_interruption_of_a_loop_that_has_failed_lets_its_end_be_told(tmp_path: Path) -> None:
    told: Told = []
    ending, goes_on = asyncio.Event(), asyncio.Event()

    async def is_slow(event: Event) -> None:
        ending.set()
        await goes_on.wait()

    slow = Declaration(name="slow", point="loop.error.pre", call=is_slow)
    run = world(tmp_path, hooks=[slow, *ends(told)], store=Full(3))
    running = asyncio.create_task(run.run())
    await asyncio.wait_for(ending.wait(), LONGEST)
    running.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    assert told == once("failed")


async def test_an_interrupted_loop_waits_for_no_retry_and_no_person_at_its_end(tmp_path: Path) -> None:
    tries = {"name": "gate", "script": "exit 3", "on_error": "suspend", "suspend_mode": "retry_backoff"}
    here = asyncio.Event()
    config = {"hooks": {"events": {"pre.loop.error": [tries]}}}
    run = world(tmp_path, hooks=[hangs_at("loop.start.pre", here)], config=config)
    await interrupted(run, here)
    ended = [record.entry.content for record in await run.journal() if record.entry.kind == "hook_ended"]
    assert len(ended) == 1
    assert not run.texts("held")


class Full(MemoryStore):
    """A journal on a disk that is full after so many entries."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        if self.room == 0:
            raise JournalError("full", "there is no room for the journal; make room")
        self.room -= 1
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


ENTRIES = 20
"""Of the loop below, with that of its end."""
PLAN: Turn = [("plan.a", 1), ("part.b", 2)]


def watching(told: Told) -> list[Declaration]:
    """Hooks that hear of a plan and of the end, and one that suspends the first iteration."""

    def hears(event: Event) -> None:
        told.append(("plan.created.post", ""))

    plan = Declaration(name="plan", point="plan.created.post", call=hears)
    return [*ends(told), plan, says("iteration.start.pre", SURE, None)]


@pytest.mark.fault(38)
@pytest.mark.parametrize("room", range(ENTRIES + 1))
async def test_a_journal_that_is_full_at_any_entry_ends_the_loop_with_word_of_it(tmp_path: Path, room: int) -> None:
    told: Told = []
    run = world(tmp_path, PLAN, hooks=watching(told), store=Full(room), when_held=[resume])
    result = await run.run()
    errors = [one for one in told if one[0].startswith("loop.error")]
    if room >= ENTRIES - 1:  # all but the last entry, of an end that is known
        assert (result.reason, errors) == ("completed", [])
    else:
        assert (result.reason, errors) == ("failed", once("failed"))
        assert "there is no room for the journal" in result.message
    assert (run.row.reason, run.row.suspension) == (result.reason, None)
    assert json.loads(run.place.summary.read_text())["reason"] == result.reason
    assert not run.place.suspend_state.exists()


async def test_that_loop_makes_so_many_entries(tmp_path: Path) -> None:
    run = world(tmp_path, PLAN, hooks=watching([]), when_held=[resume])
    await run.run()
    assert len(await run.journal()) == ENTRIES


class Forgetful(MemoryStore):
    """A journal that cannot keep the end of a hook's run, and everything else."""

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        if any(entry.kind == "hook_ended" for entry in entries):
            raise JournalError("io", "the disk did not answer; check it")
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


@pytest.mark.fault(38)
async def test_a_hook_whose_run_is_not_on_record_ends_the_loop_even_where_its_failure_would_be_let_pass(
    tmp_path: Path,
) -> None:
    told: Told = []
    note = {"name": "note", "script": "true", "on_error": "warn"}
    config = {"hooks": {"events": {"pre.loop.start": [note]}}}
    run = world(tmp_path, hooks=ends(told), config=config, store=Forgetful())
    result = await run.run()
    assert (result.reason, told) == ("failed", once("failed"))
    assert "the disk did not answer" in result.message


class Deadly(MemoryStore):
    """A journal whose process dies with one of its entries: when that is on record, or just before."""

    def __init__(self, entry: int, *, kept: bool) -> None:
        super().__init__()
        self.left = entry
        self.kept = kept

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        self.left -= 1
        dies = self.left == 0
        if dies and not self.kept:
            raise Died
        head = await super().append(stream, entries, durable=durable, expected_head=expected_head)
        if dies:
            raise Died
        return head


@pytest.mark.fault(47)
@pytest.mark.promise(9)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("entry", range(3, ENTRIES))
async def test_a_loop_whose_process_dies_at_any_entry_goes_on_and_loses_nothing(
    tmp_path: Path, entry: int, kept: bool
) -> None:
    told: Told = []
    turns, hooks = [PLAN], watching(told)
    run = world(tmp_path, *turns, hooks=hooks, store=Deadly(entry, kept=kept), when_held=[resume])
    await run.run_and_die()
    again = await continued(run, *turns[len(run.agent.works) :], hooks=hooks, when_held=[resume])
    if read_state(again.place) is not None:
        resume(again)
    result = await again.run()
    assert result.reason == "completed"
    assert not [one for one in told if one[0].startswith("loop.error")]
    assert ("loop.complete.post", "completed") in told
    works = [*run.agent.works, *again.agent.works]
    assert ("plan.created.post", "") in told
    is_given = any("- plan.a" in work.prompt and "- part.b" in work.prompt for work in works)
    assert is_given or Published("part.b", 2) in again.state.pending
    assert len(works) <= 3, "at most one iteration is done twice"


@pytest.mark.fault(38)
async def test_a_journal_that_is_full_when_a_loop_is_continued_is_told_as_its_end(tmp_path: Path) -> None:
    told: Told = []
    store = Full(1000)
    run = world(tmp_path, hooks=[says("iteration.start.pre", SURE)], store=store, when_held=[die])
    await run.run_and_die()
    again = await continued(run, hooks=ends(told), when_held=[resume])
    store.room = 0
    assert (await again.run()).reason == "failed"
    assert told == once("failed")


def in_the_way(run: World) -> None:
    run.place.suspend_state.mkdir()


def without_a_registry(run: World) -> None:
    run.parts.registry.path.unlink()


def without_a_workspace(run: World) -> None:
    shutil.rmtree(run.place.signals)


@pytest.mark.parametrize("breaks", [in_the_way, without_a_registry, without_a_workspace])
async def test_a_loop_that_cannot_put_its_suspension_on_record_does_not_wait(
    tmp_path: Path, breaks: Callable[[World], None]
) -> None:
    told: Told = []

    def breaks_and_suspends(event: Event) -> Suspend:
        breaks(run)
        return SURE

    gate = Declaration(name="gate", point="iteration.start.pre", call=breaks_and_suspends)
    run = world(tmp_path, hooks=[gate, *ends(told)], when_held=[wait])
    result = await run.run()
    assert (result.reason, told) == ("failed", once("failed"))
    assert run.texts("held") == []


async def test_a_workspace_that_vanishes_while_the_backend_runs_ends_the_backend_and_the_loop(tmp_path: Path) -> None:
    told: Told = []

    async def loses_it(work: Work) -> Worked:
        without_a_workspace(run)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            told.append(("backend", "ended"))
        return OK

    run = world(tmp_path, loses_it, hooks=ends(told))
    result = await run.run()
    assert (result.reason, told) == ("failed", [("backend", "ended"), *once("failed")])
    assert "is gone" in result.message


async def test_an_events_file_that_is_no_file_any_more_ends_the_loop_with_its_name(tmp_path: Path) -> None:
    async def replaces_it(work: Work) -> Worked:
        run.place.events.mkdir()
        return OK

    run = world(tmp_path, replaces_it)
    result = await run.run()
    assert (result.reason, "events.jsonl" in result.message) == ("failed", True)


def lines(topic: str, count: int) -> str:
    return "".join(f'{{"schema_version":1,"topic":"{topic}","payload":{n}}}\n' for n in range(count))


async def seconds(folder: Path, topic: str, count: int, *, hooks: Sequence[object] = ()) -> tuple[float, World]:
    folder.mkdir()
    runs: list[World] = []

    async def flood(work: Work) -> Worked:
        runs[0].place.events.write_text(lines(topic, count))
        return OK

    runs.append(world(folder, flood, hooks=hooks))
    begun = time.process_time()
    result = await runs[0].run()
    assert result.reason == "completed"
    return time.process_time() - begun, runs[0]


async def written(run: World) -> int:
    """Characters of what a loop left in its journal, without what is kept apart."""
    entries = [record.entry async for record in run.store.read(Stream("loop", LOOP), whole=False)]
    return sum(len(str(entry.content)) for entry in entries)


@pytest.mark.timed
async def test_a_hundred_thousand_events_of_one_iteration_cost_as_much_as_they_are_many(tmp_path: Path) -> None:
    async def times(number: int) -> float:
        few, _ = await seconds(tmp_path / f"few{number}", "some.thing", 10_000)
        many, run = await seconds(tmp_path / f"many{number}", "some.thing", 100_000)
        assert len(run.agent.works[1].prompt) < 50_000
        assert await written(run) < 50_000
        return many / few

    tries = 1
    while await times(tries) >= 20:
        tries += 1
        assert tries <= 3


@pytest.mark.timed
@pytest.mark.parametrize("answer", [None, Block("no")])
async def test_many_plans_of_one_iteration_cost_as_much_as_they_are_many(tmp_path: Path, answer: Block | None) -> None:
    hooks = [says("plan.created.pre", answer)]

    async def times(number: int) -> float:
        few, small = await seconds(tmp_path / f"few{number}", "plan.drawn", 300, hooks=hooks)
        many, large = await seconds(tmp_path / f"many{number}", "plan.drawn", 3_000, hooks=hooks)
        assert await written(large) < 12 * await written(small)
        return many / few

    tries = 1
    while await times(tries) >= 20:
        tries += 1
        assert tries <= 3


@pytest.mark.fault(60)
@pytest.mark.promise(4)
async def test_a_secret_that_an_agent_publishes_is_masked_wherever_it_would_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "swordfish-4711"
    monkeypatch.setenv("DOOR_CODE", secret)
    seen: list[object] = []

    def look(event: PlanEvent) -> None:
        seen.append(event.payload)

    hook = Declaration(name="look", point="plan.created.pre", call=look)
    payload = {"code": secret}
    turn = [("plan.open", payload), ("human.interact", f"is {secret} right?"), ("loop.cancel", f"no {secret}")]
    program = {"name": "program", "script": "cat >> seen.txt", "on_error": "block"}
    config: Mapping[str, object] = {
        "secrets": ["DOOR_CODE"],
        "hooks": {"events": {"pre.plan.created": [program]}},
        "loop": {"answer_timeout_seconds": 0.01},
    }
    run = world(tmp_path, turn[:2], turn, hooks=[hook], config=config, prompt="open the door")
    result = await run.run()
    assert result.reason == "cancelled"
    assert seen[0] != payload
    shown = [
        str(seen),
        (tmp_path / "seen.txt").read_text(),
        str([work.prompt for work in run.agent.works]),
        str([record.entry.content for record in await run.journal()]),
        run.place.summary.read_text(),
        str(run.told),
        str(run.row),
        result.message,
    ]
    assert [text for text in shown if secret in text] == []
    assert secret in run.place.events.read_text()
