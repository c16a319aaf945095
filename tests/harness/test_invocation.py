"""What a tool's function gives or raises, as a result or a text."""

from pathlib import Path

import pytest
from tests.harness.boxed import at

from tenter.catalogue import ToolResult
from tenter.harness.context import ToolContext
from tenter.harness.definition import tool
from tenter.harness.errors import ToolError
from tenter.harness.invocation import invoke, told, tool_result


@tool
def add(a: int, b: int = 2) -> int:
    return a + b


@tool
def keyed(context: ToolContext) -> str:
    return context.key


def test_a_function_is_called_with_its_arguments_and_the_context_where_it_takes_one(tmp_path: Path) -> None:
    assert invoke(add, {"a": 1}, at(tmp_path)) == 3
    assert invoke(keyed, {}, at(tmp_path)) == "run-1/1.tool.invoked.0"


def test_arguments_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"the arguments of 'add' do not fit: .*`int`"):
        invoke(add, {"a": "x"}, at(tmp_path))


@pytest.mark.parametrize(("value", "output"), [(None, ""), ("text", "text"), ([1, None], "[1,null]")])
def test_a_value_becomes_text_or_json(value: object, output: str) -> None:
    assert tool_result(add, value) == ToolResult(output=output)


def test_a_result_stays_what_it_is() -> None:
    result = ToolResult(output="o", is_error=True, untrusted=True)
    assert tool_result(add, result) is result


def test_the_text_of_a_tool_error_is_all_of_it_and_another_exception_is_named() -> None:
    assert told(add, ToolError("no such thing")) == "no such thing"
    assert told(add, ValueError("why")) == "the tool 'add' failed: ValueError: why"
    assert told(add, SystemExit()) == "the tool 'add' failed: SystemExit"


def test_an_exception_whose_message_cannot_be_read_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert told(add, Mute()) == "the tool 'add' failed: Mute: (its message cannot be read)"
