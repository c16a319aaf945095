"""What each of the governor's checks says to a tool call (D§5, D§14). Pure functions over the event.

Which tools there are, and what a run has used, is told from outside. Rules and budgets have files of their own.
"""

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from tenter.catalogue import DUPLICATE, EVERY_FIELD, TOOL_INVOKED, ToolCallEvent, ToolInfo
from tenter.controls.account import Account
from tenter.controls.arguments import check_arguments, surely_fits
from tenter.controls.budget import call_digest
from tenter.kernel import Block, FrozenDict, Matcher, Requirement, Suspend, compile_match
from tenter.wire import CanonicalError, digest

MOST_PROBLEMS: Final = 5
LONGEST_NAME: Final = 100

MOST_REPEATS: Final = 5
"""How often in a row the same call may come to the same before it is refused."""

MOST_REFUSALS: Final = 7
"""How often in a row it may be made, the refused ones included, before the run is ended."""


def unknown_tool(event: ToolCallEvent, offered: Mapping[str, ToolInfo]) -> Block:
    """The refusal of a tool that the project does not have."""
    shown = _shown(event.call.name)
    return Block(f"there is no tool called {shown!r}; {_instead(shown, offered)}", code="unknown_tool")


def check_offered(event: ToolCallEvent, offered: Mapping[str, ToolInfo]) -> ToolCallEvent | Block | None:
    """The task offers the tool that is called, and `event.tool` is that tool, also where a hook at `pre` renamed it.

    A call that a hook at `in` renames is refused (`unstable_rewrite`): that is a further change.
    """
    name = event.call.name
    if (tool := offered.get(name)) is not None:
        return None if event.tool is tool or event.tool == tool else event.replace(tool=tool)
    shown = _shown(name)
    return Block(f"the task does not offer the tool {shown!r}; {_instead(shown, offered)}", code="not_offered")


def check_call(event: ToolCallEvent) -> Block | None:
    """The arguments fit the JSON Schema of the event's tool, and can be recorded."""
    schema: Mapping[str, object] = FrozenDict() if event.tool is None else event.tool.parameters
    if surely_fits(schema, event.call.arguments):
        return None
    problems = check_arguments(schema, event.call.arguments)
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


def check_principal(event: ToolCallEvent) -> Block | None:
    """The principal of the run is one of those that the tool is for. A run without one is none of them."""
    tool = event.tool
    if tool is None or not tool.principals or _authorised(tool.principals)(event):
        return None
    principal = event.envelope.principal
    whose = "and this run has no principal" if principal is None else f"and not for {_shown(principal)!r}"
    return Block(f"the tool {tool.name!r} is for certain principals only, {whose}", code="not_authorised")


MADE_BEFORE: Final = Requirement(hook=DUPLICATE, reason="", code="unknown", point=TOOL_INVOKED.point("pre")).name
"""How an approval names what this check, or the loop in its place, asks for."""


def check_repeated(event: ToolCallEvent, account: Account | None) -> Block | None:
    """The call is not one that was just made again and again and came to the same each time."""
    if account is None or account.streak < MOST_REPEATS:
        return None
    times = account.repeats(call_digest(event.call))
    if times < MOST_REPEATS:
        return None
    stop = times >= MOST_REFUSALS
    told = f"this very call of {event.call.name!r} was made {times} times in a row, and nothing new came of it"
    if stop:
        return Block(f"{told}: the run goes in a circle", code="loop_detected", stop=True)
    return Block(f"{told}; do something else", code="repeated_call")


def check_again(event: ToolCallEvent) -> Suspend | None:
    """A call that may have been made already, in a process that died, needs a person for exactly the call that it is.

    An approval that answers this check is of such a call: the fold drops it where it fits.
    """
    if event.approval is None or MADE_BEFORE not in event.approval.asked:
        return None
    return Suspend(f"a call of {event.call.name!r} may have been made already: it would be made again", code="unknown")


def check_risk(event: ToolCallEvent) -> Suspend | None:
    """A tool of high risk needs a person. Whether one has approved this very call is for the fold to say (D§6)."""
    if event.tool is None or event.tool.risk != "high":
        return None
    return Suspend(f"the tool {event.tool.name!r} is of high risk", code="risk", editable=(EVERY_FIELD,))


@lru_cache(256)
def _authorised(principals: tuple[str, ...]) -> Matcher:
    found = compile_match({"principal": principals}, {"principal": "envelope.principal"}, "the principals of a tool")
    assert found is not None
    return found


def _instead(shown: str, offered: Mapping[str, ToolInfo]) -> str:
    """What may be called in place of a tool that may not."""
    near = difflib.get_close_matches(shown, offered, n=1)
    return f"did you mean {near[0]!r}?" if near else f"the task offers {', '.join(map(repr, offered)) or 'none'}"


def _shown(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
