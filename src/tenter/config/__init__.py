"""A configuration file into checked values (D§12), and those into a runtime."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.config.build import (
        build_hooks as build_hooks,
    )
    from tenter.config.loading import (
        load as load,
        load_user as load_user,
        parse_spec as parse_spec,
    )
    from tenter.config.problem import (
        ConfigError as ConfigError,
        KeyPath as KeyPath,
        Position as Position,
        Problem as Problem,
        nearest as nearest,
        printable as printable,
    )
    from tenter.config.spec import (
        HookDefaults as HookDefaults,
        HookSpec as HookSpec,
        HooksSpec as HooksSpec,
        ModelSpec as ModelSpec,
        Spec as Spec,
        TaskSpec as TaskSpec,
        ToolSpec as ToolSpec,
    )

__all__ = [
    "ConfigError",
    "HookDefaults",
    "HookSpec",
    "HooksSpec",
    "KeyPath",
    "ModelSpec",
    "Position",
    "Problem",
    "Spec",
    "TaskSpec",
    "ToolSpec",
    "build_hooks",
    "load",
    "load_user",
    "nearest",
    "parse_spec",
    "printable",
]

__getattr__ = opener(
    __name__,
    {
        "build": ("build_hooks",),
        "loading": (
            "load",
            "load_user",
            "parse_spec",
        ),
        "problem": (
            "ConfigError",
            "KeyPath",
            "Position",
            "Problem",
            "nearest",
            "printable",
        ),
        "spec": (
            "HookDefaults",
            "HookSpec",
            "HooksSpec",
            "ModelSpec",
            "Spec",
            "TaskSpec",
            "ToolSpec",
        ),
    },
)
