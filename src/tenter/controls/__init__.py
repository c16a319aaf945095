"""Hooks and patterns that ship with tenter (D§14)."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.controls.governor import (
        GATES as GATES,
    )
    from tenter.controls.secrets import (
        FUZZY_PAIRS as FUZZY_PAIRS,
        PUBLISHED_KEYS as PUBLISHED_KEYS,
    )

__all__ = [
    "FUZZY_PAIRS",
    "GATES",
    "PUBLISHED_KEYS",
]

__getattr__ = opener(
    __name__,
    {
        "governor": ("GATES",),
        "secrets": (
            "FUZZY_PAIRS",
            "PUBLISHED_KEYS",
        ),
    },
)
