"""Does the operations of one run, each with its retries (D§11): failures are told, classified and tried again here.

It decides from outcomes alone. What an operation means for the run is the loop's; asking people is, too.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tenter.agent.engine import Engine
from tenter.agent.plan import Ended, Plan
from tenter.agent.refusal import ended_by, error_of, out_of_time
from tenter.agent.retry import retryable
from tenter.catalogue import (
    ACTIVITY_FAILED,
    ACTIVITY_RETRIED,
    ActivityFailedEvent,
    ActivityRetryEvent,
    ErrorInfo,
    Op,
    RetryPolicy,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)


class Fault(msgspec.Struct, frozen=True):
    """An operation that failed for good: how, and the error as hooks classified it."""

    failed: Failed
    error: ErrorInfo


class Stop(Exception):
    """Leaves the steps of a run, which comes to this end."""

    def __init__(self, ended: Ended) -> None:
        super().__init__()
        self.ended = ended


class Attempts:
    """The operations of one run. `plan` and `step` are set by the loop as it goes on.

    `count` is told of the result of each pass's work, withheld or not.
    """

    def __init__(self, engine: Engine, plan: Plan, count: Callable[[Event], None]) -> None:
        self.engine = engine
        self.plan = plan
        self._count = count
        self.step = 0
        self.began = 0.0
        """When the run began, by its engine."""
        self.waited = 0.0
        """Seconds in which it waited for people: no budget of time counts them."""
        self.paused = False
        """Whether people have just decided: how long they took is known with the next outcome."""

    def path(self, operation: str, index: int = 0) -> str:
        return f"{self.step}.{operation}.{index}"

    def deadline(self) -> float | None:
        """When the run must have ended, by its deadline or its budget of time."""
        wall, deadline = self._wall(), self.plan.limits.deadline
        if wall is None:
            return deadline
        end = self.began + self.waited + wall
        return end if deadline is None else min(end, deadline)

    async def attempt(
        self, operation: Operation[B, A], event: B, *, index: int = 0, since: float | None = None
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Unknown | Fault:
        """The operation of this step, tried again where its failure allows it.

        `since` is when the branch began whose outcomes alone may count. Raises Stop where the time is up, and where
        what hears of a failure ends the run.
        """
        path, tries = self.path(operation.name, index), 0
        while True:
            began = self.engine.now() if since is None else max(since, self.engine.now(path))
            await self.in_time(began, index)
            ending = await self.engine.run(path, operation, self._timed(event))
            worked = ending.event if isinstance(ending, Done) else self.engine.worked(path)
            if worked is not None:
                self._count(worked)
            if not isinstance(ending, Failed):
                return ending
            tries += 1
            fault, policy = await self._told(ending, operation, index)
            if policy is None or tries >= policy.attempts or not await self._again(policy, operation, index, tries):
                return fault

    async def in_time(self, now: float, index: int = 0) -> None:
        """Raises Stop where the time is up: one failure is told where a deadline passed, and a budget refuses."""
        if not self._late(now):
            return
        if (spent := self._spent()) is not None:
            raise Stop(spent)
        error = ErrorInfo(code="timeout", message="the run's deadline has passed")
        raise Stop(Ended(status="failed", error=await self.classify(error, None, index=index)))

    def cut(self, fault: Fault, operation: str, *, index: int = 0, since: float = 0.0) -> Ended | None:
        """The end of a run whose deadline or budget of time cut the operation: a failure that was told; else None."""
        now = max(since, self.engine.now(self.path(operation, index)))
        if fault.failed.code != "timeout" or not self._late(now):
            return None
        return self._spent() or Ended(status="failed", error=fault.error)

    async def classify(self, error: ErrorInfo, operation: str | None, *, index: int = 0) -> ErrorInfo:
        """Fires `activity.failed` for a failure that is not tried again; the error as hooks classified it."""
        return (await self._classified(error, operation, index, None))[0]

    async def _told(self, failed: Failed, operation: Operation[B, A], index: int) -> tuple[Fault, RetryPolicy | None]:
        """Tells of one failure; with the policy for trying again where that may be."""
        error = error_of(failed, operation.name)
        repeatable = self.engine.repeatable(self.path(operation.name, index))
        policy = self.plan.retries if repeatable else None
        classified, changed = await self._classified(error, operation.name, index, policy)
        may = changed is not None and retryable(failed, error, classified, repeatable=repeatable)
        return Fault(failed, classified), changed if may else None

    async def _classified(
        self, error: ErrorInfo, operation: str | None, index: int, policy: RetryPolicy | None
    ) -> tuple[ErrorInfo, RetryPolicy | None]:
        """The error as hooks classified it, and the policy as they left it; none where they refused."""
        told = ActivityFailedEvent(
            envelope=self.plan.envelope,
            op=self.blank(),
            error=error,
            step=self.step,
            operation=operation,
            attempt=None if operation is None else max(1, self.engine.attempts(self.path(operation, index))),
            policy=policy,
        )
        path = self.path(ACTIVITY_FAILED.name, index)
        heard = await self.engine.run(path, ACTIVITY_FAILED, told)
        match heard:
            case Done():
                return heard.event.error, heard.event.policy
            case Escalated() | Blocked(stop=True):
                raise Stop(ended_by(heard))
            case Blocked() | Failed() | Retry() | Suspended() | Unknown():
                return error, None

    async def _again(self, policy: RetryPolicy, operation: Operation[B, A], index: int, tries: int) -> bool:
        """Tells of the retry and waits for it; False where a hook refuses it or it would come too late."""
        path = self.path(operation.name, index)
        attempt = max(tries, self.engine.attempts(path))  # what failed before its work counts as well
        drawn = self.engine.random(f"{path}/{attempt}")
        told = ActivityRetryEvent(
            envelope=self.plan.envelope,
            op=self.blank(),
            operation=operation.name,
            attempt=attempt,
            policy=msgspec.structs.replace(policy, jitter=drawn),
        )
        heard = await self.engine.run(self.path(ACTIVITY_RETRIED.name, index), ACTIVITY_RETRIED, told)
        match heard:
            case Done():
                pass
            case Escalated() | Blocked(stop=True):
                raise Stop(ended_by(heard))
            case Blocked() | Failed() | Retry() | Suspended() | Unknown():
                return False
        seconds, place = heard.event.delay, self.path(ACTIVITY_RETRIED.name, index)
        if self._late(self.engine.now(place) + seconds):
            return False
        await self.engine.wait(place, seconds, before=path)
        return True

    def blank(self) -> Op:
        """The op of an event that an engine has not seen yet."""
        return Op(id="", deadline=self.deadline())

    def _timed(self, event: B) -> B:
        """The event with the deadline of now, which may have moved while a person was asked."""
        op, deadline = event.op, self.deadline()
        if not isinstance(op, Op) or op.deadline == deadline:
            return event
        return msgspec.structs.replace(event, op=msgspec.structs.replace(op, deadline=deadline))

    def _spent(self) -> Ended | None:
        """The refusal where the budget of time ends before the deadline."""
        wall, deadline = self._wall(), self.plan.limits.deadline
        if wall is None or (deadline is not None and deadline < self.began + self.waited + wall):
            return None
        return out_of_time(wall)

    def _wall(self) -> float | None:
        return None if self.paused else self.plan.limits.budgets.wall_seconds

    def _late(self, now: float) -> bool:
        deadline = self.deadline()
        return deadline is not None and now >= deadline
