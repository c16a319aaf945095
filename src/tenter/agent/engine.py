"""What the agent loop asks of the world (D§11): every touch is one method of this protocol.

An engine runs operations with their hooks, journals them, and on replay gives back what was recorded. The loop below
it is the same in one process and as a Temporal workflow. What an engine itself cannot do (a journal that takes nothing
more, a record that is not what the loop asks for) it raises: the loop lets that pass and asks for nothing else.
"""

from collections.abc import Coroutine, Sequence
from typing import Protocol, TypeVar

from tenter.agent.plan import Waiting
from tenter.catalogue import (
    ApprovalDecision,
    ApprovalRequest,
    Op,
    RunEndEvent,
    RunStartEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")

BLANK = Op(id="")
"""The op of an event that an engine has not seen yet."""


class Engine(Protocol):
    """Runs operations for one run.

    A path is `step.operation.index`, unique within the run; running a path again is its next pass. The `op` of an
    event that the loop hands over holds what only the loop knows, a deadline and an approval: the engine sets the rest.
    """

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        """A whole operation; how it ended is the value."""
        ...

    async def spawn(
        self, path: str, event: SubtaskSpawnEvent
    ) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        """A sub-run with the two ends of its span around it, or the next part of one that waited for a person."""
        ...

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        """What the branches come to, in their order, run side by side; all of them have ended then."""
        ...

    async def wait(self, since: str, seconds: float, *, before: str) -> None:
        """Lets so much time pass between the last outcome at `since` and the next pass at `before`.

        None where that pass is on record: the run came further, in a process before this one.
        """
        ...

    def worked(self, path: str) -> Event | None:
        """The result of the last pass's work at `path`, before its post chain; None where no work was done.

        What a post chain withholds was used all the same.
        """
        ...

    def attempts(self, path: str) -> int:
        """How often the work at `path` was begun so far."""
        ...

    def repeatable(self, path: str) -> bool:
        """Whether the work at `path`, as it was begun last, may be done again: a tool has to be idempotent for that."""
        ...

    def digest(self, event: Event) -> str:
        """Names the call that an event stands for: an approval is bound to it."""
        ...

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        """The `pre` of the run's span."""
        ...

    async def suspend(self, waiting: Waiting) -> None:
        """Makes durable what the run waits for, before anybody is told."""
        ...

    async def decisions(self, requests: tuple[ApprovalRequest, ...]) -> tuple[ApprovalDecision, ...] | None:
        """What people decided on these requests; None where the run waits on, in another process perhaps.

        All of them, or those up to a rejection or an expiry, after which no other is decided any more.
        """
        ...

    async def end_subtasks(self) -> Sequence[SubtaskResult]:
        """Brings the sub-runs that wait, or were left half-way, to their end; what came of them, each told once."""
        ...

    async def close(self, event: RunEndEvent) -> None:
        """Makes the run's end durable, then fires the `post` of its span.

        The last that is asked for, once for every terminal state; again only where it was cancelled.
        """
        ...

    def now(self, path: str = "") -> float:
        """The time of the last outcome, in seconds since the epoch; with a path, of the last one there, 0 for none.

        Between branches that run side by side only the second says the same whenever the run is replayed.
        """
        ...

    def random(self, path: str) -> float:
        """A number from 0 up to, and not including, 1: the same for the same path on replay."""
        ...
