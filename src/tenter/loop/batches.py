"""What an iteration left in the events file: which bytes, and the events in them, masked (D§3.4)."""

import asyncio
import stat
from pathlib import Path
from typing import Final

from tenter.executors import in_thread
from tenter.kernel import Redactor
from tenter.loop.events_file import EventsCut, read_events
from tenter.loop.published import Malformed, count_lines, parse_events
from tenter.loop.state import Batch, Published
from tenter.loop.work import Worked

LARGEST: Final = 64 << 20
"""Bytes of events that one iteration takes in; the rest is for the next, so that nothing is lost and memory bounded."""


AT_ONCE: Final = 100
"""Events that are masked before others get their turn."""


async def collected(path: Path, offset: int, worked: Worked, promise: str) -> Batch:
    """What a run of the backend left behind `offset`. Raises TenterError where the file cannot be read.

    A file that was cut is read from its new end on, and the agent is told so.
    """
    cut = ""
    try:
        if _has_size(path, offset):
            data, stop = b"", offset
        else:
            data, stop = await in_thread(lambda: read_events(path, offset, limit=LARGEST))
    except EventsCut as error:
        data, offset, stop = b"", error.size, error.size
        cut = str(error)
    ok = worked.status == "ok"
    return Batch(
        start=offset,
        stop=stop,
        lines=count_lines(data),
        cut=cut,
        failed=worked.status == "failed",
        error=worked.error,
        promised=ok and worked.last_line == promise,
        escalated=worked.queue if worked.status == "escalated" else None,
    )


async def events_of(path: Path, batch: Batch, *, lines: int, redactor: Redactor) -> tuple[Published | Malformed, ...]:
    """The events of a batch, without what is secret; `lines` were read before it. The same in another process."""
    if batch.start == batch.stop:
        return ()
    # In a thread and in turns: an agent may publish very many, and a stop is to be heard meanwhile.
    events = await in_thread(lambda: _parsed(path, batch, lines))
    shown: list[Published | Malformed] = []
    for number, event in enumerate(events):
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        shown.append(await redactor.apply(event))
    return tuple(shown)


def _has_size(path: Path, size: int) -> bool:
    """Whether it is a file of so many bytes, so that there is nothing new in it."""
    try:
        status = path.stat()
        return stat.S_ISREG(status.st_mode) and status.st_size == size
    except OSError:  # reading it says what is wrong, if anything is
        return False


def _parsed(path: Path, batch: Batch, lines: int) -> tuple[Published | Malformed, ...]:
    data, _ = read_events(path, batch.start, limit=max(batch.stop - batch.start, 1))
    return parse_events(data[: batch.stop - batch.start], lines + 1)
