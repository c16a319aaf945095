"""Holds a document against a schema and finds every problem at once (D§12).

What comes out is plain frozen values (text, numbers, flags, tuples, mappings), the place of each, and all problems.
Does no I/O and knows no key of `tenter.yaml`.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import assert_never

import msgspec

from tenter.config import document
from tenter.config.document import Broken, Entry, Listing, Node, Scalar
from tenter.config.problem import KeyPath, Position, Problem, nearest, quoted
from tenter.config.schema import (
    Choice,
    Clash,
    Dollars,
    Either,
    Flag,
    ListOf,
    MapOf,
    Needs,
    Refused,
    Schema,
    Seconds,
    Slug,
    Table,
    Text,
    Whole,
)
from tenter.kernel import FrozenDict, is_slug

MOST_GUESSES = 100
"""Looking for the nearest name is dear; who has more mistakes than this in one file gets no more guesses."""

_SWITCHES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check. `value` may be used only where there are no problems.

    `positions` has the place of every value of the file: where a single value begins, where the key (or the item) of a
    list or mapping stands.
    """

    value: object
    problems: tuple[Problem, ...]
    positions: Mapping[KeyPath, Position]


def check(schema: Schema, node: Node, known: Mapping[str, Collection[str]] = FrozenDict()) -> Checked:
    """`node` read as `schema` says. `known` holds, by kind, further names that a `Text` may refer to."""
    checker = _Checker()
    value = checker.read(schema, _Spot(node, (), node.where))
    checker.resolve(known)
    return Checked(value=value, problems=tuple(checker.problems), positions=FrozenDict(checker.positions))


class _Spot(msgspec.Struct, frozen=True):
    """A node, the way to it, and the place to report."""

    node: Node
    path: KeyPath
    where: Position


class _Reference(msgspec.Struct, frozen=True):
    kind: str
    name: str
    shown: bool
    spot: _Spot


class _Checker:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.positions: dict[KeyPath, Position] = {}
        self._defined: dict[str, set[str]] = {}
        self._references: list[_Reference] = []
        self._guesses = 0

    def read(self, schema: Schema, spot: _Spot) -> object:
        """The value at `spot`; None, with a problem reported, where it is not what `schema` says."""
        self.positions[spot.path] = spot.where
        if isinstance(spot.node, Broken):
            return None
        match schema:
            case ListOf():
                value = self._list(schema, spot)
            case MapOf():
                value = self._map(schema, spot)
            case Table():
                value = self._table(schema, spot)
            case Either():
                value = self._either(schema, spot)
            case Refused():
                value = self._report(spot, f"{quoted(str(spot.path[-1]))} {schema.message}", schema.hint)
            case _:
                value = self._single(schema, spot)
        return value

    def resolve(self, known: Mapping[str, Collection[str]]) -> None:
        """Reports each reference to a thing that the file does not define and that is not known."""
        for one in self._references:
            names = {*self._defined.get(one.kind, ()), *known.get(one.kind, ())}
            if one.name not in names:
                listed = f"there are {', '.join(sorted(names)[:20])}" if names else f"there is no {one.kind} yet"
                hint = self._guess(one.name, names) or listed
                self._expected(f"the name of a {one.kind}", one.spot, hint, shown=one.shown)

    def _single(self, schema: Text | Slug | Whole | Seconds | Dollars | Flag | Choice, spot: _Spot) -> object:
        node = spot.node
        if not isinstance(node, Scalar):
            return self._expected(schema.what, spot)
        match schema:
            case Text():
                value = self._text(schema, node, spot)
            case Slug():
                value = node.value if is_slug(node.value) else self._expected(schema.what, spot)
            case Flag():
                value = self._flag(schema, node, spot)
            case Choice():
                value = node.value if node.value in schema.words else self._choice(schema, node, spot)
            case Whole() | Seconds() | Dollars():
                value = self._number(schema, node, spot)
            case _:
                assert_never(schema)
        return value

    def _choice(self, schema: Choice, node: Scalar, spot: _Spot) -> None:
        taken = schema if schema.here is None else Choice(words=schema.here(spot.path))
        self._expected(taken.what, spot, self._guess(node.text, taken.words))

    def _number(self, schema: Whole | Seconds | Dollars, node: Scalar, spot: _Spot) -> object:
        number = node.value
        # A bool is an int to Python and no number to people.
        if isinstance(number, int | float) and not isinstance(number, bool):
            free = isinstance(schema, Dollars) and schema.free and number == 0
            if isinstance(schema, Seconds | Dollars) and (0 < number <= schema.most or free):
                return float(number)
            if isinstance(schema, Whole) and isinstance(number, int) and schema.least <= number <= schema.most:
                return number
        return self._expected(schema.what, spot, _number_hint(node))

    def _text(self, schema: Text, node: Scalar, spot: _Spot) -> object:
        shown = not schema.private
        if not isinstance(node.value, str):
            as_text = "" if node.value is None else f'put it in quotes: "{node.text}"' if shown else "put it in quotes"
            return self._expected(schema.what, spot, schema.hint or as_text, shown=shown)
        if "\0" in node.value:
            return self._expected("text without NUL characters", spot, shown=shown)
        if not re.fullmatch(schema.pattern, node.value):
            return self._expected(schema.what, spot, schema.hint, shown=shown)
        if schema.refers_to:
            self._references.append(_Reference(schema.refers_to, node.value, shown, spot))
        return node.value

    def _flag(self, schema: Flag, node: Scalar, spot: _Spot) -> object:
        if not isinstance(node.value, bool):
            switch = _SWITCHES.get(node.text.lower(), node.text.lower())
            return self._expected(schema.what, spot, f"write {switch}" if switch in ("true", "false") else "")
        return node.value

    def _list(self, schema: ListOf, spot: _Spot) -> object:
        if not isinstance(spot.node, Listing):
            text = spot.node.text if isinstance(spot.node, Scalar) else ""
            return self._expected(schema.what, spot, f"write a list: [{quoted(text)}]" if text else "")
        items = spot.node.items
        if len(items) < schema.least:
            return self._expected(schema.what, spot, got="an empty list")
        spots = [_Spot(item, (*spot.path, index), item.where) for index, item in enumerate(items)]
        values = tuple(self.read(schema.item, one) for one in spots)
        if schema.defines:
            names = (one.text for one in items if isinstance(one, Scalar))
            self._defined.setdefault(schema.defines, set()).update(names)
        if schema.distinct:
            self._refuse_repeats(spots)
        return values

    def _refuse_repeats(self, spots: Iterable[_Spot]) -> None:
        first: dict[str, Position] = {}
        for spot in spots:
            if not isinstance(spot.node, Scalar):
                continue
            if before := first.get(spot.node.text):
                self._report(spot, f"the same stands at line {before.line} already", "keep one of the two")
            first.setdefault(spot.node.text, spot.where)

    def _map(self, schema: MapOf, spot: _Spot) -> object:
        if not isinstance(spot.node, document.Mapping):
            return self._expected(schema.what, spot, _absent_hint(spot.node))
        if len(spot.node.entries) < schema.least:
            return self._expected(schema.what, spot, got="an empty mapping")
        values: dict[str, object] = {}
        for entry in spot.node.entries:
            key = Scalar(text=entry.key, value=entry.key, where=entry.where)
            self._single(schema.key, _Spot(key, (*spot.path, entry.key), entry.where))
            if schema.defines:
                self._defined.setdefault(schema.defines, set()).add(entry.key)
            values[entry.key] = self.read(schema.named.get(entry.key, schema.value), _entry_spot(entry, spot))
        return _frozen(values)

    def _either(self, schema: Either, spot: _Spot) -> object:
        if isinstance(spot.node, Listing):
            return self.read(schema.items, spot)
        if isinstance(spot.node, document.Mapping):
            return self.read(schema.mapping, spot)
        if isinstance(spot.node, Scalar) and isinstance(spot.node.value, str):
            return self.read(schema.single, spot)
        return self._expected(schema.what, spot)

    def _table(self, schema: Table, spot: _Spot) -> object:
        if not isinstance(spot.node, document.Mapping):
            may_be_empty = not (schema.required or schema.one_of)
            return self._expected(schema.what, spot, _absent_hint(spot.node) if may_be_empty else "")
        usable = [key for key, inner in schema.keys.items() if not isinstance(inner, Refused)]
        present = {entry.key: entry for entry in spot.node.entries}
        meant = {key: self._nearest(key, usable) for key in present if key not in schema.keys}
        values: dict[str, object] = {"where": spot.where, "path": spot.path} if schema.positioned else {}
        for key, entry in present.items():
            inner = schema.keys.get(key)
            if inner is None:
                hint = _did_you_mean(meant[key]) or f"the keys here are {', '.join(sorted(usable))}"
                self._report(_key_spot(entry, spot), f"unknown key {quoted(key)}", hint)
            elif isinstance(inner, Refused):
                self.read(inner, _key_spot(entry, spot))
            else:
                values[key] = self.read(inner, _entry_spot(entry, spot))
        if schema.kind_key and len(kinds := [key for key in schema.one_of if key in values]) == 1:
            values[schema.kind_key] = kinds[0]
        # A key that is only misspelt is not missing as well; nor is the only one that there is, where another stands.
        there = {*present, *filter(None, meant.values()), *(usable if meant and len(usable) == 1 else ())}
        self._complete(schema, spot, there)
        for rule in schema.rules:
            self._keep(rule, spot, there=there, present=present, values=values)
        return _frozen(values)

    def _complete(self, schema: Table, spot: _Spot, there: Collection[str]) -> None:
        for key in schema.required:
            if key not in there:
                self._report(spot, f"the key {key!r} is missing", self._guess_own_name(schema, spot))
        found = [key for key in schema.one_of if key in there]
        if schema.one_of and len(found) != 1:
            usable = ", ".join(repr(key) for key in schema.one_of if not isinstance(schema.keys[key], Refused))
            got = " and ".join(map(repr, found)) or "none"
            self._report(spot, f"expected exactly one of {usable}, got {got}", "keep one" if found else "")

    def _guess_own_name(self, schema: Table, spot: _Spot) -> str:
        name = spot.path[-1] if spot.path else None
        return self._guess(name, schema.not_for) if isinstance(name, str) else ""

    def _keep(
        self,
        rule: Needs | Clash,
        spot: _Spot,
        *,
        there: Collection[str],
        present: Mapping[str, Entry],
        values: Mapping[str, object],
    ) -> None:
        match rule:
            case Needs(keys=keys, others=others, unless=unless):
                asking = [key for key in keys if key in present and values.get(key) != unless]
                for key in asking if not any(other in there for other in others) else ():
                    needed = f"{key!r} needs {' or '.join(map(repr, others))} beside it"
                    hint = rule.hint if isinstance(rule.hint, str) else rule.hint(spot.path)
                    self._report(_key_spot(present[key], spot), needed, hint)
            case Clash(key=key, other=other, unless=unless):
                if key in present and values.get(key) != unless and values.get(other) == rule.value:
                    against = f"{key!r} cannot stand where {other!r} is {str(rule.value).lower()}"
                    self._report(_key_spot(present[key], spot), against, rule.hint)
            case _:
                assert_never(rule)

    def _guess(self, word: str, names: Iterable[str]) -> str:
        return _did_you_mean(self._nearest(word, names))

    def _nearest(self, word: str, names: Iterable[str]) -> str | None:
        self._guesses += 1
        return nearest(word, names) if self._guesses <= MOST_GUESSES else None

    def _expected(self, what: str, spot: _Spot, hint: str = "", *, got: str = "", shown: bool = True) -> None:
        got = got or (_got(spot.node) if shown else "something else (not shown)")
        self._report(spot, f"expected {what}, got {got}", hint)

    def _report(self, spot: _Spot, message: str, hint: str) -> None:
        self.problems.append(Problem(where=spot.where, path=spot.path, message=message, hint=hint))


def _frozen(values: Mapping[str, object]) -> FrozenDict[str, object]:
    return FrozenDict(values)


def _entry_spot(entry: Entry, parent: _Spot) -> _Spot:
    single = isinstance(entry.node, Scalar) and entry.node.text != ""
    return _Spot(entry.node, (*parent.path, entry.key), entry.node.where if single else entry.where)


def _key_spot(entry: Entry, parent: _Spot) -> _Spot:
    return _Spot(entry.node, (*parent.path, entry.key), entry.where)


def _got(node: Node) -> str:
    match node:
        case Scalar(value=str()):
            return quoted(node.text)
        case Scalar():
            return node.text or "nothing"
        case Listing():
            return "a list"
        case document.Mapping():
            return "a mapping"
        case Broken():
            return "something that cannot be read"
        case _:
            assert_never(node)


def _did_you_mean(name: str | None) -> str:
    return f"did you mean {name!r}?" if name else ""


def _number_hint(node: Scalar) -> str:
    return "write a plain decimal number, without quotes" if isinstance(node.value, str) else ""


def _absent_hint(node: Node) -> str:
    nothing = isinstance(node, Scalar) and node.value is None
    return "write {} for an empty one, or remove the key" if nothing else ""
