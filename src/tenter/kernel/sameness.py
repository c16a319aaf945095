"""Whether two frozen values say the same, told strictly (D§5, D§6). Calls no `__eq__` that a hook may have written."""

from collections.abc import Mapping
from itertools import chain
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final

import msgspec

from tenter.kernel.frozen import ATOMS, Growing, layout_of

_EQUAL: Final = frozenset({str, bytes, int, bool, PurePosixPath, PosixPath, PureWindowsPath, WindowsPath})
"""Classes whose values are the same when Python takes them for equal, where both are of one class."""

_SHOWN: Final = ATOMS - _EQUAL
"""Those of which equal values may still differ: 0.0 and -0.0, 1.0 and 1.00 in decimals, times in two zones."""


def same(one: object, other: object) -> bool:
    """Whether two frozen values say the same, of the same classes all the way down and in the same order.

    Python takes 1, 1.0 and True for equal, and a call may not. What nobody can compare is not the same.
    """
    try:
        return _same(one, other)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a class of somebody's own that does not let itself be read
        return False


def _same(one: object, other: object) -> bool:
    pairs = [(one, other)]
    while pairs:
        mine, theirs = pairs.pop()
        if mine is theirs:
            continue
        cls = _class_of(mine)
        if cls is not _class_of(theirs):
            return False
        if cls in _EQUAL or cls in _SHOWN:
            if mine != theirs if cls in _EQUAL else repr(mine) != repr(theirs):
                return False
            continue
        inner = _inside(cls, mine, theirs)
        if inner is None:
            return False
        pairs += inner
    return True


def _class_of(value: object) -> type[object]:
    cls = type(value)
    return tuple if cls is Growing else cls


def _inside(cls: type[object], one: Any, other: Any) -> list[tuple[object, object]] | None:
    """What is left to compare of two values of one class; None where they differ."""
    if issubclass(cls, tuple | list):
        return _pairs(one, other)
    if issubclass(cls, Mapping):
        return _pairs(*(tuple(chain.from_iterable(each.items())) for each in (one, other)))
    if issubclass(cls, frozenset):
        return _of_sets(one, other)
    if issubclass(cls, msgspec.Struct) or hasattr(cls, "__dataclass_fields__"):
        read = layout_of(cls).read
        return _pairs(read(one), read(other))
    return None  # a member of an enum is itself alone


def _pairs(one: tuple[object, ...], other: tuple[object, ...]) -> list[tuple[object, object]] | None:
    return list(zip(one, other, strict=True)) if len(one) == len(other) else None


def _of_sets(one: frozenset[object], other: frozenset[object]) -> list[tuple[object, object]] | None:
    """Sets of plain values are compared as such; others member by member, in the order that they happen to have."""
    if all(type(item) in _EQUAL for item in chain(one, other)):
        kinds = [{(type(item), item) for item in each} for each in (one, other)]
        return [] if kinds[0] == kinds[1] else None
    return _pairs(tuple(one), tuple(other))
