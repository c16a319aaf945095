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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, cast

import msgspec

from tenter.config.document import LARGEST, Broken, Listing, Node, Scalar, parse
from tenter.config import document
from tenter.config.problem import ConfigError, KeyPath, Position, Problem, did_you_mean
from tenter.harness.regex import Regex, RegexError
from tenter.kernel import FrozenDict, freeze

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


class Step(msgspec.Struct, frozen=True):
    """One turn of the conversation: the alternatives for it, in order, and where they stand."""

    turns: tuple[Turn, ...]
    where: Position


class _Top(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1]
    turns: tuple[object, ...]


def load_script(path: Path) -> tuple[Step, ...]:
    """The steps of the script at `path`. Raises ConfigError with what is wrong, one problem a turn."""
    return parse_script(_read(path), str(path))


def parse_script(data: bytes, file: str) -> tuple[Step, ...]:
    """What `load_script` makes of a file that holds `data` and is called `file`."""
    parsed = parse(data, file)
    if parsed.root is None or parsed.problems:
        raise ConfigError(parsed.problems)
    places: dict[KeyPath, Position] = {}
    reader = _Reader(file, places)
    top = reader.read(_plain(parsed.root, (), places), _Top, ())
    steps = [reader.step(value, ("turns", index)) for index, value in enumerate(top.turns if top else ())]
    if top is not None and not steps:
        reader.report(("turns",), "expected a list of at least one turn", "write the model's first answer")
    if reader.problems:
        raise ConfigError(reader.problems)
    return tuple(steps)


class _Reader:
    """Turns plain values into structs and gathers what does not fit."""
