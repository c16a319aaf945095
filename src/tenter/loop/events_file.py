"""The file through which an agent publishes: one JSON document a line, appended by many processes, read by the loop.

It moves lines whole and knows nothing of what they say: `topic` and `published` do. Importing it is cheap, because an
agent may publish often, and each time in a process of its own.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from pathlib import Path
from typing import Final

from tenter.kernel import TenterError

EVENTS_VARIABLE: Final = "TENTER_EVENTS_FILE"
"""The variable by which the agent of a loop, and all that it starts, finds the file of that loop."""
EVENT_VERSION: Final = 1
MOST_PAYLOAD: Final = 1 << 20
"""Bytes of a payload that an agent may publish."""
LOCK_SECONDS: Final = 30.0
"""How long a writer waits for the others. Each holds the lock for less than a millisecond, unless it was stopped."""
READ_SECONDS: Final = 5.0
"""How long a reader waits for the writers; then it reads all the same."""
LOCK_PAUSE: Final = 0.002

_REMEDIES: Final = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.EROFS: "make its file system writable",
}


class EventsCut(TenterError):
    """The file is shorter than what was read of it already: somebody cut or removed it. `size` is what it has now."""

    def __init__(self, path: Path, size: int, offset: int) -> None:
        super().__init__(
            f"the events file {str(path)!r} has {size} bytes, and {offset} were read of it: it was cut or removed, and "
            "events may be lost; publish with 'tenter emit', which only appends"
        )
        self.size = size


def event_document(topic: str, payload: object, *, at: float) -> dict[str, object]:
    """What stands in a line. `at` is in seconds since the epoch."""
    return {"schema_version": EVENT_VERSION, "topic": topic, "payload": payload, "at": at}


def publish(path: Path, topic: str, payload: object, *, at: float) -> None:
    """Append one event; it is there whole when this returns, and not at all when it raises.

    The file is made, for its owner alone, where it is missing. Raises TenterError, which says what to do, where it
    cannot be written, and for a payload that is no JSON.
    """
    line = _line(event_document(topic, payload, at=at))
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            _append(file, path, line)
        finally:
            os.close(file)
    except OSError as error:
        raise TenterError(_explained(path, error)) from error


def read_events(path: Path, offset: int, *, limit: int) -> tuple[bytes, int]:
    """What stands in the file from `offset` on, at most `limit` bytes of it, and the offset from which to go on.

    Lines come whole, the last of them perhaps without its end, which is then not handed over with the next ones; but a
    line longer than `limit` comes in pieces. The last line of the file may be one that a killed writer did not finish.
    The same `offset` and a `limit` that reaches as far give the same again, whatever was appended. A missing file is an
    empty one. A writer that is at work, such as one that outlived its agent, is waited for, so that its line is read
    whole: READ_SECONDS at most, for it may be stopped. Raises EventsCut where the file is shorter than `offset`,
    TenterError where it cannot be read.
    """
    before = min(offset, 1)
    try:
        found = _read(path, offset, before=before, limit=limit)
    except OSError as error:
        raise TenterError(f"the events file {str(path)!r} cannot be read: {error.strerror}; mend that") from error
    data = found[before:]
    if len(data) > limit:
        ends = data.endswith(b"\n")  # the next byte ends the line that reaches to the limit
        data = data[:limit] if ends else data[: data.rfind(b"\n", 1, limit) + 1] or data[:limit]
    closes_off = before and found[:1] != b"\n" and data.startswith(b"\n")
    return data[1:] if closes_off else data, offset + len(data)


def _line(document: dict[str, object]) -> bytes:
    try:
        # In ASCII, so that no reader takes anything in a text for the end of a line.
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
        if "\\ud" in text:
            json.dumps(document, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TenterError(f"the payload of the event {document['topic']!r} is no JSON: {error}") from error
    return text.encode() + b"\n"


def _append(file: int, path: Path, line: bytes) -> None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise TenterError(f"the events file {str(path)!r} is not a regular file; remove it")
    _lock(file, path)
    size = os.fstat(file).st_size
    # A writer that was killed may have left half a line; closed off, it spoils none but itself.
    torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    unwritten = memoryview(b"\n" + line if torn else line)
    try:
        while unwritten:
            unwritten = unwritten[os.write(file, unwritten) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _lock(file: int, path: Path) -> None:
    """Keep the others out until the file is closed. Not for ever: one that was stopped may hold the lock."""
    if not _got(file, fcntl.LOCK_EX, seconds=LOCK_SECONDS):
        raise TenterError(f"another process has held the events file {str(path)!r} for {LOCK_SECONDS:g} s; end it")


def _got(file: int, kind: int, *, seconds: float) -> bool:
    """Takes the lock, and waits so long for others that have it; whether it was got."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(LOCK_PAUSE)
        else:
            return True


def _read(path: Path, offset: int, *, before: int, limit: int) -> bytes:
    """`before` bytes in front of `offset`, and one more than `limit` after it, by which one sees that there is more."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if offset:
            raise EventsCut(path, 0, offset) from None
        return b""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise TenterError(f"the events file {str(path)!r} is not a regular file; remove it")
        with contextlib.suppress(OSError):  # a file system without locks
            _got(file, fcntl.LOCK_SH, seconds=READ_SECONDS)
        size = os.fstat(file).st_size
        if size < offset:
            raise EventsCut(path, size, offset)
        return os.pread(file, before + limit + 1, offset - before)
    finally:
        os.close(file)


def _explained(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"the folder of the events file {str(path)!r} is not there any more; is the loop over?"
    remedy = _REMEDIES.get(error.errno or 0, "mend that")
    return f"the event was not published: {str(path)!r} cannot be written: {error.strerror}; {remedy} and try again"
