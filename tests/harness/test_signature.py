"""What a function's signature becomes: a schema that a model is shown, and arguments of the annotated types."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional

import jsonschema
import msgspec
import pytest

from tenter.harness.context import ToolContext
from tenter.harness.signature import read_signature, thawed
from tenter.kernel import FrozenDict, TenterError, freeze


class Point(msgspec.Struct):
    x: int
    next: "Point | None" = None


def properties(function: Any) -> Mapping[str, Any]:
    schema: Any = read_signature(function, "the tool 'f'").schema
    jsonschema.Draft202012Validator.check_schema(thawed(schema))  # pyright: ignore[reportArgumentType]  # a dict, as the stub asks
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    return schema["properties"]


def test_annotations_and_defaults_become_the_schema() -> None:
    def f(
        text: str,
        number: int = 1,
        share: float = 0.5,
        flag: bool = False,
        names: list[str] | None = None,
        pair: tuple[int, str] = (1, "a"),
        table: Mapping[str, int] = FrozenDict(),
        kind: Literal["a", "b"] = "a",
        maybe: Optional[int] = None,  # noqa: UP045  # the older spelling is taken, too
        *,
        anything: object = None,
    ) -> None: ...

    found = properties(f)
    assert read_signature(f, "f").schema["required"] == ("text",)
    assert found["text"] == {"type": "string"}
    assert found["number"] == {"type": "integer", "default": 1}
    assert found["share"] == {"type": "number", "default": 0.5}
    assert found["flag"] == {"type": "boolean", "default": False}
    assert found["names"] == {
        "anyOf": ({"type": "array", "items": {"type": "string"}}, {"type": "null"}),
        "default": None,
    }
    assert found["pair"]["prefixItems"] == ({"type": "integer"}, {"type": "string"})
    assert found["pair"]["default"] == (1, "a")
    assert found["table"] == {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}}
    assert found["kind"] == {"enum": ("a", "b"), "default": "a"}
    assert found["maybe"]["anyOf"] == ({"type": "integer"}, {"type": "null"})
    assert "type" not in found["anything"]


def test_descriptions_come_from_annotated_text_and_from_meta() -> None:
    def f(
        a: Annotated[str, "the first"],
        b: Annotated[int, msgspec.Meta(description="the second", ge=3)],
        c: list[Annotated[str, "one of them"]],
    ) -> None: ...

    found = properties(f)
    assert found["a"] == {"description": "the first", "type": "string"}
    assert found["b"] == {"description": "the second", "type": "integer", "minimum": 3}
    assert found["c"] == {"type": "array", "items": {"description": "one of them", "type": "string"}}


def test_structs_are_definitions_and_arrive_as_structs() -> None:
    def f(points: list[Point], start: Point) -> None: ...

    signature = read_signature(f, "f")
    assert signature.schema["$defs"]["Point"]["required"] == ("x",)  # pyright: ignore[reportIndexIssue]  # a mapping
    bound = signature.bind(freeze({"points": [{"x": 1}], "start": {"x": 2, "next": {"x": 3}}}))
    assert bound == {"points": [Point(1)], "start": Point(2, Point(3))}


def test_the_schema_is_frozen() -> None:
    def f(a: list[str]) -> None: ...

    schema = read_signature(f, "f").schema
    assert freeze(schema) is schema


def test_arguments_that_were_not_given_are_left_to_the_function() -> None:
    def f(a: int = 1, b: str | None = "x") -> None: ...

    assert read_signature(f, "f").bind({"b": None}) == {"b": None}
    assert read_signature(f, "f").bind({}) == {}


def test_arguments_are_the_callees_own_and_can_be_changed() -> None:
    def f(table: dict[str, object], anything: object) -> None: ...

    given = freeze({"table": {"list": [1]}, "anything": {"k": [2]}})
    bound: Any = read_signature(f, "f").bind(given)
    bound["table"]["list"].append(2)
    bound["anything"]["k"].append(3)
    assert bound == {"table": {"list": [1, 2]}, "anything": {"k": [2, 3]}}
    assert given == {"table": {"list": (1,)}, "anything": {"k": (2,)}}


@pytest.mark.parametrize("arguments", [{}, {"a": "1"}, {"a": 1, "b": 2}, {"a": None}, {"a": True}])
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, object]) -> None:
    def f(a: int) -> None: ...

    with pytest.raises(msgspec.ValidationError):
        read_signature(f, "f").bind(arguments)


def test_a_context_as_first_parameter_is_handed_over_and_not_shown() -> None:
    def f(context: ToolContext, a: int) -> None: ...

    signature = read_signature(f, "f")
    assert signature.takes_context
    assert list(properties(f)) == ["a"]


def unannotated(a: int) -> None: ...


del unannotated.__annotations__["a"]


def many(*a: int) -> None: ...


def named(**a: int) -> None: ...


def positional(a: int, /) -> None: ...


def strange(a: complex) -> None: ...


def late_context(a: int, context: ToolContext) -> None: ...


def optional_context(context: ToolContext | None) -> None: ...


def wrong_default(a: int | None = None) -> None: ...


wrong_default.__annotations__["a"] = int


def unknown_name(a: int) -> None: ...


unknown_name.__annotations__["a"] = "Nowhere"


def two_lists(a: list[int] | tuple[str, ...]) -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (unannotated, "'a' has no annotation"),
        (many, "'a' is variadic positional"),
        (named, "'a' is variadic keyword"),
        (positional, "'a' is positional-only"),
        (strange, "'a' has the type <class 'complex'>"),
        (late_context, "'context' is a ToolContext; that can only be the first"),
        (optional_context, "'context' has the type"),
        (wrong_default, "the default None of 'a'"),
        (unknown_name, "its annotations cannot be read.*Nowhere"),
        (two_lists, "'a' has the type"),
    ],
)
def test_a_signature_that_a_tool_cannot_have_is_refused_by_name(function: Any, told: str) -> None:
    with pytest.raises(TenterError, match=f"the tool 'f': .*{told}"):
        read_signature(function, "the tool 'f'")


@pytest.mark.fault(34)
def test_a_pattern_is_in_the_schema_and_never_matched_by_re() -> None:
    def f(
        a: Annotated[str, msgspec.Meta(pattern="(a+)+$", max_length=3)],
        b: list[Annotated[str, msgspec.Meta(pattern="^x")]],
    ) -> None: ...

    assert properties(f)["a"] == {"type": "string", "pattern": "(a+)+$", "maxLength": 3}
    bound = read_signature(f, "f").bind({"a": "!", "b": ["y"]})
    assert bound == {"a": "!", "b": ["y"]}
    with pytest.raises(msgspec.ValidationError):
        read_signature(f, "f").bind({"a": "!!!!", "b": []})


@pytest.mark.fault(34)
def test_a_pattern_inside_a_struct_is_refused_because_re_would_match_it() -> None:
    class Named(msgspec.Struct):
        name: Annotated[str, msgspec.Meta(pattern="(a+)+$")]

    def f(a: Named) -> None: ...

    f.__annotations__["a"] = Named
    with pytest.raises(TenterError, match=r"the tool 'f': .* has a pattern"):
        read_signature(f, "the tool 'f'")


def test_a_pattern_that_re2_does_not_take_is_refused_when_the_tool_is_defined() -> None:
    def f(a: Annotated[str, msgspec.Meta(pattern="(?=a)")]) -> None: ...

    with pytest.raises(TenterError, match=r"the tool 'f': its schema cannot be used: at properties.a: 'pattern'"):
        read_signature(f, "the tool 'f'")


def test_a_parameter_of_any_type_takes_everything_and_may_be_left_out() -> None:
    def f(a: Any, b: Any = None, c: Annotated[Any, "what you like"] = 1) -> None: ...

    assert read_signature(f, "f").bind({"a": [1, {"x": None}]}) == {"a": [1, {"x": None}]}
    assert properties(f)["c"] == {"description": "what you like", "default": 1}


def test_a_parameter_called_pattern_is_no_pattern() -> None:
    def f(pattern: str, a: Point) -> None: ...

    assert list(properties(f)) == ["pattern", "a"]
