"""The only place where an event becomes JSON and back (D§9): payload, verdict, schema, canonical form."""

from typing import TYPE_CHECKING

from tenter.kernel import opener

if TYPE_CHECKING:
    from tenter.wire.canonical import (
        CanonicalError as CanonicalError,
        Document as Document,
        Reference as Reference,
        canonical as canonical,
        digest as digest,
    )

__all__ = [
    "CanonicalError",
    "Document",
    "Reference",
    "canonical",
    "digest",
]

__getattr__ = opener(
    __name__,
    {
        "canonical": (
            "CanonicalError",
            "Document",
            "Reference",
            "canonical",
            "digest",
        ),
    },
)
