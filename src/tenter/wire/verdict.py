"""What a hook outside the process answered, as an outcome or a replacement (D§9).

An answer that is not exactly one verdict document is the hook's failure (`bad_output`); so is a decision that nobody
asked for, and `has_decision` finds it. Whether the point takes the answer is the kernel's matter.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from json import JSONDecoder
from typing import Final, assert_never, cast

import msgspec
from msgspec import UNSET

from tenter.kernel import (
    Allow,
    Block,
    Escalate,
    Event,
    FrozenDict,
    HookFailure,
    Outcome,
    Point,
    Result,
    Retry,
    Suspend,
    freeze,
)
from tenter.wire.strict_json import one_object, shown
from tenter.wire.verdict_document import (
    DOCUMENTS,
    KEYS,
    Allowing,
    Blocking,
    Escalating,
    Passing,
    Retrying,
    Suspending,
    Undecided,
    VerdictDocument,
)

_JSON: Final = JSONDecoder()
_KEY: Final = re.compile(
    "[\"']" + "".join(rf"(?:{letter}|\\u00{ord(letter):x})" for letter in "decision") + "[\"']\\s*:", re.IGNORECASE
)
_MOST_FAILURES: Final = 16


class Verdict(msgspec.Struct, frozen=True):
    """A decoded document: what to tell the kernel, and the metadata where they count."""

    answer: Outcome | Event | None = None
    metadata: FrozenDict[str, object] | None = None


def decode_verdict(data: bytes, point: Point, *, event: Event, mutate: bool) -> Verdict:
    """What the verdict document `data` says to `event` at `point`.

    `replace` becomes the event with these fields, `result` a Result, each converted to its declared type, unknown keys
    inside refused; a value is whole, so a key that it leaves out has its default. `mutate` says whether metadata
    counts. Raises HookFailure (`bad_output`), naming the byte or the key path, for anything that is not exactly one
    verdict document.
    """
    document = _document(one_object(data))
    try:
        answer = _answer(document, point, event)
    except (TypeError, ValueError) as error:  # an outcome refuses what the types let through: a line end in a code
        raise _bad(str(error)) from None
    metadata = freeze(document.metadata) if mutate and document.metadata is not UNSET else None
    return Verdict(answer, metadata)


def has_decision(stdout: bytes) -> bool:
    """Whether `stdout`, of a hook without `verdict: json`, holds what may be a verdict: that is the hook's failure.

    It looks for an object with the key `decision`, however spelled, among whatever else stands there. Where something
    like that key stands in text that is no JSON (cut off, single quotes), it says yes; it says no where the key stands
    only deeper inside an object, as in a payload that a hook printed.
    """
    text = stdout.replace(b"\0", b"").decode(errors="replace")
    place = failures = 0
    for key in _KEY.finditer(text):
        while place <= key.start():
            start = text.find("{", place, key.start())
            if start < 0 or failures == _MOST_FAILURES:
                return True
            try:
                found, place = _JSON.raw_decode(text, start)
            except (ValueError, RecursionError):
                failures += 1
                place = start + 1
            else:
                if "decision" in found:
                    return True
    return False


def _document(raw: dict[str, object]) -> VerdictDocument:
    decision = raw.get("decision")
    if "decision" not in raw:
        if not raw.keys() & {"replace", "result", "metadata"}:
            raise _bad(f"it needs the key 'decision', one of {_listed(DOCUMENTS)}")
        kind, name = Undecided, "no decision"
    elif isinstance(decision, str) and decision in DOCUMENTS:
        kind, name = DOCUMENTS[decision], f"the decision {decision!r}"
    else:
        found = shown(decision) if isinstance(decision, str) else type(decision).__name__
        raise _bad(f"its decision must be one of {_listed(DOCUMENTS)}, not {found}{_nearest(decision, DOCUMENTS)}")
    allowed = kind.__struct_fields__
    if (wrong := next((key for key in raw if key != "decision" and key not in allowed), None)) is not None:
        if wrong in KEYS:
            raise _bad(f"the key {wrong!r} does not go with {name}, which takes {_listed(allowed)}")
        raise _bad(f"a verdict has no key {shown(wrong)}{_nearest(wrong, KEYS)}")
    if "replace" in raw and "result" in raw:
        raise _bad("the keys 'replace' and 'result' exclude each other")
    return cast("VerdictDocument", _converted(raw, kind, ""))


def _answer(document: VerdictDocument, point: Point, event: Event) -> Outcome | Event | None:
    match document:
        case Undecided() | Passing():
            return _change(document, point, event)
        case Allowing():
            return Allow(document.reason)
        case Blocking():
            return Block(document.reason, code=document.code, stop=document.stop)
        case Suspending():
            return Suspend(
                document.reason,
                code=document.code,
                editable=document.editable,
                expires_in=document.expires_in,
                on_timeout=document.on_timeout,
            )
        case Escalating():
            return Escalate(document.reason, queue=document.queue)
        case Retrying():
            return Retry(document.reason, feedback=document.feedback)
        case _:
            assert_never(document)


def _change(document: Undecided | Passing, point: Point, event: Event) -> Outcome | Event | None:
    if document.replace is not UNSET:
        return _replaced(document.replace, event)
    return None if document.result is UNSET else _result(document.result, point)


def _replaced(given: Mapping[str, object], event: Event) -> Event:
    fields = {name: field for name, field in _fields(type(event)).items() if name not in ("envelope", "op")}
    _check_names("replace", given, fields)
    values = {name: _converted(value, fields[name].type, f"replace.{name}") for name, value in given.items()}
    return event.replace(**values)


def _result(value: object, point: Point) -> Result:
    results = point.operation.results
    if point.phase != "in" or not results:
        raise _bad(f"a 'result' can be given at an 'in' point of an operation that has one, not at {point.label!r}")
    fields = {name: field for name, field in _fields(point.operation.after).items() if name in results}
    if len(results) == 1:
        return Result(freeze(_converted(value, fields[results[0]].type, "result")))
    if not isinstance(value, dict):
        raise _bad(f"'result' must be an object with {_listed(results)}")
    given = cast("dict[str, object]", value)
    _check_names("result", given, fields)
    for name, field in fields.items():
        if field.required and name not in given:
            raise _bad(f"'result' must have the key {name!r}")
    return Result(freeze({name: _converted(item, fields[name].type, f"result.{name}") for name, item in given.items()}))


@lru_cache(maxsize=256)
def _fields(cls: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(cls)}


def _check_names(where: str, given: Mapping[str, object], fields: Mapping[str, object]) -> None:
    for name in given:
        if name not in fields:
            raise _bad(f"{where!r} has no field {shown(name)}{_nearest(name, fields) or f'; it has {_listed(fields)}'}")


def _converted(value: object, kind: object, where: str) -> object:
    try:
        made = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, below = str(error).partition(" - at `$")
        place = (where + below.rstrip("`")).lstrip(".")
        raise _bad(f"at {place!r}: {text}" if place else text) from None
    _check_inside(value, made, where)
    return made


def _check_inside(value: object, made: object, where: str) -> None:
    """Finds keys that a struct inside does not have; msgspec drops them without a word."""
    if isinstance(made, msgspec.Struct) and isinstance(value, dict):
        given = cast("dict[str, object]", value)
        names = dict(zip(made.__struct_encode_fields__, made.__struct_fields__, strict=True))
        tag = made.__struct_config__.tag_field
        for key, item in given.items():
            if key in names:
                _check_inside(item, getattr(made, names[key]), f"{where}.{key}")
            elif key != tag:
                raise _bad(f"at {where!r}: there is no key {shown(key)}{_nearest(key, names)}")
    elif isinstance(made, tuple | list) and isinstance(value, list):
        pairs = zip(cast("list[object]", value), cast("Iterable[object]", made), strict=False)
        for place, (item, part) in enumerate(pairs):
            if part is not item:
                _check_inside(item, part, f"{where}[{place}]")
    elif isinstance(made, dict) and isinstance(value, dict):
        given = cast("dict[str, object]", value)
        for key, part in cast("dict[str, object]", made).items():
            if part is not given.get(key):
                _check_inside(given.get(key), part, f"{where}.{key}")


def _bad(found: str) -> HookFailure:
    return HookFailure("bad_output", f"the answer is no verdict: {found}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _nearest(name: object, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name[:80], names, n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""
