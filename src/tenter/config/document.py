"""Strict YAML into a tree that knows the line and column of every key and value.

Works on the parser's events and builds the tree without recursion, so that nothing in a file can make it slow, big or
deep: no aliases, no merge keys, no tags, no second document, bounded size, depth and number of values (FAULTS 52).
Words stay words (FAULTS 54): only `true`, `false`, `null`, decimal integers and plain decimal fractions become values.
Knows nothing of the keys of `tenter.yaml`.
"""

import contextlib
import re
from collections.abc import Generator
from typing import Final, cast

import msgspec
import yaml
from yaml import events

from tenter.config.problem import KeyPath, Position, Problem, quoted

LARGEST: Final = 1 << 20
"""The longest file that is read, in bytes."""
DEEPEST: Final = 32
"""How many lists and mappings may stand inside each other."""
MOST_VALUES: Final = 10_000
"""How many keys, values and items one file may hold."""

Plain = str | int | float | bool | None

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,30}")
_WORDS: dict[str, Plain] = {"true": True, "false": False, "null": None, "": None}

# The complement of what YAML allows, and what it reads as a line break or what reorders the text around it.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


class Scalar(msgspec.Struct, frozen=True, kw_only=True):
    """A single value: `text` as written (without its quotes), `value` as read."""

    text: str
    value: Plain
    where: Position


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A list."""

    items: "tuple[Node, ...]"
    where: Position


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a mapping and its value; `where` is the key's place."""

    key: str
    node: "Node"
    where: Position


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping; no key stands in it twice."""

    entries: tuple[Entry, ...]
    where: Position


class Broken(msgspec.Struct, frozen=True):
    """Stands for a value that was reported already, so that nothing else is said about it."""

    where: Position


Node = Scalar | Listing | Mapping | Broken


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What could be read, and everything that was wrong on the way. `root` is None where reading had to stop."""

    root: Node | None
    problems: tuple[Problem, ...] = ()


def parse(data: bytes, file: str) -> Document:
    """The tree of one YAML document. `file` is the name that positions carry. Never raises for what `data` holds."""
    text = _decode(data, file)
    if isinstance(text, Problem):
        return Document(root=None, problems=(text,))
    builder = _Builder(file)
    # Closed early, the event stream gives its memory back at once.
    with contextlib.closing(_stream(text)) as stream:
        try:
            for event in stream:
                builder.take(event)
        except _Stop as stop:
            return Document(root=None, problems=(*builder.problems, stop.problem))
        except yaml.YAMLError as error:
            return Document(root=None, problems=(*builder.problems, _syntax(error, text, file)))
    if builder.root is None:
        empty = Problem(where=Position(file), message="the file is empty", hint="begin with 'version: 1'")
        return Document(root=None, problems=(empty,))
    return Document(root=builder.root, problems=tuple(builder.problems))


class _Stop(Exception):
    """Reading on would be pointless or dear."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem


class _OpenList:
    def __init__(self, where: Position) -> None:
        self.where = where
        self.items: list[Node] = []

    def step(self) -> str | int:
        return len(self.items)

    def add(self, node: Node) -> None:
        self.items.append(node)

    def close(self) -> Node:
        return Listing(items=tuple(self.items), where=self.where)


class _OpenMapping:
    """Takes keys and values in turn; the value of a refused key is read and dropped."""

    def __init__(self, where: Position) -> None:
        self.where = where
        self.entries: dict[str, Entry] = {}
        self.key: Scalar | Broken | None = None

    def step(self) -> str | int:
        return self.key.text if isinstance(self.key, Scalar) else "?"

    def add(self, node: Node) -> None:
        if isinstance(self.key, Scalar):
            self.entries[self.key.text] = Entry(key=self.key.text, node=node, where=self.key.where)
        self.key = None

    def close(self) -> Node:
        return Mapping(entries=tuple(self.entries.values()), where=self.where)


class _Builder:
    """Turns events into nodes, one at a time."""

    def __init__(self, file: str) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._file = file
        self._open: list[_OpenList | _OpenMapping] = []
        self._count = 0

    def take(self, event: events.Event) -> None:
        where = _position(self._file, event.start_mark)
        match event:
            case events.ScalarEvent():
                self._add(self._scalar(event, where))
            case events.AliasEvent():
                self._report(where, "an alias (*name) is not taken here", "write the value out, or put text in quotes")
                self._add(Broken(where))
            case events.SequenceStartEvent():
                self._begin(_OpenList(where), event)
            case events.MappingStartEvent():
                self._begin(_OpenMapping(where), event)
            case events.SequenceEndEvent() | events.MappingEndEvent():
                self._add(self._open.pop().close())
            case events.DocumentStartEvent():
                self._document(event, where)
            case _:
                pass  # where the stream begins and where it and the document end says nothing

    def _document(self, event: events.DocumentStartEvent, where: Position) -> None:
        if event.version or event.tags:
            self._report(where, "a directive (%YAML, %TAG) is not taken here", "remove it")
        if self.root is not None:
            raise _Stop(self._problem(where, "a second document begins here", "one file holds one document"))

    def _scalar(self, event: events.ScalarEvent, where: Position) -> Node:
        self._refuse_marks(event, where)
        if event.tag is not None:
            return Broken(where)
        plain = event.style is None or event.style == ""
        return Scalar(text=event.value, value=_read(event.value) if plain else event.value, where=where)

    def _begin(self, opened: _OpenList | _OpenMapping, event: events.CollectionStartEvent) -> None:
        self._refuse_marks(event, opened.where)
        if len(self._open) == DEEPEST:
            deep = f"more than {DEEPEST} levels inside each other"
            raise _Stop(self._problem(opened.where, deep, "flatten the file"))
        self._open.append(opened)

    def _add(self, node: Node) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise _Stop(self._problem(node.where, f"more than {MOST_VALUES} keys and values", "make the file smaller"))
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if isinstance(parent, _OpenMapping) and parent.key is None:
            parent.key = self._key(node, parent)
        else:
            parent.add(node)

    def _key(self, node: Node, parent: _OpenMapping) -> Scalar | Broken:
        if isinstance(node, Broken):
            return node
        if not isinstance(node, Scalar):
            self._report(node.where, "a key must be text, not a list or a mapping", "write a plain word")
        elif node.text == "<<" == node.value:
            self._report(node.where, "a merge key (<<) is not taken here", "write the keys out")
        elif not isinstance(node.value, str):
            self._report(node.where, f"a key must be text, got {node.text or 'nothing'}", "put it in quotes")
        elif first := parent.entries.get(node.text):
            again = f"the key {quoted(node.text)} stands here again; it stands first at line {first.where.line}"
            path = (*self._path()[:-1], node.text)
            self.problems.append(Problem(where=node.where, path=path, message=again, hint="keep one of the two"))
        else:
            return node
        return Broken(node.where)

    def _refuse_marks(self, event: events.ScalarEvent | events.CollectionStartEvent, where: Position) -> None:
        if event.anchor is not None:
            self._report(
                where, "an anchor (&name) is not taken here", "remove it and write the value out at each place"
            )
        if event.tag is not None:
            self._report(where, f"a tag ({quoted(event.tag)}) is not taken here", "remove it")

    def _path(self) -> KeyPath:
        return tuple(opened.step() for opened in self._open)

    def _problem(self, where: Position, message: str, hint: str) -> Problem:
        path = self._path()
        return Problem(where=where, path=path[:-1] if path[-1:] == ("?",) else path, message=message, hint=hint)

    def _report(self, where: Position, message: str, hint: str) -> None:
        self.problems.append(self._problem(where, message, hint))


def _read(text: str) -> Plain:
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


def _decode(data: bytes, file: str) -> str | Problem:
    if len(data) > LARGEST:
        return Problem(where=Position(file), message=f"the file is longer than {LARGEST} bytes", hint="make it smaller")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        bad = data[error.start]
        return Problem(where=_at(before, file), message=f"byte 0x{bad:02x} is not UTF-8", hint="save the file as UTF-8")
    if bad_one := _FORBIDDEN.search(text):
        code = f"U+{ord(bad_one.group()):04X}"
        hint = "remove it, or write it as an escape in double quotes"
        where = _at(text[: bad_one.start()], file)
        return Problem(where=where, message=f"the character {code} must not stand in this file", hint=hint)
    return text


def _at(before: str, file: str) -> Position:
    line = before.count("\n") + 1
    return Position(file, line, len(before) - (before.rfind("\n") + 1) + 1)


def _position(file: str, mark: object) -> Position:
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    return Position(file, line + 1, column + 1) if isinstance(line, int) and isinstance(column, int) else Position(file)


def _stream(text: str) -> Generator[events.Event, None, None]:
    return cast("Generator[events.Event, None, None]", yaml.parse(text, Loader=yaml.CSafeLoader))


def _syntax(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """The parser's own words, which are good, unless it is about a tab; plus what most often helps."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(where=Position(file), message=f"this is not YAML: {error}")
    where = _position(file, error.problem_mark or error.context_mark)
    words = error.problem or "it cannot be read"
    if error.context and error.context_mark:
        words = f"{error.context} that begins at line {error.context_mark.line + 1}, {words}"
    hint = ""
    if "cannot start any token" in words:
        if _character(text, where) == "\t":
            return Problem(where=where, message="a tab cannot indent a line or begin a value", hint="use spaces")
        hint = "a value that begins with @, ` or % must stand in quotes"
    elif "scanning an alias" in words:
        hint = "a value that begins with * must stand in quotes"
    elif "mapping values are not allowed" in words:
        hint = "a value that holds ': ' must stand in quotes; a key must stand where its neighbours do"
    return Problem(where=where, message=f"this is not YAML: {words}", hint=hint)


def _character(text: str, where: Position) -> str:
    """The character at `where`, or the empty text at the end of a line."""
    lines = text.splitlines()
    line = lines[where.line - 1] if 0 < where.line <= len(lines) else ""
    return line[where.column - 1 : where.column]
