"""The kernel's front: hooks and a catalogue in, operations and decisions out (D§16).

Everything is checked and compiled when a runtime is built; nothing registers while it lives.
"""

import hashlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeVar, cast

import msgspec

from tenter.kernel.boundary import Boundary
from tenter.kernel.call import arm
from tenter.kernel.chain import Chain, Link
from tenter.kernel.clock import SYSTEM_CLOCK, Clock
from tenter.kernel.decision import Decision
from tenter.kernel.dispatch import Dispatcher
from tenter.kernel.ending import Done, Stopped
from tenter.kernel.errors import TenterError
from tenter.kernel.event import Event
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.point import Catalogue, Operation, Phase, Point, Rule
from tenter.kernel.redaction import Redactor
from tenter.kernel.registration import compile_chains, described
from tenter.kernel.runner import Body, Compiled, Runner, Steps
from tenter.kernel.span import Span
from tenter.kernel.trace import Trace
from tenter.kernel.verdicts import strange

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

DEFAULT_TIMEOUT = 30.0


class Runtime:
    """Runs operations of one catalogue with one set of hooks.

    `hooks` are functions made by `@hook`, `Hook` instances or classes, and declarations. `gates` may stand in the
    reserved band. `redactor` knows what must not reach a hook; `digest` names a call, so that an approval binds to it;
    `timeout` is the deadline, in seconds, of hooks that name none. Raises RegistrationError for what cannot be
    attached.
    """

    def __init__(  # noqa: PLR0913  # what a runtime is given, each by its name
        self,
        catalogue: Catalogue,
        hooks: Iterable[object] = (),
        *,
        gates: Iterable[object] = (),
        redactor: Redactor | None = None,
        clock: Clock = SYSTEM_CLOCK,
        digest: Callable[[Mapping[str, object]], str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.catalogue = catalogue
        self.trace = Trace()
        """Where entries go for which the caller names no other trace."""
        self._chains = FrozenDict(compile_chains(catalogue, hooks, gates=gates, timeout=timeout))
        for chain in self._chains.values():
            for link in chain.running_order:
                arm(link, clock)
        self._named = {name: self._chains[catalogue[name].name] for name in catalogue.names}
        self._compiled = {name: self._compile(operation) for name, operation in catalogue.operations.items()}
        self._dispatcher = Dispatcher(
            clock, redactor if redactor is not None else Redactor(), _call_digest(digest or _sha256), timeout
        )

    async def run(
        self,
        operation: Operation[B, A],
        event: B,
        body: Body[B],
        *,
        trace: Trace | None = None,
        steps: Steps | None = None,
    ) -> Done[A] | Stopped:
        """A whole operation. Returns how it ended; raises only cancellation. A span is opened and closed (`span`).

        Raises TenterError for what is no operation of the catalogue, and for an event of another.
        """
        self._check(operation)
        if operation.shape == "span":
            raise ValueError(f"{operation.name} is a span: open and close it with `span`")
        if not isinstance(event, operation.before):
            raise strange(event, operation.before, operation.name)
        return await self._runner(operation, trace, steps).run(event, body)

    async def work(
        self,
        operation: Operation[B, A],
        before: B,
        body: Body[B],
        *,
        trace: Trace | None = None,
        steps: Steps | None = None,
    ) -> Done[A] | Stopped:
        """The work and the end of an operation that was let through already, in a process that died since."""
        self._check(operation)
        if not isinstance(before, operation.before):
            raise strange(before, operation.before, f"the work of {operation.name}")
        return await self._runner(operation, trace, steps).work(before, body)

    async def finish(self, operation: Operation[B, A], after: A, *, trace: Trace | None = None) -> Done[A] | Stopped:
        """The post chain of an operation whose result is there already."""
        self._check(operation)
        if not isinstance(after, operation.after):
            raise strange(after, operation.after, f"the end of {operation.name}")
        return await self._runner(operation, trace).finish(after)

    def span(self, operation: Operation[B, A], *, trace: Trace | None = None) -> Span[B, A]:
        """The two ends of an operation whose body is a loop. Raises ValueError for one that is no span."""
        self._check(operation)
        if operation.shape != "span":
            raise ValueError(f"{operation.name} is no span: `run` does it whole")
        compiled = cast("Compiled[B, A]", self._compiled[operation.name])
        return Span(self._dispatcher, compiled, self.trace if trace is None else trace)

    def boundary(self, operation: Operation[B, A], *, trace: Trace | None = None) -> Boundary[B, A]:
        """An operation in stages that the caller paces (`Boundary`).

        Raises ValueError for one that is no leaf, and for one whose work a hook may stand for: `run` does that whole.
        """
        self._check(operation)
        if operation.shape != "leaf" or "in" in operation.rules:
            raise ValueError(f"{operation.name} is no leaf of only 'pre' and 'post'; do it with `run` or `span`")
        compiled = cast("Compiled[B, A]", self._compiled[operation.name])
        return Boundary(self._dispatcher, compiled, self.trace if trace is None else trace)

    def digest(self, event: Event) -> str:
        """Names the call that an event stands for, without its approval, which is bound to the rest."""
        return self._dispatcher.digest(event)

    def dispatch(self, point: str, event: Event, *, trace: Trace | None = None) -> Coroutine[object, object, Decision]:
        """One point, awaited: its chain and its observers.

        Raises RegistrationError for a point that does not exist, and TenterError for an event that it does not hand
        out; like `run`, when awaited, only cancellation.
        """
        chain = self._named.get(point) or self.chain(point)
        if type(event) is not (wanted := chain.point.event) and not isinstance(event, wanted):
            raise strange(event, wanted, point)
        return self._dispatcher.fire(chain, event, self.trace if trace is None else trace)

    def chain(self, point: str) -> Chain:
        """What runs at `point`, in order."""
        return self._chains[self.catalogue.resolve(point, "the caller").name]

    @property
    def chains(self) -> Mapping[str, Chain]:
        """What runs at every point of the catalogue, by the point's name."""
        return self._chains

    def links(self) -> tuple[Link, ...]:
        """Every hook at every point, with its figures."""
        return tuple(link for chain in self._chains.values() for link in chain.running_order)

    def _check(self, operation: object) -> None:
        """Raises TenterError unless this is an operation of the catalogue."""
        if not isinstance(operation, Operation):
            raise TenterError(
                f"expected an Operation, got {described(operation)}; take one of `runtime.catalogue.operations`"
            )
        if operation.name not in self._compiled:
            known = ", ".join(self._compiled)
            raise TenterError(f"the catalogue has no operation {operation.name!r}; it has {known}")

    def _runner(self, operation: Operation[B, A], trace: Trace | None, steps: Steps | None = None) -> Runner[B, A]:
        compiled = cast("Compiled[B, A]", self._compiled[operation.name])
        return Runner(self._dispatcher, compiled, self.trace if trace is None else trace, steps)

    def _compile(self, operation: Operation[Event, Event]) -> Compiled[Event, Event]:
        def chain(phase: Phase) -> Chain:
            return self._chains.get(operation.point(phase)) or _nowhere(operation, phase)

        return Compiled(operation, chain("pre"), chain("in"), chain("post"))


def _sha256(call: Mapping[str, object]) -> str:
    return "sha256:" + hashlib.sha256(msgspec.json.encode(call, order="sorted")).hexdigest()


def _call_digest(digest: Callable[[Mapping[str, object]], str]) -> Callable[[Event], str]:
    """Names the call that an event stands for: all its own fields but the approval, which is bound to the rest."""
    return lambda event: digest({name: value for name, value in event.own_fields().items() if name != "approval"})


def _nowhere(operation: Operation[Event, Event], phase: Phase) -> Chain:
    """The empty chain of a phase that an operation does not have."""
    return Chain(Point(operation.point(phase), operation, phase, Rule(""), operation.before))
