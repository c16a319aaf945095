"""Where hooks outside the process leave their records: in the journal of the run or loop that they ran for (D§10)."""

from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from tenter.catalogue import EMPTY, Op
from tenter.executors import HookEnded, HookStarted
from tenter.journal import Entry, JournalError, Store, Stream, microseconds
from tenter.kernel import Event, FrozenDict

HookRunKind = Literal["hook_started", "hook_ended"]


class JournalSink:
    """Meets the executors' `Sink` with a store. What belongs to no run and no loop goes to the stream of this process.

    Remembers the metadata that hooks gave in a run or loop, the last ones of each hook, and that a record of one could
    not be written, until it is told to forget the run.
    """

    def __init__(self, store: Store, process: Stream) -> None:
        self._store = store
        self._process = process
        self._metadata: dict[Stream, Mapping[str, object]] = {}
        self._troubles: dict[str, JournalError] = {}

    async def started(self, event: Event, record: HookStarted) -> None:
        """Raises JournalError."""
        await self._append("hook_started", event, record, record.at)

    async def ended(self, event: Event, record: HookEnded) -> None:
        """Raises JournalError."""
        await self._append("hook_ended", event, record, record.ended_at)
        if record.metadata is not None:
            stream = self._stream(event)
            self.remember(stream, FrozenDict({**self.metadata(stream), record.hook: record.metadata}))

    def accumulated(self, event: Event) -> Mapping[str, object]:
        """What the loop around it was said to have accumulated, and over that what is remembered of it and of the run.

        Of each hook the innermost that there is counts, whole.
        """
        loop = _loop(event)
        told = event.op.loop.accumulated if isinstance(event.op, Op) and event.op.loop is not None else EMPTY
        layers = [self.metadata(one) for one in (loop, self._stream(event)) if one is not None]
        if not any(layers):
            return told
        below = told.get("hook_metadata")
        said = dict(cast("Mapping[str, object]", below)) if isinstance(below, Mapping) else {}
        for layer in layers:
            said |= layer
        return FrozenDict({**told, "hook_metadata": FrozenDict(said)})

    def metadata(self, stream: Stream) -> Mapping[str, object]:
        """What hooks of a run or loop gave so far, by their names."""
        return self._metadata.get(stream, EMPTY)

    def remember(self, stream: Stream, metadata: Mapping[str, object]) -> None:
        """Takes what hooks gave before, such as those of a loop that began in another process, in place of the rest."""
        self._metadata[stream] = metadata

    def trouble(self, owner: str) -> JournalError | None:
        """Why a record of that run or loop is missing: what was a hook's failure there is the end of it."""
        return self._troubles.get(owner)

    def forget(self, run_id: str) -> None:
        """Lets go of a run that is over."""
        self._metadata.pop(Stream("run", run_id), None)
        self._troubles.pop(run_id, None)

    async def _append(self, kind: HookRunKind, event: Event, record: HookStarted | HookEnded, at: float) -> None:
        content = cast("dict[str, object]", msgspec.to_builtins(record))
        stream = self._stream(event)
        try:
            await self._store.append(stream, [Entry(kind=kind, time=microseconds(at), content=content)])
        except JournalError as error:
            self._troubles[stream.id] = error
            raise

    def _stream(self, event: Event) -> Stream:
        run_id = getattr(event.envelope, "run_id", None)
        return Stream("run", run_id) if run_id is not None else _loop(event) or self._process


def _loop(event: Event) -> Stream | None:
    """The stream of the loop that fired the event, or in which the run is that did."""
    facts = event.op.loop if isinstance(event.op, Op) else None
    loop = facts.loop.get("id") if facts is not None else None
    return Stream("loop", loop) if isinstance(loop, str) else None
