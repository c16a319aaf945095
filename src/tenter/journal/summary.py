"""The line that a listing shows of a stream.

It is folded from the stream's entries as they are appended, so that a listing reads no entry, and both stores fold
alike. It knows nothing of how either is stored.
"""

from typing import Final

import msgspec

from tenter.journal.entry import Entry, Stream

SHOWN: Final = frozenset({"run", "status", "result"})
"""The kinds of entries that change a summary."""


class StreamSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing shows of a stream."""

    stream: Stream
    name: str = ""
    """The task of a run: `task` of its `run` entry."""
    status: str = ""
    """`status` of the last `status` or `result` entry."""
    started: int
    """Time of the first entry, in microseconds since 1970 UTC."""
    ended: int | None = None
    """Time of the `result` entry."""


def summarise(summary: StreamSummary, entry: Entry) -> StreamSummary:
    """The summary after `entry`. Returns `summary` itself when the entry changes nothing that a listing shows."""
    match entry.kind:
        case "run":
            return msgspec.structs.replace(summary, name=_text(entry, "task"))
        case "status":
            return msgspec.structs.replace(summary, status=_text(entry, "status"))
        case "result":
            return msgspec.structs.replace(summary, status=_text(entry, "status"), ended=entry.time)
        case _:
            return summary


def _text(entry: Entry, key: str) -> str:
    value = entry.content.get(key)
    return value if isinstance(value, str) else ""
