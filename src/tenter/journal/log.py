"""Looks whether the write-ahead log is still the one that SQLite writes to: SQLite itself does not notice.

Whoever removes, empties or overwrites the log under a running process takes with it what was appended since the last
copy. A look costs about 5 µs; one is taken after each durable append and one when it is on disk, before it a glance.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tenter.journal.connection import trouble

_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_SALTS: Final = slice(16, 24)
"""Change whenever SQLite begins the log anew, as it may after a copy."""
_HEADER: Final = 32
_fdatasync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """The log as it was seen: which file, since which beginning, and its bytes."""

    file: tuple[int, int]
    salts: bytes
    size: int


def look_at_log(path: Path | str, *, sync: bool = False) -> Log | None:
    """The log of the journal at `path`, once all that is in it is on disk with `sync`; None where there is no log.

    Raises OSError.
    """
    try:
        descriptor = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if sync:
            _fdatasync(descriptor)
        status, header = os.fstat(descriptor), os.read(descriptor, _HEADER)
    finally:
        os.close(descriptor)
    # Another process may empty it in good order; then SQLite writes a new header before anything else.
    salts = header[_SALTS] if header[:4] in _MAGIC or not header else b"none"
    return Log(file=(status.st_dev, status.st_ino), salts=salts, size=status.st_size)


def is_as_long(path: Path | str, before: Log) -> bool:
    """Whether the log is the file of `before` and has not become shorter: a glance, which costs 1 µs."""
    try:
        status = os.stat(f"{path}-wal")  # noqa: PTH116  # a third of the time of Path.stat
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == before.file and status.st_size >= before.size


def checked_log(path: Path | str, before: Log) -> Log:
    """The log as it is now. Raises JournalError where it is not what became of `before`, and OSError."""
    return followed_log(path, before, look_at_log(path))


def followed_log(path: Path | str, before: Log, now: Log | None) -> Log:
    """`now`. Raises JournalError where it is not what became of `before`."""
    if now is None or now.file != before.file:
        raise trouble(Path(path), "removed", "its write-ahead log is gone")
    if now.salts == b"none" or (now.salts == before.salts and now.size < before.size):
        raise trouble(Path(path), "damaged", "its write-ahead log was overwritten or cut short")
    return now
