"""A rule of the file is the rule that the controls know, and stands where it can be kept."""

import msgspec
import pytest

from tenter.catalogue import CATALOGUE
from tenter.config.problem import Position
from tenter.config.rules import gate_rules, rule_faults, rule_hook, rule_of
from tenter.config.spec import RuleSpec, Spec, Then
from tenter.controls import Rule
from tenter.kernel import Escalate, FrozenDict, attach, freeze
from tenter.testing import sample_event


def rule(at: str, then: Then = "block", **more: object) -> RuleSpec:
    said = {"where": Position("f", 3, 5), "path": ("policy", 0), "name": "a", "at": at, "then": then, "reason": "why"}
    return freeze(msgspec.convert({**said, **more}, RuleSpec))


def faults(spec: RuleSpec) -> list[tuple[object, ...]]:
    return [(*key, fault.message, fault.hint) for key, fault in rule_faults(spec, CATALOGUE[spec.at])]


def test_every_setting_of_a_rule_reaches_the_controls() -> None:
    spec = rule(
        "pre.tool.invoked",
        "suspend",
        match={"tool": "shell"},
        editable=("command",),
        expires_in_seconds=60.0,
        on_timeout="escalate",
    )
    assert rule_of(spec) == Rule(
        name="a",
        at="tool.before",
        match=FrozenDict({"tool": "shell"}),
        then="suspend",
        reason="why",
        editable=("command",),
        expires_in=60.0,
        on_timeout="escalate",
    )
    assert rule_of(rule("tool.before", "escalate", queue="ops")).queue == "ops"
    assert rule_of(rule("tool.before", "escalate")).queue == Escalate("x").queue


@pytest.mark.parametrize("at", ["tool.before", "tool.invoked.pre", "pre.tool.invoked"])
def test_the_gate_gets_the_rules_at_tool_before_under_any_of_its_names_in_the_order_of_the_file(at: str) -> None:
    policy = (rule(at, name="x"), rule("model.before", name="y"), rule("tool.invoked.in", name="z"), rule(at, name="v"))
    spec = Spec(file="f", digest="", version=1, policy=policy)
    assert [one.name for one in gate_rules(spec)] == ["x", "v"]
    assert rule_hook(policy[0]) is None


def test_a_rule_elsewhere_is_a_hook_of_the_control_band_that_answers_as_it_says() -> None:
    spec = rule("model.before", "escalate", queue="ops", match={"task": "f*"})
    hook = rule_hook(spec)
    assert hook is not None
    assert (hook.name, hook.band, hook.source) == ("a", "control", "f:3")
    link = attach(hook, CATALOGUE)
    assert (link.point.label, link.on_error) == ("model.before", "block"), "a rule that cannot be judged refuses"
    assert link.matches is not None
    assert hook.call(sample_event("model.before")) == Escalate("why", queue="ops")


@pytest.mark.parametrize(
    "at", ["tool.before", "tool.invoked.in", "run.start", "iteration.start.pre", "subtask.spawned.in"]
)
def test_a_rule_may_stand_where_something_is_about_to_happen(at: str) -> None:
    assert faults(rule(at)) == []


@pytest.mark.parametrize(
    ("at", "near"), [("tool.after", "tool.before"), ("run.end", "run.start"), ("loop.error.post", "loop.error.pre")]
)
def test_a_rule_cannot_stand_where_it_has_happened(at: str, near: str) -> None:
    what = f"a rule cannot stand at {at!r}: what it would refuse has happened"
    assert faults(rule(at)) == [("at", what, f"set it to {near!r}, or use a hook")]


def test_a_rule_cannot_stand_where_nothing_can_be_refused() -> None:
    at = "task.state_changed.pre"
    assert faults(rule(at)) == [("at", f"nothing can be refused at {at!r}", "choose another point")]


@pytest.mark.parametrize(
    ("at", "then", "takes"),
    [
        ("run.start", "suspend", "block"),
        ("run.start", "escalate", "block"),
        ("help.requested.pre", "suspend", "block, escalate"),
        ("subtask.spawned.pre", "suspend", "block"),
    ],
)
def test_a_point_must_take_what_a_rule_says(at: str, then: Then, takes: str) -> None:
    assert faults(rule(at, then)) == [("then", f"the rule 'a' at {at!r} cannot {then}", f"this point takes {takes}")]


def test_a_match_asks_for_fields_of_the_point_with_patterns_that_can_be_used() -> None:
    spec = rule("model.before", match={"tool": "x", "model": {"re": "("}, "task": "x"})
    found = faults(spec)
    assert [one[:2] for one in found] == [("match", "tool"), ("match", "model")]
    assert found[0][2] == "rule 'a' at 'model.before' matches on 'tool'; this point can match on alias, model, task"
    assert "is not an expression that RE2 takes" in str(found[1][2])


def test_what_may_be_edited_is_a_field_of_what_waits() -> None:
    spec = rule("model.before", "suspend", editable=("request.messages", "reqest.model", "op", "*"))
    assert faults(spec) == [
        ("editable", 1, "what waits at 'model.before' has no field 'reqest'", "did you mean 'request'?"),
        ("editable", 2, "what waits at 'model.before' has no field 'op'", "it has request"),
        ("editable", 3, "what waits at 'model.before' has no field '*'", "it has request"),
    ]


def test_of_a_tool_call_any_argument_may_be_edited() -> None:
    assert faults(rule("tool.before", "suspend", editable=("anything", "*"))) == []
