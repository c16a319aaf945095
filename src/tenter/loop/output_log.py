"""The log of what a loop's backends print, for people: by the line, masked, escaped, each with its time and stream.

It guards nothing: where it cannot be written that is told once, what is lost is counted, and the loop goes on. It holds
a bounded part of the output, however much there is, and knows nothing of what it says. On disk there are at most two
files of MOST_BYTES: one that is full takes the place of the one before it.
"""

import codecs
import contextlib
import os
import re
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

Masking = Callable[[str], str]
Stream = Literal["stdout", "stderr"]
Piece = tuple[str, bool]
"""A line, or a piece of one; True where it goes on the piece before it."""

LONGEST_LINE: Final = 64 * 1024
"""Characters of a line; a longer one comes in pieces."""
MOST_BYTES: Final = 64 << 20
"""Bytes of a log that is not full; one more write may exceed it."""
MOST_LAST_WORDS: Final = 1000
"""Characters of the last words."""
LAST_LINES: Final = 5
"""Lines of stderr that are last words."""
AHEAD: Final = 32 * 1024
"""Characters beyond a piece that are looked at: a secret that begins in the piece ends in them."""

_FULL: Final = "the log was full: what it had stands in {}, in place of what stood there before"
_MARKS: Final = {"stdout": "out", "stderr": "err"}
_OBEYED: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
"""What a terminal or an editor would obey, or take for the end of a line; a tab is harmless. Whole runs of it: an agent
may print a gigabyte of them."""
_NEAR: Final = (*range(0xA0), 0x61C, *range(0x200E, 0x2070), 0xFEFF)
_WRITTEN: Final = {number: repr(chr(number))[1:-1] for number in _NEAR if _OBEYED.match(chr(number))}


def earlier_log(path: Path) -> Path:
    """Where the log at `path` is put when it is full."""
    return path.with_name(f"{path.name}.1")


@dataclass(frozen=True, slots=True)
class Said:
    """What is kept of the output of one iteration, masked and escaped."""

    last_line: str = ""
    """The last line of stdout that is not blank; of one longer than LONGEST_LINE its beginning."""
    last_words: str = ""
    """The end of stderr, or else the last line of stdout."""


class OutputLog:
    """Takes output as it comes. Nothing that it is given, and nothing that befalls its file, makes it raise."""

    def __init__(
        self,
        path: Path,
        mask: Masking,
        show: Callable[[str], None] | None = None,
        *,
        note: Callable[[str], None] | None = None,
        now: Callable[[], float],
    ) -> None:
        """`mask` takes secrets out of a text of any number of lines; `show` gets each line as it is written.

        `note` hears, once, that the file cannot be written; without it `show` does. `now` tells seconds since the
        epoch.
        """
        self._path = path
        self._mask = mask
        self._show = show
        self._note = note
        self._now = now
        self._file: int | None = None
        self._size = 0
        self._is_bounded = True
        """Whether the file can be put aside: /dev/null cannot."""
        self._torn = False
        self.lost_lines = 0
        """Lines that could not be written."""
        self._streams = {"stdout": _Lines(mask), "stderr": _Lines(mask)}
        self._last_line = ""
        self._last_errors: deque[str] = deque(maxlen=LAST_LINES)

    def feed(self, stream: Stream, chunk: bytes) -> None:
        """Takes the next bytes of a stream."""
        self._take(stream, self._streams[stream].feed(chunk))

    def finish(self) -> Said:
        """Both streams are at their end, and the next bytes are of another program; what this one said."""
        for stream in ("stdout", "stderr"):
            self._take(stream, self._streams[stream].finish())
        last, errors = self._last_line, " / ".join(line.strip() for line in self._last_errors)
        self._last_line = ""
        self._last_errors.clear()
        return Said(last, errors[-MOST_LAST_WORDS:] or last[:MOST_LAST_WORDS].strip())

    def note(self, text: str) -> None:
        """A line of the loop's own; it is not shown."""
        self._write("loop", [(line, False) for line in _shown(self._mask(text)).split("\n")])

    def close(self) -> None:
        """Lets go of the file. Harmless twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take(self, stream: Stream, pieces: list[Piece]) -> None:
        if not pieces:
            return
        for text, goes_on in pieces:
            if goes_on or not text or text.isspace():
                continue
            if stream == "stdout":
                self._last_line = text
            else:
                self._last_errors.append(text[:MOST_LAST_WORDS])
        self._write(_MARKS[stream], pieces)
        for text, _ in pieces:
            self._tell(text)

    def _write(self, mark: str, pieces: list[Piece]) -> None:
        heads = (self._head(f"{mark}|"), self._head(f"{mark}+"))
        try:
            self._append("".join([f"{heads[goes_on]}{text}\n" for text, goes_on in pieces]))
        except OSError as error:
            if not self.lost_lines:
                name = str(self._path)
                told = f"the log {name!r} cannot be written: {error.strerror}; the loop goes on without it"
                if self._note is None:
                    self._tell(told)
                else:
                    with contextlib.suppress(Exception):  # as in `_tell`
                        self._note(told)
            self.lost_lines += len(pieces)

    def _head(self, mark: str) -> str:
        time = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        return f"{time}Z {mark} "

    def _append(self, text: str) -> None:
        file = self._opened()
        if self._size >= MOST_BYTES:
            file = self._begun_anew()
            text = f"{self._head('loop|')}{_FULL.format(earlier_log(self._path).name)}\n{text}"
        # One that was written in part is closed off, so that the next is whole.
        data = memoryview(("\n" * self._torn + text).encode("utf-8", "backslashreplace"))
        while data:
            written = os.write(file, data)
            data, self._torn = data[written:], True
            self._size += written if self._is_bounded else 0
        self._torn = False

    def _begun_anew(self) -> int:
        """Puts the file that is full aside, in place of the one before it, and opens another."""
        self.close()
        with contextlib.suppress(FileNotFoundError):  # somebody removed it, so there is room
            self._path.replace(earlier_log(self._path))
        self._torn = False
        return self._opened()

    def _opened(self) -> int:
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            self._file = os.open(self._path, flags, 0o600)
            status = os.fstat(self._file)
            self._is_bounded = stat.S_ISREG(status.st_mode)
            self._size = status.st_size if self._is_bounded else 0
        return self._file

    def _tell(self, text: str) -> None:
        if self._show is None:
            return
        try:
            self._show(text)
        except Exception:  # whoever looked on went away, which is nothing to the loop
            self._show = None


class _Lines:
    """Makes lines of bytes."""

    def __init__(self, mask: Masking) -> None:
        self._mask = mask
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._pending = ""
        self._goes_on = False
        """Whether `_pending` goes on a line of which pieces are out already."""

    def feed(self, chunk: bytes) -> list[Piece]:
        """The lines that end in `chunk`, and pieces of one that is too long."""
        whole, end, self._pending = (self._pending + self._decoder.decode(chunk)).rpartition("\n")
        pieces = self._made(whole) if end else []
        if len(self._pending) > LONGEST_LINE + AHEAD:
            # What was masked with all that follows can be cut anywhere; it is masked once more with what comes.
            self._pending = self._mask(self._pending)
        while len(self._pending) > LONGEST_LINE + AHEAD:
            pieces.append((_shown(self._pending[:LONGEST_LINE]), self._goes_on))
            self._pending, self._goes_on = self._pending[LONGEST_LINE:], True
        return pieces

    def finish(self) -> list[Piece]:
        """What is left when the stream has ended."""
        rest = self._pending + self._decoder.decode(b"", final=True)
        pieces = self._made(rest) if rest else []
        self._pending, self._goes_on = "", False
        return pieces

    def _made(self, text: str) -> list[Piece]:
        """The lines of `text`, masked together: a secret may have several lines, and a call for each would be slow."""
        pieces: list[Piece] = []
        text = text.replace("\r\n", "\n").removesuffix("\r")
        for line in _shown(self._mask(text)).split("\n"):
            pieces.append((line[:LONGEST_LINE], self._goes_on))
            self._goes_on = False
            if len(line) > LONGEST_LINE:  # it was masked whole, so that it can be cut anywhere
                starts = range(LONGEST_LINE, len(line), LONGEST_LINE)
                pieces += [(line[start : start + LONGEST_LINE], True) for start in starts]
        return pieces


def _shown(text: str) -> str:
    r"""`text` with all that a terminal would obey written as `\x1b`."""
    return text if text.isprintable() else _OBEYED.sub(lambda found: found[0].translate(_WRITTEN), text)
