"""What a hook's answer or failure is called on a screen: one phrase for the steps and for the summary."""

from collections.abc import Mapping
from typing import Final

from tenter.kernel import TraceEvent

_ANSWERS: Final[Mapping[str, str]] = {
    "block": "blocked it",
    "suspend": "asked for a person",
    "escalate": "escalated it",
    "retry": "asked to try again",
    "fail": "failed it",
}
_POLICIES: Final[Mapping[str, str]] = {
    "warn": "which was let pass",
    "block": "which blocks",
    "suspend": "which asks for a person",
    "fail": "which fails it",
}
_MARKS: Final[Mapping[str, str]] = {"shadow": "shadow: not applied", "recheck": "judged again"}


def phrase(entry: TraceEvent) -> str:
    """What an `outcome` or `failure` entry of a trace says of its hook."""
    disposition = str(entry.details.get("disposition", ""))
    if entry.code == "cancelled":
        said = "was cancelled"
    elif entry.kind == "failure":
        said = f"failed ({entry.code}), {_POLICIES.get(disposition, disposition)}"
    elif entry.details.get("modified"):
        said = "rewrote it"
    else:
        said = _ANSWERS.get(disposition) or f"answered {entry.code}".rstrip()
    marks = [words for mark, words in _MARKS.items() if entry.details.get(mark)]
    return f"{said} [{', '.join(marks)}]" if marks else said
