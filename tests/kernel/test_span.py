"""A span tells whoever heard of its beginning how it ended: by its post, or by abandon."""

import asyncio

import pytest

from tenter.catalogue import CATALOGUE, RUN, TOOL_INVOKED, RunEndEvent, RunStartEvent
from tenter.kernel import Block, Blocked, Done, Hook, Runtime
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
