"""Who has a run (FAULTS 45, 48): one process at a time goes on with it, and another hears which one, and since when.

The claim is an entry of the run's own stream, appended onto the head that was read, so that of two who claim at the
same moment one wins. A process is told by its number and when it started. Within this process the runs that are going
on are known by name.
"""

import os
import socket
import threading
from collections.abc import AsyncGenerator, Collection, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from tenter.executors import ProcessId, is_alive, this_process
from tenter.harness.leftovers import end_leftovers
from tenter.harness.shielded import uncut
from tenter.journal import Entry, HeadMoved, JournalError, Store, Stream, StreamSummary, microseconds
from tenter.kernel import Clock, TenterError

HERE: Final[dict[tuple[object, Stream], float]] = {}
"""The runs that go on in this process, by journal and stream, and since when, in seconds since the epoch."""

_TAKING: Final = threading.Lock()

HOLDER: Final = "holder"
"""By this name it is accepted that a process of another host, which cannot be seen, has the run no more."""


class RunHeld(TenterError):
    """A living process has the run."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has, or had, a run, as its summary tells."""

    process: ProcessId
    host: str
    since: int
    """Microseconds since 1970 UTC."""

    @classmethod
    def of(cls, summary: StreamSummary) -> "Holder | None":
        """None where nobody has the run, or who has it cannot be told."""
        try:
            return msgspec.json.decode(summary.holder, type=cls) if summary.holder else None
        except msgspec.DecodeError:
            return None

    def lives(self) -> bool:
        """Whether it is another process that goes on. One of another host cannot be seen: it counts as living."""
        if self.host != socket.gethostname():
            return True
        return self.process != this_process() and is_alive(self.process)


def vouched_for(accept: Collection[str]) -> bool:
    """Whether these names accept that who has the run is gone. Raises TenterError for any other name."""
    if others := sorted(set(accept) - {HOLDER}):
        raise TenterError(f"{others[0]!r} is nothing that can be accepted here; there is {HOLDER!r}")
    return bool(accept)


def claim_of(by: str) -> Mapping[str, object]:
    """What an entry says of this process."""
    return {"process": this_process(), "host": socket.gethostname(), "by": by}


def is_here(store: Store, stream: Stream) -> bool:
    """Whether the run goes on in this process."""
    return (_place(store), stream) in HERE


@contextmanager
def kept_here(store: Store, stream: Stream, now: float) -> Generator[None]:
    """The run goes on in this process meanwhile, and nowhere else in it. Raises RunHeld where it does already."""
    key = _place(store), stream
    with _TAKING:
        if (since := HERE.get(key)) is not None:
            raise _held(stream, f"in process {os.getpid()} since {_when(since)}")
        HERE[key] = now
    try:
        yield
    finally:
        del HERE[key]


async def claim(store: Store, stream: Stream, *, by: str, now: float, vouched: bool = False) -> StreamSummary:
    """Makes this process the one that goes on with the run, which it keeps here; its summary as it was before.

    A run that is over stays so. `vouched`: somebody says that the process of another host that has it is gone. Raises
    TenterError for a run that the journal does not hold, RunHeld where a living process has it, JournalError.
    """
    while True:
        head = await store.head(stream)
        summary = await store.summary(stream)
        if summary is None:
            raise TenterError(f"the journal holds no {stream}; 'tenter runs list' shows those that it holds")
        check_free(summary, vouched=vouched)
        status = summary.status if summary.is_over else "running"
        entry = Entry(kind="resumed", time=microseconds(now), content={**claim_of(by), "status": status})
        try:
            await store.append(stream, [entry], durable=True, expected_head=head.hash)
        except HeadMoved:  # a decision, or another claim: it is looked at again
            continue
        except BaseException:  # it may have been appended all the same
            await release(store, stream, status=summary.status, now=now)
            raise
        return summary


async def release(store: Store, stream: Stream, *, now: float, status: str | None = None) -> None:
    """Lets go of a run that this process has and that is over, whoever cancels meanwhile.

    With the `status` that it had also of one that is not. Where that cannot be recorded it is kept.
    """
    with suppress(JournalError):
        await uncut(_release(store, stream, now=now, status=status))


async def _release(store: Store, stream: Stream, *, now: float, status: str | None) -> None:
    summary = await store.summary(stream)
    holder = None if summary is None else Holder.of(summary)
    if summary is None or holder is None or holder.process != this_process() or holder.host != socket.gethostname():
        return
    if (standing := summary.status if summary.is_over else status) is not None:
        entry = Entry(kind="released", time=microseconds(now), content={"status": standing})
        await store.append(stream, [entry], durable=True)


async def take_over(summary: StreamSummary) -> None:
    """Ends what the process that had the run before left running, where it died with it. Raises TenterError."""
    if Holder.of(summary) is not None:
        await end_leftovers(summary.stream.id)


@asynccontextmanager
async def claimed(
    store: Store, stream: Stream, *, by: str, clock: Clock, vouched: bool = False
) -> AsyncGenerator[StreamSummary]:
    """This process goes on with the run meanwhile: the summary as it was before.

    Where that fails it is let go of as it was, and one that is over in any case. Raises as `claim`.
    """
    with kept_here(store, stream, clock.now()):
        summary = await claim(store, stream, by=by, now=clock.now(), vouched=vouched)
        try:
            await take_over(summary)
            yield summary
        except BaseException:
            await release(store, stream, status=summary.status, now=clock.now())
            raise
        await release(store, stream, now=clock.now())


@asynccontextmanager
async def begun_here(store: Store, stream: Stream, *, clock: Clock) -> AsyncGenerator[None]:
    """This process begins the run and goes on with it meanwhile; once it is over it is let go of. Raises RunHeld."""
    with kept_here(store, stream, clock.now()):
        try:
            yield
        finally:
            await release(store, stream, now=clock.now())


def check_free(summary: StreamSummary, *, vouched: bool = False) -> None:
    """Raises RunHeld where another process that lives has the run."""
    holder = Holder.of(summary)
    if holder is None or not holder.lives():
        return
    elsewhere = holder.host != socket.gethostname()
    if elsewhere and vouched:
        return
    since = _when(holder.since / 1_000_000)
    where = f"in process {holder.process.pid}{f' on {holder.host}' if elsewhere else ''} since {since}"
    hint = f"; where that process is known to be gone: '--accept {HOLDER}'" if elsewhere else ""
    if summary.is_over:
        raise RunHeld(f"{summary.stream} ended {summary.status}, which is being told {where}; wait for it{hint}")
    raise _held(summary.stream, where, hint)


def _place(store: Store) -> object:
    """What tells one journal from another within a process."""
    path = getattr(store, "path", None)
    return id(store) if path is None else str(path)


def _held(stream: Stream, where: str, hint: str = "") -> RunHeld:
    return RunHeld(f"{stream} goes on {where}; wait for it, or end it with 'tenter runs cancel {stream.id}'{hint}")


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
