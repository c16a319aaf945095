"""Where hooks outside the process leave their records: in the journal of the run that they ran for (D§10)."""

from collections.abc import Mapping
from typing import cast

import msgspec

from tenter.executors import HookEnded, HookStarted
from tenter.journal import Entry, Store, Stream, microseconds
from tenter.kernel import Event, FrozenDict


class JournalSink:
    """Meets the executors' `Sink` with a store. What belongs to no run goes to the stream of this process."""

    def __init__(self, store: Store, process: Stream) -> None:
        self._store = store
        self._process = process
        self._metadata: dict[str, Mapping[str, object]] = {}

    async def started(self, event: Event, record: HookStarted) -> None:
        content = cast("dict[str, object]", msgspec.to_builtins(record))
        entry = Entry(kind="hook_started", time=microseconds(record.at), content=content)
        await self._store.append(self._stream(event), [entry])

    async def ended(self, event: Event, record: HookEnded) -> None:
        content = cast("dict[str, object]", msgspec.to_builtins(record))
        entry = Entry(kind="hook_ended", time=microseconds(record.ended_at), content=content)
        await self._store.append(self._stream(event), [entry])
        if record.metadata is not None:
            run = self._stream(event).id
            self._metadata[run] = FrozenDict({**self._metadata.get(run, {}), record.hook: record.metadata})

    def accumulated(self, event: Event) -> Mapping[str, object]:
        found = self._metadata.get(self._stream(event).id)
        return FrozenDict() if found is None else FrozenDict({"hook_metadata": found})

    def forget(self, run_id: str) -> None:
        """Lets go of what hooks said in a run that is over."""
        self._metadata.pop(run_id, None)

    def _stream(self, event: Event) -> Stream:
        envelope = event.envelope
        run_id = getattr(envelope, "run_id", None)
        return self._process if run_id is None else Stream("run", run_id)
