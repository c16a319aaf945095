"""Chains: the hooks of each point in the order they run, compiled once (D§5).

Ordering is a pure function over declarations. What runs and what `tenter hooks list` prints come from the same value.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tenter.kernel.declaration import BANDS, Declaration
from tenter.kernel.errors import ExecutionResult
from tenter.kernel.match import Matcher
from tenter.kernel.point import Point, Policy


@dataclass(slots=True, eq=False)
class Link:
    """One hook at one point, ready to be called, with its figures.

    The figures are the only thing about a chain that changes while a runtime lives.
    """

    hook: Declaration
    point: Point
    index: int
    """The place in registration order."""
    on_error: Policy
    timeout: float
    """The deadline in force, in seconds."""
    hard: bool
    matches: Matcher | None
    call: Callable[..., Any]
    """What the dispatcher calls: a hook may answer anything, or an awaitable of it where `awaits`."""
    awaits: bool
    soft: bool
    """Whether the shared timer watches over it."""
    takes_ended: bool = False
    shadow: bool = False
    guards: bool = False
    """Whether a later rewrite is judged by it again (D§5, recheck)."""
    tells: bool = False
    """Whether it wants to hear of operations whose end it would not see (`abandon`)."""
    picky: bool = False
    """Whether something is to be asked or noted before it is called: `match`, `abandon`."""
    place: int = 0
    """The place in running order."""
    calls: int = 0
    failures: int = 0
    passed_on_failure: int = 0
    stalls: int = 0
    leaked: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    results: dict[ExecutionResult, int] = field(default_factory=dict[ExecutionResult, int])
    """What came of the executions that answered or failed, counted; the rest of `calls` had nothing to say."""

    @property
    def name(self) -> str:
        return self.hook.name

    def slow(self, seconds: float) -> None:
        """Counts an execution that took long; a synchronous one held up the event loop all the while."""
        self.slowest = max(self.slowest, seconds)
        self.stalls += not self.awaits


@dataclass(frozen=True, slots=True)
class Chain:
    """What runs at one point: the links that answer, then those that only observe."""

    point: Point
    links: tuple[Link, ...] = ()
    observers: tuple[Link, ...] = ()
    empty: bool = field(init=False)
    watched: bool = field(init=False)
    guards: tuple[Link, ...] = field(init=False)
    nested: bool = field(init=False)
    label: str = field(init=False)

    def __post_init__(self) -> None:
        every = self.links + self.observers
        object.__setattr__(self, "empty", not every)
        object.__setattr__(self, "watched", any(link.soft for link in every))
        object.__setattr__(self, "nested", self.point.operation.shape == "nested")
        object.__setattr__(self, "label", self.point.label)
        object.__setattr__(self, "guards", tuple(link for link in self.links if link.guards))

    @property
    def running_order(self) -> tuple[Link, ...]:
        return self.links + self.observers


def compile_chain(point: Point, links: Iterable[Link]) -> Chain:
    """The chain of `point`: inbound from the outside in, outbound from the inside out.

    Hooks of equal depth run in registration order both ways; observers run after the rest, in the same order.
    """
    ordered = sorted(links, key=_outward if point.outbound else _inward)
    for place, link in enumerate(ordered):
        link.place = place
    return Chain(
        point,
        tuple(link for link in ordered if not link.hook.observe),
        tuple(link for link in ordered if link.hook.observe),
    )


def depth(hook: Declaration) -> tuple[int, int]:
    """How far in a hook stands: its band, then its priority; lower is further out."""
    return BANDS.index(hook.band), hook.priority


def _inward(link: Link) -> tuple[int, int, int]:
    band, priority = depth(link.hook)
    return band, priority, link.index


def _outward(link: Link) -> tuple[int, int, int]:
    band, priority = depth(link.hook)
    return -band, -priority, link.index
