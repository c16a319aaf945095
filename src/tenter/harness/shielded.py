"""Finishes what must not be cut short, whoever cancels meanwhile. It knows nothing of runs."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def uncut(work: Coroutine[object, object, T]) -> T:
    """The result of `work`, which goes on to its own end; a cancellation of the caller is raised after it.

    What `work` raises comes before that. Only the end of the event loop, which cancels every task, cuts it short: then
    CancelledError is raised.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None and (task.cancelled() or task.exception() is None):
        raise cancellation
    return task.result()
