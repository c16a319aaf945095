"""The fast way: a yes is a yes of the validator's, and of what can be recorded."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tenter.controls.arguments import check_arguments
from tenter.controls.fitting import DEEPEST, fitting
from tenter.harness.tools import BUILTIN_TOOLS, builtin_tool
from tenter.kernel import freeze
from tenter.wire import CanonicalError, digest

SCHEMA = freeze(
    {
        "type": "object",
        "title": "Edit",
        "properties": {
            "path": {"type": "string", "minLength": 1, "pattern": "^[a-z]"},
            "mode": {"enum": ["fast", "slow"]},
            "line": {"type": ["integer", "null"], "description": "where"},
            "share": {"type": "number", "minimum": 0, "maximum": 1},
            "names": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "dry": {"type": "boolean", "default": False},
            "more": {"anyOf": [{"type": "object"}, {"type": "null"}]},
            "any": {},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
)


def says(schema: object, value: object) -> bool:
    test = fitting(freeze(schema))
    assert test is not None
    return test(freeze(value))


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a"},
        {"path": "a", "mode": "slow", "line": None, "share": 0.5, "names": ["b", "c"], "dry": True},
        {"path": "a", "line": 2**53 - 1, "share": 1, "names": [], "more": {"x": 1, "y": None}, "any": "b"},
    ],
)
def test_arguments_of_the_usual_kind_are_told_at_once(value: object) -> None:
    assert says(SCHEMA, value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"path": ""},
        {"path": "A"},
        {"path": 1},
        {"path": "a", "pth": "b"},
        {"path": "a", "mode": "quick"},
        {"path": "a", "line": True},
        {"path": "a", "line": 1.0},
        {"path": "a", "line": 2**53},
        {"path": "a", "share": 1.5},
        {"path": "a", "share": -0.1},
        {"path": "a", "share": float("nan")},
        {"path": "a", "names": ["a", "b", "c"]},
        {"path": "a", "names": [1]},
        {"path": "a", "dry": 1},
        {"path": "a", "more": {"x": 2**60}},
        {"path": "a", "more": {"x": 1 + 2j}},
        {"path": "a", "any": float("inf")},
        "path",
        None,
    ],
)
def test_nothing_is_said_of_what_does_not_fit_or_cannot_be_recorded(value: object) -> None:
    assert not says(SCHEMA, value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": 3},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "required": [1]},
        {"type": "object", "required": "path"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "additionalProperties": 1},
        {"type": "object", "minProperties": 1},
        {"type": "string", "enum": ["a", 1]},
        {"type": "string", "enum": "ab"},
        {"type": "string", "minLength": "1"},
        {"type": "string", "maxLength": True},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": 1},
        {"type": "integer", "multipleOf": 2},
        {"type": "text"},
        {"type": ["string", 3]},
        {"type": ["string", "null"], "minLength": 1},
        {"properties": {}},
        {"anyOf": [{"type": "string"}], "type": "string"},
        {"anyOf": {"type": "string"}},
        {"oneOf": [{"type": "string"}]},
        {"type": "array", "uniqueItems": True},
        {"type": "array", "items": False},
        {"not": {}},
        {"const": 1},
    ],
)
def test_there_is_no_fast_way_for_what_only_a_validator_understands(schema: object) -> None:
    assert fitting(freeze(schema)) is None


def test_a_schema_may_be_nested_as_deep_as_people_do() -> None:
    schema: Any = {"type": "integer"}
    for _ in range(DEEPEST - 1):
        schema = {"type": "array", "items": schema}
    assert fitting(schema) is not None
    assert fitting({"type": "array", "items": schema}) is None


@pytest.mark.parametrize("name", BUILTIN_TOOLS)
def test_tenters_own_tools_have_a_fast_way(name: str) -> None:
    assert fitting(builtin_tool(name).info.parameters) is not None


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from((2**53 - 1, 2**53, -(2**53), 0.5, 2.0, -1.0, float("nan"), float("inf"))),
    st.text("ab$\ud800é", max_size=3),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)
LIMITS = st.integers(0, 3)


def optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


LEAVES = st.one_of(
    optional(title=st.just("x")),
    optional(minLength=LIMITS, maxLength=LIMITS, enum=st.lists(st.text("ab", max_size=2))).map(
        lambda one: {"type": "string", **one}
    ),
    optional(minimum=st.integers(-2, 2), maximum=st.floats(-2, 2)).map(lambda one: {"type": "integer", **one}),
    optional(minimum=st.floats(-2, 2), maximum=st.integers(-2, 2)).map(lambda one: {"type": "number", **one}),
    st.sampled_from(("boolean", "null", "object", "array")).map(lambda kind: {"type": kind}),
    st.lists(st.sampled_from(("string", "integer", "null", "array", "object")), unique=True, min_size=1).map(
        lambda kinds: {"type": kinds}
    ),
    st.sampled_from(({"type": "string", "pattern": "^a"}, {"type": "string", "format": "date"}, {"enum": ["a", "b"]})),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        optional(items=inner, minItems=LIMITS, maxItems=LIMITS).map(lambda one: {"type": "array", **one}),
        optional(
            properties=st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            required=st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            additionalProperties=st.booleans(),
        ).map(lambda one: {"type": "object", **one}),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each}),
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(SCHEMAS, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_what_it_says_yes_to_a_validator_takes_and_can_be_recorded(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    frozen, test = freeze(value), fitting(freeze(schema))
    assert test is not None
    if test(frozen):
        assert check_arguments(freeze(schema), frozen) == []
        assert digest(frozen)


@given(LEAVES, ATOMS)
def test_of_a_single_value_it_says_exactly_what_a_validator_says_and_a_record_takes(
    schema: dict[str, Any], value: object
) -> None:
    whole, arguments = freeze({"type": "object", "properties": {"a": schema}}), freeze({"a": value})
    test = fitting(whole)
    assert test is not None
    assert test(arguments) == (check_arguments(whole, arguments) == [] and recorded(arguments))


def recorded(value: object) -> bool:
    try:
        return bool(digest(value))
    except CanonicalError:
        return False
