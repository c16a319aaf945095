"""Ends what a loop whose process was killed has left running, before anything else works in its place.

Agents and hooks of a loop inherit its id in their environment, and that is how they are found, where the system tells
of processes in /proc. It asks no registry: that the loop's own process is dead is for the caller to know.
"""

import os
from typing import Final

from tenter.executors import end_left_behind, line_of
from tenter.loop.registry import REGISTRY_PLACE

LOOP_VARIABLE: Final = "TENTER_LOOP_ID"
"""The variable that agents and hooks of a loop inherit."""

_PROC: Final = "/proc"
_REGISTRY: Final = f"/{REGISTRY_PLACE}"
_REMOVED: Final = " (deleted)"
"""What Linux says behind the path of an open file that was removed."""


async def end_orphans(loop_id: str) -> int:
    """Ends what is alive of a loop whose process is dead, and returns how many processes that were.

    Left alone are this process with those that it comes from and those that it started, what belongs to another user,
    and a process that has a registry of loops open, with what it started: it runs another loop, maybe one that an agent
    of this loop began. Raises TenterError where one cannot be ended.
    """
    return await end_left_behind(f"{LOOP_VARIABLE}={loop_id}", f"the loop {loop_id}", spared=_is_of_another_loop)


def told_of_orphans(loop_id: str, count: int) -> str:
    """What people are told of orphans that were ended."""
    processes = "1 process" if count == 1 else f"{count} processes"
    return f"ended {processes} that the loop {loop_id} had left running when its own process died"


def _is_of_another_loop(process: int) -> bool:
    return any(_runs_loops(one) for one in line_of(process))


def _runs_loops(process: int) -> bool:
    """Whether it has a registry of loops open, as a loop has from its beginning to its end."""
    folder = f"{_PROC}/{process}/fd"
    try:
        descriptors = os.listdir(folder)  # noqa: PTH208  # Path costs 10x
    except OSError:
        return False
    return any(_file(f"{folder}/{one}").removesuffix(_REMOVED).endswith(_REGISTRY) for one in descriptors)


def _file(descriptor: str) -> str:
    try:
        return os.readlink(descriptor)  # noqa: PTH115  # Path costs 10x
    except OSError:  # it was closed meanwhile
        return ""
