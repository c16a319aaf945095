"""Masks told values and published keys in one text (D§3.4).

It looks through UTF-8 bytes with RE2, which is linear in hostile text and lets go of the interpreter lock. It knows no
containers (the redaction walker does) and no key of its own: values, key patterns and fuzzy pairs are given to it.
"""

import base64
import functools
import importlib
import json
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final, Protocol, cast
from uuid import UUID

import msgspec

MASK: Final = "[redacted]"
"""What stands where a secret stood."""

_MASK_BYTES: Final = MASK.encode()
SHORTEST: Final = 4  # a told value with fewer characters would mask ordinary text
_CODED_FROM: Final = 8  # shorter values are looked for as written only: their coded forms are too common
_END: Final = 64  # characters of each end of a long value that it is known by
_BATCH: Final = 64  # rules in one automaton: many more would make its states outgrow RE2's memory
_ROUNDS: Final = 4  # a mask can complete another value with its neighbours, hardly ever twice
_EDGE: Final = 8192  # bytes at a cut within which the rest of a key is looked for

_LINE: Final = 16  # characters from which on a line of a told value is told by itself
_LINES: Final = 128  # so many of its lines: a large private key has fewer
_NUMERAL: Final = frozenset("0123456789abcdefABCDEF.+-")  # what numbers and UUIDs are written with
_LONGEST_NUMBER: Final = 8192  # bits; Python refuses to write much longer ones
_ESCAPED: Final = frozenset("\\\"'/")  # a backslash before one of these may be no part of a told value

_BEFORE_KEY: Final = (
    r"(?:\A|[^A-Za-z0-9]|%[0-9A-Fa-f]{2}|\\[abfnrtv]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\x1b\[[0-9;]*m)"
)
_AFTER_KEY: Final = r"(?:[^A-Za-z0-9]|\z)"
_BASE64: Final = b"[A-Za-z0-9+/_-]"


class KeyPattern(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of key that nobody mistakes for something else: a published prefix and an exact body. All are RE2."""

    name: str
    """A slug, for listings and tests."""
    prefix: str
    """How it begins; what a key that was cut off still shows."""
    body: str
    """The rest. Letters and digits next to the key mean that the text is no key."""
    chars: str = "A-Za-z0-9"
    """The characters of a body, as the inside of a class: so far goes a key that was cut off."""
    embedded: bool = False
    """Found within a longer word, too."""


class FuzzyPair(msgspec.Struct, frozen=True, kw_only=True):
    """A name and the value beside it, which may or may not be a secret. Both texts are RE2."""

    name: str
    """A slug, for listings and tests."""
    text: str
    """A pair inside a text, with exactly one group: what is masked."""
    key: str = ""
    """A whole key of a mapping or field of a struct, the text under which is masked; empty: none."""


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Automaton(Protocol):
    groups: int

    def search(self, text: bytes, pos: int | None = None) -> _Match | None: ...
    def fullmatch(self, text: bytes) -> _Match | None: ...


class TextMask:
    """One set of rules over text: masks what any of them finds, overlaps together."""

    def __init__(
        self,
        values: Iterable[str | bytes] = (),
        *,
        patterns: Iterable[KeyPattern] = (),
        fuzzy: Iterable[FuzzyPair] = (),
    ) -> None:
        """Raises ValueError for a rule that RE2 refuses, naming it; a value is named by its position alone."""
        told = list(dict.fromkeys(value for value in map(_as_text, values) if not is_ignored(value)))
        lines = list(dict.fromkeys(line for value in told for line in _lines_of(value)))
        self._values = (*told, *lines)
        patterns, fuzzy = tuple(patterns), tuple(fuzzy)
        strict = [
            *((f"secret {n}", _value_rule(value)) for n, value in enumerate(told)),
            *(("a line of a secret", _line_rule(line)) for line in lines),
            *((f"key pattern {p.name!r}", _key_rule(p, p.body, _AFTER_KEY)) for p in patterns),
        ]
        pairs = [(f"fuzzy pair {p.name!r}", p.text.encode()) for p in fuzzy]
        self._strict_checks = list(_together(strict))
        self._checks = [*self._strict_checks, *_together(pairs)]
        self._pairs = [_compiled(name, regex) for name, regex in pairs]
        self._names = [_compiled(f"key of {p.name!r}", b"(%b)" % p.key.encode()) for p in fuzzy if p.key]
        self._strict = strict
        self._patterns = patterns
        self.has_names: Final = bool(self._names)
        """Whether there are names under which all text is masked."""
        self.is_named: Final = functools.lru_cache(4096)(self._find_name)
        """Whether all text under this key or field is masked."""
        self._numerals = tuple(v for v in self._values if isinstance(v, str) and _NUMERAL.issuperset(v))
        self.has_numerals: Final = bool(self._numerals)
        """Whether a told value could come as a number or a UUID."""

    def __bool__(self) -> bool:
        return bool(self._checks)

    def touches(self, data: bytes) -> bool:
        """Whether a rule finds something, maybe only what is masked already. False is certain."""
        return _any_finds(self._checks, data)

    def mask(self, text: str) -> str:
        """`text` with everything masked; the same object when there was nothing. Lone surrogates pass."""
        data = text.encode("utf-8", "surrogatepass")
        masked = self._masked(data, whole_chars=True)
        return text if masked is data else masked.decode("utf-8", "surrogatepass")

    def mask_bytes(self, data: bytes) -> bytes:
        """As `mask`."""
        return self._masked(data, whole_chars=False)

    def is_numeral(self, value: object, *, short: bool = True) -> bool:
        """Whether this number or UUID shows a told value when it is written.

        A told value under 8 characters must be all of it, and counts only when `short`: any number may hold 4 digits.
        """
        return any(
            told == text or (len(told) >= _CODED_FROM and told in text)
            for text in _written(value)
            for told in self._numerals
            if short or len(told) >= _CODED_FROM
        )

    def mask_cut(self, text: str, *, start: bool = False, end: bool = True) -> str:
        """As `mask`, for a text that was cut at its start or end: half a told value or key there is masked, too.

        Half a value counts from 4 characters on, half a key from its prefix and 4 characters on (at the end only:
        without its prefix nobody can tell).
        """
        masked = self.mask(text)
        data = masked.encode("utf-8", "surrogatepass")
        spellings = self._all_spellings
        if end:
            shown = max((_shown_at_end(data, spelling) for spelling in spellings), default=0)
            kept = min(len(data) - shown, self._start_of_cut_key(data))
            data = data if kept == len(data) else data[:kept] + _MASK_BYTES
        if start and (hidden := max((_shown_at_start(data, spelling) for spelling in spellings), default=0)):
            data = _MASK_BYTES + data[hidden:]
        return data.decode("utf-8", "surrogatepass")

    @functools.cached_property
    def _rules(self) -> list["_Automaton"]:
        return [*(_compiled(name, regex) for name, regex in self._strict), *self._pairs]

    @functools.cached_property
    def _all_spellings(self) -> list[bytes]:
        return [spelling for value in self._values for spelling in _spellings(value)]

    @functools.cached_property
    def _cuts(self) -> list["_Automaton"]:
        return [_compiled(f"cut {p.name!r}", _key_rule(p, f"[{p.chars}]{{4,}}", r"\z")) for p in self._patterns]

    def _find_name(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        data = key.encode("utf-8", "surrogatepass")
        return any(name.fullmatch(data) for name in self._names)

    def _start_of_cut_key(self, data: bytes) -> int:
        offset = max(0, len(data) - _EDGE)
        found = [match.span(1)[0] for cut in self._cuts if (match := cut.search(data[offset:]))]
        return offset + min(found, default=len(data) - offset)

    def _masked(self, data: bytes, *, whole_chars: bool) -> bytes:
        checks = self._checks
        for _ in range(_ROUNDS):
            if not _any_finds(checks, data):
                return data
            spans = _merged(self._found(data))
            masked = b"".join(_pieces(data, spans, whole_chars=whole_chars))
            if masked == data:
                return data
            data, checks = masked, self._strict_checks  # a pair is found again when it is masked
        return data

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where something is. What is found as it was told is found without the automaton: 20 times as fast."""
        values = iter(self._values)
        for rule in self._rules:
            value = next(values, None)  # the rules of the values come first
            text = data
            if isinstance(value, str) and _ESCAPED.isdisjoint(value) and len(value) <= 2 * _END:
                raw = _as_bytes(value)
                yield from _occurrences(raw, data)
                text = data.replace(raw, bytes(len(raw)))
            yield from _spans(rule, text)


def _any_finds(checks: Iterable[_Automaton], data: bytes) -> bool:
    return any(check.search(data) is not None for check in checks)


def is_ignored(value: str | bytes) -> bool:
    """Whether a told value is not looked for: under 4 characters, only spaces, or a part of the mask itself."""
    text = _as_text(value)
    return len(text) < SHORTEST or not text.strip() or _as_bytes(text) in _MASK_BYTES


def _together(rules: Sequence[tuple[str, bytes]]) -> Iterator[_Automaton]:
    """Automata that say in one search whether any rule finds something."""
    for at in range(0, len(rules), _BATCH):
        batch = rules[at : at + _BATCH]
        try:
            yield _compiled("a batch", b"|".join(b"(?:%b)" % regex for _, regex in batch), check=True)
        except ValueError:
            for name, regex in batch:
                _compiled(name, regex)
            raise


def _spans(rule: _Automaton, data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while match := rule.search(data, at):
        start, end = match.span(1)
        if start < end:
            yield start, end
        at = max(end, at + 1)


def _occurrences(raw: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(raw)
    while at >= 0:
        end = at + len(raw)
        yield at, end
        at = data.find(raw, end)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pieces(data: bytes, spans: Sequence[tuple[int, int]], *, whole_chars: bool) -> Iterator[bytes]:
    at = 0
    for first, last in spans:
        start, end = _whole_chars(data, first, last) if whole_chars else (first, last)
        yield data[at:start]
        yield _MASK_BYTES
        at = end
    yield data[at:]


def _whole_chars(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The span, wider where it begins or ends inside a character, as that of a told value of odd bytes can."""
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _compiled(name: str, regex: bytes, *, check: bool = False) -> _Automaton:
    re2 = importlib.import_module("re2")  # 8 ms, and untyped: only where there is something to look for
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False  # RE2 would print the regex, which is the secret
    options.max_mem = 64 << 20
    options.never_capture = check
    try:
        automaton = cast(_Automaton, re2.compile(regex, options))
    except re2.error as error:
        raise ValueError(f"{name} cannot be looked for: {error}") from None
    if not check and automaton.groups != 1:
        raise ValueError(f"{name} has {automaton.groups} groups; it needs exactly one, around what is masked")
    return automaton


def _key_rule(pattern: KeyPattern, body: str, after: str) -> bytes:
    before = "" if pattern.embedded else _BEFORE_KEY
    return f"{before}((?:{pattern.prefix})(?:{body})){after}".encode()


def _lines_of(value: str | bytes) -> list[str | bytes]:
    """The lines of a told value that are told by themselves, for tools show lines with something between them."""
    lines = [line.strip() for line in value.splitlines()]
    frame: tuple[str | bytes, ...] = ("-----", b"-----")
    return [line for line in lines if len(line) >= _LINE and line[:5] not in frame][:_LINES] if len(lines) > 1 else []


def _written(value: object) -> tuple[str, ...]:
    """How a number or a UUID is written, maybe."""
    match value:
        case bool():
            return ()
        case int():
            return (int.__repr__(value),) if value.bit_length() <= _LONGEST_NUMBER else ()
        case float():
            return (float.__repr__(value),)
        case Decimal():
            return (Decimal.__str__(value),)
        case UUID():
            return (UUID.__str__(value), value.hex)
        case _:
            return ()


def _as_text(value: str | bytes) -> str | bytes:
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError:
        return value


def _as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def _value_rule(value: str | bytes) -> bytes:
    """A told value in all its forms; of a long one the two ends and whatever is between."""
    if len(value) < _CODED_FROM:
        return b"(%b)" % _literal(_as_bytes(value))
    if len(value) <= 2 * _END:
        return b"(%b)" % b"|".join(_forms(value))
    ends = zip(_forms(value[:_END]), _forms(value[-_END:]), strict=True)
    return b"(%b)" % b"|".join(b"(?:%b)(?s:.*?)(?:%b)" % pair for pair in ends)


def _line_rule(line: str | bytes) -> bytes:
    """A line of a told value in the forms in which lines are shown: there may be many of them."""
    return b"(%b)" % b"|".join(map(_literal, sorted(set(_shown_forms(line)), key=len, reverse=True)))


def _forms(value: str | bytes) -> Iterator[bytes]:
    raw = _as_bytes(value)
    units = value if isinstance(value, str) else [bytes([byte]) for byte in value]
    yield b"".join(_any_spelling(unit) for unit in units)
    yield _hex(raw.hex())
    yield b"|".join(_base64_rules(raw))
    wide = "utf-16-le", "utf-16-be"
    yield b"|".join(_literal(value.encode(code, "surrogatepass") if isinstance(value, str) else raw) for code in wide)
    yield _literal(value.encode("latin-1") if isinstance(value, str) and _is_latin(value) else raw)


def _is_latin(text: str) -> bool:
    return all(char < "\u0100" for char in text)


def _any_spelling(unit: str | bytes) -> bytes:
    r"""One character, as written, URL-coded (once or more often) or escaped (`\n`, `\u00e9`, `\xe9`), at any depth.

    One that is not ASCII also as its bytes are escaped (`\xc3\xa9`, `\303\251`).
    """
    raw = _as_bytes(unit)
    ways = [b"".join(b"%%(?:25)*%b" % _hex(f"{byte:02x}") for byte in raw)]
    if unit == " ":
        ways.append(rb"\+")
    if isinstance(unit, str):
        utf16 = unit.encode("utf-16-be", "surrogatepass").hex()
        ways.append(b"".join(rb"\\+u" + _hex(utf16[at : at + 4]) for at in range(0, len(utf16), 4)))
    if len(raw) > 1:  # before the shorter form, that may begin these
        ways.append(b"".join(rb"\\+x" + _hex(f"{byte:02x}") for byte in raw))
        ways.append(b"".join(rb"\\+%03o" % byte for byte in raw))
    if len(unit) == 1 and ord(unit) < 256:
        ways.append(rb"\\+x" + _hex(f"{ord(unit):02x}"))
    if (short := _SHORT_ESCAPES.get(raw)) is not None:
        ways.append(short)
    return b"(?:%b)" % b"|".join((*ways, _literal(raw)))  # last, for it may begin one of the others


_SHORT_ESCAPES: Final = {
    **{
        bytes([ord(char)]): rb"\\+" + letter
        for char, letter in zip("\b\f\n\r\t", (b"b", b"f", b"n", b"r", b"t"), strict=True)
    },
    **{char: rb"\\+" + char for char in (b'"', b"'", b"/")},
    b"\\": rb"\\+",
}


def _literal(data: bytes) -> bytes:
    return b"".join(bytes([byte]) if chr(byte).isalnum() and byte < 128 else b"\\x%02x" % byte for byte in data)


def _hex(digits: str) -> bytes:
    return "".join(d if d.isdigit() else f"[{d}{d.upper()}]" for d in digits).encode()


def _base64_rules(raw: bytes) -> Iterator[bytes]:
    """What base64 of any text that holds `raw` must hold, one for each alignment, wrapped lines included."""
    special = {ord("+"): rb"(?:[+-]|%2[Bb]|\\+u002[Bb])", ord("/"): rb"(?:[/_]|\\+/|%2[Ff]|\\+u002[Ff])"}
    for core, alone in _base64_cores(raw):
        chars = rb"(?:\\+[rn]|[\r\n])*".join(special.get(char, bytes([char])) for char in core)
        before = b"" if alone else _BASE64 + b"?"
        yield before + chars + _BASE64 + b"?(?:=|%3[Dd]){0,2}"


def _base64_cores(raw: bytes) -> Iterator[tuple[bytes, bool]]:
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + raw)
        yield coded[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6], shift == 0


def _spellings(value: str | bytes) -> Iterator[bytes]:
    """The usual forms of a told value as literals, for what a cut left of them."""
    raw = _as_bytes(value)
    if len(value) < _CODED_FROM:
        yield raw
        return
    yield from _shown_forms(value)
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    for core, _ in _base64_cores(raw):
        yield from (core, core.translate(bytes.maketrans(b"+/", b"-_")))


def _shown_forms(value: str | bytes) -> Iterator[bytes]:
    raw = _as_bytes(value)
    yield raw
    yield from (urllib.parse.quote(raw, safe=safe).encode() for safe in ("", "/"))
    yield urllib.parse.quote_plus(raw).encode()
    if isinstance(value, str):
        yield from (_as_bytes(json.dumps(value, ensure_ascii=ascii)[1:-1]) for ascii in (True, False))


def _shown_at_end(data: bytes, spelling: bytes) -> int:
    """How much of the end of `data` is the beginning of `spelling`."""
    last = data[-SHORTEST:]
    at = spelling.rfind(last, 0, min(len(spelling) - 1, _EDGE)) if len(last) == SHORTEST else -1
    while at >= 0 and not data.endswith(spelling[: at + SHORTEST]):
        at = spelling.rfind(last, 0, at + SHORTEST - 1)
    return at + SHORTEST if at >= 0 else 0


def _shown_at_start(data: bytes, spelling: bytes) -> int:
    """How much of the start of `data` is the ending of `spelling`."""
    first = data[:SHORTEST]
    at = spelling.find(first, max(1, len(spelling) - _EDGE)) if len(first) == SHORTEST else -1
    while at >= 0 and not data.startswith(spelling[at:]):
        at = spelling.find(first, at + 1)
    return len(spelling) - at if at >= 0 else 0
