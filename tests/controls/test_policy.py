"""Rules: what they say where, what they come to together, and what is refused when they are taken on."""

from typing import Any

import pytest

from tenter.catalogue import (
    CATALOGUE,
    Envelope,
    InputEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    Op,
    TaskRef,
    ToolCall,
    ToolCallEvent,
)
from tenter.controls.policy import NOTHING, Judged, Rule, ToolRules, rule_hooks
from tenter.kernel import Block, Escalate, HookFailure, RegistrationError, Runtime, Suspend

ENVELOPE = Envelope(run_id="r", task=TaskRef(id="r", name="work"), correlation_id="r")


def call(tool: str) -> ToolCallEvent:
    return ToolCallEvent(envelope=ENVELOPE, op=Op(id="o"), call=ToolCall(id="c", name=tool))


def at_tools(name: str, **fields: Any) -> Rule:
    return Rule(name=name, at="tool.before", **fields)


BLOCK = at_tools("no-shell", then="block", match={"tool": "shell"}, reason="no shells here")
ESCALATE = at_tools("hand-over", then="escalate", match={"tool": "sh*"}, queue="ops", reason="ask ops")
SUSPEND = at_tools("ask", then="suspend", match={"tool": ["shell", "write_file"]}, reason="sure?")


def test_a_rule_speaks_of_what_it_fits_alone() -> None:
    rules = ToolRules([BLOCK])
    assert rules.judge(call("shell")) == Judged(
        Block("no shells here (the rule 'no-shell')", code="policy_denied"), "no-shell"
    )
    assert rules.judge(call("shells")) is rules.judge(call("read_file")) is NOTHING


def test_a_rule_without_a_match_fits_every_call() -> None:
    assert ToolRules([at_tools("none", then="block")]).judge(call("x")).rule == "none"
    assert ToolRules([]).judge(call("x")) is NOTHING


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        ([SUSPEND, ESCALATE, BLOCK], "no-shell"),
        ([SUSPEND, ESCALATE], "hand-over"),
        ([SUSPEND], "ask"),
        ([at_tools("first", then="block"), BLOCK], "first"),
    ],
)
def test_a_block_comes_before_an_escalation_before_a_suspension_and_the_first_of_each(
    rules: list[Rule], rule: str
) -> None:
    assert ToolRules(rules).judge(call("shell")).rule == rule


def test_each_rule_says_what_it_was_told_to() -> None:
    rules = ToolRules([ESCALATE])
    assert rules.judge(call("shell")).outcome == Escalate("ask ops (the rule 'hand-over')", queue="ops")
    timed = at_tools("ask", then="suspend", reason="sure?", editable=("command", "*"), expires_in=60.0)
    assert ToolRules([timed]).judge(call("shell")).outcome == Suspend(
        "sure? (the rule 'ask')", code="policy.ask", editable=("call.arguments.command", "*"), expires_in=60.0
    )


@pytest.mark.parametrize(
    ("then", "words"), [("block", "forbids it"), ("escalate", "hands it over"), ("suspend", "asks for a person")]
)
def test_a_rule_without_a_reason_names_itself(then: Any, words: str) -> None:
    outcome = ToolRules([at_tools("mine", then=then)]).judge(call("x")).outcome
    assert outcome is not None
    assert outcome.reason == f"the rule 'mine' {words}"


@pytest.mark.promise(10)
def test_what_long_named_rules_ask_for_has_a_code_of_its_own_too() -> None:
    codes: set[str] = set()
    for names in ("a" * 64, "b" * 64), ("a" * 64, "c" * 64):
        said = ToolRules([at_tools(name, then="suspend") for name in names]).judge(call("shell")).outcome
        assert isinstance(said, Suspend)
        codes.add(said.code)
    assert len(codes) == 2


def test_several_suspensions_are_one_request_with_every_reason_what_all_allow_and_the_soonest_end() -> None:
    rules = ToolRules(
        [
            at_tools("a", then="suspend", reason="one", editable=("x", "y"), expires_in=60.0),
            at_tools("b", then="suspend", reason="two", editable=("*",)),
            at_tools("c", then="suspend", reason="one", editable=("y", "z"), expires_in=9.0, on_timeout="escalate"),
        ]
    )
    assert rules.judge(call("shell")) == Judged(
        Suspend(
            "one (the rule 'a'); two (the rule 'b'); one (the rule 'c')",
            code="policy.a.b.c",
            editable=("call.arguments.y",),
            expires_in=9.0,
            on_timeout="escalate",
        ),
        "a",
    )


def test_what_every_suspension_lets_be_edited_freely_is_free() -> None:
    rules = ToolRules([at_tools(name, then="suspend", editable=("*", name)) for name in ("a", "b")])
    asked = rules.judge(call("shell")).outcome
    assert isinstance(asked, Suspend)
    assert (asked.editable, asked.expires_in) == (("*",), None)


def test_a_name_too_long_for_a_pattern_is_no_way_around_a_rule() -> None:
    rules = ToolRules([at_tools("deep", then="block", match={"tool": {"re": "(a+b+){5,20}"}})])
    with pytest.raises(HookFailure, match="too long for this pattern"):
        rules.judge(call("x" * 1_000_000))


async def test_a_rule_at_another_point_is_a_hook_of_the_control_band() -> None:
    rules = [
        BLOCK,
        Rule(name="cheap-only", at="model.before", then="block", match={"model": "big*"}, reason="too dear"),
        Rule(name="strangers", at="pre.request.received", then="escalate", queue="desk"),
        Rule(name="look", at="output.before", then="suspend", editable=("output",), expires_in=5),
    ]
    hooks = rule_hooks(rules)
    assert [(one.name, one.point, one.band, one.kind) for one in hooks] == [
        ("cheap-only", "llm.invoked.pre", "control", "policy"),
        ("strangers", "request.received.pre", "control", "policy"),
        ("look", "task.complete.pre", "control", "policy"),
    ]
    runtime = Runtime(CATALOGUE, hooks)
    asked = ModelRequest(alias="default", model="big-1", messages=(Message(role="user", content="hi"),))
    for model, outcome in (("big-1", Block("too dear", code="policy_denied")), ("small", None)):
        request = ModelRequestEvent(
            envelope=ENVELOPE, op=Op(id="o"), request=ModelRequest(alias="a", model=model, messages=asked.messages)
        )
        assert (await runtime.dispatch("model.before", request)).outcome == outcome
    received = await runtime.dispatch("input.before", InputEvent(envelope=ENVELOPE, op=Op(id="o"), input="hi"))
    assert received.outcome == Escalate("the rule 'strangers' hands it over", queue="desk")


async def test_a_rule_of_another_point_lets_the_fields_of_its_event_be_edited() -> None:
    (hook,) = rule_hooks([Rule(name="look", at="input.before", then="suspend", editable=("input",))])
    received = InputEvent(envelope=ENVELOPE, op=Op(id="o"), input="hi")
    decision = await Runtime(CATALOGUE, [hook]).dispatch("input.before", received)
    assert [one.editable for one in decision.requirements] == [("input",)]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([Rule(name="a", at="tool.befor", then="block")], "the rule 'a' names the point 'tool.befor'.*'tool.before'"),
        ([Rule(name="a", at="model.after", then="block")], "the rule 'a' stands at 'model.after'; a rule judges what"),
        ([Rule(name="a", at="run.start", then="suspend")], "the rule 'a' says 'suspend' at 'run.start', which does"),
        ([Rule(name="a", at="task.state_changed.pre", then="block")], "says 'block' at 'task.state_changed.pre'"),
        ([at_tools("a", then="block", match={"tol": "x"})], "the rule 'a' matches on 'tol'; .*tool"),
        ([at_tools("a", then="block", match={"tool": {"re": "("}})], "the rule 'a', match.tool, is not an expression"),
        ([at_tools("A b", then="block")], "the rule 'A b' has no usable name"),
        ([BLOCK, at_tools("no-shell", then="suspend")], "two rules are called 'no-shell'"),
        ([at_tools("a", then="suspend", expires_in=-1.0)], "the rule 'a' cannot be used: the expires_in of Suspend"),
        ([at_tools("a", then="escalate", queue="Not A Word")], "the rule 'a' cannot be used: the code of Escalate"),
    ],
)
def test_a_rule_that_cannot_stand_is_refused_when_it_is_taken_on(rules: list[Rule], message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        ToolRules(rules)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(name="a", at="model.after", then="block"), "stands at 'model.after'"),
        (Rule(name="a", at="input.before", then="suspend", expires_in=0), "cannot be used"),
    ],
)
def test_a_hook_of_a_rule_that_cannot_stand_is_not_made(rule: Rule, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        rule_hooks([rule])
