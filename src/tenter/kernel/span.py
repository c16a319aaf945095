"""The two ends of an operation whose body is a loop (D§4.2): its pre, and its post for every ending.

Between them it remembers who was told of the beginning, so that whoever does not see the end by a post hears of it
(D§3.5). A loop that goes on in another process closes a span that was opened in the first; nobody there was told.
"""

from typing import Generic, TypeVar, cast

from tenter.kernel.dispatch import Dispatcher
from tenter.kernel.ending import Done, Stopped
from tenter.kernel.event import Event
from tenter.kernel.frame import Part, Told
from tenter.kernel.runner import Plan, stopped, strike, unwind
from tenter.kernel.trace import Trace

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)


class Span(Generic[B, A]):
    """One span while it is open."""

    def __init__(self, dispatcher: Dispatcher, plan: Plan[B, A], trace: Trace) -> None:
        self._dispatcher = dispatcher
        self._plan = plan
        self._trace = trace
        self._told: Told = []

    async def open(self, event: B) -> Done[B] | Stopped:
        """The pre chain: what the loop begins with, or why it does not begin. `close` follows either way.

        Raises cancellation, after which `close` follows as well.
        """
        decision = await self._dispatcher.fire(self._plan.pre, event, self._trace, Part(self._told))
        return stopped(decision) or Done(cast(B, decision.event))

    async def close(self, event: A) -> A:
        """The post chain on how it ended; then whoever was told of the beginning and has no post there hears of it."""
        heard: Told = []
        ending: object = event
        try:
            decision = await self._dispatcher.fire(self._plan.post, event, self._trace, Part(heard))
            return cast(A, decision.event)
        except BaseException as error:
            ending = error
            raise
        finally:
            told, self._told = self._told, []
            strike(told, heard)
            unwind(told, ending)
