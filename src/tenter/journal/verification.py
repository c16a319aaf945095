"""Whether a stream is as it was written: its chain holds, and a head that was kept elsewhere is in it (D§10).

A chain alone tells what was changed in the middle. What was cut off at the end, or written anew from some entry on by
somebody who can compute the chain, only a head kept elsewhere tells, or a key. What listings show of the stream no
chain covers: that is compared with its entries. Content may be gone only where a later entry says that it was erased.
"""

from collections.abc import AsyncIterator
from itertools import islice
from typing import Final

import msgspec

from tenter.journal.entry import Head, Stream, flaw, genesis
from tenter.journal.listing import Listing
from tenter.journal.paging import every_request
from tenter.journal.store import JournalError, Store

MOST_TOLD: Final = 3
"""Of what differs in listings, so much is told."""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a stream."""

    entries: int
    """How many hold, counted from the first."""
    head: str
    """The hash of the last of these; that of the genesis where there is none."""
    erased: int = 0
    """How many of these hold without their content, which was erased."""
    fault: str | None = None
    """Which entry is the first that does not hold, and why; or that the expected head is not there; or in what the
    listings differ from the entries."""
    keyed: bool
    """It is chained under the store's key. Where a key was given and this is False, the stream was begun without one,
    or somebody who has not the key wrote it anew."""
    expected_at: int | None = None
    """Where the expected head stands: after so many entries. Below `entries`, the stream has gone on since."""


async def verified(store: Store, stream: Stream, *, expect: str | None = None) -> Verified:
    """Read the whole stream, what was kept apart too, and follow its chain. Memory holds a page, and its requests.

    `expect` is a head that was kept elsewhere: it must be the head, or have been it. Raises `JournalError`: `key` when
    the stream is chained under a key that the store was not given; `removed` when it was pruned meanwhile; any other
    trouble but `damaged`, which is a fault.
    """
    key = await store.key_of(stream)
    chain, listing = _Chain(stream, key, expect), Listing(stream)
    try:
        fault = await chain.follow(store, listing)
        if fault is None and expect is not None and chain.expected_at is None:
            fault = _missing(expect, chain.head)
        while fault is None:
            fault, head = await _unlike(store, stream, listing), await store.head(stream)
            if head == chain.head:
                break
            if head.sequence <= chain.head.sequence:
                raise JournalError("removed", f"{stream} was pruned or replaced while it was verified; verify again")
            fault = await chain.follow(store, listing)  # it has gone on meanwhile
    except JournalError as error:
        if error.trouble != "damaged":
            raise
        fault = f"entry {chain.head.sequence + 1} cannot be read: {error}"
    return Verified(
        entries=chain.head.sequence,
        head=chain.head.hash,
        erased=chain.erased,
        fault=fault,
        keyed=key is not None,
        expected_at=chain.expected_at,
    )


class _Chain:
    """How far the chain of a stream holds."""

    def __init__(self, stream: Stream, key: bytes | None, expect: str | None) -> None:
        self.head = genesis(stream)
        self.erased = 0
        self._bare: int | None = None
        """The first entry without content that no entry after it accounts for."""
        self.expected_at = 0 if expect == self.head.hash else None
        self._stream = stream
        self._key = key
        self._expect = expect

    async def follow(self, store: Store, listing: Listing) -> str | None:
        """To the end of the stream, or to the first entry that does not hold, and why. Raises JournalError."""
        async for record in store.read(self._stream, after=self.head.sequence):
            if (why := flaw(record, self.head, self._key)) is not None:
                return f"entry {self.head.sequence + 1} does not hold: {why}"
            self.head, self.erased = record.head, self.erased + record.erased
            if record.erased:
                self._bare = self._bare or record.sequence
            elif record.entry.kind == "erased":
                self._bare = None
            if self.head.hash == self._expect:
                self.expected_at = self.head.sequence
            listing.note(record)
        if self._bare is None:
            return None
        return f"entry {self._bare} has no content, and no entry after it says that it was erased"


async def _unlike(store: Store, stream: Stream, listing: Listing) -> str | None:
    """In what the listings differ from the entries. Raises JournalError."""
    summary = await store.summary(stream)
    standing = await store.standing(stream.id) if stream.kind == "run" else ()
    around = {one.root for one in standing} - {stream.id}
    ended = frozenset([run for run in around if await _is_over(store, run)])
    told = list(islice(listing.faults(summary, standing, ended), MOST_TOLD))
    if not told and stream.kind == "run":
        told = [fault async for fault in _strange(store, stream.id)]
    return "; ".join(told) or None


async def _strange(store: Store, run: str) -> AsyncIterator[str]:
    """What is listed below the run and is not one of it. Raises JournalError."""
    try:
        rows = await every_request(store, run)
    except JournalError as error:
        if error.trouble != "damaged":
            raise
        yield f"what it, or a run below it, asked for cannot be listed: {error}"
        return
    for row in rows:
        request = row.request
        if run not in (request.run_id, request.root_run_id):
            yield f"the request {request.id!r} is listed here, and is one of the run {request.run_id!r}"
            return


async def _is_over(store: Store, run: str) -> bool:
    summary = await store.summary(Stream("run", run))
    return summary is None or summary.is_over


def _missing(expect: str, head: Head) -> str:
    return (
        f"the expected head {expect!r} is not among its {head.sequence} entries: what followed was cut off, or it was "
        "written anew; or the head is of another stream"
    )
