"""What is recorded, and the chain that holds it together (D§10). Pure: no clock, no storage.

An entry is its kind, version, time and content. Sequence and hash stand beside it (`Recorded`), and the hash covers the
digest of the content instead of the content, so that content can be erased later and the chain still holds:

    hash = SHA-256 of the canonical form of [previous hash, sequence, kind, version, time, digest of the content]

where the first entry's previous hash is the `genesis` of its stream, so that no entry can be moved to another stream.
Under a key it is the HMAC-SHA-256 of the same text, which nobody can compute who does not have the key. The genesis
tells the stream and is no secret, so it takes no key: an empty stream has one head, whatever store it is in.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from tenter.wire import PREFIX, digest, digest_of_bytes

StreamKind = Literal["run", "session", "loop", "process"]
"""What entries belong to."""
OperationKind = Literal["started", "acting", "acted", "finished"]
"""What the local engine writes of a live pass (D§11)."""
ConversationKind = Literal["user_message", "assistant_message", "tool_result", "usage", "turn", "reset"]
"""From which a session is rebuilt (seed 002)."""
RunKind = Literal["run", "resumed", "released", "cancel_requested", "status", "result", "erased"]
"""A run begins (`task`: its name), is taken up by a process and let go of, is asked to end, changes its `status`, ends
with a `status`: what a listing shows. `erased`: the entries before it may have no content any more, because that was
erased; it tells what a listing shows since."""
ApprovalKind = Literal["approval_requested", "approval_decided"]
"""A run asks a person, and what it came to: what a listing of approvals shows."""
HookRunKind = Literal["hook_started", "hook_ended"]
"""A hook run outside the process, before and after (D§10)."""
EntryKind = OperationKind | ConversationKind | RunKind | ApprovalKind | HookRunKind | Literal["note"]
"""Every kind that this version writes. A kind that it does not know is kept when it is read."""

VERSION: Final = 1
"""The version of the entries that are written now."""

_encode = msgspec.json.Encoder().encode  # of short texts and small integers, which is their canonical form


class Stream(msgspec.Struct, frozen=True):
    """One numbered, chained series of entries. `id` is unique within its `kind`."""

    kind: StreamKind
    id: str

    def __post_init__(self) -> None:
        """Raises ValueError for an `id` that is no Unicode text."""
        try:
            self.id.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the id of a {self.kind}, {self.id!r}, holds lone surrogates; choose another") from error

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r}"


def microseconds(seconds: float) -> int:
    """The time of an entry, from a clock's seconds since 1970 UTC."""
    return round(seconds * 1_000_000)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened.

    `content` is anything that has a canonical form (`tenter.wire`); a `Document` within it is kept apart and stored
    once. What is read back holds lists where tuples were and mappings where structs were.
    """

    kind: EntryKind | str
    time: int
    """Microseconds since 1970 UTC, by the clock of whoever writes it."""
    content: Mapping[str, object]
    version: int = VERSION


class Head(msgspec.Struct, frozen=True):
    """The end of a stream: the last entry's sequence (0 when there is none) and hash."""

    sequence: int
    hash: str


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it was read, with what stands beside it."""

    stream: Stream
    sequence: int
    """From 1, without gaps, within the stream."""
    hash: str
    digest: str
    """`sha256:…` of the canonical form of the content, also when the content was erased."""
    entry: Entry
    erased: bool = False
    """The content was erased; `entry.content` is empty."""
    altered: bool = False
    """The content, or something kept apart that was fetched for it, is not what its digest was made of."""

    @property
    def head(self) -> Head:
        return Head(self.sequence, self.hash)


def genesis(stream: Stream) -> Head:
    """The head of an empty stream."""
    return Head(0, digest(["tenter journal", 1, stream.kind, stream.id]))


def link(previous: Head, entry: Entry, content_digest: str, key: bytes | None = None) -> Head:
    """The head after `entry`, whose content has `content_digest`, in a chain under `key`."""
    sequence = previous.sequence + 1
    linked = _encode([previous.hash, sequence, entry.kind, entry.version, entry.time, content_digest])
    return Head(sequence, PREFIX + hmac.digest(key, linked, "sha256").hex() if key else digest_of_bytes(linked))


def flaw(record: Recorded, previous: Head, key: bytes | None = None) -> str | None:
    """Why the record does not hold after `previous` in a chain under `key`; None when it does.

    It holds when it follows without a gap, its hash is that of the chain, and its content was not altered.
    """
    if record.sequence != previous.sequence + 1:
        return f"entry {record.sequence} stands in its place"
    if record.altered:
        return "its content is not what its digest was made of"
    if record.head != link(previous, record.entry, record.digest, key):
        return "its hash is not that of the chain: it, or what stands before it, is not what was written"
    return None


def verify(records: Iterable[Recorded], after: Head | None = None, key: bytes | None = None) -> int | None:
    """The sequence at which a stream's records first do not hold, or None when they all do.

    The first follows `after`, or the start of its stream. That the end was cut off only a head kept elsewhere shows.
    """
    for record in records:
        previous = after or genesis(record.stream)
        if flaw(record, previous, key):
            return previous.sequence + 1
        after = record.head
    return None
