"""Work in a thread of its own: the event loop goes on meanwhile, and no thread is left."""

import asyncio
import threading

import pytest
from tests.outside import leaves_nothing

from tenter.executors import in_thread


async def test_the_event_loop_goes_on_while_the_work_is_done() -> None:
    go = threading.Event()

    def work() -> tuple[bool, bool]:
        return go.wait(10), threading.current_thread() is threading.main_thread()

    async with leaves_nothing():
        working = asyncio.create_task(in_thread(work))
        await asyncio.sleep(0)
        go.set()
        assert await working == (True, False)


async def test_what_the_work_raises_is_raised() -> None:
    def work() -> None:
        raise ZeroDivisionError("so it is")

    with pytest.raises(ZeroDivisionError, match="so it is"):
        await in_thread(work)
