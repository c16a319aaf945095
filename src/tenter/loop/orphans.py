"""Ends what a loop whose process was killed has left running, before anything else works in its place.

Agents and hooks of a loop inherit its id in their environment, and that is how they are found, where the system tells
of processes in /proc. It asks no registry: that the loop's own process is dead is for the caller to know.
"""

import os
from collections.abc import Generator
from typing import Final

from tenter.executors import end_marked, environment_mark
from tenter.kernel import TenterError
from tenter.loop.registry import REGISTRY_PLACE

LOOP_VARIABLE: Final = "TENTER_LOOP_ID"
"""The variable that agents and hooks of a loop inherit."""
GRACE_SECONDS: Final = 2.0
"""Between TERM and KILL."""

_PROC: Final = "/proc"
_FIRST: Final = 1
"""The process that adopts the orphans of all others: it is nobody's, and whom it has adopted is not its own."""
_REGISTRY: Final = f"/{REGISTRY_PLACE}"
_REMOVED: Final = " (deleted)"
"""What Linux says behind the path of an open file that was removed."""


async def end_orphans(loop_id: str) -> int:
    """Ends what is alive of a loop whose process is dead, and returns how many processes that were.

    Left alone are this process with those that it comes from and those that it started, what belongs to another user,
    and a process that has a registry of loops open, with what it started: it runs another loop, maybe one that an agent
    of this loop began. Raises TenterError where one cannot be ended.
    """
    own = frozenset(_line(os.getpid()))
    mark = environment_mark(f"{LOOP_VARIABLE}={loop_id}")
    ended, left = await end_marked(mark, spared=lambda process: _is_spared(process, own), grace=GRACE_SECONDS)
    if left:
        pids = ", ".join(str(process) for process in sorted(left))
        raise TenterError(
            f"what the loop {loop_id} left running does not end although it was killed (process {pids}); see what "
            "holds it, and try again"
        )
    return len(ended)


def told_of_orphans(loop_id: str, count: int) -> str:
    """What people are told of orphans that were ended."""
    processes = "1 process" if count == 1 else f"{count} processes"
    return f"ended {processes} that the loop {loop_id} had left running when its own process died"


def _is_spared(process: int, own: frozenset[int]) -> bool:
    if process == _FIRST or process in own or not _is_ours(process):
        return True
    return any(one == os.getpid() or _runs_loops(one) for one in _line(process))


def _line(process: int) -> Generator[int]:
    """The process, the one that started it, and so on; without the first of all."""
    while process > _FIRST:
        yield process
        process = _parent(process)


def _parent(process: int) -> int:
    """The process that started it, or has adopted it; 0 where there is none any more."""
    try:
        with open(f"{_PROC}/{process}/stat", "rb") as file:  # noqa: PTH123  # Path costs 10x
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # it went, maybe while it was read
        return 0


def _is_ours(process: int) -> bool:
    try:
        return os.stat(f"{_PROC}/{process}").st_uid == os.geteuid()  # noqa: PTH116  # Path costs 10x
    except OSError:
        return False


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
