from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
import pytest

from tenter.kernel import AfterEvent, BeforeEvent, Event, FrozenDict, FrozenStruct, conforms
from tenter.kernel.event import misfit, result_fields, unlike_result


class Call(FrozenStruct, frozen=True, kw_only=True):
    name: str
    arguments: Mapping[str, object] = FrozenDict()


class Asked(BeforeEvent, frozen=True, kw_only=True):
    call: Call
    note: str = ""
    kind: Literal["low", "high"] = "low"
    calls: tuple[Call, ...] = ()
    by_name: Mapping[str, Call] = FrozenDict()
    score: float = 0.0
    extra: object = None


class Answered(AfterEvent, frozen=True, kw_only=True):
    call: Call
    verdict: str
    output: object
    reason: str = ""


class AskedMore(Asked, frozen=True, kw_only=True):
    """A type of its own, and so no replacement."""


ASKED = Asked(envelope="run", op="op", call=Call(name="shell"), calls=(Call(name="a"), Call(name="b")))


def test_a_replacement_keeps_all_but_what_it_changes() -> None:
    new = ASKED.replace(note="seen")
    assert new == Asked(envelope="run", op="op", call=ASKED.call, calls=ASKED.calls, note="seen")
    assert ASKED.note == ""
    assert conforms(new, ASKED) is None


@pytest.mark.promise(3)
def test_a_replacement_is_frozen_all_the_way_down() -> None:
    paths = ["a"]
    new = ASKED.replace(extra={"paths": paths})
    paths.append("b")
    assert new.extra == {"paths": ("a",)}
    with pytest.raises(AttributeError):
        new.note = "x"  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test


@pytest.mark.parametrize("name", ["envelope", "op", "nothing"])
def test_a_field_that_is_none_or_not_to_be_changed_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(TypeError, match=f"no replaceable field '{name}'; it has 'call', 'note'"):
        ASKED.replace(**{name: "x"})


def test_an_events_own_fields_are_all_but_envelope_and_op() -> None:
    assert list(ASKED.own_fields()) == ["call", "note", "kind", "calls", "by_name", "score", "extra"]


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Event(envelope="run", op="op"), "must be of Asked, not Event"),
        (AskedMore(envelope="run", op="op", call=ASKED.call), "must be of Asked, not AskedMore"),
        (cast(Event, "text"), "must be of Asked, not str"),
        (msgspec.structs.replace(ASKED, envelope="other"), "keeps the envelope"),
        (msgspec.structs.replace(ASKED, op=None), "keeps the op"),
        (ASKED.replace(note=3), "note: Expected `str`, got `int`"),
        (ASKED.replace(note=b"bytes"), "note: Expected `str`, got `bytes`"),
        (ASKED.replace(kind="middling"), "kind: Invalid enum value"),
        (ASKED.replace(score="high"), "score: Expected `float`"),
        (ASKED.replace(call=None), "call: expected Call(name, arguments), got NoneType"),
        (ASKED.replace(call={"name": "shell"}), "call: expected Call, got FrozenDict"),
        (ASKED.replace(call=Call(name=cast(Any, 3))), "call.name: Expected `str`"),
        (ASKED.replace(call=Call(name="x", arguments=cast(Any, "text"))), "call.arguments: Expected `object`"),
        (ASKED.replace(calls=(ASKED.calls[0], {"name": "c"})), r"calls[1]: expected Call, got FrozenDict"),
        (ASKED.replace(calls=(*ASKED.calls, Call(name=cast(Any, None)))), r"calls[2].name: Expected `str`"),
        (ASKED.replace(by_name={"a": {"name": "c"}}), r"by_name['a']: expected Call, got FrozenDict"),
        (ASKED.replace(by_name={"a": Call(name=cast(Any, 1))}), r"by_name['a'].name: Expected `str`"),
    ],
)
def test_what_does_not_conform_is_told_with_the_place(wrong: Event, why: str) -> None:
    said = conforms(wrong, ASKED)
    assert said is not None
    assert why in said


@pytest.mark.promise(3)
def test_an_envelope_that_says_it_equals_everything_is_no_envelope() -> None:
    class Liar:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # pyright: ignore[reportAssignmentType]  # only equality matters here

    said = conforms(cast(Event, _with_envelope(Liar())), ASKED)
    assert said is not None
    assert "envelope" in said


def _with_envelope(envelope: object) -> Asked:
    new = msgspec.structs.replace(ASKED)
    msgspec.structs.force_setattr(new, "envelope", envelope)
    return new


def test_an_equal_envelope_made_anew_conforms() -> None:
    assert conforms(msgspec.structs.replace(ASKED, envelope="".join(["r", "un"])), ASKED) is None


def test_a_value_that_the_original_has_is_taken_as_it_is() -> None:
    odd = Call(name="shell", arguments=cast(Any, "what the model gave"))
    original = ASKED.replace(call=odd, calls=(odd,))
    assert conforms(original.replace(call=msgspec.structs.replace(odd, name="sh")), original) is None
    assert conforms(original.replace(calls=(Call(name="new"), odd)), original) is None
    assert conforms(original.replace(calls=(msgspec.structs.replace(odd, name="sh"),)), original) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"score": 3},
        {"extra": {"a": [{"b": (1, 2)}], "c": b"bytes"}},
        {"calls": [Call(name="x", arguments={"deep": [{"x": 1}]})]},
        {"by_name": {"a": Call(name="x")}},
        {"extra": Call(name="x")},
    ],
)
def test_what_fits_the_declared_types_conforms(changes: dict[str, object]) -> None:
    assert conforms(ASKED.replace(**changes), ASKED) is None


def test_a_result_of_one_field_is_its_value_and_of_several_a_mapping() -> None:
    assert result_fields(("output",), {"a": 1}) == {"output": {"a": 1}}
    assert result_fields(("verdict", "output"), {"verdict": "fail"}) == {"verdict": "fail"}
    with pytest.raises(TypeError, match="'verdict' and 'output' is a mapping of these, not str"):
        result_fields(("verdict", "output"), "fail")
    with pytest.raises(TypeError, match="not 'verdit'"):
        result_fields(("verdict", "output"), {"verdit": "fail"})
    with pytest.raises(TypeError, match="not 3"):
        result_fields(("verdict", "output"), {3: "fail"})


RESULTS = ("verdict", "output", "reason")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"verdict": "fail", "output": 1}, None),
        ({"verdict": "fail", "output": 1, "reason": "r"}, None),
        ("fail", "is a mapping of these"),
        ({"verdict": 3, "output": 1}, "the result does not fit: verdict: Expected `str`"),
        ({"verdict": "fail", "call": 1}, "not 'call'"),
        ({"output": 1}, "the result lacks 'verdict'"),
        ({"verdict": "fail"}, "the result lacks 'output'"),
    ],
)
def test_a_result_is_held_against_the_fields_that_it_stands_for(value: object, why: str | None) -> None:
    said = misfit(Answered, RESULTS, value, before=Asked)
    assert (why is None and said is None) or (why is not None and said is not None and why in said)


def test_a_result_may_leave_out_what_the_before_event_has() -> None:
    class WithOutput(Asked, frozen=True, kw_only=True):
        output: object = None

    assert misfit(Answered, RESULTS, {"verdict": "fail"}, before=WithOutput) is None


def test_a_mapping_is_no_result_where_a_struct_is_declared() -> None:
    class After(AfterEvent, frozen=True, kw_only=True):
        result: Call

    assert misfit(After, ("result",), Call(name="x")) is None
    said = misfit(After, ("result",), FrozenDict({"name": "x"}))
    assert said is not None
    assert "expected Call, got FrozenDict" in said


def test_the_answer_of_an_in_hook_holds_the_frozen_value() -> None:
    assert ASKED.result([1]).value == (1,)


def test_a_result_that_stands_for_no_struct_is_told_what_the_struct_has() -> None:
    class Held(AfterEvent, frozen=True, kw_only=True):
        call: Call

    assert misfit(Held, ("call",), "x") == "the result does not fit: call: expected Call(name, arguments), got str"


def test_a_result_is_held_against_its_declared_class_and_not_looked_into() -> None:
    class Held(AfterEvent, frozen=True, kw_only=True):
        call: Call
        calls: tuple[Call, ...] = ()
        anything: object = None

    inexact = Call(name=cast(Any, 1))
    assert unlike_result(Held(call=inexact, calls=(inexact,), anything={1, 2}), ("call", "calls", "anything")) is None
    assert unlike_result(Held(call=inexact, calls=cast(Any, 1)), ("calls",)) == "calls: Expected `array`, got `int`"
    assert unlike_result(Held(call=cast(Any, {"name": "a"})), ("call",)) == "call: expected Call, got FrozenDict"
    assert unlike_result(Held(call=cast(Any, "a")), ("anything",)) is None
