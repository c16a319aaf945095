"""Runs one operation: pre, in, post, unwind (D§8). It returns how the operation ended; only cancellation is raised.

It is the only way to do an operation, in process or inside an engine's activity; it keeps nothing between two.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

import msgspec

from tenter.kernel.chain import Chain
from tenter.kernel.decision import Decision
from tenter.kernel.dispatch import Dispatcher
from tenter.kernel.frame import Told
from tenter.kernel.ending import Blocked, Done, Escalated, Failed, Stopped, Suspended
from tenter.kernel.errors import HookFailure, OperationFailed
from tenter.kernel.event import Event, result_fields
from tenter.kernel.outcome import Allow, Block, Escalate, Fail, Outcome, Result, Retry, Suspend
from tenter.kernel.point import Operation
from tenter.kernel.trace import Trace

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

Body = Callable[[B], Awaitable[object]]
"""The work: from the before-event to the result's value, or a mapping where there are several."""


class Steps(Protocol):
    """Who is told how far an operation has come, before it goes on; a journaling engine (D§11)."""

    async def acting(self, event: Event, /) -> None:
        """The pre chain let `event` through; the work is next."""

    async def acted(self, event: Event, /) -> None:
        """The work is done, `event` holds its result; the post chain is next."""


@dataclass(frozen=True, slots=True)
class Chains:
    """The three chains of one operation."""

    pre: Chain
    within: Chain
    post: Chain

    @property
    def empty(self) -> bool:
        return self.pre.empty and self.within.empty and self.post.empty


@dataclass(frozen=True, slots=True)
class Runner(Generic[B, A]):
    """Does one operation with its chains."""

    dispatcher: Dispatcher
    operation: Operation[B, A]
    chains: Chains
    trace: Trace
    steps: Steps | None = None

    async def run(self, event: B, body: Body[B]) -> Done[A] | Stopped:
        """Pre, in, post. Raises only CancelledError and the user's KeyboardInterrupt, both after unwinding."""
        told: Told = []
        try:
            ending = await self._stages(event, body, told)
        except BaseException as error:
            unwind(told, error)
            raise
        if told:
            unwind(told, ending)
        return ending

    async def finish(self, after: A) -> Done[A] | Stopped:
        """The post chain alone, on a result that is there already: the rest of an operation whose work is done."""
        return await self._post(after, [])

    async def _stages(self, event: B, body: Body[B], told: Told) -> Done[A] | Stopped:
        dispatcher, chains = self.dispatcher, self.chains
        before = cast(B, await dispatcher.admit(event, self.trace))
        if not chains.pre.empty:
            decision = await dispatcher.fire(chains.pre, before, self.trace, told)
            if (stopped := self._stopped(decision)) is not None:
                return stopped
            before = cast(B, decision.event)
        if self.steps is not None:
            await self.steps.acting(before)
        worked = await self._work(before, body, told)
        if not isinstance(worked, Event):
            return worked
        if self.steps is not None:
            await self.steps.acted(worked)
        return await self._post(cast(A, worked), told)

    async def _post(self, after: A, told: Told) -> Done[A] | Stopped:
        if self.chains.post.empty:
            return Done(after)
        heard: Told = []
        try:
            decision = await self.dispatcher.fire(self.chains.post, after, self.trace, heard)
        finally:
            ended = [link.hook.abandon for link, _ in heard]
            told[:] = [(link, event) for link, event in told if link.hook.abandon not in ended]
        return self._stopped(decision) or Done(cast(A, decision.event))

    async def _work(self, before: B, body: Body[B], told: Told) -> A | Stopped:
        """The `in` chain with the default body innermost; the after-event, redacted, or why there is none."""
        within = self.chains.within
        if within.empty:
            return await self._done(before, body)
        outcome: Outcome | None = None
        try:
            if within.links:
                decision = await self.dispatcher.fire_in(within, before, self.trace, told, pre=self.chains.pre)
                before, outcome = cast(B, decision.event), decision.outcome
                if isinstance(outcome, Result):
                    return await self._after(before, outcome.value)
                if (stopped := self._stopped(decision)) is not None:
                    return stopped
            return await self._done(before, body)
        finally:
            if within.observers:
                await self.dispatcher.observe(within, before, self.trace, outcome)

    async def _done(self, before: B, body: Body[B]) -> A | Stopped:
        try:
            value = await body(before)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failed(error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a body may be anybody's: a tool that exits must not end the process
            return self._failed(error)
        return await self._after(before, value)

    async def _after(self, before: B, value: object) -> A | Stopped:
        operation = self.operation
        try:
            results = result_fields(operation.results, value) if operation.results else {}
            fields = {
                name: getattr(before, name) for name in before.__struct_fields__ if name in _names(operation.after)
            }
            after = operation.after(**{**fields, **results})
        except TypeError as error:
            return self._failed(error)
        return cast(A, await self.dispatcher.admit(after, self.trace))

    def _failed(self, error: BaseException) -> Failed:
        redactor = self.dispatcher.redactor
        if isinstance(error, OperationFailed):
            return Failed(
                message=redactor.mask_fuzzy(str(error)),
                code=error.code,
                exception=type(error).__name__,
                retryable=error.retryable,
            )
        code = error.result if isinstance(error, HookFailure) else "internal"
        return Failed(message=redactor.mask_exception_text(error), code=code, exception=type(error).__name__)

    def _stopped(self, decision: Decision) -> Stopped | None:
        return None if decision.outcome is None else stopped(decision, self.dispatcher.digest)


def stopped(decision: Decision, digest: Callable[[Event], str]) -> Stopped | None:
    """What a decision means for its operation: None where it goes on."""
    match decision.outcome:
        case Block() as block:
            return Blocked(
                reason=block.reason, code=block.code, hook=decision.hook, stop=block.stop, failed=decision.failed
            )
        case Escalate() as escalate:
            return Escalated(reason=escalate.reason, queue=escalate.queue, hook=decision.hook)
        case Suspend():
            return Suspended(requirements=decision.requirements, event=decision.event, digest=digest(decision.event))
        case Retry() as retry:
            return retry
        case Fail() as fail:
            return Failed(message=fail.reason, code=fail.code, hook=decision.hook)
        case None | Allow() | Result():
            return None
        case Outcome():
            raise AssertionError(f"an outcome without a meaning: {decision.outcome!r}")


def unwind(told: Told, ending: object) -> None:
    """Tells those whose end would otherwise stay unknown, innermost first; what fails in it is theirs alone (D§3.5)."""
    for link, event in reversed(told):
        if (abandon := link.hook.abandon) is None:
            continue
        try:
            abandon(link.point.name, event, ending)
        except KeyboardInterrupt:
            raise
        except BaseException:  # the operation comes down already, and the next hook must still hear of it
            link.failures += 1


def _names(after: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(after.__struct_fields__)
