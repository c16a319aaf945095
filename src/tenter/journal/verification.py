"""Whether a stream is as it was written: its chain holds, and a head that was kept elsewhere is in it (D§10).

A chain alone tells what was changed in the middle. What was cut off at the end, or written anew from some entry on by
somebody who can compute the chain, only a head kept elsewhere tells, or a key.
"""

import msgspec

from tenter.journal.entry import Head, Stream, flaw, genesis
from tenter.journal.store import JournalError, Store


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a stream."""

    entries: int
    """How many hold, counted from the first."""
    head: str
    """The hash of the last of these; that of the genesis where there is none."""
    erased: int = 0
    """How many of these hold without their content, which was erased."""
    fault: str | None = None
    """Which entry is the first that does not hold, and why; or that the expected head is not there."""
    keyed: bool
    """It is chained under the store's key. Where a key was given and this is False, the stream was begun without one,
    or somebody who has not the key wrote it anew."""
    expected_at: int | None = None
    """Where the expected head stands: after so many entries. Below `entries`, the stream has gone on since."""


async def verified(store: Store, stream: Stream, *, expect: str | None = None) -> Verified:
    """Read the whole stream, what was kept apart too, and follow its chain. Memory holds a page.

    `expect` is a head that was kept elsewhere: it must be the head, or have been it. Raises `JournalError`: `key` when
    the stream is chained under a key that the store was not given; any other trouble but `damaged`, which is a fault.
    """
    key = await store.key_of(stream)
    head, erased, fault = genesis(stream), 0, None
    expected_at = 0 if expect == head.hash else None
    try:
        async for record in store.read(stream):
            if (why := flaw(record, head, key)) is not None:
                fault = f"entry {head.sequence + 1} does not hold: {why}"
                break
            head, erased = record.head, erased + record.erased
            if head.hash == expect:
                expected_at = head.sequence
    except JournalError as error:
        if error.trouble != "damaged":
            raise
        fault = f"entry {head.sequence + 1} cannot be read: {error}"
    if fault is None and expect is not None and expected_at is None:
        fault = _missing(expect, head)
    return Verified(
        entries=head.sequence,
        head=head.hash,
        erased=erased,
        fault=fault,
        keyed=key is not None,
        expected_at=expected_at,
    )


def _missing(expect: str, head: Head) -> str:
    return (
        f"the expected head {expect!r} is not among its {head.sequence} entries: what followed was cut off, or it was "
        "written anew; or the head is of another stream"
    )
