"""Values that cannot be changed, all the way down (D§3.3).

A frozen struct is not frozen inside: a list or a dict in it can be changed. `freeze` turns lists into tuples and
mappings into `FrozenDict`, and gives back the same object when there was nothing to turn. It knows nothing of events.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, Self, TypeVar, cast

import msgspec

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=msgspec.Struct)

Scalar = (str, int, float, bool, bytes, type(None))


class FrozenDict(dict[K, V]):
    """A dict that refuses to change.

    A subclass of dict, because msgspec, json, `match`, `{**d}` and pickle all take it, which they do not of
    `types.MappingProxyType`. Hashable when its values are.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is frozen; build a new one with {**mapping, key: value}")

    __setitem__ = __delitem__ = _refuse
    __ior__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    def __or__(self, other: Mapping[Any, Any]) -> "FrozenDict[Any, Any]":  # type: ignore[override]
        return FrozenDict({**self, **other})

    def __repr__(self) -> str:
        return f"FrozenDict({dict.__repr__(self)})"


def freeze(value: object) -> Any:
    """The same value with tuples for lists and sets, `FrozenDict` for mappings and structs frozen inside.

    Returns `value` itself when nothing had to change. Raises TypeError for what cannot be frozen (a mutable object of
    an unknown class), naming its class.
    """
    if isinstance(value, Scalar):
        return value
    if isinstance(value, msgspec.Struct):
        return _freeze_struct(value)
    if isinstance(value, Mapping):
        return _freeze_mapping(cast(Mapping[object, object], value))
    if isinstance(value, tuple | list | set | frozenset):
        return _freeze_items(cast(Iterable[object], value))
    if isinstance(value, bytearray | memoryview):
        return bytes(cast(bytes, value))
    if callable(getattr(value, "__hash__", None)):
        return value
    raise TypeError(f"a value of {type(value).__qualname__!r} cannot be frozen; use structs, mappings, lists, text, numbers")


def _freeze_struct(value: S) -> S:
    changed = {}
    for name in value.__struct_fields__:
        before = getattr(value, name)
        if (after := freeze(before)) is not before:
            changed[name] = after
    return msgspec.structs.replace(value, **changed) if changed else value


def _freeze_mapping(value: Mapping[object, object]) -> FrozenDict[object, object]:
    frozen = {freeze(key): freeze(item) for key, item in value.items()}
    if type(value) is FrozenDict and all(frozen[key] is item for key, item in value.items()):
        return cast(FrozenDict[object, object], value)
    return FrozenDict(frozen)


def _freeze_items(value: Iterable[object]) -> tuple[object, ...]:
    items = tuple(freeze(item) for item in value)
    if type(value) is tuple and all(a is b for a, b in zip(items, value, strict=True)):
        return value
    return items
