"""A sub-run between the two ends of its span, and what its after-event holds. Pure but for the span."""

from dataclasses import dataclass
from typing import Self, cast

from tenter.catalogue import ErrorInfo, SubtaskResult, SubtaskSpawnedEvent, SubtaskSpawnEvent
from tenter.harness.record import Ending
from tenter.kernel import Blocked, Done, Failed, FrozenDict, Span


@dataclass(frozen=True, slots=True)
class Open:
    """A span whose `pre` was fired, here or in a process before: what the sub-run is given, or why there is none."""

    span: Span[SubtaskSpawnEvent, SubtaskSpawnedEvent]
    event: SubtaskSpawnEvent
    refused: Blocked | Failed | None = None

    @classmethod
    def of(cls, span: Span[SubtaskSpawnEvent, SubtaskSpawnedEvent], event: SubtaskSpawnEvent, opened: Ending) -> Self:
        """After its `pre` ended so."""
        if isinstance(opened, Done):
            return cls(span, cast("SubtaskSpawnEvent", opened.event))
        return cls(span, event, cast("Blocked | Failed", opened))

    async def close(self, event: SubtaskSpawnedEvent) -> Ending:
        """The `post`."""
        return cast("Ending", Done(await self.span.close(event)))


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
