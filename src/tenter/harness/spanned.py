"""The sub-runs of a run, each between the two ends of its span, and what their after-events hold."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

from tenter.agent import Waiting
from tenter.catalogue import SUBTASK_SPAWNED, ErrorInfo, Op, SubtaskResult, SubtaskSpawnedEvent, SubtaskSpawnEvent
from tenter.harness.parts import Run
from tenter.harness.record import Ending, Pass
from tenter.harness.replay import Incomplete, ReplayDiverged
from tenter.journal import JournalError
from tenter.kernel import Blocked, Done, Event, Failed, FrozenDict, Span


@dataclass(frozen=True, slots=True)
class Open:
    """A span whose `pre` was fired, here or in a process before: what the sub-run is given, or why there is none."""

    span: Span[SubtaskSpawnEvent, SubtaskSpawnedEvent]
    op: Op
    """That of both ends."""
    event: SubtaskSpawnEvent
    refused: Blocked | Failed | None = None

    @classmethod
    def of(
        cls, span: Span[SubtaskSpawnEvent, SubtaskSpawnedEvent], op: Op, event: SubtaskSpawnEvent, opened: Ending
    ) -> Self:
        """After its `pre` ended so."""
        if isinstance(opened, Done):
            return cls(span, op, cast("SubtaskSpawnEvent", opened.event))
        return cls(span, op, event, cast("Blocked | Failed", opened))

    async def close(self, event: SubtaskSpawnedEvent) -> Ending:
        """The `post`."""
        return cast("Ending", Done(await self.span.close(event)))


Part = Callable[[Pass, Event, Callable[[Any], Awaitable[Any]]], Awaitable[Ending]]
"""Does one end of a span, or what is between: from the record, or by firing it."""


class Subtasks:
    """The sub-runs of one run whose spans are open. `part` does and records what they are made of."""

    def __init__(self, run: Run, part: Part) -> None:
        self._run = run
        self._part = part
        self._open: dict[str, Open] = {}
        self._ended: list[SubtaskResult] = []

    async def spawn(self, op: Op, event: SubtaskSpawnEvent) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        """A sub-run with the two ends of its span, or the next part of one that waited: see `Engine.spawn`."""
        known = self._open.get(op.path)
        span = self._run.runtime.span(SUBTASK_SPAWNED, trace=self._run.trace) if known is None else known.span
        try:
            if known is None:
                opened = await self._part(Pass(SUBTASK_SPAWNED, op, "pre"), event, span.open)
                known = self._open[op.path] = Open.of(span, op, event, opened)
            inner: Ending = known.refused or await self._part(
                Pass(SUBTASK_SPAWNED, op, "in"), known.event, partial(self._inner, known)
            )
        except (Incomplete, ReplayDiverged):  # nothing was done: the sub-run stands as it is on record
            raise
        except (asyncio.CancelledError, JournalError) as error:
            if known is None:
                span.leave(error)
            raise  # what was begun is ended, and told of, with the run around it: it may wait for a person by now
        except BaseException as error:
            self._open.pop(op.path, None)
            span.leave(error)
            raise
        if isinstance(inner, Waiting):
            return inner
        stopped = inner if isinstance(inner, Blocked | Failed) else None
        after = cast("Done[Event]", inner).event if stopped is None else not_spawned(known.event, stopped)
        try:
            told = await self._part(Pass(SUBTASK_SPAWNED, known.op, "post"), after, known.close)
        except BaseException as error:
            span.leave(error)
            raise
        finally:
            self._open.pop(op.path, None)
        return cast("Done[SubtaskSpawnedEvent]", told) if stopped is None else stopped

    @property
    def are_open(self) -> bool:
        """Whether there is one that has not ended."""
        return bool(self._open)

    async def end(self) -> None:
        """Sub-runs that wait for people, or were left by a process that died, end with the run around them.

        Raises JournalError where the record of one cannot be gone through or ended, once the others were.
        """
        trouble: JournalError | None = None
        for path, known in list(self._open.items()):
            try:
                came = await self._run.end_subtask(known.event)
                after = came_of(known.event, came)
                told = await self._part(Pass(SUBTASK_SPAWNED, known.op, "post"), after, known.close)
                self._ended.append(cast("Done[SubtaskSpawnedEvent]", told).event.result)
                self._open.pop(path)
            except JournalError as error:
                trouble = error
        if trouble is not None:
            raise trouble

    def take_ended(self) -> Sequence[SubtaskResult]:
        """What came of those that ended so, each once."""
        ended, self._ended = self._ended, []
        return ended

    def leave(self, why: Waiting | JournalError) -> None:
        """Who was told of a beginning in this process hears that the run around waits on, or why no end can be told."""
        for known in self._open.values():
            known.span.leave(why)

    async def _inner(self, known: Open, event: SubtaskSpawnEvent) -> Ending:
        """The sub-run, or what a hook answers in its place before it ever ran."""
        if event.op.pass_ == 1:
            return cast("Ending", await known.span.within(event, self._came))
        came = await self._came(event)
        if not isinstance(came, Waiting):
            await known.span.look_on(event)
        return cast("Ending", came)

    async def _came(self, event: SubtaskSpawnEvent) -> Done[SubtaskSpawnedEvent] | Waiting:
        came = await self._run.spawn(event)
        return came if isinstance(came, Waiting) else Done(came_of(event, came))


def came_of(event: SubtaskSpawnEvent, result: SubtaskResult) -> SubtaskSpawnedEvent:
    """The after-event of a sub-run."""
    return SubtaskSpawnedEvent(
        envelope=event.envelope, op=event.op, parent=event.parent, task=event.task, input=event.input, result=result
    )


def not_spawned(event: SubtaskSpawnEvent, why: Blocked | Failed) -> SubtaskSpawnedEvent:
    """The after-event where there was none: whoever was told of its beginning hears that."""
    if isinstance(why, Blocked):
        error = ErrorInfo(code="policy", message=why.reason, details=FrozenDict({"code": why.code, "hook": why.hook}))
        return came_of(event, SubtaskResult(run_id=event.task.id, task=event.task.name, status="blocked", error=error))
    error = ErrorInfo(code="internal", message=why.message, details=FrozenDict({"code": why.code}))
    return came_of(event, SubtaskResult(run_id=event.task.id, task=event.task.name, status="failed", error=error))
