"""Values that cannot be changed, all the way down (D§3.3).

A frozen struct is not frozen inside: a list or a dict in it can be changed. `freeze` turns lists into tuples, sets into
frozensets and mappings into `FrozenDict`, and gives back the same object when there was nothing to turn. What it takes
is data: functions, classes and objects of any other class are refused. It knows nothing of events.
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from operator import attrgetter, is_
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, cast
from uuid import UUID

import msgspec

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

MAX_DEPTH: Final = 200
"""Values nested deeper are refused: pickle, repr, JSON and comparing would fail on them later, or end the process."""

NUMBERS: Final = frozenset({int, float, complex, bool, type(None), type(msgspec.UNSET)})
DATES: Final = frozenset({date, datetime, time, timedelta, timezone, Decimal, UUID})
ATOMS: Final = frozenset({str, bytes}) | NUMBERS | DATES
"""Classes whose values are frozen and hold nothing. Enum members and paths are taken for atoms as well."""

_FROZEN: Final[set[type[object]]] = set(ATOMS)
"""Classes whose values need no look: atoms, `Growing`, and `FrozenStruct`s that froze their fields when they were made.
"""


class FrozenDict(dict[K, V]):
    """A dict that refuses to change.

    A subclass of dict, because msgspec, json, `match`, `{**d}` and pickle all take it, which they do not of
    `types.MappingProxyType`. Its values are taken as they are; `freeze` freezes them, too. Hashable when they are.
    `copy` and `|` give a plain and a frozen dict.
    """

    __slots__ = ("deep",)
    deep: bool  # set once keys and values are known to be frozen all the way down

    if not TYPE_CHECKING:  # a type checker sees how a dict is built

        def __new__(cls, *values: object, **named: object) -> Self:
            new = super().__new__(cls)
            dict.update(new, *values, **named)
            return new

        def __init__(self, *_: object, **__: object) -> None:
            """Does nothing: `__new__` filled it, and `dict.__init__`, called once more, would change it."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is frozen; build a new one with {**mapping, key: value}")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = _refuse
    setdefault = _refuse  # pyright: ignore[reportAssignmentType]  # refusing is what is wanted
    update = _refuse  # pyright: ignore[reportAssignmentType]  # as above

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # a dict has None here
        return hash(frozenset(self.items()))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self if getattr(self, "deep", False) else type(self)(copy.deepcopy(dict(self), memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    def __or__(self, other: Mapping[Any, Any]) -> "FrozenDict[Any, Any]":
        return FrozenDict({**self, **other})

    def __repr__(self) -> str:
        return f"FrozenDict({super().__repr__()})"

    @classmethod
    def fromkeys(cls, iterable: Iterable[Any], value: Any = None, /) -> "FrozenDict[Any, Any]":
        return cls(dict.fromkeys(iterable, value))


class Growing(tuple[T, ...]):
    """A tuple of frozen values that grows at its end, as a conversation does. To everybody else it is a tuple.

    Nobody looks through it again to see that it is frozen, and whether one continues another is known at once.
    """

    _line: list[T]
    """Its items, and perhaps those of longer ones that continue it: whoever goes on from the longest adds in place."""

    def __new__(cls, items: Iterable[T] = ()) -> Self:
        """Raises TypeError and ValueError as `freeze` does."""
        new = super().__new__(cls, map(freeze, items))
        new._line = list(new)
        return new

    def grown(self, *items: T) -> Self:
        """This one with `items`, frozen, at its end. Raises as `freeze` does."""
        added: tuple[T, ...] = freeze(items)
        new = super().__new__(type(self), self + added)
        new._line = self._line if len(self._line) == len(self) else list(self)
        new._line.extend(added)
        return new

    def continues(self, other: tuple[object, ...]) -> bool:
        """Whether this grew out of `other`, or is it. Where it did not, it may still begin with the same items."""
        return getattr(other, "_line", None) is self._line and len(other) <= len(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (tuple(self),))


_FROZEN.add(Growing)


class FrozenStruct(msgspec.Struct, frozen=True):
    """A base for structs whose fields are frozen all the way down from the moment they are made.

    Whether made, decoded or replaced, a field takes a tuple for a list and a `FrozenDict` for a mapping, so that
    `freeze` takes the whole value as done. Making one raises TypeError and ValueError as `freeze` does.
    """

    def __post_init__(self) -> None:
        if type(self) not in _FROZEN and self.__struct_config__.frozen:
            _FROZEN.add(type(self))  # here, and not when it is declared: a subclass may do without this method
        values = msgspec.structs.astuple(self)
        if _FROZEN.issuperset(map(type, values)):
            return
        try:
            for place, value in enumerate(values):
                if type(value) not in _FROZEN and (frozen := _freeze(value, MAX_DEPTH)) is not value:
                    msgspec.structs.force_setattr(self, self.__struct_fields__[place], frozen)
        except RecursionError:
            raise _too_deep() from None


def freeze(value: Any) -> Any:
    """`value` with tuples for lists, frozensets for sets, `FrozenDict` for mappings, and what is inside frozen, too.

    Atoms are text, bytes, numbers, None, UNSET, dates and times, Decimal, UUID, enum members and paths; of a subclass
    of one, the plain value is taken. Frozen structs and frozen dataclasses are rebuilt when something in them had to
    change, other tuples become plain ones, `bytearray` and `memoryview` bytes. Returns `value` itself when nothing had
    to change. Raises TypeError for anything else (it could be changed, or is code), naming its class, and ValueError
    for a value nested more than 200 levels deep, as one is that holds itself.
    """
    try:
        return _freeze(value, MAX_DEPTH)
    except RecursionError:
        raise _too_deep() from None


class Layout:
    """How values of one struct or dataclass are read and rebuilt."""

    __slots__ = ("fields", "frozen", "opaque", "read")

    def __init__(self, cls: type[object]) -> None:
        """Raises TypeError for any other class."""
        if issubclass(cls, msgspec.Struct):
            self.fields = cls.__struct_fields__
            self.frozen = cls.__struct_config__.frozen
        elif dataclasses.is_dataclass(cast(Any, cls)):
            self.fields = tuple(field.name for field in dataclasses.fields(cast(Any, cls)))
            self.frozen = bool(cast(Any, cls).__dataclass_params__.frozen)
        else:
            raise TypeError(f"the class {cls.__qualname__!r} is no struct or dataclass")
        self.opaque: tuple[str, ...] = getattr(cast(Any, cls), "__opaque__", ())
        self.read = _reader(self.fields)


layout_of = functools.lru_cache(1024)(Layout)


def rebuilt(value: T, changed: Mapping[str, object]) -> T:
    """A copy of a struct or dataclass with other values in some fields, frozen or not."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changed)
    new = copy.copy(value)
    for name, item in changed.items():
        object.__setattr__(new, name, item)
    return new


def _reader(fields: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    """What reads all fields at once."""
    if len(fields) > 1:
        return attrgetter(*fields)
    return lambda value: tuple([getattr(value, name) for name in fields])


def _freeze(value: object, room: int) -> Any:
    if type(value) in _FROZEN:
        return value
    if room == 0:
        raise _too_deep()
    return _way_of(type(value))(value, room - 1)


@functools.lru_cache(1024)
def _way_of(cls: type[object]) -> "_Way":
    for base, way in _WAYS:
        if issubclass(cls, base):
            return way
    try:
        layout = layout_of(cls)
    except TypeError:
        return _refuse
    return functools.partial(_freeze_fields, layout) if layout.frozen else _refuse


def _as_it_is(value: object, _: int) -> object:
    return value


def _plain(value: Any, _: int) -> object:
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case complex():
            return complex.__complex__(value)
        case _:
            return b"".join((value,))


def _freeze_list(value: list[object], room: int) -> tuple[object, ...]:
    return tuple([item if type(item) in _FROZEN else _freeze(item, room) for item in value])


def _freeze_tuple(value: tuple[object, ...], room: int) -> tuple[object, ...]:
    if not value:
        return ()
    if type(value) is tuple and (first := type(value[0])) in _FROZEN:
        kinds = list(map(type, value))  # of a long conversation, at each step: it has to be fast
        if kinds.count(first) == len(kinds):
            return value
    items = tuple([item if type(item) in _FROZEN else _freeze(item, room) for item in value])
    return value if type(value) is tuple and all(map(is_, items, value)) else items


def _freeze_set(value: set[object] | frozenset[object], room: int) -> frozenset[object]:
    items = [_freeze(item, room) for item in value]
    return value if isinstance(value, frozenset) and all(map(is_, items, value)) else frozenset(items)


def _freeze_mapping(value: Mapping[object, object], room: int) -> FrozenDict[object, object]:
    frozen: FrozenDict[object, object] = FrozenDict(  # a subscript here would take half the time of all this
        {
            key if type(key) in _FROZEN else _freeze(key, room): item if type(item) in _FROZEN else _freeze(item, room)
            for key, item in value.items()
        }
    )
    frozen.deep = True
    return frozen


def _freeze_frozen_dict(value: FrozenDict[object, object], room: int) -> FrozenDict[object, object]:
    if getattr(value, "deep", False):
        return value
    for key, item in value.items():
        if _freeze(key, room) is not key or _freeze(item, room) is not item:
            return _freeze_mapping(value, room)
    value.deep = True
    return value


def _freeze_fields(layout: Layout, value: object, room: int) -> object:
    changed: dict[str, object] = {}
    for name, item in zip(layout.fields, layout.read(value), strict=True):
        if type(item) not in _FROZEN and (new := _freeze(item, room)) is not item:
            changed[name] = new
    return rebuilt(value, changed) if changed else value


def _refuse(value: object, _: int) -> NoReturn:
    raise TypeError(
        f"a value of the class {type(value).__qualname__!r} cannot be frozen; use frozen structs or dataclasses, "
        "mappings, lists, text or numbers"
    )


def _too_deep() -> ValueError:
    return ValueError(f"a value nested more than {MAX_DEPTH} levels deep, or in itself, cannot be frozen; flatten it")


_Way = Callable[[Any, int], object]
_WAYS: Final[tuple[tuple[Any, _Way], ...]] = (
    ((Enum, PurePath), _as_it_is),
    (FrozenDict, _freeze_frozen_dict),
    (tuple, _freeze_tuple),
    (Mapping, _freeze_mapping),
    (list, _freeze_list),
    ((set, frozenset), _freeze_set),
    ((str, int, float, complex, bytes, bytearray, memoryview), _plain),
)
