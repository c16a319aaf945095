"""Hooks and patterns that ship with tenter (D§14)."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.controls.arguments import (
        check_schema as check_schema,
    )
    from tenter.controls.governor import (
        GATES as GATES,
        gates as gates,
    )
    from tenter.controls.secrets import (
        FUZZY_PAIRS as FUZZY_PAIRS,
        PUBLISHED_KEYS as PUBLISHED_KEYS,
    )

__all__ = [
    "FUZZY_PAIRS",
    "GATES",
    "PUBLISHED_KEYS",
    "check_schema",
    "gates",
]

__getattr__ = opener(
    __name__,
    {
        "arguments": ("check_schema",),
        "governor": (
            "GATES",
            "gates",
        ),
        "secrets": (
            "FUZZY_PAIRS",
            "PUBLISHED_KEYS",
        ),
    },
)
