"""The verdict document of version 1 as types (D§9): one a decision, with the keys that go with it.

Reading it is `verdict`'s matter; the JSON Schema is made from these types.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tenter.kernel import OnTimeout

Reason = Annotated[str, Meta(min_length=1, description="Why, for people, and for the model where a point says so.")]
Word = Annotated[str, Meta(pattern=r"^[a-z0-9_][a-z0-9_.-]{0,63}$")]
Seconds = Annotated[float, Meta(gt=0)]
Fields = Annotated[
    Mapping[str, object],
    Meta(description="Fields of the event, each with its whole new value; `envelope` and `op` stay as they are."),
]
Metadata = Annotated[
    Mapping[str, object],
    Meta(description="Facts for later hooks. They count only where the hook has `mutate.enabled`."),
]


class Undecided(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No decision: a replacement, a result, or nothing but metadata (seed 001)."""

    replace: Fields | UnsetType = UNSET
    result: object = UNSET
    metadata: Metadata | UnsetType = UNSET


class Passing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="decision", tag="pass"):
    """The hook has no objection; it may replace the event or give the result of an `in` point, not both."""

    reason: str = ""
    """Taken, so that every decision can be written in one shape; a pass has no reason to give."""
    replace: Fields | UnsetType = UNSET
    result: object = UNSET
    metadata: Metadata | UnsetType = UNSET


class Allowing(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="decision", tag="allow"
):
    """Waives Suspends of the hook's own band and of inner ones."""

    reason: str = ""
    metadata: Metadata | UnsetType = UNSET


class Blocking(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="decision", tag="block"
):
    """Refuses the operation; with `stop` it ends the run where the refusal alone would not."""

    reason: Reason
    code: Word = "blocked"
    stop: bool = False
    metadata: Metadata | UnsetType = UNSET


class Suspending(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="decision", tag="suspend"
):
    """A person must decide. `expires_in` is in seconds, null for never."""

    reason: Reason
    code: Word = "approval_required"
    editable: tuple[str, ...] = ()
    expires_in: Seconds | None = None
    on_timeout: OnTimeout = "block"
    metadata: Metadata | UnsetType = UNSET


class Escalating(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="decision", tag="escalate"
):
    """Ends the run and hands it to the people of `queue`."""

    reason: Reason
    queue: Word = "default"
    metadata: Metadata | UnsetType = UNSET


class Retrying(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="decision", tag="retry"
):
    """Ask again; `feedback` goes to the model as a user message."""

    reason: Reason
    feedback: str | None = None
    metadata: Metadata | UnsetType = UNSET


VerdictDocument = Undecided | Passing | Allowing | Blocking | Suspending | Escalating | Retrying

DOCUMENTS: Final[Mapping[str, type[VerdictDocument]]] = {
    "pass": Passing,
    "allow": Allowing,
    "block": Blocking,
    "suspend": Suspending,
    "escalate": Escalating,
    "retry": Retrying,
}
"""The document that each decision comes with."""

KEYS: Final = tuple(
    dict.fromkeys(("decision", *(name for cls in DOCUMENTS.values() for name in cls.__struct_fields__)))
)
"""Every key of the document."""
