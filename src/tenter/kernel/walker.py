"""Walks a value of any depth and masks what a `TextMask` finds in it (D§8).

First it only looks, collecting what is new into one text for one search; only what holds something is rebuilt. What is
frozen all the way down and clean is remembered by identity, so that a run is linear in its conversation.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from math import inf
from operator import is_
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from tenter.kernel.frozen import ATOMS, DATES, MAX_DEPTH, NUMBERS, FrozenDict, layout_of, rebuilt
from tenter.kernel.masking import MASK, SHORTEST, TextMask

REMEMBERED: Final = 8 << 20
"""Bytes, roughly, that each of the two generations of a memory keeps alive."""

_EMPTY: Final = NUMBERS | DATES
_NUMERALS: Final = frozenset({int, float, Decimal, UUID})
_WIDE: Final = frozenset({list, dict, FrozenDict, set, frozenset})
_KNOWN_ITEMS: Final = 8  # a tuple may be wider by so much than what is new in it
_CONTAINER_BYTES: Final = 100
_ITEM_BYTES: Final = 8
_SLUG: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # a name; a note is no place for anything else
_GROUP: Final = 64  # texts that are searched together, to find the few that matter among many
_LONG: Final = 1024  # a text of so many characters is remembered by itself
_SLOWER: Final = 16  # rewriting a text takes so many times longer than looking through it, and more

Redacted = tuple[object, Sequence[str]]
"""A masked value, and notes of what was dropped from it."""


class Walker:
    """One mask and the memory of what is clean under it."""

    def __init__(self, mask: TextMask) -> None:
        self.mask: Final = mask
        self.memory: Final = Memory()

    def knows(self, value: object) -> bool:
        """Whether this very value is known to be clean."""
        return id(value) in self.memory.young or self.memory.knows(value)

    def redact(self, root: object) -> Redacted:
        """`root` masked. Raises TypeError and ValueError as `Redactor.redact` says."""
        if self.knows(root):
            return root, ()
        look = _Look(self)
        look.through(root)
        return self._finished(root, look, self._is_clean(look))

    def redact_little(self, root: object, *, characters: int, values: int) -> Redacted | None:
        """As `redact`; None when more than so many characters or values are new, or many characters may change."""
        if self.knows(root):
            return root, ()
        look = _Look(self)
        if not look.through(root, characters, values):
            return None
        clean = self._is_clean(look)
        return self._finished(root, look, clean) if clean or look.characters * _SLOWER <= characters else None

    def _is_clean(self, look: "_Look") -> bool:
        return not look.marked and not self.mask.touches(look.data())

    def _finished(self, root: object, look: "_Look", clean: bool) -> Redacted:
        if clean:
            look.remember()
            return root, ()
        rewrite = _Rewrite(self, look.dirty())
        result = rewrite.of(root)
        if result is not root:
            look = _Look(self)
            look.through(result)
        look.remember()
        return result, rewrite.notes


class Memory:
    """Which values are clean, by identity: they are kept alive here, so that no other value can have their id."""

    def __init__(self) -> None:
        self.young: dict[int, object] = {}
        self._old: dict[int, object] = {}
        self._weight = 0

    def knows(self, value: object) -> bool:
        """Whether it was added, and is not forgotten; what is asked for is forgotten last."""
        key = id(value)
        if key in self.young:
            return True
        if key not in self._old:
            return False
        self.add((value,), 0)
        return True

    def add(self, values: Collection[object], characters: int) -> None:
        """Remember `values`, which hold so many characters that were not remembered."""
        young = self.young
        items = 0
        for value in values:
            young[id(value)] = value
            if isinstance(value, tuple):
                items += len(cast("tuple[object, ...]", value))
        self._weight += characters + _CONTAINER_BYTES * len(values) + _ITEM_BYTES * items
        if self._weight > REMEMBERED:
            self._old, self.young, self._weight = young, {}, 0


class _Look:
    """What a look through a value finds that is not known to be clean."""

    def __init__(self, walker: Walker) -> None:
        self.marked = False  # something is to be masked that is not text, or for its name
        self.characters = 0
        self._mask, self._memory = walker.mask, walker.memory
        self._texts: list[str] = []
        self._blobs: list[bytes] = []
        self._new: list[object] = []
        self._changeable = False  # something could change later, so that nothing may be remembered

    def through(self, root: object, characters: float = inf, values: float = inf) -> bool:
        """Look at everything; False when there are more new characters or values than that."""
        young, seen, left = self._memory.young, set[int](), values
        stack: list[Any] = [root]  # a cast of each value takes longer than the look at it
        is_numeral, is_bounded = self._mask.is_numeral if self._mask.has_numerals else None, values < inf
        while stack and self.characters <= characters and len(stack) <= left:
            value = stack.pop()
            left -= 1
            cls = type(value)  # pyright: ignore[reportUnknownVariableType]  # of whatever stands there
            key = id(value)
            if cls is str:
                self._text(value)
            elif cls in _EMPTY:
                if is_numeral is not None and cls in _NUMERALS and is_numeral(value):
                    self.marked = True
            elif key not in young and key not in seen and not self._memory.knows(value):
                if is_bounded and _width(value) > left:
                    return False
                seen.add(key)
                stack.extend(self._inside(value))
        return not stack and self.characters <= characters

    def data(self) -> bytes:
        """All new text in one piece. What is found across two texts is found out in the rewriting."""
        return b"\0".join((_joined(self._texts), *self._blobs))

    def dirty(self) -> set[str]:
        """The new texts in which something is found, or is masked already."""
        groups = [self._texts[at : at + _GROUP] for at in range(0, len(self._texts), _GROUP)]
        suspect = [text for group in groups if self._mask.touches(_joined(group)) for text in group]
        return {text for text in suspect if self._mask.touches(_joined((text,)))}

    def remember(self) -> None:
        if not self._changeable:
            self._memory.add(self._new, self.characters)

    def _text(self, text: str) -> None:
        if len(text) >= _LONG:
            if self._memory.knows(text):
                return
            self._new.append(text)
        if len(text) >= SHORTEST:
            self._texts.append(text)
            self.characters += len(text)

    def _inside(self, value: object) -> Iterable[object]:
        match value:
            case msgspec.Struct():
                return self._record(value)
            case tuple() | frozenset():
                self._new.append(cast(object, value))
                young = self._memory.young
                return [item for item in cast(Iterable[object], value) if id(item) not in young]
            case dict() | Mapping():
                return self._mapping(cast(Mapping[object, object], value))
            case list() | set():
                self._changeable = True
                return cast(Iterable[object], value)
            case bytes() | bytearray() | Enum() | PurePath() | str() | int() | float() | complex():
                return self._atom(value)
            case _:
                return self._record(value)

    def _atom(self, value: bytes | bytearray | Enum | PurePath | str | complex) -> Iterable[object]:
        match value:
            case Enum():
                self._new.append(value)
                return _parts(value)
            case bytes() | bytearray():
                self._blobs.append(bytes(value))
                self.characters += len(value)
                self._changeable |= isinstance(value, bytearray)
            case PurePath():
                self._text(str(value))
            case str():
                self._text(str.__str__(value))
                self._changeable = True
            case _:
                self.marked |= self._mask.has_numerals and self._mask.is_numeral(value)
                self._changeable = True
        return ()

    def _mapping(self, value: Mapping[object, object]) -> Iterable[object]:
        if isinstance(value, FrozenDict):
            self._new.append(cast(object, value))
        else:
            self._changeable = True
        if self._mask.has_names and any(map(self._shows_named, value.keys(), value.values())):
            self.marked = True
        return [*value, *value.values()]

    def _record(self, value: object) -> Iterable[object]:
        cls = type(value)
        try:
            layout = layout_of(cls)
        except TypeError:
            raise TypeError(
                f"a value of the class {cls.__qualname__!r} cannot be looked into for secrets; give its text instead"
            ) from None
        if layout.frozen:
            self._new.append(value)
        else:
            self._changeable = True
        items = layout.read(value)
        if self._mask.has_names and any(map(self._shows_named, layout.fields, items)):
            self.marked = True
        return items

    def _shows_named(self, name: object, item: object) -> bool:
        return self._mask.is_named(name) and _is_shown(item)


class _Rewrite:
    """One rewriting: shared values stay shared, and notes say what was dropped."""

    def __init__(self, walker: Walker, dirty: Collection[str], room: int = MAX_DEPTH) -> None:
        self.notes: list[str] = []
        self._dirty = dirty
        self._walker = walker
        self._room = room
        self._done: dict[int, tuple[object, object]] = {}  # by id, with the value itself to keep the id its own

    def of(self, value: object) -> object:
        if type(value) is str:
            return self._walker.mask.mask(value) if value in self._dirty else value
        if (done := self._done.get(id(value))) is not None:
            return done[1]
        if self._walker.knows(value):
            return value
        if self._room == 0:
            raise ValueError(f"a value with a secret in it is nested more than {MAX_DEPTH} levels deep; flatten it")
        self._room -= 1
        new = self._inside(value)
        self._room += 1
        self._done[id(value)] = (value, new)
        return new

    def _inside(self, value: Any) -> object:
        match value:
            case msgspec.Struct():
                return self._record(value)
            case tuple() | list() | set() | frozenset():
                return self._items(cast(Collection[object], value))
            case Mapping():
                return self._mapping(cast(Mapping[object, object], value))
            case Enum() | int() | float() | complex() | Decimal() | UUID():
                return MASK if self._tells(value) else value
            case bytes() | bytearray() | PurePath() | str():
                return self._text(value)
            case _:
                return value if type(value) in _EMPTY else self._record(value)

    def _tells(self, value: object) -> bool:
        """Whether an enum member, a number or a UUID shows a secret when it is written."""
        if isinstance(value, Enum):
            return any(self.of(part) is not part for part in _parts(value))
        return self._walker.mask.has_numerals and self._walker.mask.is_numeral(value)

    def _text(self, value: bytes | bytearray | PurePath | str) -> object:
        mask = self._walker.mask
        if isinstance(value, bytes | bytearray):
            masked = mask.mask_bytes(bytes(value))
            return value if masked == value else type(value)(masked)
        text = str(value) if isinstance(value, PurePath) else str.__str__(value)
        if (shown := mask.mask(text)) is text:
            return value
        return type(value)(shown) if isinstance(value, PurePath) else shown

    def _items(self, value: Collection[object]) -> object:
        items = [self.of(item) for item in value]
        if all(map(is_, items, value)):
            return value
        cls = type(value)
        return cast(Any, tuple).__new__(cls, items) if isinstance(value, tuple) else cast(Any, cls)(items)

    def _mapping(self, value: Mapping[object, object]) -> Mapping[object, object]:
        is_named = self._walker.mask.is_named
        entries = [
            (key, self.of(key), item, self.of(_hidden(item) if is_named(key) else item)) for key, item in value.items()
        ]
        if all(key is new_key and item is new_item for key, new_key, item, new_item in entries):
            return value
        taken = {key for key, new_key, *_ in entries if new_key is key}
        result: dict[object, object] = {}
        for key, new_key, _, new_item in entries:
            free = key if new_key is key else _free(cast(Hashable, new_key), taken)
            taken.add(free)
            result[free] = new_item
        return FrozenDict(result) if isinstance(value, FrozenDict) else result

    def _record(self, value: object) -> object:
        layout, is_named = layout_of(type(value)), self._walker.mask.is_named
        changed: dict[str, object] = {}
        for name, item in zip(layout.fields, layout.read(value), strict=True):
            if name in layout.opaque and isinstance(item, Mapping):
                new = self._without(cast(Mapping[object, object], item), f"{type(value).__name__}.{name}")
            else:
                new = self._of_field(_hidden(item) if is_named(name) else item)
            if new is not item:
                changed[name] = new
        return rebuilt(value, changed) if changed else value

    def _of_field(self, item: object) -> object:
        return item if _is_left(self._walker.mask, item) else self.of(item)

    def _without(self, entries: Mapping[object, object], where: str) -> Mapping[object, object]:
        """The entries in which nothing would be masked: the others cannot be edited."""
        trial = _Rewrite(self._walker, self._dirty, self._room)
        kept: dict[object, object] = {}
        for key, item in entries.items():
            shown = trial.of(key)
            named = self._walker.mask.is_named(key) and _is_shown(item)
            if shown is key and not named and trial.of(item) is item:
                kept[key] = item
            else:
                self.notes.append(f"dropped {where}.{shown}" if _SLUG.fullmatch(str(shown)) else f"dropped {where}")
        return entries if len(kept) == len(entries) else FrozenDict(kept)


def _width(value: object) -> int:
    """How many items a value holds at least that may be new."""
    cls = type(value)
    if issubclass(cls, tuple):
        return len(cast("tuple[object, ...]", value)) // _KNOWN_ITEMS
    return len(cast(Collection[object], value)) if cls in _WIDE else 0


def _parts(member: Enum) -> list[object]:
    """What an enum member shows when it is written. A class may say something else by `name` and `value`."""
    name, value = getattr(member, "_name_", None), getattr(member, "_value_", None)
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return [part for part in (name, *parts) if type(part) in ATOMS]


def _is_left(mask: TextMask, item: object) -> bool:
    """Whether this is a number that may stand in a field: of a told value under 8 characters, a count may be it."""
    return type(item) in _NUMERALS and not mask.is_numeral(item, short=False)


def _joined(texts: Iterable[str]) -> bytes:
    """With NUL between: what would be found in one of them is found in this, too."""
    return "\0".join(texts).encode("utf-8", "surrogatepass")


def _hidden(item: object) -> object:
    """What stands for the text under a name that is masked; anything but text stays."""
    match item:
        case "" | b"":
            return item
        case str():
            return item if item == MASK else MASK
        case bytes():
            return item if item == MASK.encode() else MASK.encode()
        case tuple() | list():
            return _all_hidden(cast(Collection[object], item))
        case _:
            return item


def _is_shown(item: object) -> bool:
    return _hidden(item) is not item


def _all_hidden(items: Collection[object]) -> object:
    hidden = [_hidden(item) for item in items]
    same = all(map(is_, hidden, items))
    return items if same else hidden if isinstance(items, list) else tuple(hidden)


def _free(key: Hashable, taken: Collection[object]) -> Hashable:
    """`key`, or with a number when it is taken: two keys may be alike once they are masked."""
    free, number = key, 1
    while free in taken:
        number += 1
        match key:
            case str():
                free = f"{key} ({number})"
            case bytes():
                free = b"%b (%d)" % (key, number)
            case _:
                free = (key, number)
    return free
