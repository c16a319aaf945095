"""Where hooks outside the process leave their records: in the journal of the run that they ran for (D§10)."""

from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from tenter.executors import HookEnded, HookStarted
from tenter.journal import Entry, JournalError, Store, Stream, microseconds
from tenter.kernel import Event, FrozenDict

HookRunKind = Literal["hook_started", "hook_ended"]


class JournalSink:
    """Meets the executors' `Sink` with a store. What belongs to no run goes to the stream of this process.

    Remembers what hooks said in a run, and that one could not be recorded, until it is told to forget the run.
    """

    def __init__(self, store: Store, process: Stream) -> None:
        self._store = store
        self._process = process
        self._metadata: dict[str, Mapping[str, object]] = {}
        self._troubles: dict[str, JournalError] = {}

    async def started(self, event: Event, record: HookStarted) -> None:
        """Raises JournalError."""
        await self._append("hook_started", event, record, record.at)

    async def ended(self, event: Event, record: HookEnded) -> None:
        """Raises JournalError."""
        await self._append("hook_ended", event, record, record.ended_at)
        if record.metadata is not None:
            run = self._stream(event).id
            self._metadata[run] = FrozenDict({**self._metadata.get(run, {}), record.hook: record.metadata})

    def accumulated(self, event: Event) -> Mapping[str, object]:
        found = self._metadata.get(self._stream(event).id)
        return FrozenDict() if found is None else FrozenDict({"hook_metadata": found})

    def trouble(self, run_id: str) -> JournalError | None:
        """Why a record of the run is missing: what was a hook's failure there is the end of the run."""
        return self._troubles.get(run_id)

    def forget(self, run_id: str) -> None:
        """Lets go of a run that is over."""
        self._metadata.pop(run_id, None)
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
        return self._process if run_id is None else Stream("run", run_id)
