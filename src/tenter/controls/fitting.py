"""Tells of most calls at once that their arguments fit: the fast way beside `arguments`, which says what is wrong.

A schema of the usual kind (typed properties, lists, alternatives, plain limits) is turned into nested tests, once. They
say yes only where a validator would find nothing and the arguments can be recorded; a no says nothing. For a schema
with anything else in it there is no fast way.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from tenter.kernel import FrozenDict, Regex, RegexError

Test = Callable[[Any], bool]

LARGEST_INTEGER: Final = 2**53 - 1
"""What JSON has exactly; a larger one cannot be recorded."""

DEEPEST: Final = 20

SAYS_NOTHING: Final = frozenset({"title", "description", "default", "examples", "format", "deprecated", "$schema"})
"""Keywords that restrict nothing here, as for the validator."""

OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"enum", "pattern", "minLength", "maxLength"}),
    "integer": frozenset({"minimum", "maximum"}),
    "number": frozenset({"minimum", "maximum"}),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
"""The keywords that are understood beside each `type`."""


_EMPTY: Final[Mapping[str, object]] = FrozenDict()


class _Unusual(Exception):
    """The schema says something that only a validator understands."""


def fitting(schema: Mapping[str, object]) -> Test | None:
    """Whether a frozen value surely fits `schema` and can be recorded; None where only a validator can tell."""
    try:
        return _test(schema, DEEPEST)
    except _Unusual:
        return None


def _test(schema: object, room: int) -> Test:
    if not isinstance(schema, Mapping) or not room:
        raise _Unusual
    keywords = {key: value for key, value in cast("Mapping[str, object]", schema).items() if key not in SAYS_NOTHING}
    if not keywords:
        return _is_plain
    if keywords.keys() == {"anyOf"}:
        return _any(tuple(_test(one, room - 1) for one in _listed(keywords["anyOf"])))
    if keywords.keys() == {"enum"}:
        return _string(keywords)
    kind: object = keywords.pop("type", None)
    if isinstance(kind, list | tuple) and not keywords:
        return _any(tuple(_of_kind(one, {}, room) for one in cast("tuple[object, ...]", kind)))
    return _of_kind(cast(object, kind), keywords, room)


def _of_kind(kind: object, keywords: Mapping[str, object], room: int) -> Test:
    if not isinstance(kind, str) or kind not in OF_KIND or not keywords.keys() <= OF_KIND[kind]:
        raise _Unusual
    match kind:
        case "object":
            return _object(keywords, room)
        case "array":
            return _array(keywords, room)
        case "string":
            return _string(keywords)
        case "boolean":
            return _is_boolean
        case "null":
            return _is_null
        case _:
            return _number(keywords, whole=kind == "integer")


def _object(keywords: Mapping[str, object], room: int) -> Test:
    properties, more = keywords.get("properties", _EMPTY), keywords.get("additionalProperties", True)
    if not isinstance(properties, Mapping) or type(more) is not bool:
        raise _Unusual
    tests = {name: _test(one, room - 1) for name, one in cast("Mapping[str, object]", properties).items()}
    required = _words(keywords.get("required", ()))
    others = _is_plain if more else _never

    def holds(value: Any) -> bool:
        if type(value) is not FrozenDict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, item in cast("dict[object, object]", value).items():
            if type(name) is not str or not tests.get(name, others)(item):
                return False
        return True

    return holds


def _array(keywords: Mapping[str, object], room: int) -> Test:
    test = _test(keywords.get("items", _EMPTY), room - 1)
    least, most = _bounds(keywords, "minItems", "maxItems")

    def holds(value: Any) -> bool:
        if type(value) is not tuple:
            return False
        items = cast("tuple[object, ...]", value)
        return least <= len(items) <= most and all(map(test, items))

    return holds


def _string(keywords: Mapping[str, object]) -> Test:
    least, most = _bounds(keywords, "minLength", "maxLength")
    allowed = frozenset(_words(keywords["enum"])) if "enum" in keywords else None
    searches = _pattern(keywords["pattern"]) if "pattern" in keywords else None

    def holds(value: Any) -> bool:
        return (
            type(value) is str
            and least <= len(value) <= most
            and (allowed is None or value in allowed)
            and (searches is None or searches(value))
        )

    return holds


def _pattern(expression: object) -> Test:
    if not isinstance(expression, str):
        raise _Unusual
    try:
        return Regex(expression).search
    except RegexError:
        raise _Unusual from None


def _number(keywords: Mapping[str, object], *, whole: bool) -> Test:
    least, most = _bounds(keywords, "minimum", "maximum")
    fits = _is_integer if whole else _is_number
    return lambda value: fits(value) and least <= value <= most


def _bounds(keywords: Mapping[str, object], lower: str, upper: str) -> tuple[float, float]:
    least, most = keywords.get(lower, -math.inf), keywords.get(upper, math.inf)
    if type(least) not in (int, float) or type(most) not in (int, float):
        raise _Unusual
    return cast(float, least), cast(float, most)


def _listed(value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise _Unusual
    return tuple(cast("tuple[object, ...]", value))


def _words(value: object) -> tuple[object, ...]:
    words = _listed(value)
    if not all(isinstance(word, str) for word in words):
        raise _Unusual
    return words


def _any(tests: tuple[Test, ...]) -> Test:
    return lambda value: any(test(value) for test in tests)


def _is_plain(value: Any) -> bool:
    """A single value of the kinds that always can be recorded."""
    return type(value) is str or type(value) is bool or value is None or _is_number(value)


def _is_integer(value: Any) -> bool:
    return type(value) is int and -LARGEST_INTEGER <= value <= LARGEST_INTEGER


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (type(value) is float and math.isfinite(value))


def _is_boolean(value: Any) -> bool:
    return type(value) is bool


def _is_null(value: Any) -> bool:
    return value is None


def _never(_: Any) -> bool:
    return False
