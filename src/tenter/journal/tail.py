"""What stands after the last whole commit in SQLite's write-ahead log, which SQLite drops without a word.

An append that was under way when its process or the machine stopped leaves an incomplete frame there; so does a file
that was cut, and a machine that stopped may leave zeros. Only what the file still shows is found: a log that was cut
between two commits looks whole, and a head that was kept elsewhere is needed to tell. The layout is that of
https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
"""

import sqlite3
import struct
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from tenter.journal.rows import one

_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_LITTLE_ENDIAN_SUMS: Final = 0x377F0682


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """What was dropped."""

    bytes: int
    zeros: bool
    """It begins with zeros: the machine stopped before the pages reached the disk."""


def tail_of(connection: sqlite3.Connection, log: Path) -> Tail | None:
    """What SQLite dropped from the end of `log` when it opened it; None when nothing was, or nobody can tell any more.

    Raises sqlite3.Error.
    """
    before = one(connection, "PRAGMA data_version")
    busy, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if busy or dropped_tail(log, frames) is None:
        return None
    connection.execute("BEGIN IMMEDIATE")  # now no other process is in the middle of an append
    tail = dropped_tail(log, frames) if one(connection, "PRAGMA data_version") == before else None
    connection.execute("ROLLBACK")
    return tail


def dropped_tail(log: Path, frames: int) -> Tail | None:
    """What stands in `log` after its first `frames` frames, which are whole, or None when nothing was dropped.

    Frames of an earlier round, which SQLite leaves to be overwritten, are nothing.
    """
    try:
        with log.open("rb") as file:
            return _tail(file, log.stat().st_size, frames)
    except FileNotFoundError:
        return None


def _tail(file: BinaryIO, size: int, frames: int) -> Tail | None:
    header = file.read(_HEADER)
    if not any(header) or len(header) < _HEADER:
        return Tail(bytes=size, zeros=bool(header) and not any(header)) if size else None
    page = int.from_bytes(header[8:12])
    end = _HEADER + frames * (_FRAME_HEADER + page)
    if size <= end:
        return None
    file.seek(end)
    frame = file.read(_FRAME_HEADER + page)
    if not any(frame[:_FRAME_HEADER]):
        return Tail(bytes=size - end, zeros=True)
    salts = frame[8:16]
    if not header[16:24].startswith(salts):
        return None
    if frames == 0 and _is_whole(header, frame):
        return None  # everything was copied to the database and the next round has begun, without a frame so far
    return Tail(bytes=size - end, zeros=False)


def _is_whole(header: bytes, frame: bytes) -> bool:
    """The first frame's checksum holds: each of two sums adds the other and every second word."""
    order = "<" if int.from_bytes(header[:4]) == _LITTLE_ENDIAN_SUMS else ">"
    data = frame[:8] + frame[_FRAME_HEADER:]
    if len(data) % 8:
        return False
    first, second = struct.unpack(">II", header[24:32])
    for even, odd in struct.iter_unpack(f"{order}II", data):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack(">II", frame[16:24])
