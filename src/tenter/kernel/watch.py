"""The shared timer of soft deadlines (D§7): one for all that is being watched, not a task or a timer for each hook.

It cancels the task in which a hook stays past the deadline; a hook that swallows that goes on until it returns, and
counts as late. Whoever needs more names a deadline, which is hard.
"""

import asyncio
from asyncio import current_task
from collections.abc import Callable, Iterator
from operator import length_hint
from threading import get_ident
from typing import Protocol

from tenter.kernel.chain import Link


LONGEST_LOOK = 0.1
"""Seconds between two looks at most: a soft deadline is kept within twice that."""


class Watched(Protocol):
    """What the timer looks at: how far the hooks are, and in which task."""

    links: tuple[Link, ...]
    rest: Iterator[Link] | None
    task: "asyncio.Task[object] | None"
    expired: bool


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
        self._active: set[Watched] = set()
        self._seen: dict[Watched, tuple[int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.leave: Callable[[Watched], None] = self._active.discard
        """Ends the watching of a frame."""

    def enter(self, frame: Watched) -> bool:
        """Starts to watch; False where another loop runs here. (Asking asyncio for the loop costs a system call.)"""
        if self._thread != get_ident() or (task := current_task(self._loop)) is None:
            return False
        frame.task = task
        self._active.add(frame)
        if self._timer is None:
            self._timer = self._loop.call_later(self._every, self._look)
        return True

    def _look(self) -> None:
        now = self._loop.time()
        seen: dict[Watched, tuple[int, float]] = {}
        for frame in self._active:
            if frame.rest is None or frame.expired:
                continue
            left = length_hint(frame.rest)
            if not frame.links[-1 - left].soft:
                continue
            before, since = self._seen.get(frame, (-1, now))
            if before != left:
                since = now
            elif now - since >= self._timeout - self._every and frame.task is not None:
                frame.expired = True
                frame.task.cancel()
            seen[frame] = (left, since)
        self._seen = seen
        self._timer = self._loop.call_later(self._every, self._look) if self._active else None
