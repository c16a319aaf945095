"""The table of tools that ship."""

import subprocess
import sys

import pytest

from tenter.controls.arguments import check_schema
from tenter.harness.tools import BUILTIN_TOOLS, builtin_target, builtin_tool


@pytest.mark.parametrize("name", BUILTIN_TOOLS)
def test_every_name_of_the_table_is_a_tool_of_that_name_that_a_model_can_use(name: str) -> None:
    tool = builtin_tool(name)
    assert tool.name == name
    assert tool.description
    assert tool.timeout_seconds
    assert check_schema(tool.parameters) == []


def test_the_table_holds_the_tools_of_the_first_slice_sorted() -> None:
    assert list(BUILTIN_TOOLS) == ["edit", "glob", "grep", "list_dir", "read_file", "shell", "write_file"]


def test_only_tools_that_change_nothing_may_be_repeated_after_a_crash() -> None:
    repeatable = [name for name in BUILTIN_TOOLS if builtin_tool(name).idempotent]
    assert repeatable == ["glob", "grep", "list_dir", "read_file"]


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        builtin_tool("nothing")
    with pytest.raises(KeyError):
        builtin_target("nothing")


def test_where_a_tool_is_can_be_told_to_another_process() -> None:
    assert builtin_target("grep") == "tenter.harness.search:grep"


def test_naming_the_tools_loads_no_event_loop_and_no_process() -> None:
    program = (
        "import sys; from tenter.harness.tools import BUILTIN_TOOLS; list(BUILTIN_TOOLS); "
        "print([m for m in ('asyncio', 'subprocess', 'jsonschema', 're2', 'tenter.harness.tool') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "[]\n"
