import copy
import dataclasses
import enum
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.kernel.frozen import MAX_DEPTH, FrozenDict, FrozenStruct, Growing, freeze


class Point(msgspec.Struct, frozen=True):
    inner: object = None


class Holder(msgspec.Struct, frozen=True):
    extra: Mapping[str, object] = FrozenDict()
    parts: tuple[Point, ...] = ()


class Made(FrozenStruct, frozen=True):
    parts: object = ()
    extra: Mapping[str, object] = FrozenDict()


class Hasty(FrozenStruct, frozen=True):
    parts: object = ()

    def __post_init__(self) -> None:
        """Forgets what its base does."""


class Melted(FrozenStruct, frozen=False):  # pyright: ignore[reportGeneralTypeIssues]  # msgspec allows what is wrong
    parts: object = ()


class Loose(msgspec.Struct):
    inner: object = None


class Pair(NamedTuple):
    a: int
    b: list[int]


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    first: object
    second: object = dataclasses.field(default=7, init=False)


@dataclasses.dataclass(frozen=True)
class Open:
    inner: object


@dataclasses.dataclass
class Changeable:
    inner: object = None


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.builds(Point, inner) | st.builds(Open, inner)
    ),
    max_leaves=30,
)


def is_frozen(value: Any) -> bool:
    match value:
        case Point() | Open():
            return is_frozen(value.inner)
        case tuple():
            return all(map(is_frozen, cast(tuple[Any, ...], value)))
        case FrozenDict():
            return all(map(is_frozen, cast(dict[str, Any], value).values()))
        case _:
            return isinstance(value, str | int | float | bytes | None)


def thawed(value: Any) -> Any:
    """With lists for tuples and plain dicts, to compare what is said and not how."""
    match value:
        case Point() | Open():
            return type(value)(thawed(value.inner))
        case tuple() | list():
            return [thawed(item) for item in cast(list[Any], value)]
        case dict():
            return {key: thawed(item) for key, item in cast(dict[str, Any], value).items()}
        case _:
            return value


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


def refusals() -> list[Callable[[dict[str, int]], object]]:
    return [
        lambda it: it.__setitem__("a", 2),
        lambda it: it.__delitem__("a"),
        lambda it: it.__ior__({"a": 2}),
        lambda it: it.update(a=2),
        lambda it: it.setdefault("b", 2),
        lambda it: it.pop("a"),
        lambda it: it.popitem(),
        lambda it: it.clear(),
    ]


@pytest.mark.parametrize("place", range(3))
def test_one_list_among_frozen_values_is_found_wherever_it_stands(place: int) -> None:
    items: list[object] = ["a", "b", "c"]
    items[place] = [1]
    assert freeze(tuple(items))[place] == (1,)


@pytest.mark.promise(3)
@pytest.mark.fault(29)
@pytest.mark.parametrize("change", refusals())
def test_every_way_to_change_a_frozen_mapping_is_refused(change: Callable[[dict[str, int]], object]) -> None:
    mapping = FrozenDict({"a": 1})
    with pytest.raises(TypeError, match="this mapping is frozen"):
        change(mapping)
    assert mapping == {"a": 1}


@pytest.mark.promise(3)
def test_calling_init_again_changes_nothing() -> None:
    mapping = FrozenDict({"a": 1})
    mapping.__init__({"a": 2})
    assert mapping == {"a": 1}


def test_a_frozen_mapping_is_built_as_a_dict_is() -> None:
    assert FrozenDict() == {}
    assert FrozenDict([("a", 1)], b=2) == {"a": 1, "b": 2}
    assert FrozenDict.fromkeys("ab", 1) == {"a": 1, "b": 1}
    assert repr(FrozenDict({"a": 1})) == "FrozenDict({'a': 1})"


def test_a_frozen_mapping_goes_where_a_dict_goes() -> None:
    mapping = FrozenDict({"a": 1})
    assert json.dumps(mapping) == '{"a": 1}'
    assert msgspec.json.encode(mapping) == b'{"a":1}'
    assert msgspec.to_builtins(Holder(extra=mapping)) == {"extra": {"a": 1}, "parts": ()}
    assert {**mapping, "b": 2} == {"a": 1, "b": 2}
    match mapping:
        case {"a": int(value), **rest}:
            assert (value, rest) == (1, {})
        case _:
            pytest.fail("a frozen mapping is a mapping")


def test_joining_gives_a_frozen_mapping_and_copy_a_plain_one() -> None:
    mapping = FrozenDict({"a": 1})
    assert type(mapping | {"b": 2}) is FrozenDict
    assert mapping | {"b": 2} == {"a": 1, "b": 2}
    assert type(mapping.copy()) is dict


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_frozen_mapping_survives_pickle(protocol: int) -> None:
    mapping = freeze({"a": [1, {"b": 2}]})
    back = pickle.loads(pickle.dumps(mapping, protocol))
    assert (type(back), back) == (FrozenDict, mapping)


def test_a_copy_of_what_is_frozen_is_itself_and_one_of_what_is_not_is_deep() -> None:
    frozen, inner = freeze({"a": [1]}), [1]
    shallow = FrozenDict({"a": inner})
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert copy.deepcopy(shallow)["a"] is not inner
    assert copy.deepcopy(shallow) == shallow


def test_equal_frozen_mappings_have_equal_hashes_and_one_with_a_list_has_none() -> None:
    assert hash(freeze({"a": [1], "b": {}})) == hash(freeze({"b": {}, "a": [1]}))
    with pytest.raises(TypeError, match="unhashable"):
        hash(FrozenDict({"a": [1]}))


def test_a_struct_takes_a_frozen_mapping_from_json_once_it_is_frozen() -> None:
    holder = freeze(msgspec.json.decode(b'{"extra":{"a":[1,{"b":[]}]},"parts":[{"inner":[1]}]}', type=Holder))
    assert holder == Holder(extra=freeze({"a": [1, {"b": []}]}), parts=(Point((1,)),))
    assert type(holder.extra) is FrozenDict
    assert msgspec.json.encode(holder) == b'{"extra":{"a":[1,{"b":[]}]},"parts":[{"inner":[1]}]}'


@pytest.mark.promise(3)
@given(DATA)
def test_what_is_frozen_says_the_same_and_cannot_be_changed(value: object) -> None:
    frozen = freeze(value)
    assert is_frozen(frozen)
    assert thawed(frozen) == thawed(value)


@pytest.mark.promise(3)
@given(DATA)
def test_freezing_again_gives_the_same_object(value: object) -> None:
    frozen = freeze(value)
    assert freeze(frozen) is frozen
    assert freeze(Point(frozen)).inner is frozen


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    "made",
    [
        Made([1, {"a": [3]}], {"b": [2]}),
        msgspec.json.decode(b'{"parts":[1,{"a":[3]}],"extra":{"b":[2]}}', type=Made),
        msgspec.structs.replace(Made(), parts=[1, {"a": [3]}], extra={"b": [2]}),
        pickle.loads(pickle.dumps(Made([1, {"a": [3]}], {"b": [2]}))),
    ],
    ids=["made", "decoded", "replaced", "unpickled"],
)
def test_a_frozen_struct_is_frozen_inside_however_it_comes_about(made: Made) -> None:
    assert (made.parts, made.extra) == ((1, FrozenDict({"a": (3,)})), FrozenDict({"b": (2,)}))
    assert type(made.extra) is FrozenDict
    assert freeze(made) is made
    with pytest.raises(TypeError, match="the class 'object' cannot be frozen"):
        Made(object())


@pytest.mark.promise(3)
def test_a_frozen_struct_that_froze_nothing_is_not_believed() -> None:
    assert freeze(Hasty([1])).parts == (1,)
    with pytest.raises(TypeError, match="the class 'Melted' cannot be frozen"):
        freeze(Melted([1]))


def test_only_what_had_to_change_is_rebuilt() -> None:
    kept = Point((1, "a"))
    frozen = freeze(Holder(extra={"a": 1}, parts=(kept,)))
    assert frozen.parts[0] is kept
    assert type(frozen.extra) is FrozenDict


def test_a_frozen_mapping_with_something_changeable_in_it_is_frozen_inside() -> None:
    shallow = FrozenDict({"a": [1]})
    assert freeze(shallow) == {"a": (1,)}
    assert shallow == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "frozen"),
    [
        (MappingProxyType({"a": []}), FrozenDict({"a": ()})),
        (OrderedDict[str, object](a=[]), FrozenDict({"a": ()})),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        ({1, 2}, frozenset({1, 2})),
        (Pair(1, [2]), (1, (2,))),
        (Slotted([1]), Slotted((1,))),
        (Open({"a": 1}), Open(FrozenDict({"a": 1}))),
    ],
)
def test_other_containers_become_ours(value: object, frozen: object) -> None:
    result = freeze(value)
    assert (type(result), result) == (type(frozen), frozen)


@pytest.mark.parametrize(
    "atom",
    [
        *(None, True, 7, 1.5, 1j, "a", b"a", "\ud800", Color.RED, msgspec.UNSET, frozenset({1})),
        *(date(2026, 2, 28), datetime(2026, 2, 28, tzinfo=UTC), timedelta(1), Decimal("1.0"), UUID(int=1)),
        PurePosixPath("/a"),
    ],
)
def test_an_atom_is_itself(atom: object) -> None:
    assert freeze(atom) is atom


@pytest.mark.promise(3)
@pytest.mark.parametrize("plain", ["1", 1, 1.5, 1j, b"1"])
def test_of_a_subclass_of_an_atom_the_plain_value_is_taken(plain: str | float | complex | bytes) -> None:
    def lie(_: object) -> str:
        return "a lie"

    carrier: Any = type("Carrier", (type(plain),), {"__str__": lie})(plain)
    carrier.note = []
    frozen = freeze((carrier,))[0]
    assert (type(frozen), frozen) == (type(plain), plain)


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    "value",
    [Loose(), Changeable(), object(), len, Loose, lambda: None, Exception("a"), iter([1]), (item for item in [1])],
)
def test_what_could_be_changed_or_is_code_is_refused_by_the_name_of_its_class(value: object) -> None:
    with pytest.raises(TypeError, match=rf"the class '{type(value).__qualname__}' cannot be frozen; use"):
        freeze({"a": [value]})


@pytest.mark.parametrize("levels", [MAX_DEPTH, 20_000, 200_000])
def test_a_value_that_is_nested_too_deep_is_refused(levels: int) -> None:
    with pytest.raises(ValueError, match="more than 200 levels deep"):
        freeze(nested(levels))


def test_a_value_as_deep_as_allowed_is_frozen() -> None:
    assert freeze(nested(MAX_DEPTH - 1)) != ()


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[object] = []
    circle.append({"again": circle})
    with pytest.raises(ValueError, match="or in itself"):
        freeze(circle)


def test_where_the_stack_is_nearly_full_a_deep_value_is_refused_and_not_a_crash() -> None:
    def deeper(left: int) -> object:
        return freeze(nested(MAX_DEPTH - 1)) if left == 0 else deeper(left - 1)

    with pytest.raises((ValueError, RecursionError)):
        deeper(900)


@pytest.mark.parametrize("make", [freeze, Made])
def test_a_full_stack_is_told_as_a_value_that_is_too_deep(make: Callable[[object], object]) -> None:
    def deeper(left: int) -> object:
        return make(value) if left == 0 else deeper(left - 1)

    def told(left: int) -> str:
        try:
            deeper(left)
        except (ValueError, RecursionError) as error:
            return type(error).__name__
        return ""

    value = nested(MAX_DEPTH - 1)
    assert "ValueError" in map(told, range(0, sys.getrecursionlimit(), 20))


class Deep(FrozenStruct, frozen=True, kw_only=True):
    extra: Mapping[str, object] = FrozenDict()
    parts: tuple[object, ...] = ()


def made() -> Deep:
    return Deep(extra={"a": [1, {"b": [2]}]}, parts=cast("tuple[object, ...]", [[3]]))


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    "value",
    [
        made(),
        msgspec.structs.replace(Deep(), extra={"a": [1, {"b": [2]}]}, parts=[[3]]),
        msgspec.json.decode(b'{"extra": {"a": [1, {"b": [2]}]}, "parts": [[3]]}', type=Deep),
        msgspec.convert({"extra": {"a": [1, {"b": [2]}]}, "parts": [[3]]}, Deep),
        pickle.loads(pickle.dumps(made())),
    ],
    ids=["made", "replaced", "decoded", "converted", "unpickled"],
)
def test_a_frozen_struct_is_frozen_all_the_way_down_however_it_came_to_be(value: Deep) -> None:
    assert (value.extra, value.parts) == ({"a": (1, {"b": (2,)})}, ((3,),))
    assert is_frozen(value.extra)
    assert freeze(value) is value
    assert freeze([value]) == (value,)


@pytest.mark.promise(3)
@given(DATA)
def test_what_a_frozen_struct_holds_cannot_change_whatever_it_was_given(data: object) -> None:
    assert is_frozen(Deep(extra={"data": data}).extra)


def test_a_frozen_struct_refuses_what_cannot_be_frozen() -> None:
    with pytest.raises(TypeError, match="the class 'Changeable' cannot be frozen"):
        Deep(extra={"a": Changeable()})


def test_a_frozen_struct_keeps_what_is_frozen_already() -> None:
    value = made()
    again = Deep(extra=value.extra, parts=value.parts)
    assert (again.extra is value.extra, again.parts is value.parts) == (True, True)


def test_what_grows_is_a_tuple_whose_items_are_frozen() -> None:
    grown = Growing[object](([1],)).grown([2], {"n": [3]})
    assert grown == ((1,), (2,), {"n": (3,)})
    assert [type(item) for item in grown] == [tuple, tuple, FrozenDict]
    assert freeze(grown) is grown
    assert Made(parts=grown).parts is grown


@pytest.mark.parametrize("make", [lambda: Growing((Changeable(),)), lambda: Growing[object]().grown(Changeable())])
def test_what_grows_takes_nothing_that_can_change(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="the class 'Changeable' cannot be frozen"):
        make()


def test_what_grew_out_of_another_says_so_and_what_only_begins_like_it_does_not() -> None:
    root = Growing[str](("a",))
    left = root.grown("b")
    right = root.grown("c")
    assert [one.continues(root) for one in (root, left, left.grown("d"))] == [True, True, True]
    assert [root.continues(left), left.continues(("a",)), Growing(("a", "b")).continues(root)] == [False, False, False]
    assert [right.continues(left), right.continues(root)] == [False, False]
    assert (root, left, right, left.grown("d"), right.grown("d")) == (
        ("a",),
        ("a", "b"),
        ("a", "c"),
        ("a", "b", "d"),
        ("a", "c", "d"),
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(), max_size=3)), max_size=12))
def test_what_continues_another_begins_with_the_very_items_of_it(steps: list[tuple[int, list[int]]]) -> None:
    made = [Growing[int]()]
    for place, items in steps:
        made.append(made[place % len(made)].grown(*items))
    for one in made:
        for other in made:
            if one.continues(other):
                assert one[: len(other)] == other


def test_what_grows_survives_pickle_and_copies() -> None:
    value = Growing[str](("a",)).grown("b")
    value.grown("c")
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert (again, type(again), again.grown("d")) == (value, Growing, ("a", "b", "d"))
