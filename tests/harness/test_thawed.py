"""Plain data becomes values of a type, and what is of no such type stays as it stands."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tenter.catalogue import Message, ToolCall, ToolInfo
from tenter.harness.thawed import thawed, types_of

CALL = {"id": "c", "name": "shell", "arguments": {"n": [1]}}


@pytest.mark.parametrize(
    ("raw", "declared", "value"),
    [
        (CALL, ToolCall, ToolCall(id="c", name="shell", arguments={"n": (1,)})),
        ([CALL], tuple[ToolCall, ...], (ToolCall(id="c", name="shell", arguments={"n": (1,)}),)),
        (None, ToolInfo | None, None),
        ({"name": "shell"}, ToolInfo | None, ToolInfo(name="shell")),
        (1, float, 1.0),
        ([1], object, [1]),
        ({"a": [1]}, Mapping[str, object], {"a": [1]}),
    ],
)
def test_what_fits_its_type_is_of_it(raw: object, declared: Any, value: object) -> None:
    assert thawed(raw, declared) == value
    assert type(thawed(raw, declared)) is type(value)


def test_what_does_not_fit_stands_in_its_place() -> None:
    raw = [{"role": "assistant", "content": "x", "tool_calls": [CALL, {**CALL, "arguments": "rm -r"}]}]
    found: Any = thawed(raw, tuple[Message, ...])
    assert isinstance(found[0], Message)
    assert [call.arguments for call in found[0].tool_calls] == [{"n": (1,)}, "rm -r"]
    odd: Any = thawed({"name": 7, "timeout_seconds": "soon"}, ToolInfo | None)
    assert (odd.name, odd.timeout_seconds) == (7, "soon")


def test_a_struct_without_a_field_that_it_needs_is_no_value() -> None:
    with pytest.raises(TypeError, match="name"):
        thawed({"id": "c"}, ToolCall)


def test_the_types_of_a_struct_are_told_by_the_names_of_its_fields() -> None:
    class Named(msgspec.Struct):
        first: int = msgspec.field(name="1st")

    assert types_of(Named) == {"first": int}
