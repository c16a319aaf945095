"""Writes lines to a descriptor from a thread of its own, so that nobody waits for a terminal that was stopped (Ctrl-S).

What waits is bounded: what there is no room for is lost, counted, and told in its place. It knows nothing of what it
writes.
"""

import os
import select
import threading
import time
from collections import deque
from typing import Final

from tenter.cli.leaving import FAREWELL_SECONDS

MOST_WAITING: Final = 4 << 20
"""Bytes that wait to be written, above which what is dispensable is lost; everything is above twice as many."""
AT_ONCE: Final = 64 * 1024


class Outlet:
    """In the order in which it is put. A descriptor that fails is written to no more, and nothing is said of that."""

    def __init__(self, descriptor: int, *, encoding: str = "utf-8") -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        """Bytes that are not written yet."""
        self._lost = 0
        """Lines that are lost and not told yet."""
        self._ended = False
        threading.Thread(target=self._work, name="tenter-outlet", daemon=True).start()

    def put(self, text: str, *, end: str = "\n", dispensable: bool = False) -> None:
        """Has `text` written, sometime; waits for nothing."""
        data = self._encoded(text + end)
        with self._changed:
            most = MOST_WAITING if dispensable else 2 * MOST_WAITING
            if self._waiting and self._waiting + len(data) > most:
                self._lost += data.count(b"\n") or 1
            elif not self._ended:
                self._tell_of_the_lost()
                self._add(data)

    def close(self, within: float = FAREWELL_SECONDS) -> None:
        """Waits until all is written, `within` so many seconds. Harmless twice."""
        until = time.monotonic() + within
        with self._changed:
            self._tell_of_the_lost()
            while self._waiting and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            self._ended = True
            self._changed.notify_all()

    def _tell_of_the_lost(self) -> None:
        if self._lost and not self._ended:
            lines = "1 line" if self._lost == 1 else f"{self._lost} lines"
            self._add(self._encoded(f"({lines} not shown: the terminal, or who reads this, took no more)\n"))
            self._lost = 0

    def _add(self, data: bytes) -> None:
        self._queue.append(data)
        self._waiting += len(data)
        self._changed.notify_all()

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding, "backslashreplace")

    def _work(self) -> None:
        while data := self._next():
            try:
                self._write(data)
            except OSError:  # nobody reads it any more
                self._give_up()
                return

    def _next(self) -> bytes:
        """What is to be written now; nothing when that was all."""
        with self._changed:
            while not self._queue and not self._ended:
                self._changed.wait()
            taken = [self._queue.popleft()] if self._queue else []
            size = sum(map(len, taken))
            while self._queue and size + len(self._queue[0]) <= AT_ONCE:
                taken.append(self._queue.popleft())
                size += len(taken[-1])
            return b"".join(taken)

    def _write(self, data: bytes) -> None:
        while data:
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:  # somebody who shares it made it so
                select.select([], [self._descriptor], [])
                continue
            data = data[written:]
            with self._changed:
                self._waiting -= written
                self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            self._ended = True
            self._queue.clear()
            self._waiting = self._lost = 0
            self._changed.notify_all()
