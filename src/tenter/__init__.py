"""tenter: hooks for AI agents. What a hook author needs stands here; the rest stands in its layer (D§14, D§16)."""

from typing import TYPE_CHECKING

from tenter.kernel.door import opener

if TYPE_CHECKING:
    from tenter.harness import (
        Harness as Harness,
        RunResult as RunResult,
        tool as tool,
    )
    from tenter.kernel import (
        Allow as Allow,
        Block as Block,
        Escalate as Escalate,
        Hook as Hook,
        Retry as Retry,
        Runtime as Runtime,
        Suspend as Suspend,
        hook as hook,
    )

__all__ = [
    "Allow",
    "Block",
    "Escalate",
    "Harness",
    "Hook",
    "Retry",
    "RunResult",
    "Runtime",
    "Suspend",
    "hook",
    "tool",
]

__getattr__ = opener(
    __name__,
    {
        "harness": ("Harness", "RunResult", "tool"),
        "kernel": ("Allow", "Block", "Escalate", "Hook", "Retry", "Runtime", "Suspend", "hook"),
    },
)
