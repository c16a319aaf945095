"""The checks before a tool acts (D§5, D§14): hooks of the innermost band, so that they judge what will really happen.

Each is one function over the event; later checks (policy, budget, approval by risk) join the list. A refusal is an
error result for the model, like every Block at this point.
"""

from tenter.catalogue import ToolCallEvent
from tenter.controls.arguments import check_arguments
from tenter.kernel import Block, Declaration

MOST_PROBLEMS = 5


def known_tool(event: ToolCallEvent) -> Block | None:
    """The task offers the tool that is called."""
    name, tool = event.call.name, event.tool
    if tool is None:
        return Block(f"the task offers no tool called {name!r}", code="unknown_tool")
    if tool.name != name:
        return Block(f"the call was renamed from {tool.name!r} to {name!r}, which was not offered", code="unknown_tool")
    return None


def valid_arguments(event: ToolCallEvent) -> Block | None:
    """The arguments fit the tool's JSON Schema."""
    if event.tool is None:
        return None
    problems = check_arguments(event.tool.parameters, event.call.arguments)
    if not problems:
        return None
    more = f" (and {len(problems) - MOST_PROBLEMS} more)" if len(problems) > MOST_PROBLEMS else ""
    listed = "; ".join(problems[:MOST_PROBLEMS])
    return Block(f"the arguments of {event.call.name!r} do not fit: {listed}{more}", code="invalid_arguments")


GATES = tuple(
    Declaration(name=name, point="tool.invoked.pre", call=call, kind="governor", band="gate", priority=priority)
    for priority, (name, call) in enumerate((("known-tool", known_tool), ("valid-arguments", valid_arguments)), 1)
)
"""In the order in which they are asked."""
