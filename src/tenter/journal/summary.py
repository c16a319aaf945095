"""The line that a listing shows of a stream.

It is folded from the stream's entries as they are appended, so that a listing reads no entry, and both stores fold
alike. It knows nothing of how either is stored.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from tenter.journal.entry import Entry, Stream
from tenter.wire import Document

SHOWN: Final = frozenset({"run", "resumed", "released", "status", "result", "cancel_requested", "erased"})
"""The kinds of entries that change a summary."""

TERMINAL: Final = frozenset({"completed", "blocked", "escalated", "failed", "cancelled"})
"""The statuses of runs that are over (seed 003, "Run statuses")."""


class StreamSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing shows of a stream."""

    stream: Stream
    name: str = ""
    """The task of a run: `task` of its `run` entry."""
    status: str = ""
    """`status` of the last entry that names one; `running` after a `resumed` one that names none. One that names a
    terminal status claims a run that is over, and whose end was told to nobody."""
    started: int
    """Time of the first entry, in microseconds since 1970 UTC."""
    ended: int | None = None
    """Time of the first entry that ended it: a terminal `status`, or the `result` where there was none."""
    holder: str = ""
    """Who has the run: the canonical form of `process` and `host` of the last `run` or `resumed` entry that tells a
    process, and its time as `since`. Empty where nobody has: since then it was released, or began to wait. One that
    has ended is released when that was told; who has it until then may have died meanwhile."""
    cancelling: bool = False
    """Somebody asked that it be cancelled, and it is not over. A claim takes nothing of that back."""
    parent: str = ""
    """The run that spawned it: `envelope.parent_run_id` of its `run` entry."""
    erased: bool = False
    """The content of its entries was erased, and an `erased` entry says so."""

    @property
    def is_over(self) -> bool:
        """Whether it has a terminal state on record, told or not."""
        return self.ended is not None or self.status in TERMINAL

    @property
    def since(self) -> int | None:
        """Since when somebody has the run; None where nobody has."""
        return msgspec.json.decode(self.holder, type=_Since).since if self.holder else None


class _Since(msgspec.Struct):
    since: int


class _Left(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an `erased` entry: the fields of the summary that no entry tells any more."""

    name: str
    status: str
    ended: int | None
    holder: str
    parent: str


def erased_entry(summary: StreamSummary, time: int) -> Entry:
    """What is written at the end of a stream before the content of all entries before it is erased."""
    left = {name: getattr(summary, name) for name in _Left.__struct_fields__}
    return Entry(kind="erased", time=time, content=left)


def summarise(summary: StreamSummary, entry: Entry) -> StreamSummary:
    """The summary after `entry`. Returns `summary` itself when the entry changes nothing that a listing shows."""
    match entry.kind:
        case "run":
            begun = msgspec.structs.replace(summary, name=_text(entry.content, "task"), parent=_parent(entry))
            summary = msgspec.structs.replace(_claimed(begun, entry), cancelling=False)
        case "resumed":
            status = _text(entry.content, "status") or "running"
            summary = _claimed(msgspec.structs.replace(summary, status=status), entry)
        case "released":
            status = summary.status if summary.is_over else _text(entry.content, "status")
            summary = msgspec.structs.replace(summary, status=status, holder="")
        case "status":
            status = _text(entry.content, "status")
            summary = _over(summary, status, entry) if status in TERMINAL else _standing(summary, status)
        case "result":
            summary = _over(summary, _text(entry.content, "status"), entry)
        case "cancel_requested":
            summary = msgspec.structs.replace(summary, cancelling=not summary.is_over)
        case "erased":
            summary = _erased(summary, entry)
        case _:
            pass
    return summary


def _claimed(summary: StreamSummary, entry: Entry) -> StreamSummary:
    process = entry.content.get("process")
    if process is None:
        return summary
    held = {"process": process, "host": _text(entry.content, "host"), "since": entry.time}
    return msgspec.structs.replace(summary, holder=Document(held).data.decode())


def _standing(summary: StreamSummary, status: str) -> StreamSummary:
    holder = "" if status == "awaiting_approval" else summary.holder
    return msgspec.structs.replace(summary, status=status, holder=holder)


def _over(summary: StreamSummary, status: str, entry: Entry) -> StreamSummary:
    ended = entry.time if summary.ended is None else summary.ended
    return msgspec.structs.replace(summary, status=status, ended=ended, cancelling=False)


def _erased(summary: StreamSummary, entry: Entry) -> StreamSummary:
    try:
        left = msgspec.structs.asdict(msgspec.convert(dict(entry.content), _Left))
    except msgspec.ValidationError:  # not one of ours
        left = {}
    return msgspec.structs.replace(summary, **left, erased=True)


def _parent(entry: Entry) -> str:
    envelope = entry.content.get("envelope")
    if isinstance(envelope, msgspec.Struct):
        envelope = msgspec.structs.asdict(envelope)
    return _text(cast(Mapping[str, object], envelope), "parent_run_id") if isinstance(envelope, Mapping) else ""


def _text(content: Mapping[str, object], key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""
