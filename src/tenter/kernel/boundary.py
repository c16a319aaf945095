"""An operation in stages that somebody else paces (D§8): its pre, its post, and work and waiting between them.

The runner does an operation in one go; here the caller awaits each chain by itself, and does the work. A chain that
stopped is no end: the caller may wait, also for a person, and go on, or ask single hooks again. A boundary remembers
who was told of the beginning (D§3.5). It does not know why anybody waits or what is recorded, and lives in one process:
in the next one another boundary goes on with the operation, and nobody there was told of its beginning.
"""

from collections.abc import Collection
from typing import Generic, TypeVar, cast

from tenter.kernel.chain import Chain
from tenter.kernel.dispatch import Dispatcher
from tenter.kernel.ending import Done, Stopped
from tenter.kernel.errors import TenterError
from tenter.kernel.event import Event
from tenter.kernel.frame import Part, Told
from tenter.kernel.point import Phase
from tenter.kernel.runner import Compiled, stopped, strike, unwind
from tenter.kernel.trace import Trace
from tenter.kernel.verdicts import strange

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)


class Boundary(Generic[B, A]):
    """One operation on its way from its beginning to its end.

    `leave` follows whatever happens: after the post, after an ending without one, and when a stage raises. A stage
    raises cancellation, the user's KeyboardInterrupt, and TenterError for an event that is not its own.
    """

    def __init__(self, dispatcher: Dispatcher, compiled: Compiled[B, A], trace: Trace) -> None:
        self._dispatcher = dispatcher
        self._compiled = compiled
        self._trace = trace
        self._told: Told = []

    async def pre(self, event: B) -> Done[B] | Stopped:
        """The pre chain: the input of the work, or what stands against it."""
        return cast("Done[B] | Stopped", await self._fire(self._compiled.pre, event, self._told))

    async def post(self, event: A) -> Done[A] | Stopped:
        """The post chain on what came of the work. Whoever hears of the end by it is not told by `leave`."""
        return cast("Done[A] | Stopped", await self._end(self._compiled.post, event))

    async def again(self, phase: Phase, event: Event, hooks: Collection[str]) -> Done[Event] | Stopped:
        """Only the hooks of a phase that bear these names, in their order, once more; no observers.

        Raises TenterError for a name that no hook bears there: it may be another process that asks than the one in
        which the hook spoke.
        """
        match phase:
            case "pre":
                return await self._fire(_only(self._compiled.pre, hooks), event, self._told)
            case "post":
                return await self._end(_only(self._compiled.post, hooks), event)
            case "in":
                raise ValueError("a boundary has the phases 'pre' and 'post'; its work is the caller's")

    def leave(self, ending: object) -> None:
        """Tells how it ended to those who were told of the beginning and did not hear the end by their post.

        Innermost first, each once, however often it is called. `ending` is what their `abandon` gets: what stopped it,
        or the exception.
        """
        told, self._told = self._told, []
        unwind(told, ending)

    async def _end(self, chain: Chain, event: Event) -> Done[Event] | Stopped:
        heard: Told = []
        try:
            return await self._fire(chain, event, heard)
        finally:
            strike(self._told, heard)

    async def _fire(self, chain: Chain, event: Event, told: Told) -> Done[Event] | Stopped:
        if not isinstance(event, chain.point.event):
            raise strange(event, chain.point.event, chain.point.name)
        decision = await self._dispatcher.fire(chain, event, self._trace, Part(told))
        return stopped(decision) or Done(decision.event)


def _only(chain: Chain, hooks: Collection[str]) -> Chain:
    names = [link.name for link in chain.links]
    if missing := sorted(set(hooks) - set(names)):
        known = ", ".join(map(repr, names)) or "none"
        raise TenterError(f"no hook {missing[0]!r} answers at {chain.label!r} (any more); those that do: {known}")
    return Chain(chain.point, tuple(link for link in chain.links if link.name in hooks))
