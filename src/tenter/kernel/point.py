"""Points and operations as declarations (D§2, D§4.1, D§4.2, D§4.6), and the catalogue that holds them.

The kernel declares none: the catalogue layer does, and gives them to the runtime.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, get_args

from tenter.kernel.errors import RegistrationError
from tenter.kernel.event import Event
from tenter.kernel.outcome import Allow, Block, Escalate, Outcome, Result, Retry, Suspend

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

Phase = Literal["pre", "in", "post"]
Shape = Literal["leaf", "span", "nested", "fact"]
Policy = Literal["warn", "block", "suspend", "fail"]

PHASES: tuple[Phase, ...] = get_args(Phase)
SHAPES: tuple[Shape, ...] = get_args(Shape)
POLICIES: tuple[Policy, ...] = get_args(Policy)

OUTCOMES: Mapping[str, type[Outcome]] = {
    "allow": Allow,
    "block": Block,
    "suspend": Suspend,
    "escalate": Escalate,
    "retry": Retry,
    "result": Result,
}
"""What a hook can answer, by the word for it."""

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """What one phase of an operation promises and takes."""

    fires: str
    """When it fires and what is promised there, in sentences: the documentation of the point."""
    takes: frozenset[type[Outcome]] = frozenset()
    replaces: bool = False
    """Whether a hook may answer with another event."""
    portable: str | None = None
    observe_only: bool = False
    """Whether nothing may be answered, so that a failure can only warn."""
    fails: bool = True
    """Whether a hook that can answer here may have `on_error: fail`."""
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
        if self.answerable and self.rule.fails:
            allowed.append("fail")
        return tuple(allowed)

    @property
    def default_policy(self) -> Policy:
        """What a hook's failure does where neither the hook nor the configuration says it: closed where that can be."""
        closed: tuple[Policy, ...] = ("block", "fail", "suspend", "warn")
        return next(policy for policy in closed if policy in self.policies)


class Catalogue(Mapping[str, Point]):
    """The operations a runtime knows, and every name of their points.

    A point answers to `<operation>.<phase>`, `<phase>.<operation>` and its portable name; iterating gives the first.
    Raises RegistrationError for operations that contradict themselves or one another.
    """

    def __init__(self, operations: tuple[Operation[Event, Event], ...]) -> None:
        self.operations: Mapping[str, Operation[Event, Event]] = {op.name: op for op in operations}
        self._points: dict[str, Point] = {}
        self._names: dict[str, Point] = {}
        self._methods: dict[str, Point] = {}
        for operation in operations:
            _check(operation)
            for phase in PHASES:
                if (rule := operation.rules.get(phase)) is not None:
                    self._declare(operation, phase, rule)

    def _declare(self, operation: Operation[Event, Event], phase: Phase, rule: Rule) -> None:
        event = operation.after if phase == "post" else operation.before
        point = Point(operation.point(phase), operation, phase, rule, event)
        self._points[point.name] = point
        for name in (point.name, f"{phase}.{operation.name}", *([rule.portable] if rule.portable else [])):
            method = "on_" + name.replace(".", "_")
            if name in self._names or self._methods.get(method, point) is not point:
                raise RegistrationError(f"the catalogue has two points called {name!r}, or {method!r}; rename one")
            self._names[name] = self._methods[method] = point

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

    @property
    def methods(self) -> Mapping[str, Point]:
        """The method names by which a `Hook` class attaches, e.g. `on_tool_before`."""
        return self._methods

    def resolve(self, name: str, owner: str) -> Point:
        """The point called `name`. Raises RegistrationError naming `owner` and the nearest name."""
        if name in self._names:
            return self._names[name]
        raise RegistrationError(
            f"{owner} names the point {name[:_LONGEST_NAME]!r}, which does not exist{self.nearest(name)}"
        )

    def nearest(self, name: str) -> str:
        """A clause that names the likeliest point, or where to find them all."""
        close = difflib.get_close_matches(name[:_LONGEST_NAME], self._names, n=1, cutoff=0.5)
        return f"; did you mean {close[0]!r}?" if close else "; `tenter hooks list --all` prints all points"


def _check(operation: Operation[Event, Event]) -> None:
    """Raises RegistrationError for a declaration that contradicts itself (D§4.1, D§4.2)."""
    owner = f"the operation {operation.name!r}"
    if not _NAME.fullmatch(operation.name):
        raise RegistrationError(f"{owner} is not named like 'tool.invoked'")
    if operation.shape not in SHAPES:
        raise RegistrationError(f"{owner} has the shape {operation.shape!r}; expected one of {_listed(SHAPES)}")
    for phase, rule in operation.rules.items():
        if phase not in PHASES:
            raise RegistrationError(f"{owner} has the phase {phase!r}; expected one of {_listed(PHASES)}")
        if unknown := rule.takes - _answers(operation.shape, phase):
            word = min(outcome.__name__ for outcome in unknown)
            raise RegistrationError(f"{owner} takes {word} at {phase!r}, where a {operation.shape} cannot")
        if rule.portable is not None and not _NAME.fullmatch(rule.portable):
            raise RegistrationError(f"{owner} has the portable name {rule.portable!r}; expected one like 'tool.before'")
    before, after = set(operation.before.__struct_fields__), set(operation.after.__struct_fields__)
    if lost := (before - after) | (set(operation.results) - after):
        raise RegistrationError(f"{owner} loses {min(lost)!r}: its after-event has the before-fields and the results")
    for word, path in operation.matches.items():
        if (first := path.partition(".")[0]) not in before & after:
            raise RegistrationError(f"{owner} matches {word!r} on {path!r}; its events have no field {first!r}")


def _answers(shape: Shape, phase: Phase) -> frozenset[type[Outcome]]:
    """What can be answered at all at a phase of such an operation (D§6)."""
    if shape == "fact":
        return frozenset()
    every = frozenset(OUTCOMES.values())
    allowed = every - {Result} if phase != "in" else every
    return allowed - {Suspend, Escalate} if shape == "nested" else allowed


def _listed(words: Collection[str]) -> str:
    return ", ".join(map(repr, words))
