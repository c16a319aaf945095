"""Points and operations as declarations (D§2, D§4.1, D§4.2, D§4.6), and the catalogue that holds them.

The kernel declares none: the catalogue layer does, and gives them to the runtime.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from tenter.kernel.event import Event
from tenter.kernel.errors import RegistrationError
from tenter.kernel.outcome import Allow, Block, Escalate, Outcome, Result, Retry, Suspend

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

Phase = Literal["pre", "in", "post"]
Shape = Literal["leaf", "span", "nested", "fact"]
Policy = Literal["warn", "block", "suspend", "fail"]

PHASES: tuple[Phase, ...] = ("pre", "in", "post")

OUTCOMES: Mapping[str, type[Outcome]] = {
    "allow": Allow,
    "block": Block,
    "suspend": Suspend,
    "escalate": Escalate,
    "retry": Retry,
    "result": Result,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What one phase of an operation promises and takes."""

    fires: str
    """When it fires and what is promised there, in sentences: the documentation of the point."""
    takes: frozenset[type[Outcome]] = frozenset()
    replaces: bool = False
    portable: str | None = None
    observe_only: bool = False
    block_means: str = ""


@dataclass(frozen=True)
class Operation(Generic[B, A]):
    """Something a harness, loop or bench does.

    `results` names the fields that `after` adds to `before`. `matches` maps a word that a hook's `match` may use to
    the path of the field it looks at, e.g. `{"tool": "call.name"}`.
    """

    name: str
    shape: Shape
    before: type[B]
    after: type[A]
    results: tuple[str, ...] = ()
    rules: Mapping[Phase, Rule] = field(default_factory=dict[Phase, Rule])
    matches: Mapping[str, str] = field(default_factory=dict[str, str])
    doc: str = ""

    def point(self, phase: Phase) -> str:
        return f"{self.name}.{phase}"


@dataclass(frozen=True, eq=False)
class Point:
    """A named place at an operation: what a hook attaches to."""

    name: str
    operation: Operation[Event, Event]
    phase: Phase
    rule: Rule
    event: type[Event]

    @property
    def outbound(self) -> bool:
        return self.phase == "post"

    @property
    def portable(self) -> str | None:
        return self.rule.portable

    @property
    def label(self) -> str:
        """The name that listings show: the portable one where it exists."""
        return self.rule.portable or self.name

    def takes(self, outcome: type[Outcome]) -> bool:
        return outcome in self.rule.takes

    @property
    def answerable(self) -> bool:
        """Whether a hook can say anything here at all."""
        return not self.rule.observe_only and (bool(self.rule.takes) or self.rule.replaces)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The failure policies that a hook may have here (D§7)."""
        allowed: list[Policy] = ["warn"]
        if self.takes(Block):
            allowed.append("block")
        if self.takes(Suspend):
            allowed.append("suspend")
        if self.answerable:
            allowed.append("fail")
        return tuple(allowed)

    @property
    def default_policy(self) -> Policy:
        if self.takes(Block):
            return "block"
        return "fail" if self.answerable else "warn"


class Catalogue(Mapping[str, Point]):
    """The operations a runtime knows, and every name of their points.

    A point answers to `<operation>.<phase>`, `<phase>.<operation>` and its portable name.
    """

    def __init__(self, operations: tuple[Operation[Event, Event], ...]) -> None:
        self.operations: Mapping[str, Operation[Event, Event]] = {op.name: op for op in operations}
        self._points: dict[str, Point] = {}
        self._names: dict[str, Point] = {}
        for operation in operations:
            self._declare(operation)

    def _declare(self, operation: Operation[Event, Event]) -> None:
        for phase in PHASES:
            if (rule := operation.rules.get(phase)) is None:
                continue
            event = operation.after if phase == "post" else operation.before
            point = Point(operation.point(phase), operation, phase, rule, event)
            self._points[point.name] = point
            for name in (point.name, f"{phase}.{operation.name}", *([rule.portable] if rule.portable else [])):
                if name in self._names:
                    raise RegistrationError(f"the catalogue has two points called {name!r}")
                self._names[name] = point

    def __getitem__(self, name: str) -> Point:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @property
    def names(self) -> Collection[str]:
        """Every name of every point."""
        return self._names.keys()

    def resolve(self, name: str, owner: str) -> Point:
        """The point called `name`. Raises RegistrationError naming `owner` and the nearest name."""
        if name in self._names:
            return self._names[name]
        raise RegistrationError(f"{owner} names the point {name!r}, which does not exist{self.nearest(name)}")

    def nearest(self, name: str) -> str:
        """A clause that names the likeliest points, or where to find them all."""
        close = difflib.get_close_matches(name, list(self._names), n=1, cutoff=0.5)
        return f"; did you mean {close[0]!r}?" if close else "; `tenter hooks list --all` prints all points"

    def methods(self) -> Mapping[str, Point]:
        """The method names by which a `Hook` class attaches, e.g. `on_tool_before`."""
        return {"on_" + name.replace(".", "_"): point for name, point in self._names.items()}
