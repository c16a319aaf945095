"""A script for the scripted model: YAML read strictly, every mistake with file, line and column.

version: 1
turns:
  - text: I look first.
    tool_calls: [{name: read_file, arguments: {path: a.py}}]
    usage: {input_tokens: 10, output_tokens: 5}
  - - when: {tool: shell, is_error: true, contains: refused}      # alternatives: the first that fits is taken
      tool_calls: [{name: edit, arguments: {…}}]
    - text: Done.
  - Done.                                                          # short for {text: Done.}
"""

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, assert_never, cast

import msgspec

from tenter.config import ConfigError, KeyPath, Position, Problem, document, nearest
from tenter.kernel import FrozenDict, Regex, RegexError, freeze

T = TypeVar("T")

Tokens = Annotated[int, msgspec.Meta(ge=0)]


class CallLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call. `arguments` as text stands for a model that gave no object; `id` None: `call-<turn>-<n>`."""

    name: str
    arguments: Mapping[str, object] | str = FrozenDict()
    id: str | None = None


class UsageLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold of the last tool result since the model's last answer (of `tool`, if named)."""

    tool: str | None = None
    is_error: bool | None = None
    contains: str | None = None
    matches: str | None = None
    """An expression of RE2, looked for anywhere in the result."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of the model. `cost_usd` None: not known."""

    text: str = ""
    tool_calls: tuple[CallLine, ...] = ()
    usage: UsageLine = UsageLine()
    cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    when: When | None = None


class Alternatives(msgspec.Struct, frozen=True):
    """One turn of the conversation: the alternatives for it, in order, and where they stand."""

    turns: tuple[Turn, ...]
    where: Position


class _Top(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1]
    turns: tuple[object, ...]


def load_script(path: Path) -> tuple[Alternatives, ...]:
    """The steps of the script at `path`. Raises ConfigError: all that is wrong with the YAML, or one problem a turn."""
    return parse_script(_read(path), str(path))


def parse_script(data: bytes, file: str) -> tuple[Alternatives, ...]:
    """What `load_script` makes of a file that holds `data` and is called `file`."""
    parsed = document.parse(data, file)
    if parsed.root is None or parsed.problems:
        raise ConfigError(parsed.problems)
    reader = _Reader(file)
    top = reader.read(reader.plain(parsed.root, ()), _Top, ())
    steps = [reader.step(value, ("turns", index)) for index, value in enumerate(top.turns if top else ())]
    if top is not None and not steps:
        reader.report(("turns",), "expected at least one turn", "write the model's first answer")
    if reader.problems:
        raise ConfigError(reader.problems)
    return tuple(steps)


class _Reader:
    """Turns the tree of a file into structs; keeps the place of every value and gathers what does not fit."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._places: dict[KeyPath, Position] = {}
        self._file = file

    def plain(self, node: document.Node, path: KeyPath) -> object:
        """The value at `node` as lists, dicts, text and numbers."""
        self._places.setdefault(path, node.where)
        match node:
            case document.Scalar():
                return node.value
            case document.Listing():
                return [self.plain(item, (*path, index)) for index, item in enumerate(node.items)]
            case document.Mapping():
                for entry in node.entries:
                    self._places[(*path, entry.key)] = entry.where
                return {entry.key: self.plain(entry.node, (*path, entry.key)) for entry in node.entries}
            case document.Broken():
                return None
            case _:
                assert_never(node)

    def step(self, value: object, path: KeyPath) -> Alternatives:
        """One item of `turns`: a turn, text as the short form of one, or a list of alternatives."""
        is_list = isinstance(value, tuple)
        listed = cast("tuple[object, ...]", value) if is_list else (value,)
        turns: list[Turn | None] = []
        for index, one in enumerate(listed):
            place = (*path, index) if is_list else path
            turns.append(Turn(text=one) if isinstance(one, str) else self.read(one, Turn, place))
            self._check_expression(turns[-1], place)
            if index + 1 < len(listed) and turns[-1] is not None and turns[-1].when is None:
                self.report(place, "this turn is always taken, so those after it never are", "give it a 'when'")
        if not listed:
            self.report(path, "expected at least one alternative, got an empty list", "write a turn")
        return Alternatives(tuple(turn for turn in turns if turn is not None), self._where(path))

    def read(self, value: object, kind: type[T], path: KeyPath) -> T | None:
        """`value` as `kind`; None, with a problem reported, where it does not fit."""
        try:
            return freeze(msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            message, _, at = str(error).partition(" - at `$")
            inner = (*path, *_steps(at.removesuffix("`")))
            self._report_misfit(message, inner, kind)
            return None

    def report(self, path: KeyPath, message: str, hint: str = "") -> None:
        self.problems.append(Problem(where=self._where(path), path=path, message=message, hint=hint))

    def _report_misfit(self, message: str, path: KeyPath, kind: type[object]) -> None:
        if unknown := _UNKNOWN.match(message):
            keys = _keys_at(kind, path)
            near = nearest(unknown[1], keys)
            hint = f"did you mean {near!r}?" if near else f"the keys here are {', '.join(keys)}"
            self.report((*path, unknown[1]), f"unknown key {unknown[1]!r}", hint)
        elif missing := _MISSING.match(message):
            self.report(path, f"the key {missing[1]!r} is missing")
        elif path == ("version",):
            self.report(path, "expected 1, the version of this format")
        else:
            words = _TYPE.sub(lambda found: " or ".join(_WORDS.get(one, one) for one in found[1].split(" | ")), message)
            self.report(path, words[:1].lower() + words[1:])

    def _check_expression(self, turn: Turn | None, path: KeyPath) -> None:
        if turn is None or turn.when is None or turn.when.matches is None:
            return
        try:
            Regex(turn.when.matches)
        except RegexError as error:
            self.report((*path, "when", "matches"), f"RE2 does not take this expression: {error}")

    def _where(self, path: KeyPath) -> Position:
        while path and path not in self._places:
            path = path[:-1]
        return self._places.get(path, Position(self._file))


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_TYPE = re.compile(r"`([^`]*)`")
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "str": "text",
}
_STEP = re.compile(r"\.([A-Za-z_]+)|\[(\d+)\]|\[\.\.\.\]")


def _steps(path: str) -> KeyPath:
    """msgspec's way to a value (`.tool_calls[0].name`) as ours; it does not tell the key inside a free mapping."""
    return tuple(int(m[2]) if m[2] is not None else m[1] for m in _STEP.finditer(path) if m[1] or m[2] is not None)


def _keys_at(kind: type[object], path: KeyPath) -> tuple[str, ...]:
    """The keys that may stand at `path`, going by the last key of it that says what is there."""
    kinds: dict[str | int, type[object]] = {"tool_calls": CallLine, "usage": UsageLine, "when": When}
    found = next((kinds[step] for step in reversed(path) if step in kinds), kind)
    return tuple(field.encode_name for field in msgspec.structs.fields(cast("Any", found)))


def _read(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError([_unreadable(path, "this is not a regular file")])
        with path.open("rb") as file:
            return file.read(document.LARGEST + 1)
    except OSError as error:
        raise ConfigError([_unreadable(path, f"the script cannot be read: {error.strerror}")]) from None


def _unreadable(path: Path, message: str) -> Problem:
    return Problem(where=Position(str(path)), message=message, hint="name the script's file under 'models'")
