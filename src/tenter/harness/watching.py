"""Looks whether another process asked for the end of a run that goes on here (D§11): some times a second, for all.

One look for each event loop in which runs go on, since a task is cancelled in its own.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

from tenter.catalogue import ErrorInfo
from tenter.journal import JournalError, Store, Stream

LOOK_SECONDS: Final = 0.25
FEW: Final = 64
"""Entries behind which a request to cancel is looked for."""


class Stoppable(Protocol):
    """A run that goes on here."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def stop(self, error: ErrorInfo) -> None: ...


class Watch:
    """Stops those of the runs, by id, whose end somebody asked for."""

    def __init__(self, store: Store, runs: Mapping[str, Stoppable]) -> None:
        self._store = store
        self._runs = runs
        self._loops: set[asyncio.AbstractEventLoop] = set()
        self._looking: set[asyncio.Task[None]] = set()

    def look_from_now_on(self) -> None:
        """As long as a run goes on in this event loop."""
        loop = asyncio.get_running_loop()
        self._loops = {one for one in self._loops if not one.is_closed()}
        if loop not in self._loops:
            self._loops.add(loop)
            loop.call_later(LOOK_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._here(loop):
            self._loops.discard(loop)
            return
        task = loop.create_task(self._stop_those_asked_for(loop))
        self._looking.add(task)
        task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        """It is looked again, also where an error of our own, which the event loop tells, cut this look short."""
        self._looking.discard(task)
        loop = task.get_loop()
        loop.call_later(LOOK_SECONDS, self._look, loop)

    async def _stop_those_asked_for(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(JournalError):  # the runs themselves will hear of it
            asked = await self._store.cancelling()
            for run_id, run in self._here(loop).items():
                if run_id in asked:
                    run.stop(await asked_to_end(self._store, run_id))

    def _here(self, loop: asyncio.AbstractEventLoop) -> dict[str, Stoppable]:
        return {run_id: run for run_id, run in list(self._runs.items()) if run.loop is loop}


async def asked_to_end(store: Store, run_id: str) -> ErrorInfo:
    """Why the run ends whose end somebody asked for, with who and why. Raises JournalError."""
    stream = Stream("run", run_id)
    head = await store.head(stream)
    text = "the run was cancelled from another process"
    async for recorded in store.read(stream, after=max(0, head.sequence - FEW)):
        if recorded.entry.kind == "cancel_requested":
            reason = recorded.entry.content.get("reason")
            text = reason if isinstance(reason, str) and reason else text
    return ErrorInfo(code="cancelled", message=text)
