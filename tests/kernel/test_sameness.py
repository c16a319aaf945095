from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, strategies as st
from tests.kernel.workshop import before

from tenter.kernel import Growing, freeze
from tenter.kernel.sameness import same

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary()
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


class Color(Enum):
    RED = 1


@dataclass(frozen=True)
class Pair:
    left: object
    right: object = None


@pytest.mark.promise(11)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (NOON, NOON.astimezone(timezone(timedelta(hours=1)))),
        (1j, 1 + 0j),
        ("a", b"a"),
        ((1, 2), (1, 2, 3)),
        (("a", 1), ("a", True)),
        ({"a": 1}, {"a": True}),
        ({1: "a"}, {True: "a"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (frozenset({1}), frozenset({True})),
        (frozenset({Pair(1)}), frozenset({Pair(True)})),
        (Pair(1), Pair(True)),
        (Pair(1), (1, None)),
        (before(extra={"a": [1]}), before(extra={"a": [True]})),
        (PurePosixPath("a"), PureWindowsPath("a")),
        (Color.RED, 1),
    ],
    ids=str,
)
def test_what_python_takes_for_equal_or_nearly_so_is_not_the_same(one: object, other: object) -> None:
    assert not same(freeze(one), freeze(other))
    assert not same(freeze(other), freeze(one))


@pytest.mark.parametrize(
    "value", [float("nan"), 2**70, "\ud800", NOON, Color.RED, frozenset({1, 2}), Pair((1,))], ids=str
)
def test_a_copy_is_the_same_whatever_it_holds(value: object) -> None:
    assert same(before(extra={"n": [value]}), before(extra={"n": [value]}))


@given(VALUES)
def test_what_is_built_alike_is_the_same(value: object) -> None:
    assert same(freeze([value]), freeze([value]))


class Hostile(PurePosixPath):
    def __eq__(self, other: object) -> bool:
        raise SystemExit(3)

    __hash__ = PurePosixPath.__hash__


@dataclass(frozen=True)
class Unreadable:
    left: object = None

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(4)


def test_what_cannot_be_compared_is_not_the_same_and_none_of_its_code_gets_out() -> None:
    assert not same((Hostile("a"),), (Hostile("a"),))
    assert not same(Unreadable(), Unreadable())
    assert same((path := Hostile("a"), 1), (path, 1))


def test_deeply_nested_values_are_compared_without_recursion() -> None:
    one: object = 1
    other: object = 1
    for _ in range(190):
        one, other = (one,), (other,)
    assert same(one, other)


def test_a_tuple_that_grew_says_the_same_as_one_that_did_not() -> None:
    grew: Growing[object] = Growing(("a",))
    assert same(grew.grown("b"), ("a", "b"))
    assert not same(("a", True), grew.grown(1))
