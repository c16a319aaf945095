"""Metadata that a hook gave without a verdict: exactly `{"metadata": {…}}`, or nothing (D§9, seed 001).

That is all such an answer can hold: no decision, no replacement, no other key. Whose metadata they are, and where they
go, is the sink's matter.
"""

from typing import Final, cast

from tenter.kernel import FrozenDict, HookFailure, freeze
from tenter.wire.strict_json import one_object, shown

EXPECTED: Final = 'expected exactly {"metadata": {…}}, or nothing'
_DECIDES: Final = ", which counts only with 'verdict: json'"


def decode_metadata(data: bytes) -> FrozenDict[str, object] | None:
    """The metadata that `data` holds, None where it is blank.

    Raises HookFailure (`bad_output`), saying where and what was expected, for anything else: bytes that are not exactly
    one JSON object, a key that stands twice, another key than `metadata`, metadata that are no object.
    """
    if not data.strip(b" \t\r\n"):
        return None
    try:
        raw = one_object(data)
    except HookFailure as failure:
        raise _invalid(failure.reason) from None
    if (other := next((key for key in raw if key != "metadata"), None)) is not None:
        raise _invalid(f"it has the key {shown(other)}" + (_DECIDES if other == "decision" else ""))
    if not isinstance(raw.get("metadata"), dict):
        raise _invalid("'metadata' is no object" if raw else "the object is empty")
    return freeze(cast("dict[str, object]", raw["metadata"]))


def _invalid(why: str) -> HookFailure:
    return HookFailure("bad_output", f"invalid mutation output: {why}; {EXPECTED}")
