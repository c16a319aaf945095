"""Puts the write-ahead log on disk, with one fsync for all who wait at the same time (group commit).

An entry is in the log, in its order and seen by everybody, before anyone waits for the disk: so nobody's failure is
another's, and an entry that need not be on disk never waits. What is written while one fsync runs shares the next. It
knows nothing of entries.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from tenter.journal.connection import in_words, trouble
from tenter.journal.log import Log, followed_log, look_at_log
from tenter.journal.store import JournalError

SLOW_SECONDS: Final = 0.005
"""An fsync that takes longer may hold up writes to the same file for nearly as long."""


class _Waiter(msgspec.Struct, frozen=True, eq=False):
    """Somebody who wants on disk what he wrote before he saw `log`."""

    log: Log
    future: "Future[None] | asyncio.Future[None]"

    def tell(self, error: JournalError | None) -> None:
        if self.future.done():
            return
        if error:
            self.future.set_exception(error)
        else:
            self.future.set_result(None)


class LogSync:
    """Syncs the log of the journal at `path`, in a thread of its own, which the first use starts."""

    def __init__(self, path: Path) -> None:
        self.syncs = 0
        """How many fsyncs were asked for."""
        self._path = path
        self._gathered: list[_Waiter] = []
        self._batches: SimpleQueue[Sequence[_Waiter]] = SimpleQueue()
        """Given to the thread; an empty one ends it."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._began: float | None = None
        self._took = 0.0
        self._refused: Log | None = None
        """The log of which the disk took not all: nobody knows what of it is there, whatever a later fsync says."""

    @property
    def is_slow(self) -> bool:
        """An fsync is under way that takes long, or may, as the last one did: do not write in an event loop now."""
        began = self._began
        return began is not None and max(self._took, time.monotonic() - began) > SLOW_SECONDS

    async def wait(self, log: Log) -> None:
        """Return when all that was in the log when `log` was seen is on disk. Cancelling the caller takes nothing back.

        Raises JournalError: where the log is not the one that was seen (`removed`, `damaged`), what was written is
        lost; where the disk refused, it may be, and this log is refused until SQLite begins it anew.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._gather(_Waiter(log, future))
        loop.call_soon(self._begin)  # those who come to this before the loop's next round share an fsync
        await future

    def ask(self, log: Log) -> Future[None]:
        """As `wait`, for a caller without an event loop."""
        future: Future[None] = Future()
        self._gather(_Waiter(log, future))
        self._begin()
        return future

    def close(self) -> None:
        """Finish what was asked for and end the thread. Blocks meanwhile. Who comes later hears that it is closed."""
        self._begin()
        with self._lock:
            self._closed, thread = True, self._thread
        if thread:
            self._batches.put(())
            thread.join()

    def _gather(self, waiter: _Waiter) -> None:
        with self._lock:  # or it comes into a batch that was just handed over, and nobody tells it
            self._gathered.append(waiter)

    def _begin(self) -> None:
        """Hand over who has gathered."""
        with self._lock:
            batch, self._gathered = self._gathered, []
            if not batch:
                return
            if self._closed:
                closed = f"the journal {str(self._path)!r} was closed before it was on disk"
                _tell(batch, [JournalError("closed", closed) for _ in batch])
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tenter-journal-sync", daemon=True)
                self._thread.start()
            self._batches.put(batch)

    def _work(self) -> None:
        while batch := self._batches.get():
            waiters = list(batch)
            with contextlib.suppress(Empty):
                while more := self._batches.get_nowait():
                    waiters.extend(more)
                self._batches.put(())  # the end, when this is done
            _tell(waiters, self._synced(waiters))

    def _synced(self, waiters: Sequence[_Waiter]) -> Sequence[JournalError | None]:
        """One fsync, and what each is told of it."""
        self.syncs += 1
        self._began = began = time.monotonic()
        try:
            now = look_at_log(self._path, sync=True)
        except OSError as error:
            self._refused = waiters[-1].log
            return [in_words(self._path, error) for _ in waiters]
        finally:
            self._began, self._took = None, time.monotonic() - began
        return [self._fault(waiter.log, now) for waiter in waiters]

    def _fault(self, log: Log, now: Log | None) -> JournalError | None:
        refused = self._refused
        if refused and (refused.file, refused.salts) == (log.file, log.salts):
            return trouble(self._path, "io", "the disk did not take all of its write-ahead log")
        try:
            followed_log(self._path, log, now)
        except JournalError as error:
            return error
        return None


def _tell(waiters: Sequence[_Waiter], errors: Sequence[JournalError | None]) -> None:
    told: dict[asyncio.AbstractEventLoop, list[tuple[_Waiter, JournalError | None]]] = {}
    for waiter, error in zip(waiters, errors, strict=True):
        if isinstance(waiter.future, asyncio.Future):
            told.setdefault(waiter.future.get_loop(), []).append((waiter, error))
        elif waiter.future.set_running_or_notify_cancel():
            waiter.tell(error)
    for loop, its in told.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            loop.call_soon_threadsafe(_tell_here, its)


def _tell_here(told: Sequence[tuple[_Waiter, JournalError | None]]) -> None:
    for waiter, error in told:
        waiter.tell(error)
