"""What people say about a run (who, why, which new values), checked before it goes on record."""

from collections.abc import Collection, Mapping
from typing import Final, cast

from tenter.catalogue import ApprovalDecision, DecisionKind
from tenter.kernel import TenterError

MOST_OF_A_NAME: Final = 200
"""Characters of `by`."""
MOST_OF_A_REASON: Final = 10_000
"""Characters of `reason`."""


def said_by(by: object) -> str:
    """Who says it; empty where that is not told. Raises TenterError for what is no text, or too long."""
    return _said("by", by, MOST_OF_A_NAME)


def said_why(reason: object) -> str:
    """Why. Raises as `said_by`."""
    return _said("reason", reason, MOST_OF_A_REASON)


def named(accept: object) -> Collection[str]:
    """The names of what is accepted; a plain text is one. Raises TenterError for what are no names."""
    if isinstance(accept, str):
        return (accept,)
    if isinstance(accept, Collection):
        names = cast("Collection[object]", accept)
        if all(isinstance(name, str) for name in names):
            return cast("Collection[str]", accept)
    raise TenterError("'accept' must be the names of what may have changed, as texts")


def check_ids(run_id: object, request_id: object) -> None:
    """Raises TenterError for what is no id: of a run, and of a request or None for its only one."""
    if not isinstance(run_id, str) or not _is_unicode(run_id):
        raise TenterError("the id of a run must be a text; 'tenter runs list' prints them")
    if request_id is not None and not (isinstance(request_id, str) and _is_unicode(request_id)):
        raise TenterError(
            "the id of a request must be a text, or None for the only one; 'tenter approvals list' has it"
        )


def decision_of(word: DecisionKind, *, by: object, reason: object, edits: object = None) -> ApprovalDecision:
    """A decision on a request that is still to be named. Raises TenterError for what is none.

    Half of a surrogate pair, which no record takes, is escaped in `by` and `reason`. The edits are judged with the
    request (see `edits`).
    """
    if not isinstance(by, str) or not by.strip():
        raise TenterError("'by' of a decision must be a text that says who")
    fields = cast("Mapping[object, object]", edits) if isinstance(edits, Mapping) else None
    if edits is not None and (fields is None or not all(isinstance(name, str) for name in fields)):
        raise TenterError("the edits of a decision must be a mapping from fields to values")
    try:
        return ApprovalDecision(
            request_id="",
            run_id="",
            decision=word,
            by=said_by(by),
            reason=said_why(reason),
            edits=cast("Mapping[str, object]", edits or {}),
            decided_at=0,
        )
    except (TypeError, ValueError) as error:
        raise TenterError(f"the edits of a decision must be data: {error}") from None


def _said(name: str, text: object, most: int) -> str:
    if not isinstance(text, str):
        raise TenterError(f"{name!r} must be a text")
    if len(text) > most:
        raise TenterError(f"{name!r} has {len(text)} characters, and may have {most}")
    return text.encode(errors="backslashreplace").decode()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
