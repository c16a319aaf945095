"""Work that would hold up the event loop, in a thread of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of `work`. The pool of the event loop may be full of somebody's hung work, and is not used.

    Raises what `work` raises. It must come to its end by itself: a cancelled caller does not wait for it.
    """
    pool = ThreadPoolExecutor(1, "tenter-work")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
    finally:
        pool.shutdown(wait=False)
