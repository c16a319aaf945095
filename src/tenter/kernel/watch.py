"""The shared timer of soft deadlines (D§7): one for all that is being watched, not a task or a timer for each hook.

It cancels the task in which a hook stays past the deadline; a hook that swallows that goes on until it returns, and
counts as late. Whoever needs more names a deadline, which is hard.
"""

import asyncio
import sys
from collections.abc import Callable
from threading import get_ident, local
from typing import Any, cast

from tenter.kernel.frame import Frame, Stack

task_in: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None] = asyncio.current_task
"""The task that runs in a loop, None where none does."""
if sys.version_info < (3, 12):  # there `current_task` is a Python function around this lookup, and every point asks
    task_in = cast("dict[asyncio.AbstractEventLoop, asyncio.Task[Any]]", vars(asyncio.tasks)["_current_tasks"]).get

LONGEST_LOOK = 0.1
"""Seconds between two looks at most: a soft deadline is kept within twice that."""


class Watch:
    """Watches over the hooks that run in one event loop.

    A hook only marks that it is there; the timer looks often enough to see by itself for how long.
    """

    __slots__ = ("_every", "_stacks", "loop", "thread", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = get_ident()
        self._every = LONGEST_LOOK
        self._stacks: set[Stack] = set()
        self.timer: asyncio.TimerHandle | None = None

    def look_often(self, timeout: float) -> None:
        """Looks often enough for deadlines of `timeout` seconds."""
        self._every = min(timeout / 10, self._every)

    def add(self, stack: Stack) -> None:
        """Watches over the dispatches of `stack` until its task ends."""
        if stack.task is not None:
            self._stacks.add(stack)
            stack.task.add_done_callback(lambda _: self._drop(stack))

    def start(self) -> None:
        """Starts to look, where nobody does."""
        if self.timer is None:
            self.timer = self.loop.call_later(self._every, self._look)

    def _drop(self, stack: Stack) -> None:
        self._stacks.discard(stack)
        stack.task = None

    def _look(self) -> None:
        now, busy = self.loop.time(), False
        for stack in self._stacks:
            frame = stack.top
            while frame is not None and frame is not stack.origin:
                busy = True
                self._judge(frame, stack, now)
                frame = frame.parent
        self.timer = self.loop.call_later(self._every, self._look) if busy else None

    def _judge(self, frame: Frame, stack: Stack, now: float) -> None:
        link, (seen, turn, since) = frame.link, frame.seen
        if link is None or not link.soft or frame.expired:
            return
        if seen is not link or turn != frame.turn:
            frame.seen = (link, frame.turn, now)
        elif now - since >= link.timeout - self._every and stack.task is not None:
            frame.expired = True
            stack.task.cancel()


_HERE = local()


def watch_of(loop: asyncio.AbstractEventLoop) -> Watch:
    """The watch of the loop that runs in this thread."""
    watch: Watch | None = getattr(_HERE, "watch", None)
    if watch is None or watch.loop is not loop:
        watch = _HERE.watch = Watch(loop)
    return watch
