"""Runs a coroutine so that a signal that asks the process to end cancels it first: a run then ends on record.

Hooks run in this process, too: what they leave on the event loop, in threads or for the exit neither ends the run
unheard nor keeps the process.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, Final, Generic, TypeVar

from tenter.cli.leaving import FAREWELL_SECONDS

T = TypeVar("T")

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""What asks a process to end, beside Ctrl-C: a service manager, a terminal that is closed."""


_CUT_SHORT: Final = "the event loop {} by what something in this process left behind, maybe a hook"


class CutShort(Exception):
    """A callback or a task that something in this process left behind ended the event loop, and so what ran."""


def run_stoppable(main: Coroutine[object, object, T]) -> T | signal.Signals:
    """What `main` returns, or the signal that cancelled it.

    Ctrl-C cancels it as well, and raises KeyboardInterrupt then, as `asyncio.run` does; a second one raises it at once,
    wherever the process is. A signal that whoever started
    this process wants ignored (`nohup`) stays ignored. Where the event loop is stopped or exited from before the end,
    `main` is cancelled and awaited, and CutShort raised. Other tasks are cancelled at the end, and waited for
    FAREWELL_SECONDS; the threads of the loop's executor are not.
    """
    stoppable = _Stoppable(main)
    runner = asyncio.Runner()
    try:
        value = runner.run(stoppable.run())
    except SystemExit:
        if stoppable.has_value:
            return stoppable.value
        raise CutShort(_CUT_SHORT.format("was asked to exit")) from None
    except RuntimeError:
        if not stoppable.runs:
            raise
        raise CutShort(_CUT_SHORT.format("was stopped")) from None
    finally:
        _part(runner.get_loop(), stoppable)
    if value is signal.SIGINT:
        raise KeyboardInterrupt
    return value


class _Stoppable(Generic[T]):
    """The coroutine that is run, and the task that it is run in."""

    def __init__(self, main: Coroutine[object, object, T]) -> None:
        self._main = main
        self.task: asyncio.Task[T | signal.Signals] | None = None

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def has_value(self) -> bool:
        """Whether it came to its end by itself."""
        task = self.task
        return task is not None and task.done() and not task.cancelled() and task.exception() is None

    @property
    def value(self) -> T | signal.Signals:
        assert self.task is not None, "it has a value"
        return self.task.result()

    async def run(self) -> T | signal.Signals:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self.task = task
        loop.set_exception_handler(_tell)
        received: list[signal.Signals] = []

        def stop(number: signal.Signals) -> None:
            received.append(number)
            task.cancel()

        def interrupt(number: int, frame: object) -> None:
            """As `stop`, but not here and now: within a hook's own code it would be the hook's cancellation."""
            if signal.SIGINT in received:
                raise KeyboardInterrupt
            received.append(signal.SIGINT)
            loop.call_soon_threadsafe(task.cancel)

        interrupts = signal.getsignal(signal.SIGINT)
        if callable(interrupts):  # the runner's, where Ctrl-C is not ignored
            signal.signal(signal.SIGINT, interrupt)
        heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, stop, number)
        try:
            return await self._main
        except asyncio.CancelledError:
            if not received:
                raise
            return received[0]
        finally:
            for number in heard:
                loop.remove_signal_handler(number)
            if callable(interrupts):
                signal.signal(signal.SIGINT, interrupts)


def _bring_to_end(loop: asyncio.AbstractEventLoop, stoppable: _Stoppable[T]) -> None:
    """Cancels what still runs, and waits for its end, which its own deadlines bound."""
    task = stoppable.task
    if task is None or task.done():
        return
    task.cancel()
    _persist(loop, task)


def _part(loop: asyncio.AbstractEventLoop, stoppable: _Stoppable[T]) -> None:
    """Closes the loop without waiting for what hooks left in it."""
    try:
        _bring_to_end(loop, stoppable)
        others = asyncio.all_tasks(loop)
        for task in others:
            task.cancel()
        _persist(loop, loop.create_task(_farewell(others)))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _farewell(others: set[asyncio.Task[Any]]) -> None:
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    await asyncio.wait((*others, closing), timeout=FAREWELL_SECONDS)


def _persist(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Runs the loop until the task is done, however often something stops it or exits from it."""
    while not task.done() and not loop.is_closed():
        with contextlib.suppress(Exception, SystemExit, asyncio.CancelledError):  # how it ended is not asked here
            loop.run_until_complete(task)


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop tells by itself, but for what is known: an exit, and a task that would not end and is left."""
    task: object = context.get("task")
    is_left = loop.is_closed() and isinstance(task, asyncio.Task) and not task.done()
    if not is_left and not isinstance(context.get("exception"), SystemExit):
        loop.default_exception_handler(context)
