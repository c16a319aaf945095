"""Runs tasks with hooks on the local engine (D§14): harness, models, tools."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.harness.context import (
        ToolContext as ToolContext,
    )
    from tenter.harness.definition import (
        Tool as Tool,
        tool as tool,
    )
    from tenter.harness.errors import (
        ToolError as ToolError,
    )
    from tenter.harness.harness import (
        Harness as Harness,
    )
    from tenter.harness.local import (
        LocalEngine as LocalEngine,
        Run as Run,
        Step as Step,
        Watcher as Watcher,
    )
    from tenter.harness.result import (
        RunResult as RunResult,
    )
    from tenter.harness.script import (
        load_script as load_script,
    )
    from tenter.harness.setup import (
        Given as Given,
        Setup as Setup,
        redactor_for as redactor_for,
        set_up as set_up,
    )
    from tenter.harness.shielded import (
        uncut as uncut,
    )
    from tenter.harness.tools import (
        BUILTIN_TOOLS as BUILTIN_TOOLS,
    )

__all__ = [
    "BUILTIN_TOOLS",
    "Given",
    "Harness",
    "LocalEngine",
    "Run",
    "RunResult",
    "Setup",
    "Step",
    "Tool",
    "ToolContext",
    "ToolError",
    "Watcher",
    "load_script",
    "redactor_for",
    "set_up",
    "tool",
    "uncut",
]

__getattr__ = opener(
    __name__,
    {
        "context": ("ToolContext",),
        "definition": (
            "Tool",
            "tool",
        ),
        "errors": ("ToolError",),
        "harness": ("Harness",),
        "local": (
            "LocalEngine",
            "Run",
            "Step",
            "Watcher",
        ),
        "result": ("RunResult",),
        "script": ("load_script",),
        "setup": (
            "Given",
            "Setup",
            "redactor_for",
            "set_up",
        ),
        "shielded": ("uncut",),
        "tools": ("BUILTIN_TOOLS",),
    },
)
