"""Tools that leave a mark whenever they act, and projects and harnesses that have them."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.world import calls, project

from tenter import Suspend, hook
from tenter.catalogue import ToolCallEvent, ToolResult, ToolResultEvent
from tenter.harness import Harness, ToolContext, tool
from tenter.harness.setup import Given, set_up
from tenter.journal import Store
from tenter.kernel import Clock

ACTED: list[str] = []
"""The key of every call that a tool acted on, in order."""

ONE_CALL = calls(("act", {"text": "a"}))
LARGE = 50_000_000


@tool
async def act(context: ToolContext, text: str = "", times: int = 1) -> str:
    ACTED.append(context.key)
    return text * times


@tool(idempotent=True)
def large(context: ToolContext) -> str:
    """What it gives is made large by a hook: of a tool's own result no more than its limit is kept."""
    ACTED.append(context.key)
    return ""


@tool
async def broken(context: ToolContext) -> str:
    """Always fails."""
    ACTED.append(context.key)
    raise RuntimeError("it is broken")


@tool
async def stand(context: ToolContext) -> str:
    """Never comes to its end by itself."""
    ACTED.append(context.key)
    await asyncio.Event().wait()
    return ""


TOOLS = {name: {"python": f"tests.faults.acting:{name}"} for name in ("act", "large", "broken", "stand")}


@hook("tool.before", name="ask", match={"tool": "act"})
def ask(event: ToolCallEvent) -> object:
    """Has a person look at every call of `act`, who may change its text."""
    return Suspend("it acts", editable=("call.arguments.text",))


@hook("tool.after", name="swell", match={"tool": "large"})
def swell(event: ToolResultEvent) -> object:
    """Makes the result a text of 50 MB that nothing can make much smaller."""
    return event.replace(result=ToolResult(output=random.Random(41).randbytes(LARGE // 2).hex()))


def acting(folder: Path, *turns: object, **settings: Any) -> Path:
    """A project with these tools; `settings` are laid over its configuration, `task` over its task's."""
    task = {
        "version": 1,
        "model": "default",
        "instructions": "Do it.",
        "tools": list(TOOLS),
        **settings.pop("task", {}),
    }
    whole = {"tools": TOOLS, "tasks": {"work": task}, **settings}
    return project(folder, *(turns or (ONE_CALL, "Done.")), settings=whole)


def of(path: Path, store: Store | None = None, *hooks: object, clock: Clock | None = None) -> Harness:
    """A harness that waits for nothing between its retries."""

    async def no_pause(seconds: float) -> bool:
        return True

    return Harness(set_up(path, hooks, Given(store=store, clock=clock, pause=no_pause)))


def acted(run_id: str) -> Sequence[str]:
    """The paths at which tools acted in a run."""
    return [key.partition("/")[2] for key in ACTED if key.startswith(f"{run_id}/")]
