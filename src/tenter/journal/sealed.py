"""From entries to what a store keeps, and back. Pure, and the same for every store."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import msgspec

from tenter.journal.entry import Entry, Head, Recorded, Stream, link
from tenter.journal.store import JournalError
from tenter.wire import CanonicalError, Document, Fetch, Parts, digest_of_bytes, plain_form, restore

_LIMIT: Final = 2**53


class Prepared(msgspec.Struct, frozen=True):
    """An entry and the canonical form of its content: what can be made without knowing the head."""

    entry: Entry
    content: Document


class Sealed(msgspec.Struct, frozen=True):
    """An entry as it is kept: numbered, chained, with the canonical form of its content (None when erased)."""

    sequence: int
    kind: str
    version: int
    time: int
    digest: str
    hash: str
    data: bytes | None


def prepare(entries: Sequence[Entry], *, at_most: int | None = None) -> tuple[Prepared, ...]:
    """The entries with their contents in canonical form.

    Raises `JournalError` (`content`) for content that has no canonical form, and `OversizeError` for an entry with more
    than `at_most` characters.
    """
    return tuple([Prepared(entry, _document(entry, at_most)) for entry in entries])


def _document(entry: Entry, at_most: int | None) -> Document:
    if not _can_be_chained(entry):
        reason = "its kind must be ASCII, its time (microseconds) and version integers below 2^53"
        raise JournalError("content", f"an entry {entry.kind!r} cannot be journaled: {reason}")
    try:
        return Document(entry.content, at_most=at_most)
    except CanonicalError as error:
        raise JournalError("content", f"an entry {entry.kind!r} cannot be journaled, {error}") from error


def _can_be_chained(entry: Entry) -> bool:
    return entry.kind.isascii() and abs(entry.time) < _LIMIT and abs(entry.version) < _LIMIT


def seal_flat(head: Head, entry: Entry, key: bytes | None = None) -> Sealed | None:
    """As `prepare` and `seal`, at once, for an entry with short, plain content; None leaves another to these."""
    data = plain_form(entry.content) if _can_be_chained(entry) else None
    if data is None:
        return None
    digest = digest_of_bytes(data)
    head = link(head, entry, digest, key)
    return Sealed(head.sequence, entry.kind, entry.version, entry.time, digest, head.hash, data)


def seal(head: Head, prepared: Iterable[Prepared], key: bytes | None = None) -> tuple[Sealed, ...]:
    """The entries numbered and chained onto `head`, under `key`."""
    sealed: list[Sealed] = []
    for item in prepared:
        entry, content = item.entry, item.content
        head = link(head, entry, content.digest, key)
        sealed.append(
            Sealed(head.sequence, entry.kind, entry.version, entry.time, content.digest, head.hash, content.data)
        )
    return tuple(sealed)


def kept(prepared: Iterable[Prepared]) -> Mapping[str, Parts]:
    """What the entries name and do not hold, by digest."""
    found: dict[str, Parts] = {}
    for item in prepared:
        found |= item.content.kept
    return found


def leave(_digest: str) -> Parts | None:
    """Fetches nothing: what was kept apart stays a `Reference`."""
    return None


def unseal(stream: Stream, sealed: Sealed, fetch: Fetch, known: dict[str, object] | None = None) -> Recorded:
    """The entry as it is read. `fetch` gives what was kept apart, or None to leave a `Reference` in its place.

    `known` is that of `restore`; what was altered does not stay in it, so that every entry that names it tells. Raises
    `CanonicalError` when what is kept is no canonical form of a mapping.
    """
    altered = sealed.data is not None and digest_of_bytes(sealed.data) != sealed.digest

    def checked(digest: str) -> Parts | None:
        nonlocal altered
        parts = fetch(digest)
        altered = altered or (parts is not None and digest_of_bytes(*parts) != digest)
        return parts

    content: object = {} if sealed.data is None else restore(sealed.data, checked, known)
    if altered and known is not None:
        known.clear()
    if not isinstance(content, dict):
        raise CanonicalError(f"the content of entry {sealed.sequence} of {stream} is no mapping")
    return Recorded(
        stream=stream,
        sequence=sealed.sequence,
        hash=sealed.hash,
        digest=sealed.digest,
        entry=Entry(
            kind=sealed.kind, time=sealed.time, content=cast(dict[str, object], content), version=sealed.version
        ),
        erased=sealed.data is None,
        altered=altered,
    )
