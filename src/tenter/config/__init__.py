"""A configuration file into checked values (D§12), and those into a runtime."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.config.build import (
        build_hooks as build_hooks,
    )
    from tenter.config.listing import (
        Listing as Listing,
        Row as Row,
        Unlisted as Unlisted,
        list_hooks as list_hooks,
        rows as rows,
    )
    from tenter.config.loading import (
        load as load,
        load_user as load_user,
        parse_spec as parse_spec,
        secret_names as secret_names,
        user_file as user_file,
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
    from tenter.config.validation import (
        validate as validate,
    )

__all__ = [
    "ConfigError",
    "HookDefaults",
    "HookSpec",
    "HooksSpec",
    "KeyPath",
    "Listing",
    "ModelSpec",
    "Position",
    "Problem",
    "Row",
    "Spec",
    "TaskSpec",
    "ToolSpec",
    "Unlisted",
    "build_hooks",
    "list_hooks",
    "load",
    "load_user",
    "nearest",
    "parse_spec",
    "printable",
    "rows",
    "secret_names",
    "user_file",
    "validate",
]

__getattr__ = opener(
    __name__,
    {
        "build": ("build_hooks",),
        "listing": (
            "Listing",
            "Row",
            "Unlisted",
            "list_hooks",
            "rows",
        ),
        "loading": (
            "load",
            "load_user",
            "parse_spec",
            "secret_names",
            "user_file",
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
        "validation": ("validate",),
    },
)
