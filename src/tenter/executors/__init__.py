"""Hooks that the kernel cannot call by itself: what every kind of executor is given and gives (D§14)."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.executors.kind import (
        HookEnded as HookEnded,
        HookStarted as HookStarted,
        NoSink as NoSink,
        Sink as Sink,
        Surroundings as Surroundings,
    )
    from tenter.executors.process import (
        ProcessResult as ProcessResult,
        ProcessSpec as ProcessSpec,
        run_process as run_process,
    )

__all__ = [
    "HookEnded",
    "HookStarted",
    "NoSink",
    "ProcessResult",
    "ProcessSpec",
    "Sink",
    "Surroundings",
    "run_process",
]

__getattr__ = opener(
    __name__,
    {
        "kind": (
            "HookEnded",
            "HookStarted",
            "NoSink",
            "Sink",
            "Surroundings",
        ),
        "process": (
            "ProcessResult",
            "ProcessSpec",
            "run_process",
        ),
    },
)
