"""Runs branches side by side, a bounded number at a time, and comes back when all have ended."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Final, TypeVar, cast

T = TypeVar("T")

MOST: Final = 32
"""Branches that run at a time: a model may ask for a thousand calls at once."""


async def together(branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
    """What the branches come to, in their order. The first that raises cancels the others, and that is raised."""
    room = asyncio.Semaphore(MOST)

    async def one(branch: Coroutine[object, object, T]) -> T:
        async with room:
            return await branch

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(branch)) for branch in branches]
    except BaseExceptionGroup as raised:
        raise _first(raised) from None
    finally:
        for branch in branches:
            branch.close()  # one that did not begin
    return [task.result() for task in tasks]


def _first(raised: BaseExceptionGroup[BaseException]) -> BaseException:
    first = raised.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", first)) if isinstance(first, BaseExceptionGroup) else first
