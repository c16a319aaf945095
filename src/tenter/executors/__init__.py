"""Hooks that the kernel cannot call by itself: what every kind of executor is given and gives (D§14)."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.executors.band import (
        in_band as in_band,
    )
    from tenter.executors.command import (
        command_hook as command_hook,
    )
    from tenter.executors.command_settings import (
        CommandHook as CommandHook,
        SuspendMode as SuspendMode,
    )
    from tenter.executors.descendants import (
        COOKIES as COOKIES,
        within as within,
    )
    from tenter.executors.function import (
        FunctionHook as FunctionHook,
        function_hook as function_hook,
        load_target as load_target,
        plugin_hooks as plugin_hooks,
    )
    from tenter.executors.kind import (
        HookEnded as HookEnded,
        HookStarted as HookStarted,
        NoSink as NoSink,
        Pause as Pause,
        Sink as Sink,
        Surroundings as Surroundings,
        sleep_through as sleep_through,
    )
    from tenter.executors.kinds import (
        KINDS as KINDS,
        Kind as Kind,
    )
    from tenter.executors.left_behind import (
        end_left_behind as end_left_behind,
    )
    from tenter.executors.lineage import (
        line_of as line_of,
    )
    from tenter.executors.pinned import (
        Accepts as Accepts,
        PinnedFile as PinnedFile,
        file_digest as file_digest,
    )
    from tenter.executors.pinned_imports import (
        PinnedImports as PinnedImports,
        in_project as in_project,
        is_below as is_below,
    )
    from tenter.executors.process import (
        ProcessResult as ProcessResult,
        ProcessSpec as ProcessSpec,
        run_process as run_process,
    )
    from tenter.executors.process_id import (
        ProcessId as ProcessId,
        is_alive as is_alive,
        this_process as this_process,
    )
    from tenter.executors.thread import (
        in_thread as in_thread,
    )

__all__ = [
    "Accepts",
    "COOKIES",
    "CommandHook",
    "FunctionHook",
    "HookEnded",
    "HookStarted",
    "KINDS",
    "Kind",
    "NoSink",
    "Pause",
    "PinnedFile",
    "PinnedImports",
    "ProcessId",
    "ProcessResult",
    "ProcessSpec",
    "Sink",
    "Surroundings",
    "SuspendMode",
    "command_hook",
    "end_left_behind",
    "file_digest",
    "function_hook",
    "in_band",
    "in_project",
    "in_thread",
    "is_alive",
    "is_below",
    "line_of",
    "load_target",
    "plugin_hooks",
    "run_process",
    "sleep_through",
    "this_process",
    "within",
]

__getattr__ = opener(
    __name__,
    {
        "band": ("in_band",),
        "command": ("command_hook",),
        "command_settings": (
            "CommandHook",
            "SuspendMode",
        ),
        "descendants": (
            "COOKIES",
            "within",
        ),
        "function": (
            "FunctionHook",
            "function_hook",
            "load_target",
            "plugin_hooks",
        ),
        "kind": (
            "HookEnded",
            "HookStarted",
            "NoSink",
            "Pause",
            "Sink",
            "Surroundings",
            "sleep_through",
        ),
        "kinds": (
            "KINDS",
            "Kind",
        ),
        "left_behind": ("end_left_behind",),
        "lineage": ("line_of",),
        "pinned": (
            "Accepts",
            "PinnedFile",
            "file_digest",
        ),
        "pinned_imports": (
            "PinnedImports",
            "in_project",
            "is_below",
        ),
        "process": (
            "ProcessResult",
            "ProcessSpec",
            "run_process",
        ),
        "process_id": (
            "ProcessId",
            "is_alive",
            "this_process",
        ),
        "thread": ("in_thread",),
    },
)
