"""A span tells whoever heard of its beginning how it ended: by its post, or by abandon."""

import asyncio
from typing import cast

import pytest

from tenter.catalogue import (
    CATALOGUE,
    RUN,
    SUBTASK_SPAWNED,
    TOOL_INVOKED,
    RunEndEvent,
    RunStartEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
)
from tenter.kernel import Block, Blocked, Done, Hook, Runtime, hook
from tenter.testing import sample_event


def ends() -> tuple[RunStartEvent, RunEndEvent]:
    start, end = sample_event("run.start"), sample_event("run.end")
    assert isinstance(start, RunStartEvent)
    assert isinstance(end, RunEndEvent)
    return start, end


class Opener(Hook):
    """Opens something at the start, and closes it only by abandon."""

    name = "opener"

    def __init__(self, heard: list[object]) -> None:
        self.heard = heard

    def on_run_start(self, event: RunStartEvent) -> None:
        self.heard.append("start")

    def abandon(self, point: str, event: object, error: object) -> None:
        self.heard.append((point, type(error).__name__))


class Both(Opener):
    """Sees both ends."""

    name = "both"

    def on_run_end(self, event: RunEndEvent) -> None:
        self.heard.append("end")


@pytest.mark.promise(5)
async def test_a_hook_with_no_post_is_abandoned_when_the_span_closes() -> None:
    heard: list[object] = []
    start, end = ends()
    span = Runtime(CATALOGUE, [Opener(heard)]).span(RUN)

    assert await span.open(start) == Done(start)
    assert heard == ["start"]
    assert await span.close(end) is end
    assert heard == ["start", ("run.pre", "RunEndEvent")]


@pytest.mark.promise(5)
async def test_a_hook_that_sees_the_end_is_not_abandoned() -> None:
    heard: list[object] = []
    start, end = ends()
    span = Runtime(CATALOGUE, [Both(heard)]).span(RUN)

    await span.open(start)
    await span.close(end)
    await span.close(end)

    assert heard == ["start", "end", "end"]


@pytest.mark.promise(5)
async def test_a_blocked_start_is_closed_and_abandons_those_before_it() -> None:
    heard: list[object] = []
    start, end = ends()

    class Refuser(Hook):
        name = "refuser"
        priority = 900

        def on_run_start(self, event: RunStartEvent) -> Block:
            return Block("not today")

    span = Runtime(CATALOGUE, [Opener(heard), Refuser()]).span(RUN)

    assert isinstance(await span.open(start), Blocked)
    await span.close(end)

    assert heard == ["start", ("run.pre", "RunEndEvent")]


@pytest.mark.promise(5)
async def test_a_cancelled_end_abandons_with_the_cancellation() -> None:
    heard: list[object] = []
    start, end = ends()
    waiting = asyncio.Event()

    class Waits(Hook):
        name = "waits"

        async def on_run_end(self, event: RunEndEvent) -> None:
            waiting.set()
            await asyncio.Event().wait()

    span = Runtime(CATALOGUE, [Opener(heard), Waits()]).span(RUN)
    await span.open(start)
    closing = asyncio.create_task(span.close(end))
    await asyncio.wait_for(waiting.wait(), 5)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, 5)

    assert heard == ["start", ("run.pre", "CancelledError")]


def test_an_operation_that_is_no_span_has_no_ends() -> None:
    with pytest.raises(ValueError, match="is no span"):
        Runtime(CATALOGUE).span(TOOL_INVOKED)


SPAWN = cast("SubtaskSpawnEvent", sample_event("subtask.spawned.pre"))
RESULT = SubtaskResult(run_id="r", task="t", status="completed")


class Loop:
    """The loop between the two ends; it leaves off where it is told to."""

    def __init__(self, *, leaves_off: bool = False) -> None:
        self.given: list[str] = []
        self.leaves_off = leaves_off

    async def __call__(self, event: SubtaskSpawnEvent) -> Done[SubtaskSpawnedEvent] | str:
        self.given.append(event.input)
        if self.leaves_off:
            return "later"
        after = SubtaskSpawnedEvent(
            envelope=event.envelope, op=event.op, parent=event.parent, task=event.task, input=event.input, result=RESULT
        )
        return Done(after)


async def test_the_loop_gets_what_the_in_chain_made_of_the_event_and_observers_hear_once_it_has_ended() -> None:
    heard: list[str] = []

    @hook("subtask.spawned.in", name="narrows")
    def narrows(event: SubtaskSpawnEvent) -> SubtaskSpawnEvent:
        assert heard == []
        return event.replace(input="less")

    @hook("subtask.spawned.in", observe=True)
    def look(event: SubtaskSpawnEvent) -> None:
        heard.append(event.input)

    loop = Loop()
    came = await Runtime(CATALOGUE, [narrows, look]).span(SUBTASK_SPAWNED).within(SPAWN, loop)
    assert isinstance(came, Done)
    assert (came.event.input, loop.given, heard) == ("less", ["less"], ["less"])


async def test_a_loop_that_leaves_off_has_not_ended_and_its_observers_are_told_later() -> None:
    heard: list[str] = []

    @hook("subtask.spawned.in", observe=True)
    def look(event: SubtaskSpawnEvent) -> None:
        heard.append(event.input)

    span = Runtime(CATALOGUE, [look]).span(SUBTASK_SPAWNED)
    assert await span.within(SPAWN, Loop(leaves_off=True)) == "later"
    assert heard == []
    await span.look_on(SPAWN)
    assert heard == [SPAWN.input]


@pytest.mark.parametrize("answer", ["result", "block"])
async def test_what_a_hook_answers_stands_for_the_loop(answer: str) -> None:
    heard: list[str] = []

    @hook("subtask.spawned.in", name="cache")
    def cache(event: SubtaskSpawnEvent) -> object:
        return event.result(RESULT) if answer == "result" else Block("not now")

    @hook("subtask.spawned.in", observe=True)
    def look(event: SubtaskSpawnEvent) -> None:
        heard.append(event.input)

    loop = Loop()
    came = await Runtime(CATALOGUE, [cache, look]).span(SUBTASK_SPAWNED).within(SPAWN, loop)
    assert loop.given == []
    assert heard == [SPAWN.input]
    if answer == "result":
        assert isinstance(came, Done)
        assert came.event.result == RESULT
    else:
        assert isinstance(came, Blocked)
        assert came.hook == "cache"
