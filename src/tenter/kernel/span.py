"""The two ends of an operation whose body is a loop (D§4.2): its pre, and its post for every ending.

Between them it remembers who was told of the beginning, so that whoever does not see the end by a post hears of it
(D§3.5). A loop that goes on in another process closes a span that was opened in the first; nobody there was told.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from tenter.kernel.dispatch import Dispatcher
from tenter.kernel.ending import Done, Stopped
from tenter.kernel.event import Event
from tenter.kernel.frame import Part, Told
from tenter.kernel.outcome import Outcome, Result
from tenter.kernel.runner import Compiled, Runner, stopped, strike, unwind
from tenter.kernel.trace import Trace

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")


class Span(Generic[B, A]):
    """One span while it is open."""

    def __init__(self, dispatcher: Dispatcher, compiled: Compiled[B, A], trace: Trace) -> None:
        self._dispatcher = dispatcher
        self._compiled = compiled
        self._trace = trace
        self._told: Told = []

    async def open(self, event: B) -> Done[B] | Stopped:
        """The pre chain: what the loop begins with, or why it does not begin. `close` follows either way.

        Raises cancellation, after which `close` follows as well.
        """
        decision = await self._dispatcher.fire(self._compiled.pre, event, self._trace, Part(self._told))
        return stopped(decision) or Done(cast(B, decision.event))

    async def within(self, before: B, loop: Callable[[B], Awaitable[Done[A] | Stopped | T]]) -> Done[A] | Stopped | T:
        """The `in` chain with the loop innermost: what the loop comes to, or what a hook answers in its place.

        A loop that leaves off to go on later, in another process perhaps, comes to something else than an ending, and
        `look_on` follows when it has ended. Raises as `open`.
        """
        outcome: Outcome | None = None
        came: Done[A] | Stopped | T | None = None
        if not self._compiled.working.empty:
            part = Part(self._told, self._compiled.pre.guards)
            decision = await self._dispatcher.fire(self._compiled.working, before, self._trace, part)
            before, outcome = cast(B, decision.event), decision.outcome
            came = stopped(decision)
            if isinstance(outcome, Result):
                after = await Runner(self._dispatcher, self._compiled, self._trace).after(before, outcome.value)
                came = Done(after) if isinstance(after, self._compiled.operation.after) else cast("Stopped", after)
        if came is None:
            came = await loop(before)
        if isinstance(cast("object", came), Done | Stopped):
            await self.look_on(before, outcome)
        return came

    async def look_on(self, before: B, outcome: Outcome | None = None) -> None:
        """Tells the observers of the `in` point, after the loop; `outcome` is what a hook answered in its place."""
        if not self._compiled.onlookers.empty:
            await self._dispatcher.fire(self._compiled.onlookers, before, self._trace, Part(self._told, ended=outcome))

    async def close(self, event: A) -> A:
        """The post chain on how it ended; then whoever was told of the beginning and has no post there hears of it."""
        heard: Told = []
        ending: object = event
        try:
            decision = await self._dispatcher.fire(self._compiled.post, event, self._trace, Part(heard))
            return cast(A, decision.event)
        except BaseException as error:
            ending = error
            raise
        finally:
            strike(self._told, heard)
            self.leave(ending)

    def leave(self, ending: object) -> None:
        """Tells how it ended to those who were told of the beginning and heard of no end, once; innermost first."""
        told, self._told = self._told, []
        unwind(told, ending)
