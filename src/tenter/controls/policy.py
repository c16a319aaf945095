"""Rules: what a project refuses, asks a person for or hands over, without code (D§12).

Those at `tool.before` are judged by one of the governor's checks, on the call as it will happen; each other one is a
hook of its own. Everything about a rule is checked when it is taken on.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, assert_never

import msgspec

from tenter.catalogue import ARGUMENTS, CATALOGUE, EVERY_FIELD, TOOL_INVOKED
from tenter.kernel import (
    Block,
    Declaration,
    Escalate,
    Event,
    FrozenDict,
    FrozenStruct,
    Matcher,
    OnTimeout,
    Outcome,
    Point,
    RegistrationError,
    Suspend,
    compile_match,
    is_slug,
)

Then = Literal["block", "suspend", "escalate"]

TOOLS = TOOL_INVOKED.point("pre")


LONGEST_CODE: Final = 64
"""Characters of a code."""


class Rule(FrozenStruct, frozen=True, kw_only=True):
    """One rule: what it says to the events at a point that `match` fits.

    `at` is any name of an inbound point. `editable` (arguments of a tool call, else fields of the event; `*`: every
    argument), `expires_in` (seconds; None: never) and `on_timeout` are of a suspension, `queue` is of an escalation.
    """

    name: str
    at: str
    then: Then
    match: Mapping[str, object] = FrozenDict()
    reason: str = ""
    queue: str = "default"
    editable: tuple[str, ...] = ()
    expires_in: float | None = None
    on_timeout: OnTimeout = "block"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules at `tool.before` say to one call. `rule` is the first of those that decided; "": none."""

    outcome: Block | Suspend | Escalate | None = None
    rule: str = ""


NOTHING = Judged()


class ToolRules:
    """Those of `rules` that stand at `tool.before`, ready to judge. Raises RegistrationError for one that cannot be."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[Rule]) -> None:
        at_tools = [rule for rule in rules if _point(rule).name == TOOLS]
        self._rules = tuple((_matcher(rule), rule, _outcome(_named(rule))) for rule in at_tools)
        for place, rule in enumerate(at_tools):
            if not is_slug(rule.name):
                raise RegistrationError(f"the rule {rule.name[:100]!r} has no usable name; use a-z, 0-9, '_' and '-'")
            if rule.name in {other.name for other in at_tools[:place]}:
                raise RegistrationError(f"two rules are called {rule.name!r}; give one another name")

    def judge(self, event: Event) -> Judged:
        """One answer for all rules that fit: a block before an escalation before a suspension, the first of each.

        Several suspensions become one. Raises HookFailure for a value that is too long for a rule's pattern.
        """
        if not self._rules:
            return NOTHING
        fitting = [(rule.name, said) for matches, rule, said in self._rules if matches is None or matches(event)]
        if not fitting:
            return NOTHING
        for kind in (Block, Escalate):
            for name, said in fitting:
                if isinstance(said, kind):
                    return Judged(said, name)
        return Judged(_one({name: said for name, said in fitting if isinstance(said, Suspend)}), fitting[0][0])


def rule_hooks(rules: Iterable[Rule]) -> tuple[Declaration, ...]:
    """Those of `rules` that stand elsewhere than at `tool.before`, as hooks of the band `control`.

    Raises RegistrationError for a rule that cannot stand where it says.
    """
    return tuple(_hook(rule) for rule in rules if _point(rule).name != TOOLS)


def _hook(rule: Rule) -> Declaration:
    outcome = _outcome(rule)

    def says(event: Event) -> Outcome:
        return outcome

    return Declaration(
        name=rule.name, point=_point(rule).name, call=says, kind="policy", band="control", match=rule.match
    )


def _point(rule: Rule) -> Point:
    point = CATALOGUE.resolve(rule.at, f"the rule {rule.name!r}")
    wanted = {"block": Block, "suspend": Suspend, "escalate": Escalate}[rule.then]
    if point.outbound:
        raise RegistrationError(
            f"the rule {rule.name!r} stands at {rule.at!r}; a rule judges what is about to happen, as at 'tool.before'"
        )
    if not point.takes(wanted):
        raise RegistrationError(f"the rule {rule.name!r} says {rule.then!r} at {rule.at!r}, which does not take it")
    return point


def _matcher(rule: Rule) -> Matcher | None:
    return compile_match(rule.match, TOOL_INVOKED.matches, f"the rule {rule.name!r}")


def _named(rule: Rule) -> Rule:
    """The rule with a reason that tells its name: at `tool.before` the check that judges it bears another."""
    return msgspec.structs.replace(rule, reason=f"{rule.reason} (the rule {rule.name!r})") if rule.reason else rule


def _outcome(rule: Rule) -> Block | Suspend | Escalate:
    try:
        match rule.then:
            case "block":
                return Block(rule.reason or f"the rule {rule.name!r} forbids it", code="policy_denied")
            case "escalate":
                return Escalate(rule.reason or f"the rule {rule.name!r} hands it over", queue=rule.queue)
            case "suspend":
                return Suspend(
                    rule.reason or f"the rule {rule.name!r} asks for a person",
                    code=_code((rule.name,)),
                    editable=_editable(rule),
                    expires_in=rule.expires_in,
                    on_timeout=rule.on_timeout,
                )
            case _:
                assert_never(rule.then)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"the rule {rule.name!r} cannot be used: {error}") from None


def _editable(rule: Rule) -> tuple[str, ...]:
    """The fields as the event has them: of a tool call, people name the arguments alone."""
    if _point(rule).name != TOOLS:
        return rule.editable
    return tuple(name if name == EVERY_FIELD else f"{ARGUMENTS}{name}" for name in rule.editable)


def _code(rules: Iterable[str]) -> str:
    """Tells which rules ask: what a person approved answers these, and no other (D§3.10)."""
    names = ".".join(("policy", *rules))
    return names if len(names) <= LONGEST_CODE else f"policy.{hashlib.sha256(names.encode()).hexdigest()[:16]}"


def _one(rules: Mapping[str, Suspend]) -> Suspend:
    """One request for all of them: every reason, what all let be edited, the soonest end."""
    asked = tuple(rules.values())
    if len(asked) == 1:
        return asked[0]
    names = dict.fromkeys(name for one in asked for name in one.editable)
    kept = tuple(name for name in names if all(name in one.editable or EVERY_FIELD in one.editable for one in asked))
    ending = [one for one in asked if one.expires_in is not None]
    soonest = min(ending, key=lambda one: one.expires_in or 0.0, default=asked[0])
    return Suspend(
        "; ".join(dict.fromkeys(one.reason for one in asked)),
        code=_code(rules),
        editable=(EVERY_FIELD,) if EVERY_FIELD in kept else kept,
        expires_in=soonest.expires_in,
        on_timeout=soonest.on_timeout,
    )
