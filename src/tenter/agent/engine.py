"""What the agent loop asks of the world (D§11): every touch is one method of this protocol.

An engine runs operations with their hooks, journals them, and on replay gives back what was recorded. The loop below
it is the same in one process and as a Temporal workflow. What an engine itself cannot do (a journal that takes nothing
more) it raises: the loop lets that pass and asks for nothing else.
"""

from typing import Protocol, TypeVar

from tenter.agent.plan import Waiting
from tenter.catalogue import RunEndEvent, RunStartEvent
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)


class Engine(Protocol):
    """Runs operations for one run.

    A path is `step.operation.index`, unique within the run; running a path again is its next pass. The `op` of an
    event that the loop hands over is a blank: the engine sets it.
    """

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        """A whole operation; how it ended is the value."""
        ...

    def worked(self, path: str) -> Event | None:
        """The result of the last pass's work at `path`, before its post chain; None where no work was done.

        What a post chain withholds was used all the same.
        """
        ...

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        """The `pre` of the run's span."""
        ...

    async def suspend(self, waiting: Waiting) -> None:
        """Makes durable what the run waits for, before anybody is told."""
        ...

    async def close(self, event: RunEndEvent) -> None:
        """Makes the run's end durable, then fires the `post` of its span.

        The last that is asked for, once for every terminal state; again only where it was cancelled.
        """
        ...

    def now(self) -> float:
        """The time of the last outcome, in seconds since the epoch."""
        ...

    def random(self, path: str) -> float:
        """A number from 0 up to, and not including, 1: the same for the same path on replay."""
        ...
