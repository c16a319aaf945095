"""Ends what a run whose process was killed has left running, before anybody goes on with the run.

Tools and hooks of a run inherit its id in their environment, and that is how they are found. That the run's own process
is dead is for the caller to know.
"""

from typing import Final

from tenter.executors import end_left_behind

RUN_VARIABLE: Final = "TENTER_RUN_ID"
"""The variable that tools and hooks of a run inherit."""


async def end_leftovers(run_id: str) -> int:
    """Ends what is alive of a run whose process is dead, and returns how many processes that were.

    Left alone are this process with those that it comes from and those that it started, and what belongs to another
    user. Raises TenterError where one cannot be ended.
    """
    return await end_left_behind(f"{RUN_VARIABLE}={run_id}", f"the run {run_id}")
