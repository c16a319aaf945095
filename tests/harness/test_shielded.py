"""What is under way is finished, and who cancelled hears of it afterwards."""

import asyncio

import pytest

from tenter.harness.shielded import uncut


async def test_the_result_is_given() -> None:
    async def work() -> int:
        return 7

    assert await uncut(work()) == 7


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await uncut(work())


@pytest.mark.parametrize("times", [1, 3])
async def test_the_work_is_done_before_the_cancellation_is_raised(times: int) -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        done.set()

    task = asyncio.ensure_future(uncut(work()))
    await asyncio.wait_for(begun.wait(), 5)
    for _ in range(times):
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert done.is_set()


async def test_what_the_work_raises_comes_before_the_cancellation() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        raise ValueError("wrong")

    task = asyncio.ensure_future(uncut(work()))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    await asyncio.wait({task}, timeout=0.01)
    go_on.set()
    with pytest.raises(ValueError, match="wrong"):
        await asyncio.wait_for(task, 5)


def test_the_end_of_the_event_loop_cuts_it_short() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")
        await asyncio.Event().wait()

    async def main() -> asyncio.Task[None]:
        task = asyncio.ensure_future(uncut(work()))
        while not begun:
            await asyncio.wait({task}, timeout=0.01)
        return task

    assert asyncio.run(main()).cancelled()
