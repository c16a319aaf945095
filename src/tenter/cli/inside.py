"""Whether this process was started by a run, a hook, a tool or a loop, which then may not decide in a person's place.

A gate that is meant for a person is opened by nobody whom it holds up (D§3.14). It is told by the environment alone.
"""

import os
from typing import Final

import click

INSIDE: Final = ("TENTER_HOOK_ID", "TENTER_TOOL_CALL", "TENTER_BACKEND_CALL", "TENTER_RUN_ID", "TENTER_LOOP_ID")
"""Variables of what an agent, a hook or a tool started."""


def inside_of() -> str | None:
    """The variable that shows that this process was started by a run or a loop; None where it was not."""
    return next((name for name in INSIDE if os.environ.get(name)), None)


def refuse_inside(instead: str) -> None:
    """Raises ClickException (exit code 1) within a run or a loop; `instead` says why, and what to do."""
    if (inside := inside_of()) is not None:
        raise click.ClickException(f"{inside} is set: this was started by a run, a hook or a loop, and {instead}")
