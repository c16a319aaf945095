"""The line that a listing shows of a stream.

It is folded from the stream's entries as they are appended, so that a listing reads no entry, and both stores fold
alike. It knows nothing of how either is stored.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from tenter.journal.entry import Entry, Stream
from tenter.wire import Document

SHOWN: Final = frozenset({"run", "resumed", "released", "status", "result", "cancel_requested"})
"""The kinds of entries that change a summary."""

TERMINAL: Final = frozenset({"completed", "blocked", "escalated", "failed", "cancelled"})
"""The statuses of runs that are over (seed 003, "Run statuses")."""


class StreamSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing shows of a stream."""

    stream: Stream
    name: str = ""
    """The task of a run: `task` of its `run` entry."""
    status: str = ""
    """`status` of the last `status` or `result` entry; `running` after a `resumed` one."""
    started: int
    """Time of the first entry, in microseconds since 1970 UTC."""
    ended: int | None = None
    """Time of the `result` entry."""
    holder: str = ""
    """Who has the run: the canonical form of `process` and `host` of the last `run` or `resumed` entry that tells a
    process, and its time as `since`. Empty where nobody has: it was released, waits for a person, or is over."""
    cancelling: bool = False
    """Somebody asked, after the last claim, that it be cancelled, and it is not over."""
    parent: str = ""
    """The run that spawned it: `envelope.parent_run_id` of its `run` entry."""


def summarise(summary: StreamSummary, entry: Entry) -> StreamSummary:
    """The summary after `entry`. Returns `summary` itself when the entry changes nothing that a listing shows."""
    match entry.kind:
        case "run":
            begun = msgspec.structs.replace(summary, name=_text(entry.content, "task"), parent=_parent(entry))
            summary = _claimed(begun, entry)
        case "resumed":
            summary = _claimed(msgspec.structs.replace(summary, status="running"), entry)
        case "released":
            summary = msgspec.structs.replace(summary, status=_text(entry.content, "status"), holder="")
        case "status":
            summary = _standing(summary, _text(entry.content, "status"))
        case "result":
            ended = _standing(summary, _text(entry.content, "status"))
            summary = msgspec.structs.replace(ended, ended=entry.time, holder="", cancelling=False)
        case "cancel_requested":
            is_over = summary.status in TERMINAL or summary.ended is not None
            summary = msgspec.structs.replace(summary, cancelling=not is_over)
        case _:
            pass
    return summary


def _claimed(summary: StreamSummary, entry: Entry) -> StreamSummary:
    process = entry.content.get("process")
    if process is None:
        return msgspec.structs.replace(summary, cancelling=False)
    held = {"process": process, "host": _text(entry.content, "host"), "since": entry.time}
    return msgspec.structs.replace(summary, holder=Document(held).data.decode(), cancelling=False)


def _standing(summary: StreamSummary, status: str) -> StreamSummary:
    is_over = status in TERMINAL
    return msgspec.structs.replace(
        summary,
        status=status,
        holder="" if is_over or status == "awaiting_approval" else summary.holder,
        cancelling=summary.cancelling and not is_over,
    )


def _parent(entry: Entry) -> str:
    envelope = entry.content.get("envelope")
    if isinstance(envelope, msgspec.Struct):
        envelope = msgspec.structs.asdict(envelope)
    return _text(cast(Mapping[str, object], envelope), "parent_run_id") if isinstance(envelope, Mapping) else ""


def _text(content: Mapping[str, object], key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""
