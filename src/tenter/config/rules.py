"""The rules of `policy` as what they are in force: hooks of the control band, and rules for the gate (D§5, D§12).

Those at `tool.before` are judged by one check of the gate, after everything that may still change the call. Judges no
event itself: what a rule answers, and how, is of the controls.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tenter.catalogue import CATALOGUE
from tenter.config.declared import HookFile, source_at
from tenter.config.problem import KeyPath, Unresolved, nearest
from tenter.config.spec import Pattern, RuleSpec, Spec, Then
from tenter.controls import Rule, rule_hooks
from tenter.kernel import Block, Declaration, Escalate, Outcome, Point, RegistrationError, Suspend, compile_match

_GATE: Final = CATALOGUE["tool.before"]
_ANSWERS: Final[Mapping[Then, type[Outcome]]] = {"block": Block, "suspend": Suspend, "escalate": Escalate}
_NOT_EDITABLE: Final = frozenset({"envelope", "op", "approval"})
"""Fields of an event that say for whom and under what leave something happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRule:
    """A rule that hangs at a point by itself."""

    file: HookFile
    spec: RuleSpec
    point: Point
    declared: Declaration
    """Whole: there is nothing in a rule to be bound."""


def gate_rules(spec: Spec) -> tuple[Rule, ...]:
    """The rules that the gate judges, in the order of the file. They are of points that exist: `outline` sees to it."""
    return tuple(rule_of(one) for one in spec.policy if CATALOGUE.get(one.at) is _GATE)


def rule_of(spec: RuleSpec) -> Rule:
    """The rule that a file says, at its point's own name."""
    return Rule(
        name=spec.name,
        at=CATALOGUE[spec.at].label,
        match=spec.match,
        then=spec.then,
        reason=spec.reason,
        queue=spec.queue,
        editable=spec.editable,
        expires_in=spec.expires_in_seconds,
        on_timeout=spec.on_timeout,
    )


def rule_hook(spec: RuleSpec) -> Declaration | None:
    """The hook that a rule is at its point, where nothing is wrong with it; None for one that the gate judges."""
    return next((replace(one, source=source_at(spec.where)) for one in rule_hooks([rule_of(spec)])), None)


def rule_faults(spec: RuleSpec, point: Point) -> Iterator[tuple[KeyPath, Unresolved]]:
    """Why `point` cannot take a rule, each with the key that says it."""
    taken = [word for word, outcome in _ANSWERS.items() if point.takes(outcome)]
    if point.outbound:
        hint = f"set it to {CATALOGUE[point.operation.point('pre')].label!r}, or use a hook"
        yield ("at",), Unresolved(f"a rule cannot stand at {point.label!r}: what it would refuse has happened", hint)
    elif not taken:
        yield ("at",), Unresolved(f"nothing can be refused at {point.label!r}", "choose another point")
    elif spec.then not in taken:
        hint = f"this point takes {', '.join(taken)}"
        yield ("then",), Unresolved(f"the rule {spec.name!r} at {point.label!r} cannot {spec.then}", hint)
    for word, pattern in spec.match.items():
        if (said := _refusal(spec, point, word, pattern)) is not None:
            yield ("match", word), Unresolved(said)
    yield from _edits(spec, point)


def _refusal(spec: RuleSpec, point: Point, word: str, pattern: Pattern) -> str | None:
    try:
        compile_match({word: pattern}, point.operation.matches, f"rule {spec.name!r} at {point.label!r}")
    except RegistrationError as error:
        return str(error)
    return None


def _edits(spec: RuleSpec, point: Point) -> Iterator[tuple[KeyPath, Unresolved]]:
    if point is _GATE:
        return  # arguments, and of which tool only a call says
    fields = [name for name in point.event.__struct_fields__ if name not in _NOT_EDITABLE]
    for index, name in enumerate(spec.editable):
        if (field := name.partition(".")[0]) not in fields:
            near = nearest(field, fields)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(fields)}"
            yield ("editable", index), Unresolved(f"what waits at {point.label!r} has no field {field!r}", hint)
