"""What is wrong in a configuration file, and where: values that render as one line each.

Knows nothing of YAML or of the keys of `tenter.yaml`. Whatever a file says may end up on a terminal, so rendering
escapes everything that does not print (control characters, bidi marks, U+2028).
"""

import difflib
import re
from collections.abc import Iterable

import msgspec

from tenter.kernel import TenterError

KeyPath = tuple[str | int, ...]
"""The way to a value from the root of the file: keys, and indexes of list items from 0."""

LONGEST_QUOTE = 60
LONGEST_GUESS = 100

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Position(msgspec.Struct, frozen=True):
    """A place in a file. Line and column count characters from 1; line 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return printable(f"{self.file}:{self.line}:{self.column}" if self.line else self.file)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong: `message` says what was expected and what stands there, `hint` what to do about it."""

    where: Position
    path: KeyPath = ()
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: at {render_path(self.path)}" if self.path else str(self.where)
        return printable(f"{place}: {self.message}; {self.hint}" if self.hint else f"{place}: {self.message}")


class Unresolved(msgspec.Struct, frozen=True):
    """Why something that a file names cannot be used: the message and the hint of a problem that has no place yet."""

    message: str
    hint: str = ""


class ConfigError(TenterError):
    """The configuration cannot be used. `problems` holds everything that is wrong with it, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.where.file, p.where.line, p.where.column)))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def render_path(path: KeyPath) -> str:
    """The path as people write it: `hooks.events.tool.before[0].timeout_seconds`; unusual keys in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{quoted(step)}]"
    return text


def printable(text: str) -> str:
    r"""`text` with what does not print, or would move what stands beside it, written as an escape such as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def quoted(text: str) -> str:
    """`text` in quotes on one line, escaped, and cut where it is long."""
    if len(text) > LONGEST_QUOTE:
        return f"{text[:LONGEST_QUOTE]!r}… ({len(text)} characters)"
    return repr(text)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `word` most likely means, if any is near; letter case, `-` and `_` do not matter."""
    if len(word) > LONGEST_GUESS:
        return None
    by_plain = {name.lower().replace("-", "_"): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(by_plain), n=1, cutoff=0.6)
    return by_plain[close[0]] if close else None
