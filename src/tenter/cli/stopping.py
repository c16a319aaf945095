"""Runs a coroutine so that a signal that asks the process to end cancels it first: a run then ends on record."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Final, TypeVar

T = TypeVar("T")

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""What asks a process to end, beside Ctrl-C: a service manager, a terminal that is closed."""


def run_stoppable(main: Coroutine[object, object, T]) -> T | signal.Signals:
    """What `main` returns, or the signal that cancelled it.

    Ctrl-C cancels it as well, and raises KeyboardInterrupt then, as `asyncio.run` does. A signal that whoever started
    this process wants ignored (`nohup`) stays ignored.
    """
    return asyncio.run(_stoppable(main))


async def _stoppable(main: Coroutine[object, object, T]) -> T | signal.Signals:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        task.cancel()

    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, stop, number)
    try:
        return await main
    except asyncio.CancelledError:
        if not received:
            raise
        return received[0]
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
