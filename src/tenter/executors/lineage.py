"""Where a process comes from, and whose it is, as /proc tells. It ends nothing."""

import os
from collections.abc import Generator
from typing import Final

_PROC: Final = "/proc"
FIRST: Final = 1
"""The process that adopts the orphans of all others: it is nobody's, and whom it has adopted is not its own."""


def line_of(process: int) -> Generator[int]:
    """The process, the one that started it, and so on; without the first of all."""
    while process > FIRST:
        yield process
        process = _parent(process)


def is_ours(process: int) -> bool:
    """Whether it belongs to the user of this one."""
    try:
        return os.stat(f"{_PROC}/{process}").st_uid == os.geteuid()  # noqa: PTH116  # Path costs 10x
    except OSError:
        return False


def is_related(process: int, own: frozenset[int]) -> bool:
    """Whether this process, of the line `own`, leaves it alone: one of that line, another user's, or below itself."""
    if process == FIRST or process in own or not is_ours(process):
        return True
    return os.getpid() in line_of(process)


def _parent(process: int) -> int:
    """The process that started it, or has adopted it; 0 where there is none any more."""
    try:
        with open(f"{_PROC}/{process}/stat", "rb") as file:  # noqa: PTH123  # Path costs 10x
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # it went, maybe while it was read
        return 0
