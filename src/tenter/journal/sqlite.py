"""The journal in a SQLite file, for asyncio (D§10).

A small append is tried at once in the caller's thread: it takes microseconds and waits for nothing. Whatever may take
longer (it is durable, large, or another process holds the lock; the first use; every read) goes to one daemon thread of
the store, so the event loop is never held up. While something is in that thread, all that follows goes there too, so
the order of the calls stays the order of the entries.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from tenter.journal.database import Database
from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind
from tenter.journal.sealed import Prepared, kept, prepare
from tenter.journal.store import JournalError
from tenter.journal.summary import StreamSummary
from tenter.journal.tail import Tail
from tenter.wire import OversizeError

T = TypeVar("T")

SMALL_ENTRIES: Final = 16
SMALL_CONTENT: Final = 100_000
"""An append of at most so many entries, with so many characters each, is small."""

PAGE_ENTRIES: Final = 256
"""How many entries are read at a time."""

LARGE_LOG: Final = 4_000_000
"""Bytes appended after which the write-ahead log is copied into the database, in the thread."""


class SqliteStore:
    """Meets `Store` with the file at `path`, which the first append creates (0600, in a folder of 0700)."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        """`now`, seconds since 1970 UTC, dates what the journal notes of itself."""
        self._database = Database(path, now)
        self._database_lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._pending: set[object] = set()
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.Lock()
        self._closed = False

    @property
    def dropped(self) -> Tail | None:
        """What was dropped from the end of the journal when this store opened it, to be told to the user."""
        return self._database.dropped

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        if len(entries) == 1 and not durable:
            head = self._here(lambda: self._database.append_next(stream, entries[0], expected_head=expected_head))
            if head is not None:
                return head
        prepared = _prepare_small(entries)
        if prepared is not None and not durable:
            head = self._here(lambda: self._database.append(stream, prepared, expected_head=expected_head))
            if head is not None:
                return head

        def append() -> Head:
            ready = prepare(entries) if prepared is None else prepared
            with self._database.patience(create=not self._database.has_lost(stream)):
                return self._database.append(stream, ready, durable=durable, expected_head=expected_head)

        # Shielded: whoever is cancelled meanwhile has written what it gave here.
        head = await asyncio.shield(asyncio.wrap_future(self._submit(append)))
        self._copy_a_large_log()
        return head

    async def read(
        self, stream: Stream, *, after: int = 0, limit: int | None = None, whole: bool = True
    ) -> AsyncIterator[Recorded]:
        while limit is None or limit > 0:
            wanted = PAGE_ENTRIES if limit is None else min(limit, PAGE_ENTRIES)
            page = await self._look(partial(self._database.page, stream, after=after, limit=wanted, whole=whole))
            if not page:
                return
            for recorded in page:
                yield recorded
            after = page[-1].sequence
            limit = None if limit is None else limit - len(page)

    async def head(self, stream: Stream) -> Head:
        return await self._look(partial(self._database.head, stream))

    async def streams(self, kind: StreamKind | None = None, *, limit: int | None = None) -> Sequence[StreamSummary]:
        return await self._look(partial(self._database.streams, kind, limit))

    async def close(self) -> None:
        with self._thread_lock:
            was_closed, self._closed = self._closed, True
            thread = self._thread
            if was_closed or thread is None:
                return
            closing = self._put(self._database.close)
            self._jobs.put(None)
        await asyncio.shield(asyncio.wrap_future(closing))
        thread.join()

    def _here(self, append: Callable[[], Head | None]) -> Head | None:
        """The new head; None when it has to be done otherwise or in the thread."""
        if self._pending or not self._database_lock.acquire(blocking=False):
            return None
        try:
            if not self._database.is_open:
                return None
            head = append()
        except JournalError as error:
            if error.trouble == "locked":
                return None  # nothing was written, and the thread has the patience to wait
            raise
        finally:
            self._database_lock.release()
        self._copy_a_large_log()
        return head

    async def _look(self, look: Callable[[], T]) -> T:
        def patiently() -> T:
            with self._database.patience(create=False):
                return look()

        return await self._in_thread(patiently)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        result = await asyncio.wrap_future(self._submit(work))
        self._copy_a_large_log()
        return result

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        """Do `work` in the thread, after all that was given to it before."""
        with self._thread_lock:
            if self._closed:
                raise JournalError("closed", f"the journal {str(self._database.path)!r} was closed; open a new store")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tenter-journal", daemon=True)
                self._thread.start()
            return self._put(work)

    def _put(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                self._pending.discard(future)
                return
            try:
                with self._database_lock:
                    result = work()
            except BaseException as error:  # whatever it is, the caller hears it
                self._pending.discard(future)
                future.set_exception(error)
            else:
                self._pending.discard(future)
                future.set_result(result)

        self._pending.add(future)
        self._jobs.put(job)
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _copy_a_large_log(self) -> None:
        if self._database.uncopied > LARGE_LOG and not self._closed:
            self._database.uncopied = 0
            with contextlib.suppress(JournalError):  # closed meanwhile, which copies too
                self._submit(self._database.checkpoint)


def _prepare_small(entries: Sequence[Entry]) -> Sequence[Prepared] | None:
    """The entries in canonical form; None when that, or writing them, may take longer than an event loop can spare."""
    if len(entries) > SMALL_ENTRIES:
        return None
    try:
        prepared = prepare(entries, at_most=SMALL_CONTENT)
    except OversizeError:
        return None
    apart = kept(prepared)
    is_small = not apart or sum(len(part) for parts in apart.values() for part in parts) <= SMALL_CONTENT
    return prepared if is_small else None
