import dataclasses
import enum
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, ClassVar, NamedTuple, cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.kernel.frozen import FrozenDict, freeze
from tenter.kernel.masking import MASK, FuzzyPair, TextMask
from tenter.kernel.walker import REMEMBERED, Memory, Walker

SECRET = "hunter2-hunter2"


class Leaf(msgspec.Struct, frozen=True):
    inner: object = None


class Turn(msgspec.Struct, frozen=True):
    __opaque__: ClassVar[tuple[str, ...]] = ("extensions",)

    text: str = ""
    extensions: Mapping[str, object] = FrozenDict()


class Loose(msgspec.Struct):
    inner: object = None


class Named(msgspec.Struct, frozen=True):
    pin: object = None
    note: str = ""


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    inner: object


@dataclasses.dataclass
class Open:
    inner: object


class Color(enum.StrEnum):
    HUNTER = SECRET


class Watched(FrozenDict[str, object]):
    __slots__ = ("__weakref__",)


DATA = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.just(f"<{SECRET}>") | st.just(SECRET.encode()),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.just(SECRET), inner)
        | st.builds(Leaf, inner)
        | st.builds(Slotted, inner)
    ),
    max_leaves=30,
)


def walker(*told: str | bytes) -> Walker:
    return Walker(TextMask(told or (SECRET,)))


def fuzzy_walker() -> Walker:
    return Walker(TextMask([SECRET], fuzzy=[FuzzyPair(name="pin", text=r"pin=(\S+)", key="pin")]))


def redacted(value: object) -> Any:
    return walker().redact(value)[0]


@pytest.mark.promise(4)
@pytest.mark.fault(60)
@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (f"<{SECRET}>", f"<{MASK}>"),
        (SECRET.encode(), MASK.encode()),
        (bytearray(SECRET.encode()), bytearray(MASK.encode())),
        ([SECRET, 1], [MASK, 1]),
        ((SECRET, 1), (MASK, 1)),
        ({SECRET}, {MASK}),
        (frozenset({SECRET}), frozenset({MASK})),
        ({SECRET: SECRET}, {MASK: MASK}),
        (FrozenDict({"a": SECRET}), FrozenDict({"a": MASK})),
        (OrderedDict({"a": SECRET}), {"a": MASK}),
        (Leaf(SECRET), Leaf(MASK)),
        (Slotted(SECRET), Slotted(MASK)),
        (Open(SECRET), Open(MASK)),
        (Pair(SECRET, 1), Pair(MASK, 1)),
        (PurePosixPath(f"/a/{SECRET}/b"), PurePosixPath(f"/a/{MASK}/b")),
    ],
)
def test_a_secret_is_masked_in_every_kind_of_value(value: object, masked: object) -> None:
    result = redacted(value)
    assert result == masked
    assert type(result) is type(masked)


@pytest.mark.promise(4)
@pytest.mark.fault(60)
def test_a_secret_ten_levels_deep_is_masked_and_the_rest_is_kept() -> None:
    value: object = {SECRET: (b"x" + SECRET.encode(), Leaf([SECRET]))}
    beside = Leaf("beside")
    for _ in range(10):
        value = (Leaf(value), beside, {"k": [1]})
    result = redacted(value)
    assert SECRET not in repr(result)
    assert SECRET.encode() not in msgspec.json.encode(result)
    assert result[1] is beside
    assert repr(result).count(MASK) == repr(value).count(SECRET)


@pytest.mark.promise(4)
@given(DATA)
def test_nothing_told_is_left_and_masking_again_gives_the_same_object(value: object) -> None:
    walk = walker()
    result = walk.redact(value)[0]
    assert SECRET not in repr(result)
    assert walk.redact(result)[0] is result
    assert walker().redact(result)[0] is result


@given(DATA)
def test_a_value_without_a_secret_is_the_same_object(value: object) -> None:
    assert Walker(TextMask(["not in there, surely"])).redact(value)[0] is value


@given(DATA)
def test_the_shape_is_kept(value: object) -> None:
    def shape(item: Any) -> object:
        match item:
            case Leaf() | Slotted():
                return type(item), shape(item.inner)
            case dict():
                return dict, list(map(shape, cast(dict[object, object], item).values()))
            case list():
                return list, list(map(shape, cast(list[object], item)))
            case tuple():
                return tuple, list(map(shape, cast(tuple[object, ...], item)))
            case _:
                return cast(object, type(item))

    assert shape(redacted(value)) == shape(value)


def test_two_keys_that_are_alike_once_masked_are_both_kept() -> None:
    other = "hunter3-hunter3"
    value = {SECRET: 1, MASK: 2, other: 3, f"{MASK} (2)": 4, SECRET.encode(): 5, (SECRET,): 6, (other,): 7}
    result: Any = walker(SECRET, other).redact(value)[0]
    assert result == {
        f"{MASK} (3)": 1,
        MASK: 2,
        f"{MASK} (4)": 3,
        f"{MASK} (2)": 4,
        MASK.encode(): 5,
        (MASK,): 6,
        ((MASK,), 2): 7,
    }
    assert list(result.values()) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.promise(4)
@pytest.mark.fault(60)
def test_an_enum_member_that_shows_a_secret_is_masked_and_any_other_stays() -> None:
    shown: Any = enum.Enum(
        "shown", {"BYTES": SECRET.encode(), "PAIR": ("a", SECRET), SECRET: 1, "OPEN": object(), "B": "b"}
    )
    for member in (Color.HUNTER, shown["BYTES"], shown["PAIR"], shown[SECRET]):
        assert redacted({"a": [member], member: 1}) == {"a": [MASK], MASK: 1}
    value = (shown["OPEN"], shown["B"])
    assert redacted(value) is value

    class Hidden(bytes, enum.Enum):
        A = SECRET.encode()

        @property
        def value(self) -> object:
            raise SystemExit

    assert redacted([Hidden.A]) == [MASK]
    number: Any = enum.Enum("number", {"A": 83746501})
    assert walker("83746501").redact((number["A"],))[0] == (MASK,)


@pytest.mark.promise(4)
@pytest.mark.fault(60)
@pytest.mark.parametrize("told", ["83746501", "550e8400-e29b-41d4-a716-446655440000"])
def test_a_number_or_uuid_that_shows_a_secret_is_masked(told: str) -> None:
    values = [UUID(told)] if "-" in told else [int(told), float(told), Decimal(told), type("T", (int,), {})(told)]
    for value in values:
        assert walker(told).redact({"a": [value], value: Leaf((value, True, 7))})[0] == {
            "a": [MASK],
            MASK: Leaf((MASK, True, 7)),
        }
        assert walker(told).redact(Leaf(value))[0] == Leaf(MASK)
        assert walker(told).redact(value)[0] == MASK
        assert walker().redact(freeze({"a": value}))[0] == {"a": value}


def test_a_short_number_is_masked_where_it_is_data_and_not_in_a_field() -> None:
    walk = walker("8374")
    assert walk.redact({"a": 8374, "b": 83745, "c": (Leaf(8374),)})[0] == {"a": MASK, "b": 83745, "c": (Leaf(8374),)}
    kept = Leaf(8374)
    assert walk.redact(kept)[0] is kept
    assert walk.redact(Leaf((8374, "8374", kept)))[0] == Leaf((MASK, MASK, kept))


def test_of_a_text_subclass_only_the_plain_text_counts() -> None:
    class Lying(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "nothing"

    assert redacted([Lying(SECRET)]) == [MASK]


def test_an_opaque_entry_with_a_secret_is_dropped_whole_and_noted() -> None:
    kept = freeze({"deep": ["opaque", {"a": 1}]})
    turn = Turn(f"<{SECRET}>", freeze({"kept": kept, "blob": {"x": [SECRET]}, SECRET: 1, "a b": SECRET}))
    result, notes = walker().redact(turn)
    assert result == Turn(f"<{MASK}>", FrozenDict({"kept": kept}))
    assert sorted(notes) == ["dropped Turn.extensions", "dropped Turn.extensions", "dropped Turn.extensions.blob"]
    assert isinstance(result, Turn)
    assert result.extensions["kept"] is kept


def test_opaque_entries_without_a_secret_are_the_same_object() -> None:
    turn = Turn(SECRET, freeze({"kept": ["opaque"]}))
    result, notes = walker().redact(turn)
    assert isinstance(result, Turn)
    assert result.extensions is turn.extensions
    assert notes == []


def test_text_under_a_name_is_masked_only_where_names_count() -> None:
    value = freeze(
        {"pin": "1234", "list": [{"pin": ["a", b"b", 3, {"pin": "c"}]}], "pins": "kept", "empty": {"pin": ""}}
    )
    assert walker().redact(value)[0] is value
    assert fuzzy_walker().redact(value)[0] == {
        "pin": MASK,
        "list": ({"pin": (MASK, MASK.encode(), 3, {"pin": MASK})},),
        "pins": "kept",
        "empty": {"pin": ""},
    }
    assert fuzzy_walker().redact(Named("1234", "pin=5"))[0] == Named(MASK, f"pin={MASK}")


def test_a_secret_in_what_stands_under_a_name_is_masked_as_well() -> None:
    assert fuzzy_walker().redact({"pin": {"a": SECRET}})[0] == {"pin": {"a": MASK}}
    assert fuzzy_walker().redact({"pin": ("x", {"a": SECRET})})[0] == {"pin": (MASK, {"a": MASK})}


def test_names_that_are_masked_already_change_nothing() -> None:
    value = fuzzy_walker().redact({"pin": "1234", "a": ["pin=5"]})[0]
    assert fuzzy_walker().redact(value)[0] is value


def test_a_shared_value_stays_shared() -> None:
    shared = [SECRET]
    first, second = redacted((shared, shared))
    assert first is second
    assert first == [MASK]


def test_shared_values_are_walked_once() -> None:
    bomb: object = (SECRET,)
    for _ in range(100):
        bomb = (bomb, bomb)
    result = redacted(bomb)
    for _ in range(100):
        result = result[0]
    assert result == (MASK,)


def test_a_value_in_itself_or_nested_too_deep_is_refused_when_it_holds_a_secret() -> None:
    circle: list[object] = [SECRET]
    circle.append(circle)
    deep: object = SECRET
    for _ in range(200_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(ValueError, match="nested more than 200 levels deep"):
            redacted(value)


def test_a_value_in_itself_or_nested_deep_passes_when_it_holds_none() -> None:
    circle: list[object] = []
    circle.append(circle)
    deep: object = "a text"
    for _ in range(200_000):
        deep = [deep]
    assert redacted(circle) is circle
    assert redacted(deep) is deep


@pytest.mark.promise(4)
@pytest.mark.parametrize("value", [object(), Exception(SECRET), len, iter([SECRET]), memoryview(SECRET.encode())])
def test_what_cannot_be_looked_into_is_refused(value: object) -> None:
    with pytest.raises(
        TypeError, match=rf"class '{type(value).__name__}' cannot be looked into .* give its text instead"
    ):
        redacted({"a": [value]})


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    "value",
    [
        Leaf([1]),
        Leaf(bytearray(b"a")),
        (Loose(1),),
        FrozenDict({"a": [1]}),
        Slotted(Open(1)),
        ({"a"},),
        Leaf(type("T", (int,), {})(1)),
    ],
)
def test_what_could_change_is_never_remembered(value: object) -> None:
    walk = walker()
    assert walk.redact(value)[0] is value
    assert not walk.knows(value)


def test_a_frozen_value_is_remembered_with_all_that_is_in_it() -> None:
    walk, inner, long = walker(), Leaf(("a",)), "long " * 1000
    value = freeze({"a": inner, "b": long})
    assert not walk.knows(value)
    walk.redact(value)
    assert all(map(walk.knows, (value, inner, inner.inner, long)))
    assert not walk.knows(freeze({"a": inner, "b": long}))


def test_a_masked_result_is_remembered() -> None:
    walk = walker()
    value = Leaf((SECRET,))
    result = walk.redact(value)[0]
    assert walk.knows(result)
    assert not walk.knows(value)


def test_what_is_remembered_is_not_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, turns, seen = walker(), tuple(Turn(f"turn {n}") for n in range(2000)), list[bytes]()
    touches = walk.mask.touches

    def spy(data: bytes) -> bool:
        seen.append(data)
        return touches(data)

    monkeypatch.setattr(walk.mask, "touches", spy)
    walk.redact(turns)
    walk.redact((*turns, Turn("the new one")))
    walk.redact(turns)
    assert len(seen[0]) > 2000
    assert seen[1:] == [b"the new one"]


def test_a_value_with_too_much_in_it_is_left_to_another() -> None:
    walk = walker()
    assert walk.redact_little("x" * 11, characters=10, values=5) is None
    assert walk.redact_little([b"x" * 11], characters=10, values=5) is None
    assert walk.redact_little([1] * 5, characters=10, values=5) is None
    assert walk.redact_little("x" * 10, characters=10, values=5) == ("x" * 10, ())
    for wide in (dict.fromkeys(range(6)), [None] * 6, (None,) * 41, tuple(range(6)), FrozenDict.fromkeys(range(6))):
        assert walk.redact_little(wide, characters=10, values=5) is None
    large = freeze(["x" * 11])
    walk.redact(large)
    assert walk.redact_little(large, characters=10, values=5) == (large, ())


def test_a_text_in_which_much_may_change_is_left_to_another() -> None:
    walk = walker()
    assert walk.redact_little([SECRET] * 10, characters=16 * 150, values=50) == ([MASK] * 10, [])
    assert walk.redact_little([SECRET] * 10, characters=16 * 149, values=50) is None
    assert walk.redact_little(["x" * 15] * 10, characters=150, values=50) is not None


def test_a_wide_tuple_of_which_all_but_a_little_is_known_is_looked_through() -> None:
    walk, turns = walker(), tuple(Turn(f"turn {n}") for n in range(30))
    walk.redact(turns)
    assert walk.redact_little((*turns, Turn("new")), characters=10, values=5) is not None


def test_a_memory_forgets_what_was_not_asked_for_and_lets_it_go() -> None:
    memory, asked, unasked = Memory(), Watched(a=1), Watched(a=2)
    memory.add((asked, unasked), 0)
    gone = weakref.ref(unasked)
    del unasked
    memory.add((), REMEMBERED + 1)
    assert memory.knows(asked)
    memory.add((), REMEMBERED + 1)
    assert memory.knows(asked)
    assert gone() is None
    memory.add((), REMEMBERED + 1)
    memory.add((), REMEMBERED + 1)
    assert not memory.knows(asked)
