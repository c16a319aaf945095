"""Branches side by side: their results in order, a bounded number at a time, none left behind."""

import asyncio
import inspect
import math
from collections.abc import Coroutine

import pytest

from tenter.harness.together import MOST, together


async def value(number: int) -> int:
    return number


async def test_the_results_come_in_the_order_of_the_branches_whoever_ended_first() -> None:
    gates = [asyncio.Event() for _ in range(5)]
    ended: list[int] = []

    async def branch(number: int) -> int:
        if number < 4:
            await gates[number + 1].wait()
        gates[number].set()
        ended.append(number)
        return number

    assert await asyncio.wait_for(together([branch(number) for number in range(5)]), 5) == [0, 1, 2, 3, 4]
    assert ended == [4, 3, 2, 1, 0]
    assert await together(list[Coroutine[object, object, int]]()) == []


async def test_a_thousand_branches_do_not_run_all_at_once() -> None:
    now, most = 0, 0
    loop = asyncio.get_running_loop()

    async def branch(number: int) -> int:
        nonlocal now, most
        now += 1
        most = max(now, most)
        others_begin = loop.create_future()
        loop.call_soon(others_begin.set_result, None)
        await others_begin
        now -= 1
        return number

    assert await asyncio.wait_for(together([branch(number) for number in range(1000)]), 5) == list(range(1000))
    assert most == MOST


@pytest.mark.filterwarnings("error")
async def test_the_first_that_raises_cancels_the_others_and_is_raised_itself() -> None:
    cancelled: list[int] = []

    async def patient(number: int) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    async def breaks() -> int:
        return 1 // math.floor(0.5)

    waiting = [value(number) for number in range(9)]
    branches = [*(patient(number) for number in range(1, MOST)), breaks(), *waiting]
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(together(branches), 5)
    assert sorted(cancelled) == list(range(1, MOST))
    assert {inspect.getcoroutinestate(branch) for branch in waiting} == {inspect.CORO_CLOSED}


async def test_what_a_branch_raises_out_of_groups_of_its_own_is_raised_alone() -> None:
    async def nested() -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(breaking())
        return 0

    async def breaking() -> int:
        raise KeyError("deep")

    with pytest.raises(KeyError, match="deep"):
        await together([nested(), value(1)])


async def test_a_caller_that_is_cancelled_cancels_the_branches() -> None:
    reached, cancelled = asyncio.Event(), list[int]()

    async def patient() -> int:
        try:
            reached.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
        return 0

    task = asyncio.ensure_future(together([patient(), patient()]))
    await asyncio.wait_for(reached.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert cancelled == [1, 1]
