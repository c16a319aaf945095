"""What is kept of an output stream: its first bytes, whole characters of them, and its end.

Pure: it is fed chunks and reads nothing itself. It knows no process and no deadline.
"""

import codecs
from dataclasses import dataclass

CHARACTER_MAX = 4
"""The most bytes of one UTF-8 character."""


@dataclass(frozen=True, slots=True)
class Captured:
    """What is known of one stream at its end."""

    text: str = ""
    r"""`raw` as text; each byte that is no UTF-8 stands as `\xff` (lone surrogates too), NUL and BOM as themselves."""
    raw: bytes = b""
    """The first bytes of the stream, at most the limit, exactly as they came."""
    truncated: bool = False
    """There was more than the limit."""
    total_bytes: int = 0
    """The length of the whole stream, as far as it was read."""
    tail: str = ""
    """The end of the whole stream as text, from a whole character on; empty where nobody asked for one."""


NOTHING = Captured()
"""What is known of a stream that nothing came from."""


class Capture:
    """Collects one stream: at most `limit` bytes of its beginning and `tail_bytes` of its end, whatever comes.

    How the stream was cut into chunks makes no difference to the outcome.
    """

    __slots__ = ("_decoder", "_escaped", "_limit", "_raw", "_tail", "_tail_bytes", "total_bytes")

    def __init__(self, limit: int, *, tail_bytes: int = 0) -> None:
        self._limit = limit
        self._tail_bytes = tail_bytes
        self._decoder: codecs.IncrementalDecoder | None = None
        self._raw = bytearray()
        self._escaped = bytearray()
        self._tail = b""
        self.total_bytes = 0

    @property
    def truncated(self) -> bool:
        return self.total_bytes > self._limit

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream; those past the limit are counted and forgotten."""
        room = self._limit - self.total_bytes
        self.total_bytes += len(chunk)
        if self._tail_bytes:
            self._tail = (self._tail + chunk)[-self._tail_bytes :]
        if room > 0:
            kept = chunk[:room]
            self._raw += kept
            self._escaped += self._escape(kept)

    def captured(self) -> Captured:
        """The stream as it stands; call it once, when nothing more will come."""
        if not self.total_bytes:
            return NOTHING
        raw = bytes(self._raw)
        if self.truncated:
            pending = self._decoder.getstate()[0] if self._decoder else b""
            raw = raw[: len(raw) - len(pending)]
        else:
            self._escaped += self._escape(b"", final=True)
        tail = escape(from_whole_character(self._tail) if self.total_bytes > len(self._tail) else self._tail)
        return Captured(self._escaped.decode(), raw, self.truncated, self.total_bytes, tail)

    def _escape(self, chunk: bytes, *, final: bool = False) -> bytes:
        # Chunk by chunk, because escaping 1 MiB of noise at once would stall the event loop for 150 ms; and as bytes,
        # because as text each escaped byte takes up to 16.
        if self._decoder is None:
            self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        return self._decoder.decode(chunk, final).encode()


def escape(raw: bytes) -> str:
    r"""The bytes as text, each that is no UTF-8 as `\xff`."""
    return raw.decode("utf-8", "backslashreplace")


def from_whole_character(raw: bytes) -> bytes:
    """`raw` without what may be the rest of a character that was cut in two at its front."""
    start = 0
    while start < min(CHARACTER_MAX - 1, len(raw)) and raw[start] & 0b1100_0000 == 0b1000_0000:
        start += 1
    return raw[start:]
