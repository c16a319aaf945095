"""Who has a run (FAULTS 45, 48): one process at a time goes on with it, and another hears which one, and since when.

The claim is an entry of the run's own stream, appended onto the head that was read, so that of two who claim at the
same moment one wins. A process is told by its number and when it started. Within this process the runs that are going
on are known by name.
"""

import os
import socket
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Final

import msgspec

from tenter.catalogue import Status
from tenter.executors import ProcessId, is_alive, this_process
from tenter.harness.leftovers import end_leftovers
from tenter.journal import Entry, HeadMoved, Store, Stream, StreamSummary, microseconds
from tenter.kernel import Clock, TenterError

HERE: Final[dict[Stream, float]] = {}
"""The runs that go on in this process, and since when, in seconds since the epoch."""

_TAKING: Final = threading.Lock()

TERMINAL: Final = frozenset[Status]({"completed", "blocked", "escalated", "failed", "cancelled"})


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


def claim_of(by: str) -> Mapping[str, object]:
    """What an entry says of this process."""
    return {"process": this_process(), "host": socket.gethostname(), "by": by}


@contextmanager
def kept_here(stream: Stream, now: float) -> Generator[None]:
    """The run goes on in this process meanwhile, and nowhere else in it. Raises RunHeld where it does already."""
    with _TAKING:
        if (since := HERE.get(stream)) is not None:
            raise _held(stream, f"in process {os.getpid()} since {_when(since)}")
        HERE[stream] = now
    try:
        yield
    finally:
        del HERE[stream]


async def claim(store: Store, stream: Stream, *, by: str, now: float) -> StreamSummary:
    """Makes this process the one that goes on with the run, which it keeps here; its summary as it was before.

    Raises TenterError for a run that the journal does not hold, RunHeld where a living process has it, JournalError.
    """
    while True:
        head = await store.head(stream)
        summary = await store.summary(stream)
        if summary is None:
            raise TenterError(f"the journal holds no {stream}; 'tenter runs list' shows those that it holds")
        check_free(summary)
        content = {**claim_of(by), "status": "running"}
        entry = Entry(kind="resumed", time=microseconds(now), content=content)
        if summary.status in TERMINAL:
            return summary
        try:
            await store.append(stream, [entry], durable=True, expected_head=head.hash)
        except HeadMoved:  # a decision, or another claim: it is looked at again
            continue
        return summary


async def take_over(summary: StreamSummary) -> None:
    """Ends what the process that had the run before left running, where it died with it. Raises TenterError."""
    if Holder.of(summary) is not None:
        await end_leftovers(summary.stream.id)


@asynccontextmanager
async def claimed(store: Store, stream: Stream, *, by: str, clock: Clock) -> AsyncGenerator[None]:
    """This process goes on with the run meanwhile; where that fails, it is let go of as it was. Raises as `claim`."""
    with kept_here(stream, clock.now()):
        summary = await claim(store, stream, by=by, now=clock.now())
        try:
            await take_over(summary)
            yield
        except BaseException:
            standing = await store.summary(stream)
            if standing is not None and standing.status == "running":
                entry = Entry(kind="released", time=microseconds(clock.now()), content={"status": summary.status})
                await store.append(stream, [entry], durable=True)
            raise


def check_free(summary: StreamSummary) -> None:
    """Raises RunHeld where another process that lives has the run."""
    holder = Holder.of(summary)
    if holder is not None and holder.lives():
        host = "" if holder.host == socket.gethostname() else f" on {holder.host}"
        since = _when(holder.since / 1_000_000)
        raise _held(summary.stream, f"in process {holder.process.pid}{host} since {since}")


def _held(stream: Stream, where: str) -> RunHeld:
    return RunHeld(f"{stream} goes on {where}; wait for it, or end it with 'tenter runs cancel {stream.id}'")


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
