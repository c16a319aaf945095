"""What the journal of a run holds, one pass after the other: what a run that goes on reads instead of doing (D§11).

It reads a page at a time and only as far as somebody asks, keeps what it passes by for those who ask later, and forgets
what it gave out: memory holds a page, whatever the length of the journal. It checks the chain as it reads. It knows no
operation and makes no event of what it reads; `recalled` does.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Self, cast

import msgspec

from tenter.catalogue import Status
from tenter.journal import TERMINAL, VERSION, Head, JournalError, Recorded, Store, Stream, genesis, link
from tenter.kernel import FrozenDict, Phase, TenterError

PAGE: Final = 256
"""How many entries are read at a time."""

Place = tuple[str, int, Phase | None]
"""A pass: its path, its number, and which end of a span it is."""


class RecordedPass(msgspec.Struct, frozen=True, kw_only=True):
    """One pass as far as it is on record. The contents are those of its entries; None where there is no such entry."""

    path: str
    number: int
    phase: Phase | None
    operation: str
    op: str
    input: str
    """The digest of its input."""
    acting: Mapping[str, Any] | None
    acted: Mapping[str, Any] | None
    finished: Mapping[str, Any] | None
    executions: int
    """How often its work was begun."""
    at: float
    """When it finished, else the time of its last entry, in seconds since the epoch."""


class _Gathered(msgspec.Struct, kw_only=True):
    """A pass while its entries are read."""

    started: Mapping[str, Any]
    acting: Mapping[str, Any] | None = None
    acted: Mapping[str, Any] | None = None
    finished: Mapping[str, Any] | None = None
    executions: int = 0
    time: int = 0


class Recording:
    """The stream of one run, as it stood when it was begun to be read.

    Every method that reads raises JournalError, also for what is no longer what was written ("damaged"), and
    TenterError for what this version cannot read and for content that was erased.
    """

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store = store
        self._stream = stream
        self._reading = asyncio.Lock()
        self._key: bytes | None = None
        self._passes: dict[Place, _Gathered] = {}
        self._at_end = self._is_run = False
        self.first: Mapping[str, Any] = {}
        """The content of the entry that the run begins with."""
        self.head: Head = genesis(stream)
        """That of the last entry that was read."""
        self.traced = 0
        """How many entries the trace had when the last pass finished."""
        self.metadata: Mapping[str, Mapping[str, object]] = FrozenDict()
        """What hooks outside the process gave, the last of each."""
        self.status: Status | None = None
        """The terminal status; None where the run has none."""
        self.stored: dict[str, int] = {}
        """How many checkpoints and results there are, by kind."""

    @classmethod
    async def begin(cls, store: Store, stream: Stream) -> Self:
        """Reads the beginning. Raises TenterError also for a stream that is no run's or has no entry."""
        recording = cls(store, stream)
        recording._key = await store.key_of(stream)
        await recording._read_on()
        if stream.kind != "run" or not recording._is_run:
            raise TenterError(f"the journal holds no {stream}; 'tenter runs list' shows the runs that it holds")
        return recording

    async def next(self, path: str, number: int, phase: Phase | None = None) -> RecordedPass | None:
        """The pass as it was recorded, given once; None when it is not on record. Passes may be asked for in any order.

        Reads on until the pass has finished, so that one which never did is given when all has been read.
        """
        place = (path, number, phase)
        while ((found := self._passes.get(place)) is None or found.finished is None) and not self._at_end:
            await self._read_on()
        return None if self._passes.pop(place, None) is None else _recorded(place, cast("_Gathered", found))

    async def holds(self, path: str, number: int) -> bool:
        """Whether a pass of a leaf is on record that nobody has asked for yet. Reads on until it is found."""
        place = (path, number, None)
        while place not in self._passes and not self._at_end:
            await self._read_on()
        return place in self._passes

    async def rest(self) -> tuple[RecordedPass, ...]:
        """What was recorded and nobody asked for, in the order in which it began. Reads to the end."""
        while not self._at_end:
            await self._read_on()
        return tuple(_recorded(place, found) for place, found in self._passes.items())

    async def _read_on(self) -> None:
        """The next page, which all who wait for one share."""
        after = self.head
        async with self._reading:
            if self.head != after:
                return
            count = 0
            async for recorded in self._store.read(self._stream, after=after.sequence, limit=PAGE):
                self._check(recorded)
                self._take(recorded)
                count += 1
            self._at_end = count < PAGE

    def _check(self, recorded: Recorded) -> None:
        entry = recorded.entry
        head = link(self.head, entry, recorded.digest, self._key)
        if recorded.altered or recorded.hash != head.hash or recorded.sequence != head.sequence:
            raise JournalError(
                "damaged",
                f"entry {head.sequence} of {self._stream} is not what was written: nobody can go on from it; "
                f"'tenter runs verify {self._stream.id}' tells more",
            )
        if entry.version > VERSION:
            raise TenterError(
                f"entry {head.sequence} of {self._stream} was written by a newer tenter (entries of version "
                f"{entry.version}, this one reads up to {VERSION}); go on with that"
            )
        if recorded.erased:
            raise TenterError(f"the content of entry {head.sequence} of {self._stream} was erased; start a new run")
        self.head = head

    def _take(self, recorded: Recorded) -> None:
        entry = recorded.entry
        content: Mapping[str, Any] = entry.content
        place: Place = content.get("path", ""), content.get("pass", 0), content.get("phase")
        match entry.kind:
            case "started":
                if place not in self._passes:
                    self._passes[place] = _Gathered(started=content, time=entry.time)
            case "acting":
                found = self._of(place, recorded.sequence)
                found.acting, found.time = content, entry.time
                found.executions += 1
            case "acted":
                found = self._of(place, recorded.sequence)
                found.acted, found.time = content, entry.time
            case "finished":
                found = self._of(place, recorded.sequence)
                found.finished, found.time = content, entry.time
                self.traced = content.get("trace", self.traced)
            case "run" if recorded.sequence == 1:
                self.first, self._is_run = content, True
            case "status":
                status = content.get("status")
                self.status = cast("Status", status) if status in TERMINAL else None
            case "hook_ended" if content.get("metadata") is not None:
                self.metadata = FrozenDict({**self.metadata, content["hook"]: content["metadata"]})
            case "checkpoint" | "result":
                self.stored[entry.kind] = self.stored.get(entry.kind, 0) + 1
            case _:
                pass

    def _of(self, place: Place, sequence: int) -> _Gathered:
        """The pass that an entry belongs to. What was begun stays known until it is over."""
        found = self._passes.get(place)
        if found is None:
            text = f"entry {sequence} of {self._stream} goes on with a pass that never began"
            raise JournalError("damaged", text)
        return found


def _recorded(place: Place, found: _Gathered) -> RecordedPass:
    path, number, phase = place
    return RecordedPass(
        path=path,
        number=number,
        phase=phase,
        operation=found.started["operation"],
        op=found.started["op"],
        input=found.started["input"],
        acting=found.acting,
        acted=found.acted,
        finished=found.finished,
        executions=found.executions,
        at=found.time / 1_000_000,
    )
