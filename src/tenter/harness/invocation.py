"""One call of a tool's function, and what it comes to: its value as a result, its exception as a text.

The same in this process and in one of its own. It contains nothing, knows no deadline and cuts nothing: that is
`calling`'s.
"""

import inspect
from collections.abc import Mapping
from typing import cast

import msgspec

from tenter.catalogue import ToolResult
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool
from tenter.harness.errors import ToolError


def invoke(tool: Tool, arguments: Mapping[str, object], context: ToolContext) -> object:
    """What the function gives, or an awaitable of it where the tool `awaits`; of a tool with a `caller`, what that
    gives. Raises ToolError where the arguments do not fit, and what the function raises."""
    if tool.caller is not None:
        return tool.caller(arguments, context)
    try:
        bound = tool.signature.bind(arguments)
    except msgspec.ValidationError as error:
        raise ToolError(f"the arguments of {tool.name!r} do not fit: {error}") from None
    return tool.function(context, **bound) if tool.signature.takes_context else tool.function(**bound)


def tool_result(tool: Tool, value: object) -> ToolResult:
    """The value that a function returned, as a result. Raises ToolError for one that is none."""
    if isinstance(value, ToolResult):
        if not isinstance(cast("object", value.output), str):
            raise ToolError(f"the tool {tool.name!r} is broken: the output of its result is no text")
        return value
    if value is None or isinstance(value, str):
        return ToolResult(output=value or "")
    if inspect.iscoroutine(value):
        value.close()
        raise ToolError(f"the tool {tool.name!r} is broken: it returned a coroutine; declare it 'async def'")
    return ToolResult(output=msgspec.json.encode(value).decode())


def told(tool: Tool, error: BaseException) -> str:
    """What the model hears of an exception: its type and message, or what a ToolError says."""
    try:
        text = str(error)
    except BaseException:  # it is the tool's own code that runs here
        text = "(its message cannot be read)"
    if isinstance(error, ToolError):
        return text
    return f"the tool {tool.name!r} failed: {type(error).__name__}: {text}".removesuffix(": ")
