"""Whether this process was started by a run, a hook, a tool or a loop, which then may not decide in a person's place.

A gate that is meant for a person is opened by nobody whom it holds up (D§3.14). It is told by the environment, which a
program can clear, and by the processes that this one comes from, which it can leave. From an agent that runs as the
same user and does both, only a sandbox protects.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

PROCESS: Final = "TENTER_PROCESS"
"""The number of a process in which a run or a loop goes on: what Python hooks and tools start there inherits it."""
INSIDE: Final = (
    "TENTER_HOOK_ID",
    "TENTER_TOOL_CALL",
    "TENTER_BACKEND_CALL",
    "TENTER_RUN_ID",
    "TENTER_LOOP_ID",
    PROCESS,
)
"""Variables of what an agent, a hook or a tool started."""
MOST_RUNNING: Final = 200
"""Runs that are looked at, of those that a process has the newest."""


def inside_of() -> str | None:
    """The variable that shows that this process was started by a run or a loop; None where it was not."""
    own = str(os.getpid())
    return next((name for name in INSIDE if (value := os.environ.get(name)) and (name, value) != (PROCESS, own)), None)


@contextmanager
def marked() -> Generator[None]:
    """Within it, what is started in this process without an environment of its own is known as started by a run."""
    if inside_of() is not None:
        yield
        return
    os.environ[PROCESS] = str(os.getpid())
    try:
        yield
    finally:
        os.environ.pop(PROCESS, None)


def refuse_inside(instead: str, config: str | None = None) -> None:
    """Raises ClickException (exit code 1) within a run or a loop; `instead` says why, and what to do.

    With `config` also below a process that has a run of that project's journal, whatever the environment says.
    """
    if (inside := inside_of()) is not None:
        raise click.ClickException(f"{inside} is set: this was started by a run, a hook or a loop, and {instead}")
    if config is None:
        return
    import asyncio  # here, since not every verb that is asked from where it was started needs an event loop

    if (run_id := asyncio.run(_run_above(Path(config)))) is not None:
        raise click.ClickException(f"this was started by the process of the run {run_id}, and {instead}")


async def _run_above(config: Path) -> str | None:
    """A run of the project that a process which this one comes from has; None where there is none."""
    from tenter.cli.journals import journal_of
    from tenter.executors import is_alive, line_of
    from tenter.harness import Holder

    async with journal_of(config) as store:
        running = [] if store is None else [one for one in await store.streams("run") if one.holder]
    line = frozenset(line_of(os.getpid()))
    for one in running[:MOST_RUNNING]:
        holder = Holder.of(one)
        if holder is not None and holder.process.pid in line and is_alive(holder.process):
            return one.stream.id
    return None
