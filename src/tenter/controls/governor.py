"""The checks before a tool acts (D§5, D§14): hooks of the innermost band, so that they judge what will really happen.

Each is a function over the event; later checks (policy, budget, approval by risk) join the list. A refusal is an error
result for the model, like every Block at this point. Which tools there are is told from outside.
"""

import difflib
from collections.abc import Callable, Mapping

from tenter.catalogue import ToolCallEvent, ToolInfo
from tenter.controls.arguments import check_arguments
from tenter.kernel import Block, Declaration, FrozenDict
from tenter.wire import CanonicalError, digest

MOST_PROBLEMS = 5
LONGEST_NAME = 100

Offered = Callable[[ToolCallEvent], Mapping[str, ToolInfo]]
"""The tools, by name, that the task of a call offers."""


def gates(offered: Offered) -> tuple[Declaration, ...]:
    """The checks, in the order in which they are asked."""

    def known_tool(event: ToolCallEvent) -> ToolCallEvent | Block | None:
        return check_tool(event, offered(event))

    checks = (("known-tool", known_tool), ("valid-arguments", check_call))
    return tuple(
        Declaration(name=name, point="tool.invoked.pre", call=call, kind="governor", band="gate", priority=priority)
        for priority, (name, call) in enumerate(checks, 1)
    )


def check_tool(event: ToolCallEvent, offered: Mapping[str, ToolInfo]) -> ToolCallEvent | Block | None:
    """The task offers the tool that is called, and `event.tool` is that tool, also after a hook renamed the call."""
    name = event.call.name
    if (tool := offered.get(name)) is not None:
        return None if event.tool is tool or event.tool == tool else event.replace(tool=tool)
    shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    near = difflib.get_close_matches(shown, offered, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it offers {', '.join(map(repr, offered)) or 'none'}"
    return Block(f"the task offers no tool called {shown!r}; {hint}", code="unknown_tool")


def check_call(event: ToolCallEvent) -> Block | None:
    """The arguments fit the JSON Schema of the event's tool, and can be recorded."""
    problems = check_arguments({} if event.tool is None else event.tool.parameters, event.call.arguments)
    if not problems:
        try:
            digest(event.call.arguments)
        except CanonicalError as error:
            problems = [str(error)]
    if not problems:
        return None
    more = f" (and {len(problems) - MOST_PROBLEMS} more)" if len(problems) > MOST_PROBLEMS else ""
    listed = "; ".join(problems[:MOST_PROBLEMS])
    return Block(f"the arguments of {event.call.name!r} do not fit: {listed}{more}", code="invalid_arguments")


def _nothing(_: ToolCallEvent) -> Mapping[str, ToolInfo]:
    return FrozenDict()


GATES = gates(_nothing)
"""The checks as listings show them: what they are called and where they hang."""
