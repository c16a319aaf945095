"""The tools that ship with tenter, by name, each with the file that holds it. Naming them loads none of them."""

import importlib
from typing import TYPE_CHECKING, Final

from tenter.kernel import FrozenDict

if TYPE_CHECKING:
    from tenter.harness.definition import Tool

BUILTIN_TOOLS: Final[FrozenDict[str, str]] = FrozenDict(
    {
        "edit": "files",
        "glob": "search",
        "grep": "search",
        "list_dir": "files",
        "read_file": "files",
        "shell": "shell",
        "write_file": "files",
    }
)


def builtin_tool(name: str) -> "Tool":
    """The tool called `name`. Raises KeyError for a name that is not in the table."""
    from tenter.harness.definition import Tool

    module, _, attribute = builtin_target(name).partition(":")
    found: object = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, Tool):
        raise TypeError(f"{name!r} in the table of tools is {found!r}, not a tool")
    return found


def builtin_target(name: str) -> str:
    """Where the tool called `name` is, as `module:attribute`. Raises KeyError for a name that is not in the table."""
    return f"tenter.harness.{BUILTIN_TOOLS[name]}:{name}"
