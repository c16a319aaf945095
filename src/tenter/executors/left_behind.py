"""Ends what a process that died has left running: all whose environment holds a variable that they inherited from it.

Found where the system tells of processes in /proc. That the process is dead is for the caller to know.
"""

import os
from collections.abc import Callable
from typing import Final

from tenter.executors.descendants import end_marked, environment_mark
from tenter.executors.lineage import is_related, line_of
from tenter.kernel import TenterError

GRACE_SECONDS: Final = 2.0
"""Between TERM and KILL."""


async def end_left_behind(variable: str, whose: str, *, spared: Callable[[int], bool] = lambda process: False) -> int:
    """Ends what carries the variable, given as `NAME=value`, and returns how many processes that were.

    Left alone are this process with those that it comes from and those that it started, what belongs to another user,
    and what is `spared`. Raises TenterError, which says `whose` it was, where one cannot be ended.
    """
    own = frozenset(line_of(os.getpid()))

    def is_left_alone(process: int) -> bool:
        return is_related(process, own) or spared(process)

    ended, left = await end_marked(environment_mark(variable), spared=is_left_alone, grace=GRACE_SECONDS)
    if left:
        pids = ", ".join(str(process) for process in sorted(left))
        raise TenterError(
            f"what {whose} left running does not end although it was killed (process {pids}); see what holds it, and "
            "try again"
        )
    return len(ended)
