"""A configuration file into checked values (D§12), and those into a runtime."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.config.backends import (
        resolve_backends as resolve_backends,
    )
    from tenter.config.build import (
        build_hooks as build_hooks,
    )
    from tenter.config.footprint import (
        FileFacts as FileFacts,
        Footprint as Footprint,
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
        load_draft as load_draft,
        load_user as load_user,
        parse_spec as parse_spec,
        secret_names as secret_names,
        user_file as user_file,
    )
    from tenter.config.loop_spec import (
        TOPIC as TOPIC,
        TOPIC_PATTERN as TOPIC_PATTERN,
        BackendSpec as BackendSpec,
        CommandBackendSpec as CommandBackendSpec,
        HarnessBackendSpec as HarnessBackendSpec,
        HatSpec as HatSpec,
        LoopSpec as LoopSpec,
        PreflightCheck as PreflightCheck,
        PreflightSpec as PreflightSpec,
        PromptWay as PromptWay,
    )
    from tenter.config.named_files import (
        NamedCode as NamedCode,
    )
    from tenter.config.pins import (
        Pins as Pins,
    )
    from tenter.config.problem import (
        ConfigError as ConfigError,
        KeyPath as KeyPath,
        Position as Position,
        Problem as Problem,
        nearest as nearest,
        printable as printable,
    )
    from tenter.config.rules import (
        gate_rules as gate_rules,
    )
    from tenter.config.spec import (
        HookDefaults as HookDefaults,
        HookSpec as HookSpec,
        HooksSpec as HooksSpec,
        ModelSpec as ModelSpec,
        PricesSpec as PricesSpec,
        RuleSpec as RuleSpec,
        Spec as Spec,
        TaskSpec as TaskSpec,
        ToolSpec as ToolSpec,
    )
    from tenter.config.suspend_mode import (
        suspend_modes as suspend_modes,
    )
    from tenter.config.trust import (
        TRUST_VARIABLE as TRUST_VARIABLE,
        Trusted as Trusted,
        Untrusted as Untrusted,
        judge as judge,
        require_trust as require_trust,
        trust_state as trust_state,
    )
    from tenter.config.trust_changes import (
        MOST_CHANGES as MOST_CHANGES,
        Change as Change,
        short as short,
    )
    from tenter.config.trust_record import (
        trust_folder as trust_folder,
        write_record as write_record,
    )
    from tenter.config.validation import (
        validate as validate,
    )

__all__ = [
    "BackendSpec",
    "Change",
    "CommandBackendSpec",
    "ConfigError",
    "FileFacts",
    "Footprint",
    "HarnessBackendSpec",
    "HatSpec",
    "HookDefaults",
    "HookSpec",
    "HooksSpec",
    "KeyPath",
    "Listing",
    "LoopSpec",
    "MOST_CHANGES",
    "ModelSpec",
    "NamedCode",
    "Pins",
    "Position",
    "PreflightCheck",
    "PreflightSpec",
    "PricesSpec",
    "Problem",
    "PromptWay",
    "Row",
    "RuleSpec",
    "Spec",
    "TOPIC",
    "TOPIC_PATTERN",
    "TRUST_VARIABLE",
    "TaskSpec",
    "ToolSpec",
    "Trusted",
    "Unlisted",
    "Untrusted",
    "build_hooks",
    "gate_rules",
    "judge",
    "list_hooks",
    "load",
    "load_draft",
    "load_user",
    "nearest",
    "parse_spec",
    "printable",
    "require_trust",
    "resolve_backends",
    "rows",
    "secret_names",
    "short",
    "suspend_modes",
    "trust_folder",
    "trust_state",
    "user_file",
    "validate",
    "write_record",
]

__getattr__ = opener(
    __name__,
    {
        "backends": ("resolve_backends",),
        "build": ("build_hooks",),
        "footprint": (
            "FileFacts",
            "Footprint",
        ),
        "listing": (
            "Listing",
            "Row",
            "Unlisted",
            "list_hooks",
            "rows",
        ),
        "loading": (
            "load",
            "load_draft",
            "load_user",
            "parse_spec",
            "secret_names",
            "user_file",
        ),
        "loop_spec": (
            "BackendSpec",
            "CommandBackendSpec",
            "HarnessBackendSpec",
            "HatSpec",
            "LoopSpec",
            "PreflightCheck",
            "PreflightSpec",
            "PromptWay",
            "TOPIC",
            "TOPIC_PATTERN",
        ),
        "named_files": ("NamedCode",),
        "pins": ("Pins",),
        "problem": (
            "ConfigError",
            "KeyPath",
            "Position",
            "Problem",
            "nearest",
            "printable",
        ),
        "rules": ("gate_rules",),
        "spec": (
            "HookDefaults",
            "HookSpec",
            "HooksSpec",
            "ModelSpec",
            "PricesSpec",
            "RuleSpec",
            "Spec",
            "TaskSpec",
            "ToolSpec",
        ),
        "suspend_mode": ("suspend_modes",),
        "trust": (
            "TRUST_VARIABLE",
            "Trusted",
            "Untrusted",
            "judge",
            "require_trust",
            "trust_state",
        ),
        "trust_changes": (
            "Change",
            "MOST_CHANGES",
            "short",
        ),
        "trust_record": (
            "trust_folder",
            "write_record",
        ),
        "validation": ("validate",),
    },
)
