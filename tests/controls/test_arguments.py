"""Arguments are held against a schema: every problem with its place and what was expected, and nothing can hang."""

import socket
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tenter.controls import arguments as judging
from tenter.controls.arguments import LONGEST_SHOWN, MOST_PROBLEMS, check_arguments, check_schema, surely_fits
from tenter.kernel import freeze

ITEM = {
    "type": "object",
    "properties": {"line": {"type": "integer"}},
    "required": ["line"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
        "mode": {"enum": ["fast", "slow"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "start": {"anyOf": [{"$ref": "#/$defs/Edit"}, {"type": "null"}]},
        "share": {"type": "number", "minimum": 0},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"Edit": ITEM},
}


def test_arguments_that_fit_have_no_problem_frozen_or_not() -> None:
    arguments = {"path": "a", "edits": [{"line": 1}], "mode": "fast", "limit": None, "start": {"line": 2}, "share": 1}
    assert check_arguments(SCHEMA, arguments) == []
    assert check_arguments(freeze(SCHEMA), freeze(arguments)) == []


def test_what_needs_a_validator_is_never_sure() -> None:
    for arguments in ({"path": "a"}, {"path": 3}, None):
        assert not surely_fits(freeze(SCHEMA), freeze(arguments))


def test_a_frozen_schema_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    monkeypatch.setattr(judging, "fitting", compiled.append)
    schema = freeze({"type": "object", "title": "once"})
    assert [surely_fits(schema, {}) for _ in range(3)] == [False] * 3
    assert compiled == [schema]
    assert surely_fits(freeze({"type": "object", "title": "once"}), {}) is False
    assert len(compiled) == 2


def test_a_schema_that_changed_is_what_it_says_now() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert check_arguments(schema, {"a": 1}) == ["at a: expected text, got 1"]
    schema["properties"] = {}
    assert check_arguments(schema, {"a": 1}) == []


def test_what_is_kept_of_schemas_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, object] = {}
    monkeypatch.setattr(judging, "_kept", kept)
    monkeypatch.setattr(judging, "MOST_KEPT", 3)
    schemas = [freeze({"type": "object", "required": [str(n)]}) for n in range(10)]
    for _ in range(2):
        for n, schema in enumerate(schemas):
            assert surely_fits(schema, freeze({str(n): 1}))
            assert not surely_fits(schema, freeze({"x": 1}))
            assert 0 < len(kept) <= 3


WRONG: list[tuple[object, str]] = [
    ({"path": 3}, "at path: expected text, got 3"),
    ({}, "at the top: 'path' is missing"),
    ({"path": "a", "edits": {}}, "at edits: expected an array, got {}"),
    ({"path": "a", "edits": [{"line": 1}, {"line": "x"}]}, 'at edits[1].line: expected a whole number, got "x"'),
    ({"path": "a", "edits": [{}]}, "at edits[0]: 'line' is missing"),
    ({"path": "a", "mode": "quick"}, 'at mode: expected "fast" or "slow", got "quick"'),
    ({"path": "a", "limit": "x"}, 'at limit: expected a whole number or null, got "x"'),
    ({"path": "a", "start": {"line": "x"}}, 'at start.line: expected a whole number, got "x"'),
    ({"path": "a", "pth": "b"}, "at the top: \"pth\" is not expected; did you mean 'path'?"),
    (
        {"path": "a", "zzz": "b"},
        'at the top: "zzz" is not expected; there is path, edits, mode, limit, start, share',
    ),
    ({"path": "a", "limit": True}, "at limit: expected a whole number or null, got true"),
    ({"path": "a", "limit": 1.0}, "at limit: expected a whole number or null, got 1.0"),
    ({"path": "a", "share": -1}, "at share: -1 is less than the minimum of 0"),
    ("not json", 'expected an object with the arguments, got "not json"'),
    (None, "expected an object with the arguments, got null"),
    ([], "expected an object with the arguments, got []"),
]


@pytest.mark.parametrize(("arguments", "problem"), WRONG)
def test_a_problem_names_its_place_what_was_expected_and_what_is_there(arguments: object, problem: str) -> None:
    assert check_arguments(SCHEMA, arguments) == [problem]


def test_every_problem_is_told_and_their_number_and_length_are_bounded() -> None:
    assert len(check_arguments(SCHEMA, {"mode": 1, "limit": "x"})) == 3
    many = check_arguments(SCHEMA, {"path": "a", **{f"x{n}": 1 for n in range(100)}})
    assert len(many) == MOST_PROBLEMS + 1
    assert many[-1] == "and 80 more"
    (long,) = check_arguments(SCHEMA, {"path": ["x" * 100_000]})
    assert len(long) < 2 * LONGEST_SHOWN


@pytest.mark.timed
@pytest.mark.fault(34)
def test_a_pattern_is_matched_by_re2_and_cannot_hang() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    assert check_schema(schema) == []
    assert check_arguments(schema, {"a": "xaa"}) == []
    started = time.perf_counter()
    (problem,) = check_arguments(schema, {"a": "a" * 100 + "!"})
    assert time.perf_counter() - started < 1, "'re' would need ages"
    assert problem.startswith('at a: expected text that matches "(a+)+$", got "aaa')


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "strange"}, "at type:"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "at properties.a: 'pattern' is not one that RE2 takes"),
        ({"patternProperties": {"(a+)+$": {}}}, "'patternProperties' is not supported"),
        (
            {"$defs": {"a": {"$ref": "https://example.com/s.json"}}},
            "at $defs.a: '$ref' may only refer to the schema itself",
        ),
        ({"$id": "https://example.com/"}, "'$id' is not supported"),
        ({"items": [1]}, "at items"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_and_judges_nothing_as_fitting(schema: Any, told: str) -> None:
    problems = check_schema(schema)
    assert problems
    assert told in problems[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/s.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"patternProperties": {"(a+)+$": {}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"type": "strange"}}},
        {"properties": {"a": {"multipleOf": 0}}},
    ],
)
def test_where_the_schema_itself_is_broken_nothing_fits_and_nothing_is_fetched(
    schema: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def refuse(*host: object) -> None:
        asked.append(host)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    problems = check_arguments(schema, {"a": 1 if "multipleOf" in str(schema) else "x"})
    assert len(problems) == 1
    assert asked == []


def test_arguments_nested_beyond_reason_are_a_problem_and_no_crash() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    assert check_arguments(schema, deep) == ["the arguments, or the tool's own schema, are nested too deeply"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["path", "edits", "line", "limit"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_frozen_and_plain_arguments_are_judged_alike(arguments: Any) -> None:
    assert check_arguments(freeze(SCHEMA), freeze(arguments)) == check_arguments(SCHEMA, arguments)
