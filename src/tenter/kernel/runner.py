"""Runs one operation: pre, in, post, unwind (D§8). It returns how the operation ended; only cancellation is raised.

It is the only way to do an operation, in process or inside an engine's activity; it keeps nothing between two.
"""

import asyncio
import contextlib
import types
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast

from tenter.kernel.call import closes
from tenter.kernel.chain import Chain
from tenter.kernel.decision import Decision
from tenter.kernel.dispatch import Dispatcher
from tenter.kernel.ending import Blocked, Done, Escalated, Failed, Stopped, Suspended
from tenter.kernel.errors import RESULTS, HookFailure, OperationFailed
from tenter.kernel.event import Event, result_fields, unlike_result
from tenter.kernel.frame import Part, Told
from tenter.kernel.outcome import Allow, Block, Escalate, Fail, Outcome, Result, Retry, Suspend, check_code
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
class Compiled(Generic[B, A]):
    """One operation with its three chains, compiled once."""

    operation: Operation[B, A]
    pre: Chain
    within: Chain
    post: Chain
    working: Chain = field(init=False)
    """The hooks of `within` that may stand for the work."""
    onlookers: Chain = field(init=False)
    """The observers of `within`, who run after the work."""
    carried: tuple[str, ...] = field(init=False)
    """The fields that the after-event takes over from the before-event, where no result takes their place."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "working", Chain(self.within.point, self.within.links))
        object.__setattr__(self, "onlookers", Chain(self.within.point, (), self.within.observers))
        after = self.operation.after.__struct_fields__
        carried = [name for name in self.operation.before.__struct_fields__ if name in after]
        object.__setattr__(self, "carried", tuple(carried))


@dataclass(frozen=True, slots=True)
class Runner(Generic[B, A]):
    """Does one operation."""

    dispatcher: Dispatcher
    compiled: Compiled[B, A]
    trace: Trace
    steps: Steps | None = None

    async def run(self, event: B, body: Body[B]) -> Done[A] | Stopped:
        """Pre, in, post, and whoever heard of the beginning hears of the end.

        Raises cancellation, the user's KeyboardInterrupt and what `steps` raises, each after unwinding; into a hook
        that runs operations in a circle, HookFailure.
        """
        told: Told = []
        try:
            ending = await self._stages(event, body, told)
        except BaseException as error:
            unwind(told, error)
            raise
        unwind(told, ending)
        return ending

    async def work(self, before: B, body: Body[B]) -> Done[A] | Stopped:
        """The work and the post chain, where the pre chain let `before` through once already, in a process that died.

        Nobody in this process was told of the beginning. Raises as `run`.
        """
        told: Told = []
        try:
            ending = await self._worked(before, body, told)
        except BaseException as error:
            unwind(told, error)
            raise
        unwind(told, ending)
        return ending

    async def finish(self, after: A) -> Done[A] | Stopped:
        """The post chain alone, on a result that is there already: the rest of an operation whose work is done."""
        return await self._post(after, [])

    async def _stages(self, event: B, body: Body[B], told: Told) -> Done[A] | Stopped:
        decision = await self.dispatcher.fire(self.compiled.pre, event, self.trace, Part(told))
        if (ending := stopped(decision)) is not None:
            return ending
        return await self._worked(cast(B, decision.event), body, told)

    async def _worked(self, before: B, body: Body[B], told: Told) -> Done[A] | Stopped:
        if self.steps is not None:
            await self.steps.acting(before)
        worked = await self._work(before, body, told)
        if not isinstance(worked, Event):
            return worked
        if self.steps is not None:
            await self.steps.acted(worked)
        return await self._post(worked, told)

    async def _work(self, before: B, body: Body[B], told: Told) -> A | Stopped:
        """The `in` chain with the default body innermost; the after-event, redacted, or why there is none."""
        compiled, outcome, worked = self.compiled, None, None
        if not compiled.working.empty:
            part = Part(told, compiled.pre.guards)
            decision = await self.dispatcher.fire(compiled.working, before, self.trace, part)
            before, outcome = cast(B, decision.event), decision.outcome
            worked = stopped(decision)
            if isinstance(outcome, Result):
                worked = await self.after(before, outcome.value)
        if worked is None:
            worked = await self._done(before, body)
        if not compiled.onlookers.empty:
            await self.dispatcher.fire(compiled.onlookers, before, self.trace, Part(told, ended=outcome))
        return worked

    async def _done(self, before: B, body: Body[B]) -> A | Stopped:
        try:
            value = await body(before)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failed(error)
        except BaseException as error:  # a body may be anybody's: a tool that exits must not end the process
            if issubclass(type(error), KeyboardInterrupt) or closes(error):
                raise
            return self._failed(error)
        return await self.after(before, value)

    async def after(self, before: B, value: object) -> A | Stopped:
        """The after-event of work that came to `value`, redacted; the failure where it does not fit."""
        operation = self.compiled.operation
        if not operation.results and isinstance(before, operation.after):
            return before
        try:
            results: Mapping[str, object] = result_fields(operation.results, value) if operation.results else {}
            carried = {name: getattr(before, name) for name in self.compiled.carried if name not in results}
            after = operation.after(**{**carried, **results})
            if wrong := unlike_result(after, operation.results):
                return self._misfit(wrong)
            return await self.dispatcher.admit(after, self.trace)
        except Exception as error:  # a result that does not fit the operation is the body's failure
            return self._failed(error)

    async def _post(self, after: A, told: Told) -> Done[A] | Stopped:
        heard: Told = []
        try:
            decision = await self.dispatcher.fire(self.compiled.post, after, self.trace, Part(heard))
        finally:
            if told:
                strike(told, heard)
        return stopped(decision) or Done(cast(A, decision.event))

    def _misfit(self, wrong: str) -> Failed:
        reason = f"the work of {self.compiled.operation.name!r} gave a result that does not fit: {wrong}"
        return Failed(message=self.dispatcher.judge.reason(reason), code="internal", exception="TypeError")

    def _failed(self, error: BaseException) -> Failed:
        judge = self.dispatcher.judge
        name = judge.redactor.mask_exception_name(error)
        if type(error) is OperationFailed:
            with contextlib.suppress(Exception):  # somebody changed it: it is told as any other
                check_code(error.code, name)
                message = judge.reason(str(error))
                return Failed(message=message, code=error.code, exception=name, retryable=error.retryable)
        code = error.result if type(error) is HookFailure and error.result in RESULTS else "internal"
        return Failed(message=judge.told(error), code=code, exception=name)


def stopped(decision: Decision) -> Stopped | None:
    """What a decision means for its operation: None where it goes on."""
    match decision.outcome:
        case Block() as block:
            return Blocked(
                reason=block.reason, code=block.code, hook=decision.hook, stop=block.stop, failed=decision.failed
            )
        case Escalate() as escalate:
            return Escalated(reason=escalate.reason, queue=escalate.queue, hook=decision.hook)
        case Suspend():
            return Suspended(requirements=decision.requirements, event=decision.event, digest=decision.digest)
        case Retry() as retry:
            return retry
        case Fail() as fail:
            return Failed(message=fail.reason, code=fail.code, hook=decision.hook)
        case None | Allow() | Result():
            return None
        case Outcome():
            raise AssertionError(f"an outcome without a meaning: {decision.outcome!r}")


def strike(told: Told, heard: Told) -> None:
    """Takes those out of `told` who heard of the end by their post."""
    ended = [link.hook.abandon for link, _ in heard]
    told[:] = [(link, event) for link, event in told if link.hook.abandon not in ended]


def unwind(told: Told, ending: object) -> None:
    """Tells those whose end would otherwise stay unknown, innermost first; what fails in it is theirs alone (D§3.5)."""
    interrupt: KeyboardInterrupt | None = None
    for link, event in reversed(told):
        if (abandon := link.hook.abandon) is None:
            continue
        try:
            answer = abandon(link.point.name, event, ending)
            if type(answer) is types.CoroutineType:  # nobody awaits here
                answer.close()
                link.failures += 1
        except KeyboardInterrupt as error:
            interrupt = error
        except BaseException:  # the operation comes down already, and the next hook must still hear of it
            link.failures += 1
    if interrupt is not None:
        raise interrupt
