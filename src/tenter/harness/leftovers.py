"""Ends what a run whose process was killed has left running, before anybody goes on with the run.

Tools and hooks of a run inherit its id in their environment, and that is how they are found, where the system tells of
processes in /proc. That the run's own process is dead is for the caller to know.
"""

import os
from typing import Final

from tenter.executors import end_marked, environment_mark, is_related, line_of
from tenter.kernel import TenterError

RUN_VARIABLE: Final = "TENTER_RUN_ID"
"""The variable that tools and hooks of a run inherit."""
GRACE_SECONDS: Final = 2.0
"""Between TERM and KILL."""


async def end_leftovers(run_id: str) -> int:
    """Ends what is alive of a run whose process is dead, and returns how many processes that were.

    Left alone are this process with those that it comes from and those that it started, and what belongs to another
    user. Raises TenterError where one cannot be ended.
    """
    own = frozenset(line_of(os.getpid()))
    mark = environment_mark(f"{RUN_VARIABLE}={run_id}")
    ended, left = await end_marked(mark, spared=lambda process: is_related(process, own), grace=GRACE_SECONDS)
    if left:
        pids = ", ".join(str(process) for process in sorted(left))
        raise TenterError(
            f"what the run {run_id} left running does not end although it was killed (process {pids}); see what holds "
            "it, and try again"
        )
    return len(ended)
