"""What a loop writes into its stream of the journal, and how its state is read back from there (D§10, D§3.9).

Kinds of entries: `run` (it begins), `loop_state` (a boundary), `loop_suspended`, `loop_released`, `result` (its end),
beside those of its hooks. It decides nothing.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final, Literal, cast

import msgspec

from tenter.catalogue import EMPTY
from tenter.journal import Entry, JournalError, Store, Stream, microseconds
from tenter.kernel import Clock, Redactor, TenterError
from tenter.loop.reason import ReleaseHow
from tenter.loop.request import LoopResult
from tenter.loop.state import STATE_VERSION, LoopState
from tenter.loop.suspension import SuspendState

APART: Final = ("pending", "taken", "metadata")
"""The fields of a state that are written as texts of their own."""
PAGE: Final = 64

_WITHOUT: Final[Mapping[str, object]] = {"pending": (), "taken": (), "metadata": EMPTY}


class LoopRecord:
    """The stream of one loop."""

    def __init__(self, store: Store, stream: Stream, *, redactor: Redactor, clock: Clock) -> None:
        self._store = store
        self.stream = stream
        self._redactor = redactor
        self._clock = clock
        self.lenient = False
        """Whether what cannot be recorded stops nothing any more."""
        self._trouble: JournalError | None = None
        self._texts: dict[str, tuple[object, str]] = {}

    async def begin(self, content: Mapping[str, object]) -> None:
        """The first entry: which loop it is and what it was asked."""
        await self._append("run", await self._redactor.apply({"task": "loop", **content}))

    async def state(self, state: LoopState) -> None:
        """Where the loop stands, at a boundary."""
        shown = await self._redactor.apply(state)
        # As texts: they are written at every boundary, and read by nobody but `last_state`. What may be large and
        # seldom changes has one of its own, which the journal keeps once.
        content = {name: self._text(name, getattr(shown, name)) for name in APART}
        content["state"] = _json(msgspec.structs.replace(shown, **_WITHOUT))
        await self._append("loop_state", content, version=STATE_VERSION)

    async def suspended(self, state: LoopState, suspension: SuspendState) -> None:
        """The loop waits: on disk before it does."""
        await self.state(state)
        await self._append("loop_suspended", cast("dict[str, object]", msgspec.to_builtins(suspension)), durable=True)

    async def released(self, suspension_id: str, how: ReleaseHow | Literal["expired"], by: object) -> None:
        """What ended a suspension: on disk before the loop acts on it."""
        content = {"suspension_id": suspension_id, "how": how, "by": msgspec.to_builtins(by)}
        await self._append("loop_released", content, durable=True)

    async def ended(self, content: Mapping[str, object]) -> None:
        """The loop is over."""
        await self._append("result", await self._redactor.apply(content), durable=True)

    def _text(self, name: str, value: object) -> str:
        """A field as text; the last of each name is remembered, as the value is mostly the same one."""
        known = self._texts.get(name)
        if known is None or known[0] is not value:
            known = self._texts[name] = (value, _json(value))
        return known[1]

    def let_go(self) -> None:
        """From now on what cannot be recorded stops nothing: the loop comes to its end."""
        self.lenient = True

    async def _append(
        self, kind: str, content: Mapping[str, object], *, durable: bool = False, version: int = 1
    ) -> None:
        """Nothing is recorded after what could not be: the loop goes on from where its record ends."""
        entry = Entry(kind=kind, time=microseconds(self._clock.now()), content=content, version=version)
        if self._trouble is None:
            try:
                await self._store.append(self.stream, [entry], durable=durable)
            except JournalError as error:
                self._trouble = error
        if self._trouble is not None and not self.lenient:
            raise self._trouble


async def last_state(store: Store, stream: Stream) -> LoopState | None:
    """The state that the stream recorded last; None where the loop never came to a boundary.

    Raises TenterError where it cannot be read.
    """
    entry = await _last(store, stream, ("loop_state",))
    return None if entry is None else _state(entry, stream)


async def last_result(store: Store, stream: Stream) -> LoopResult | None:
    """How the loop ended, where that is on record and it has not gone on since.

    Raises TenterError where it cannot be read.
    """
    entry = await _last(store, stream, ("loop_state", "result"))
    if entry is None or entry.kind != "result":
        return None
    try:
        return msgspec.convert(dict(entry.content), LoopResult)
    except ValueError as error:
        raise TenterError(f"the end of {stream} in the journal cannot be read: {error}") from error


async def _last(store: Store, stream: Stream, kinds: Collection[str]) -> Entry | None:
    """The last entry of one of these kinds."""
    head = (await store.head(stream)).sequence
    while head > 0:
        after = max(head - PAGE, 0)
        page = [record async for record in store.read(stream, after=after, limit=head - after, whole=False)]
        found = next((record.sequence for record in reversed(page) if record.entry.kind in kinds), None)
        if found is not None:
            (record,) = [record async for record in store.read(stream, after=found - 1, limit=1)]
            return record.entry
        head = after
    return None


def _state(entry: Entry, stream: Stream) -> LoopState:
    if entry.version > STATE_VERSION:
        raise TenterError(
            f"the state of {stream} is of version {entry.version}, and this tenter reads {STATE_VERSION}; upgrade it"
        )
    try:
        texts = {name: json.loads(str(entry.content.get(name))) for name in ("state", *APART)}
        return msgspec.convert({**texts.pop("state"), **texts}, LoopState)
    except (ValueError, TypeError) as error:  # no JSON, no mapping, or no state
        raise TenterError(f"the state of {stream} in the journal cannot be read: {error}; start it anew") from error


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
