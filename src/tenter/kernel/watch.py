"""The shared timer of soft deadlines (D§7): one for all that is being watched, not a task or a timer for each hook.

It cancels the task in which a hook stays past the deadline; a hook that swallows that goes on until it returns, and
counts as late. Whoever needs more names a deadline, which is hard.
"""

import asyncio
from asyncio import current_task
from collections.abc import Callable
from operator import length_hint
from threading import get_ident

from tenter.kernel.frame import Frame

LONGEST_LOOK = 0.1
"""Seconds between two looks at most: a soft deadline is kept within twice that."""


class Watch:
    """Watches over the hooks that run in one event loop, all with a deadline of `timeout` seconds.

    A hook marks nothing when it begins; the timer looks often enough to see by itself how long one has been there.
    """

    __slots__ = ("_active", "_every", "_loop", "_seen", "_thread", "_timeout", "_timer", "leave")

    def __init__(self, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._timeout = timeout
        self._every = min(timeout / 10, LONGEST_LOOK)
        self._active: set[Frame] = set()
        self._seen: dict[Frame, tuple[object, int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.leave: Callable[[Frame], None] = self._active.discard
        """Ends the watching of a frame."""

    def enter(self, frame: Frame) -> bool:
        """Starts to watch; False where another loop runs here. (Asking asyncio for the loop costs a system call.)"""
        if get_ident() != self._thread or (task := current_task(self._loop)) is None:
            return False
        frame.task = task
        frame.asked = task.cancelling()
        frame.rest = None
        self._active.add(frame)
        if self._timer is None:
            self._timer = self._loop.call_later(self._every, self._look)
        return True

    def _look(self) -> None:
        now = self._loop.time()
        seen: dict[Frame, tuple[object, int, float]] = {}
        for frame in self._active:
            if (rest := frame.rest) is None or frame.expired:
                continue
            left = length_hint(rest)
            if not frame.links[-1 - left].soft:
                continue
            before, at, since = self._seen.get(frame, (None, 0, now))
            if before is not rest or at != left:
                since = now
            elif now - since >= self._timeout - self._every:
                frame.expired = True
                frame.task.cancel()
            seen[frame] = (rest, left, since)
        self._seen = seen
        self._timer = self._loop.call_later(self._every, self._look) if self._active else None
