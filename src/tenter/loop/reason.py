"""Why a loop ended, and what a loop's standing is called (seed 001, issue "The loop").

Exit codes are the command line's matter.
"""

from typing import Final, Literal, get_args

Reason = Literal[
    "completed",
    "cancelled",
    "consecutive_failures",
    "loop_stale",
    "validation_failure",
    "stopped",
    "blocked",
    "failed",
    "escalated",
    "max_iterations",
    "max_runtime",
    "max_cost",
    "restart_requested",
    "interrupted",
]
"""`failed`: tenter itself could not go on, as with a journal on a full disk or a workspace that vanished."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

Standing = Literal["running", "suspended", "crashed", "completed", "cancelled", "failed"]
"""`crashed`: its process is gone and it was not suspended. `failed`: it ended with any other reason than those two."""

ReleaseHow = Literal["resume", "stop", "restart"]
"""What ends a suspension, apart from an interruption."""


def standing_after(reason: Reason) -> Literal["completed", "cancelled", "failed"]:
    """How a loop that ended for `reason` is listed."""
    match reason:
        case "completed":
            return "completed"
        case "cancelled":
            return "cancelled"
        case _:
            return "failed"
