"""One JSON value, exactly, out of bytes that another process wrote; or the place where they are none (FAULTS 8, 9).

Readers of JSON forgive: they keep the last of two equal keys, take NaN, round large numbers. Here each of these is the
failure of whoever wrote it. It knows nothing of verdicts.
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Final, cast

from tenter.kernel import HookFailure

MAX_LEVELS: Final = 100
"""How deep objects and arrays may nest: half of what the journal takes, so that what is around them has room."""

MAX_INTEGER: Final = 2**53 - 1
"""Whole numbers past it are rounded by other readers (D§10)."""

_STRING: Final = r'"(?:[^"\\]++|\\.)*+'
_STRINGS: Final = re.compile(_STRING + r'(?:"|\\?\Z)', re.DOTALL)
_TOKENS: Final = re.compile(_STRING + r'"|[{}]|[-+.\w]+', re.DOTALL)
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_STEPS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_COLON: Final = re.compile(r"[ \t\n\r]*:")
_SHOWN_CHARACTERS: Final = 60


def one_object(data: bytes) -> dict[str, object]:
    """The one JSON object that `data` is, white space around it allowed, with lists and dicts inside.

    Raises HookFailure (`bad_output`) for anything else, naming the byte or the key path: bytes that are no UTF-8, a
    byte order mark, NUL, text before or after the object, a key that stands twice at any depth (both places are named),
    NaN, infinities, numbers that would be rounded, half surrogate pairs, more than 100 levels. It takes 10 ns a byte of
    long text and up to 300 ns a byte of tiny values: above some 64 KB an event loop calls it in a thread.
    """
    try:
        value = one_value(data)
    except NotJson as error:
        raise _bad(str(error)) from None
    if not isinstance(value, dict):
        raise _bad(f"it is {_KINDS[type(value)]}")
    return cast("dict[str, object]", value)


def one_value(data: bytes) -> object:
    """The one JSON value that `data` is, as strictly as `one_object`. Raises NotJson."""
    text = _text(data)
    _check_levels(text)
    try:
        value: object = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} {_at(text, error.pos)}") from None
    except _Unreadable as error:
        raise NotJson(f"{error.literal} {error.why} {_at(text, _first(text, error.literal))}") from None
    except _Repeated:
        raise NotJson(_both_places(text)) from None
    if r"\ud" in text.lower() and (path := next(_halves(value, ""), None)) is not None:
        raise NotJson(f"the text{f' at {shown(path)}' if path else ''} holds half a surrogate pair")
    return value


def shown(text: str) -> str:
    """`text` as an error may name it: in quotes, escaped, not at length."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


_KINDS: Final[dict[type, str]] = {
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    list: "an array",
    type(None): "null",
}


class NotJson(Exception):
    """Bytes that are not exactly one JSON value; the text says what was found, and where."""


class _Unreadable(Exception):
    """Something that stands where a number may and is none here."""

    def __init__(self, literal: str, why: str) -> None:
        super().__init__(literal)
        self.literal = literal if len(literal) <= _SHOWN_CHARACTERS else literal[:_SHOWN_CHARACTERS]
        self.why = why


class _Repeated(Exception):
    """An object has a key twice."""


def _bad(found: str) -> HookFailure:
    return HookFailure("bad_output", f"the answer must be exactly one JSON object, but {found}")


def _text(data: bytes) -> str:
    if not data.strip(b" \t\r\n"):
        raise NotJson("it is empty")
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotJson("it begins with a byte order mark (byte 0)")
    if (nul := data.find(b"\0")) >= 0:
        raise NotJson(f"it holds NUL (byte {nul})")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotJson(f"it is not UTF-8 (byte {error.start}: {error.reason})") from None


def _check_levels(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_LEVELS:
        return
    levels = accumulate(map(_STEPS.__getitem__, _BRACKETS.findall(_STRINGS.sub("", text))))
    too_deep = next((number for number, level in enumerate(levels) if level > MAX_LEVELS), None)
    if too_deep is not None:
        same_places = _STRINGS.sub(lambda string: " " * len(string[0]), text)
        bracket = next(islice(_BRACKETS.finditer(same_places), too_deep, None))
        raise NotJson(f"it nests more than {MAX_LEVELS} levels {_at(text, bracket.start())}")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Repeated
    return found


def _integer(literal: str) -> int:
    if len(literal) > 17 or abs(value := int(literal)) > MAX_INTEGER:
        raise _Unreadable(literal, "is past 2^53-1, where other readers round; write it as text")
    return value


def _fraction(literal: str) -> float:
    if math.isinf(value := float(literal)):
        raise _Unreadable(literal, "is too large for a number")
    return value


def _constant(literal: str) -> object:
    raise _Unreadable(literal, "is no JSON value")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def _at(text: str, position: int) -> str:
    return f"({_line_and_byte(text, position)})"


def _line_and_byte(text: str, position: int) -> str:
    before = text[:position]
    return f"line {before.count(chr(10)) + 1}, byte {len(before.encode())}"


def _first(text: str, literal: str) -> int:
    return next((token.start() for token in _TOKENS.finditer(text) if token[0].startswith(literal)), 0)


def _both_places(text: str) -> str:
    open_objects: list[dict[str, int]] = []
    for token in _TOKENS.finditer(text):
        match token[0]:
            case "{":
                open_objects.append({})
            case "}":
                open_objects.pop()
            case quoted if quoted[0] == '"' and _COLON.match(text, token.end()):
                key = json.loads(quoted)
                first = open_objects[-1].setdefault(key, token.start())
                if first != token.start():
                    places = _line_and_byte(text, first), _line_and_byte(text, token.start())
                    return f"the key {shown(key)} stands twice in one object ({places[0]}; {places[1]})"
            case _:
                continue
    return "a key stands twice in one object"


def _halves(value: object, path: str) -> Iterator[str]:
    """The paths of texts with half a surrogate pair. Python keeps it, UTF-8 has no form for it."""
    if isinstance(value, str):
        if not value.isascii() and value.encode(errors="replace").decode() != value:
            yield path
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            below = f"{path}.{key}" if path else key
            yield from _halves(key, below)
            yield from _halves(item, below)
    elif isinstance(value, list):
        for place, item in enumerate(cast("list[object]", value)):
            yield from _halves(item, f"{path}[{place}]")
