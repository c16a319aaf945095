"""What a hook's answer or failure is called on a screen: one phrase for the steps and for the summary."""

from collections.abc import Mapping
from typing import Final

import msgspec

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


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook said once, or that it failed."""

    hook: str
    point: str
    phrase: str
    reason: str = ""
    """Why it failed, on one line and masked."""


def phrase(entry: TraceEvent, by: str = "") -> str:
    """What an `outcome` or `failure` entry of a trace says of its hook.

    `by` is who approved the call, where somebody did. Of a hook that wanted a person it is told whether one was asked.
    """
    disposition = str(entry.details.get("disposition", ""))
    lifted = _lifted(entry, by)
    if entry.code == "cancelled":
        said = "was cancelled"
    elif entry.kind == "failure":
        said = f"failed ({entry.code}), {f'which {lifted}' if lifted else _POLICIES.get(disposition, disposition)}"
    elif entry.details.get("modified"):
        said = "rewrote it"
    else:
        said = lifted or _ANSWERS.get(disposition) or f"answered {entry.code}".rstrip()
    marks = [words for mark, words in _MARKS.items() if entry.details.get(mark)]
    return f"{said} [{', '.join(marks)}]" if marks else said


def _lifted(entry: TraceEvent, by: str) -> str:
    """Why nobody was asked although the hook wanted a person; empty where it did not, or somebody is."""
    if not (lifted := entry.details.get("lifted")):
        return ""
    who = entry.details.get("lifted_by") or by
    return f"wanted a person: {lifted}" + (f" by {who}" if who else "")
