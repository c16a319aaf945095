"""The agent loop and the engine that it asks for (D§11): pure, so that it runs anywhere."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.agent.engine import (
        BLANK as BLANK,
        Engine as Engine,
    )
    from tenter.agent.loop import (
        LOOP_VERSION as LOOP_VERSION,
        AgentLoop as AgentLoop,
    )
    from tenter.agent.plan import (
        Ended as Ended,
        Plan as Plan,
        Progress as Progress,
        Standing as Standing,
        Subtask as Subtask,
        Waiting as Waiting,
        status_of as status_of,
    )
    from tenter.agent.refusal import (
        stand_in as stand_in,
    )
    from tenter.agent.retry import (
        delay as delay,
    )
    from tenter.agent.subtasks import (
        SPAWN as SPAWN,
    )

__all__ = [
    "AgentLoop",
    "BLANK",
    "Ended",
    "Engine",
    "LOOP_VERSION",
    "Plan",
    "Progress",
    "SPAWN",
    "Standing",
    "Subtask",
    "Waiting",
    "delay",
    "stand_in",
    "status_of",
]

__getattr__ = opener(
    __name__,
    {
        "engine": (
            "BLANK",
            "Engine",
        ),
        "loop": (
            "AgentLoop",
            "LOOP_VERSION",
        ),
        "plan": (
            "Ended",
            "Plan",
            "Progress",
            "Standing",
            "Subtask",
            "Waiting",
            "status_of",
        ),
        "refusal": ("stand_in",),
        "retry": ("delay",),
        "subtasks": ("SPAWN",),
    },
)
