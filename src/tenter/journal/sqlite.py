"""The journal in a SQLite file, for asyncio (D§10).

A small append is tried at once in the caller's thread: it takes microseconds and waits for nothing. Whatever may take
longer (it is large, another process holds the lock, the disk is slow; the first use; every read) goes to one daemon
thread of the store, so the event loop is never held up. While something is in that thread, all that follows goes there
too, so the order of the calls stays the order of the entries. A durable append then waits for the disk, with all others
that do.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

import msgspec

from tenter.catalogue import ApprovalDecision
from tenter.journal.approvals import ApprovalRow, ApprovalState, Standing, cursor_in
from tenter.journal.database import Database
from tenter.journal.entry import Entry, Head, Recorded, Stream, StreamKind
from tenter.journal.log import Log
from tenter.journal.log_sync import LogSync
from tenter.journal.pruning import Wanted
from tenter.journal.sealed import Prepared, kept, prepare
from tenter.journal.store import JournalError, Pruned, Strays
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


class _Append(msgspec.Struct, frozen=True):
    """What a call of `append` wants."""

    stream: Stream
    entries: Sequence[Entry]
    durable: bool
    expected_head: str | None


class _Written(msgspec.Struct, frozen=True):
    """An append that was made; with the log that it stands in where it has to be on disk."""

    head: Head
    log: Log | None


class SqliteStore:
    """Meets `Store` with the file at `path`, which the first append creates (0600, in a folder of 0700)."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time, key: bytes | None = None) -> None:
        """`now`, seconds since 1970 UTC, dates what the journal notes of itself. `key` chains new streams."""
        self._database = Database(path, now, key)
        self._log_sync = LogSync(path)
        self._database_lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._pending: set[object] = set()
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.Lock()
        self._closed = False

    @property
    def syncs(self) -> int:
        """How many fsyncs durable appends asked for. SQLite syncs by itself when it copies or begins its log."""
        return self._log_sync.syncs + self._database.syncs

    @property
    def path(self) -> Path:
        """Where the journal is."""
        return self._database.path

    @property
    def dropped(self) -> Tail | None:
        """What was dropped from the end of the journal when this store opened it, to be told to the user."""
        return self._database.dropped

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        wanted = _Append(stream, entries, durable and bool(entries), expected_head)
        if (written := self._here(wanted)) is not None:
            head, synced = written.head, written.log and self._log_sync.wait(written.log)
        else:
            work = partial(self._there, wanted, _prepare_small(entries))
            # Shielded: whoever is cancelled meanwhile has written what it gave here.
            head, asked = await asyncio.shield(asyncio.wrap_future(self._submit(work)))
            synced = asked and asyncio.wrap_future(asked)
        self._copy_a_large_log()
        if synced:
            await self._heard(synced)
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

    async def key_of(self, stream: Stream) -> bytes | None:
        return await self._look(partial(self._database.key_of, stream))

    async def streams(self, kind: StreamKind | None = None, *, limit: int | None = None) -> Sequence[StreamSummary]:
        return await self._look(partial(self._database.streams, kind, limit))

    async def summary(self, stream: Stream) -> StreamSummary | None:
        return await self._look(partial(self._database.summary, stream))

    async def approvals(
        self,
        *,
        run: str | None = None,
        state: ApprovalState | None = "open",
        after: str | None = None,
        limit: int = 50,
    ) -> Sequence[ApprovalRow]:
        cursor = None if after is None else cursor_in(after)
        look = partial(self._database.approvals, run=run, state=state, after=cursor, limit=limit)
        return await self._look(look)

    async def request(self, run_id: str, request_id: str) -> ApprovalRow | None:
        return await self._look(partial(self._database.request, run_id, request_id))

    async def standing(self, run_id: str) -> Sequence[Standing]:
        return await self._look(partial(self._database.standing, run_id))

    async def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
        def decide() -> ApprovalDecision:
            with self._database.patience(create=False):
                return self._database.decide(decision)

        # Shielded: whoever is cancelled meanwhile has decided.
        return await asyncio.shield(asyncio.wrap_future(self._submit(decide)))

    async def cancelling(self) -> frozenset[str]:
        return await self._look(self._database.cancelling)

    async def strays(self) -> Strays:
        return await self._look(self._database.strays)

    async def unsound(self) -> str:
        return await self._look(self._database.unsound)

    async def prune(self, *, before: int, erase: bool = False, dry: bool = False) -> Pruned:
        pieces, pruned = self._database.prune(Wanted(before=before, erase=erase, dry=dry)), Pruned()
        while True:
            began = time.monotonic()
            piece = await self._look(lambda: next(pieces, None))
            if piece is None:
                return pruned
            pruned += piece
            await asyncio.sleep(time.monotonic() - began)  # for as long as other writers had to wait, they may write

    async def close(self) -> None:
        with self._thread_lock:
            was_closed, self._closed = self._closed, True
            thread = self._thread
            if was_closed or thread is None:
                return
            closing = self._put(self._close)
            self._jobs.put(None)
        await asyncio.shield(asyncio.wrap_future(closing))
        thread.join()

    def _close(self) -> None:
        self._log_sync.close()
        self._database.close()

    def _here(self, wanted: _Append) -> _Written | None:
        """What was written; None when it has to be done in the thread."""
        if self._pending or self._log_sync.is_slow or not self._database_lock.acquire(blocking=False):
            return None
        try:
            if not self._database.is_open or (wanted.durable and not self._database.has_whole_log()):
                return None
            head = self._write_small(wanted)
            return head and _Written(head, self._database.seen_log() if wanted.durable else None)
        except JournalError as error:
            if error.trouble == "locked":
                return None  # nothing was written, and the thread has the patience to wait
            raise
        finally:
            self._database_lock.release()

    def _write_small(self, wanted: _Append) -> Head | None:
        stream, entries, expected_head = wanted.stream, wanted.entries, wanted.expected_head
        if len(entries) == 1:
            head = self._database.append_next(stream, entries[0], expected_head=expected_head)
            if head is not None:
                return head
        prepared = _prepare_small(entries)
        return None if prepared is None else self._database.append(stream, prepared, expected_head=expected_head)

    def _there(self, wanted: _Append, small: Sequence[Prepared] | None) -> tuple[Head, Future[None] | None]:
        """The new head, and what tells that it is on disk where that is wanted."""
        stream, prepared = wanted.stream, prepare(wanted.entries) if small is None else small
        with self._database.patience(create=not self._database.has_lost(stream)):
            log = self._database.seen_log() if wanted.durable else None
            # Where SQLite keeps no log, it puts what is appended on disk itself.
            alone = wanted.durable and not log
            head = self._database.append(stream, prepared, durable=alone, expected_head=wanted.expected_head)
            log = log and self._database.seen_log()
        return head, log and self._log_sync.ask(log)

    async def _heard(self, synced: Awaitable[None]) -> None:
        try:
            await synced
        except JournalError as error:
            if error.trouble == "damaged":
                self._database.is_log_damaged = True
            elif error.trouble != "removed":  # of such a log nothing must be copied
                with contextlib.suppress(JournalError):  # closed meanwhile
                    self._submit(self._database.checkpoint)  # then SQLite begins a new log, which can be relied on
            raise

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
