from collections.abc import Mapping
from typing import Any, cast

import pytest

from tenter.kernel import (
    AfterEvent,
    Allow,
    BeforeEvent,
    Block,
    Catalogue,
    Escalate,
    Event,
    Operation,
    Outcome,
    Phase,
    RegistrationError,
    Result,
    Retry,
    Rule,
    Shape,
    Suspend,
)


class Asked(BeforeEvent, frozen=True, kw_only=True):
    tool: str = ""


class Answered(AfterEvent, frozen=True, kw_only=True):
    tool: str = ""
    output: str = ""


def operation(name: str = "tool.invoked", **settings: Any) -> Operation[Event, Event]:
    rules = settings.pop(
        "rules", {"pre": Rule("Before.", portable=settings.pop("portable", None)), "post": Rule("After.")}
    )
    given: dict[str, Any] = {"shape": "leaf", "before": Asked, "after": Answered, "results": ("output",), **settings}
    return Operation(name=name, rules=rules, **given)


def pre(*takes: type[Outcome], **settings: Any) -> dict[Phase, Rule]:
    return {"pre": Rule("Before.", takes=frozenset(takes), **settings)}


def test_a_point_answers_to_its_name_the_turned_name_and_its_portable_name() -> None:
    catalogue = Catalogue((operation(portable="tool.before"),))
    point = catalogue["tool.invoked.pre"]
    assert catalogue["pre.tool.invoked"] is catalogue["tool.before"] is point
    assert (point.name, point.label, point.portable) == ("tool.invoked.pre", "tool.before", "tool.before")
    assert list(catalogue) == ["tool.invoked.pre", "tool.invoked.post"]
    assert len(catalogue) == 2
    assert set(catalogue.names) == {
        "tool.invoked.pre",
        "pre.tool.invoked",
        "tool.before",
        "tool.invoked.post",
        "post.tool.invoked",
    }
    assert "tool.before" in catalogue
    assert "tool.after" not in catalogue


def test_a_point_hands_out_the_before_event_inbound_and_the_after_event_outbound() -> None:
    catalogue = Catalogue((operation(),))
    assert (catalogue["tool.invoked.pre"].event, catalogue["tool.invoked.post"].event) == (Asked, Answered)
    assert (catalogue["tool.invoked.pre"].outbound, catalogue["tool.invoked.post"].outbound) == (False, True)
    assert catalogue["tool.invoked.post"].label == "tool.invoked.post"


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("tool.befor", "did you mean 'tool.before'?"),
        ("tool.invoked.pr", "did you mean 'tool.invoked.pre'?"),
        ("Tool.Before", "did you mean 'tool.before'?"),
        ("pre.tool.invokd", "did you mean 'pre.tool.invoked'?"),
        ("zzz", "`tenter hooks list --all` prints all points"),
        ("", "prints all points"),
    ],
)
def test_an_unknown_point_is_refused_with_its_owner_and_the_nearest_name(wrong: str, near: str) -> None:
    catalogue = Catalogue((operation(portable="tool.before"),))
    with pytest.raises(RegistrationError) as caught:
        catalogue.resolve(wrong, "hook 'guard'")
    assert str(caught.value).startswith(f"hook 'guard' names the point {wrong!r}, which does not exist; ")
    assert near in str(caught.value)


def test_a_huge_unknown_name_is_refused_in_few_words() -> None:
    with pytest.raises(RegistrationError) as caught:
        Catalogue((operation(portable="tool.before"),)).resolve("tool.before" * 100_000, "hook 'guard'")
    assert len(str(caught.value)) < 300


def test_every_name_of_a_point_is_a_method_name() -> None:
    catalogue = Catalogue((operation(portable="tool.before"),))
    assert {name for name, point in catalogue.methods.items() if point.phase == "pre"} == {
        "on_tool_invoked_pre",
        "on_pre_tool_invoked",
        "on_tool_before",
    }


@pytest.mark.parametrize(
    ("takes", "replaces", "policies", "default"),
    [
        ({Block, Suspend}, True, ("warn", "block", "suspend", "fail"), "block"),
        ({Block}, False, ("warn", "block", "fail"), "block"),
        (set[type[Outcome]](), True, ("warn", "fail"), "fail"),
        ({Retry}, False, ("warn", "fail"), "fail"),
        (set[type[Outcome]](), False, ("warn",), "warn"),
    ],
)
def test_the_failure_policies_of_a_point_follow_from_what_it_takes(
    takes: set[type[Outcome]], replaces: bool, policies: tuple[str, ...], default: str
) -> None:
    point = Catalogue((operation(rules=pre(*takes, replaces=replaces)),))["tool.invoked.pre"]
    assert point.policies == policies
    assert point.default_policy == default


@pytest.mark.parametrize(
    ("takes", "replaces", "policies", "default"),
    [
        ({Block, Suspend, Escalate}, False, ("warn", "block", "suspend"), "block"),
        ({Suspend}, True, ("warn", "suspend"), "suspend"),
        ({Retry}, True, ("warn",), "warn"),
    ],
)
@pytest.mark.promise(8)
def test_where_a_failure_must_not_fail_the_operation_it_still_stops_it_if_anything_can(
    takes: set[type[Outcome]], replaces: bool, policies: tuple[str, ...], default: str
) -> None:
    point = Catalogue((operation(rules=pre(*takes, replaces=replaces, fails=False)),))["tool.invoked.pre"]
    assert (point.policies, point.default_policy, point.answerable) == (policies, default, True)


def test_a_point_that_only_observes_takes_only_warn() -> None:
    point = Catalogue((operation(rules=pre(replaces=True, observe_only=True)),))["tool.invoked.pre"]
    assert (point.policies, point.default_policy, point.answerable) == (("warn",), "warn", False)


def refused(*operations: Operation[Event, Event]) -> str:
    with pytest.raises(RegistrationError) as caught:
        Catalogue(operations)
    return str(caught.value)


def test_two_points_with_one_name_are_refused() -> None:
    assert "two points called 'tool.before'" in refused(
        operation(portable="tool.before"), operation("tool.asked", portable="tool.before")
    )
    assert "two points called" in refused(operation("tool"), operation("tool_pre", portable="tool.pre"))


def test_two_points_with_one_method_name_are_refused() -> None:
    said = refused(operation("task.state_changed"), operation("task_state.changed"))
    assert "'on_task_state_changed_pre'; rename one" in said


@pytest.mark.parametrize("name", ["", "Tool.invoked", "tool..invoked", "../../x", "tool.invoké", "tool invoked"])
def test_an_operation_is_named_in_words_with_dots(name: str) -> None:
    assert "is not named like 'tool.invoked'" in refused(operation(name))
    assert "has the portable name" in refused(operation(portable=name))


def test_a_shape_or_phase_that_is_none_is_refused_with_those_that_are() -> None:
    assert "the shape 'tree'; expected one of 'leaf', 'span', 'nested', 'fact'" in refused(
        operation(shape=cast(Shape, "tree"))
    )
    rules = cast("Mapping[Phase, Rule]", {"before": Rule("Before.")})
    assert "the phase 'before'; expected one of 'pre', 'in', 'post'" in refused(operation(rules=rules))


@pytest.mark.parametrize(
    ("shape", "phase", "outcome", "legal"),
    [
        ("leaf", "pre", Suspend, True),
        ("leaf", "pre", Result, False),
        ("leaf", "in", Result, True),
        ("leaf", "post", Result, False),
        ("span", "in", Result, True),
        ("nested", "pre", Block, True),
        ("nested", "pre", Suspend, False),
        ("nested", "pre", Escalate, False),
        ("fact", "pre", Block, False),
        ("fact", "in", Allow, False),
    ],
)
def test_what_a_class_of_operations_cannot_take_is_refused(
    shape: str, phase: Phase, outcome: type[Outcome], legal: bool
) -> None:
    one = operation(shape=shape, rules={phase: Rule("There.", takes=frozenset({outcome}))})
    if legal:
        assert Catalogue((one,))[f"tool.invoked.{phase}"].takes(outcome)
    else:
        assert f"takes {outcome.__name__} at {phase!r}, where a {shape} cannot" in refused(one)


def test_an_after_event_without_a_before_field_or_a_result_is_refused() -> None:
    assert "loses 'tool'" in refused(operation(after=AfterEvent, results=()))
    assert "loses 'outptu'" in refused(operation(results=("outptu",)))


def test_a_match_on_a_field_that_no_event_has_is_refused() -> None:
    assert "matches 'tool' on 'call.name'; its events have no field 'call'" in refused(
        operation(matches={"tool": "call.name"})
    )
    assert "no field 'output'" in refused(operation(matches={"output": "output"}))
