"""Runs tasks with hooks on the local engine (D§14): harness, models, tools."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.harness.answers import (
        said_by as said_by,
        said_why as said_why,
    )
    from tenter.harness.changes import (
        SpecChanged as SpecChanged,
        begun_in as begun_in,
    )
    from tenter.harness.context import (
        ToolContext as ToolContext,
    )
    from tenter.harness.definition import (
        Tool as Tool,
        tool as tool,
    )
    from tenter.harness.edits import (
        check_edits as check_edits,
    )
    from tenter.harness.errors import (
        ToolError as ToolError,
    )
    from tenter.harness.harness import (
        Harness as Harness,
    )
    from tenter.harness.held import (
        HOLDER as HOLDER,
        Holder as Holder,
        RunHeld as RunHeld,
        check_free as check_free,
        claimed as claimed,
    )
    from tenter.harness.local import (
        LocalEngine as LocalEngine,
    )
    from tenter.harness.parts import (
        Run as Run,
        Step as Step,
        Watcher as Watcher,
    )
    from tenter.harness.replay import (
        ReplayDiverged as ReplayDiverged,
    )
    from tenter.harness.result import (
        RunResult as RunResult,
    )
    from tenter.harness.resuming import (
        ON_RECORD as ON_RECORD,
        ask_to_end as ask_to_end,
        cancelled_by as cancelled_by,
        end_left_below as end_left_below,
        end_on_record as end_on_record,
    )
    from tenter.harness.sandbox import (
        Machine as Machine,
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
    "HOLDER",
    "Harness",
    "Holder",
    "LocalEngine",
    "Machine",
    "ON_RECORD",
    "ReplayDiverged",
    "Run",
    "RunHeld",
    "RunResult",
    "Setup",
    "SpecChanged",
    "Step",
    "Tool",
    "ToolContext",
    "ToolError",
    "Watcher",
    "ask_to_end",
    "begun_in",
    "cancelled_by",
    "check_edits",
    "check_free",
    "claimed",
    "end_left_below",
    "end_on_record",
    "load_script",
    "redactor_for",
    "said_by",
    "said_why",
    "set_up",
    "tool",
    "uncut",
]

__getattr__ = opener(
    __name__,
    {
        "answers": (
            "said_by",
            "said_why",
        ),
        "changes": (
            "SpecChanged",
            "begun_in",
        ),
        "context": ("ToolContext",),
        "definition": (
            "Tool",
            "tool",
        ),
        "edits": ("check_edits",),
        "errors": ("ToolError",),
        "harness": ("Harness",),
        "held": (
            "HOLDER",
            "Holder",
            "RunHeld",
            "check_free",
            "claimed",
        ),
        "local": ("LocalEngine",),
        "parts": (
            "Run",
            "Step",
            "Watcher",
        ),
        "replay": ("ReplayDiverged",),
        "result": ("RunResult",),
        "resuming": (
            "ON_RECORD",
            "ask_to_end",
            "cancelled_by",
            "end_left_below",
            "end_on_record",
        ),
        "sandbox": ("Machine",),
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
