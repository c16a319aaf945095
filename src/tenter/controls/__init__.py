"""Hooks and patterns that ship with tenter (D§14)."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.controls.account import (
        Account as Account,
        Used as Used,
    )
    from tenter.controls.arguments import (
        check_arguments as check_arguments,
        check_schema as check_schema,
    )
    from tenter.controls.budget import (
        call_digest as call_digest,
        counted as counted,
        result_digest as result_digest,
        used_by as used_by,
    )
    from tenter.controls.governor import (
        GATES as GATES,
        Desk as Desk,
        Unattended as Unattended,
        gates as gates,
    )
    from tenter.controls.policy import (
        Rule as Rule,
        rule_hooks as rule_hooks,
    )
    from tenter.controls.prices import (
        Prices as Prices,
        priced as priced,
    )
    from tenter.controls.secrets import (
        FUZZY_PAIRS as FUZZY_PAIRS,
        PUBLISHED_KEYS as PUBLISHED_KEYS,
    )

__all__ = [
    "Account",
    "Desk",
    "FUZZY_PAIRS",
    "GATES",
    "PUBLISHED_KEYS",
    "Prices",
    "Rule",
    "Unattended",
    "Used",
    "call_digest",
    "check_arguments",
    "check_schema",
    "counted",
    "gates",
    "priced",
    "result_digest",
    "rule_hooks",
    "used_by",
]

__getattr__ = opener(
    __name__,
    {
        "account": (
            "Account",
            "Used",
        ),
        "arguments": (
            "check_arguments",
            "check_schema",
        ),
        "budget": (
            "call_digest",
            "counted",
            "result_digest",
            "used_by",
        ),
        "governor": (
            "Desk",
            "GATES",
            "Unattended",
            "gates",
        ),
        "policy": (
            "Rule",
            "rule_hooks",
        ),
        "prices": (
            "Prices",
            "priced",
        ),
        "secrets": (
            "FUZZY_PAIRS",
            "PUBLISHED_KEYS",
        ),
    },
)
