"""How text reaches a terminal: escaped, so that nothing in it is obeyed, and cut to a line; and how JSON is printed."""

import json
import re
from datetime import UTC, datetime
from typing import Final

import msgspec

LINE: Final = 100
"""Characters of a line, where nobody says otherwise."""

YEAR_10000: Final = 253_402_300_800
"""Its beginning in seconds since the epoch; Python's dates end before it."""

_HARMLESS: Final = frozenset("\t\u00a0\u1680\u202f\u205f\u3000\u200c\u200d") | {chr(n) for n in range(0x2000, 0x200B)}
"""Spaces, and the joiners that emoji and some scripts need: not printable by the book, and obeyed by no terminal."""

_SPACES: Final = re.compile(r"\s+")
_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7e]")


def escaped(text: str) -> str:
    r"""`text` with all that a terminal would obey, or that would move its neighbours, written as `\x1b`; lines stay."""
    if text.isprintable():
        return text
    return "\n".join("".join(map(_shown, line)) for line in text.split("\n"))


def one_line(value: object, length: int = LINE) -> str:
    """A value on one line, escaped, cut to `length` characters; what is no text as JSON."""
    text = value if isinstance(value, str) else _json(value)
    text = escaped(_SPACES.sub(_space, text).rstrip())
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


def ends(text: str, length: int = LINE) -> str:
    """The first and the last line of a text, on one line, and how many there are."""
    lines = text.strip().splitlines()
    if len(lines) < 2:
        return one_line(text.strip(), length)
    count = f" ({len(lines)} lines)"
    half = max((length - len(count) - 3) // 2, 0)
    return f"{one_line(lines[0].strip(), half)} … {one_line(lines[-1].strip(), half)}{count}"


def quoted_block(text: str) -> str:
    """Foreign lines, escaped, each behind a bar, so that none can be taken for one of ours."""
    return "\n".join(f"  | {line}" for line in escaped(text.rstrip("\n")).split("\n"))


def seconds(duration: float) -> str:
    """A duration for people."""
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.1f} s"


def moment(at: float) -> str:
    """A time, in seconds since the epoch, for people: in UTC, to the second."""
    if at >= YEAR_10000:
        return "the year 10000 or later"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_text(value: object) -> str:
    r"""`value` as one JSON document on one line, in plain ASCII: exact, and nothing in it is obeyed by a terminal.

    Half of a surrogate pair, which UTF-8 has not, is escaped as all else is; a number of any size stands as it is.
    """
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
    return _NOT_PLAIN.sub(_unit, text)


def _shown(character: str) -> str:
    return character if character.isprintable() or character in _HARMLESS else repr(character)[1:-1]


def _space(run: re.Match[str]) -> str:
    """Spaces stay as they are; a run with a line end or a tab in it becomes one space."""
    return run[0] if not run[0].strip(" ") else " "


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _unit(character: re.Match[str]) -> str:
    units = character[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
