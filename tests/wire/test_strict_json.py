import contextlib
import json

import pytest
from hypothesis import given, settings, strategies as st

from tenter.kernel import HookFailure
from tenter.wire.strict_json import MAX_INTEGER, MAX_LEVELS, NotJson, one_object, one_value, shown

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def failure_of(data: bytes) -> str:
    with pytest.raises(HookFailure) as caught:
        one_object(data)
    assert caught.value.result == "bad_output"
    return caught.value.reason


@settings(deadline=None)
@given(st.dictionaries(TEXT, VALUES), st.booleans(), st.sampled_from([None, 2]))
def test_whatever_json_writes_is_read_back(value: dict[str, object], ascii_only: bool, indent: int | None) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert one_object(f"\n {written}\r\n\t".encode()) == value


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "it is empty"),
        (b" \r\n\t", "it is empty"),
        (b'"block"', "it is a string"),
        (b"[{}]", "it is an array"),
        (b"null", "it is null"),
        (b"true", "it is true or false"),
        (b"1.5", "it is a number"),
        (b"checking\n{}", "line 1, byte 0"),
        (b'{"a": 1}\n{"a": 1}', "line 2, byte 9"),
        (b'{"a": 1} done', "line 1, byte 9"),
        (b'{"a": 1}\x0c', "line 1, byte 8"),
        (b'{"a": ', "line 1, byte 6"),
        (b'{"a": 1,}', "line 1, byte "),  # at the comma from Python 3.13 on, before that behind it
        (b'{"\xc3\xa4": 1 2}', "line 1, byte 9"),
        (b"{'a': 1}", "line 1, byte 1"),
        (b'{"a": 01}', "line 1, byte 7"),
        (b'{"a": "NaN", "b": NaN}', "NaN is no JSON value (line 1, byte 18)"),
        (b'{"a": -Infinity}', "-Infinity is no JSON value (line 1, byte 6)"),
        (b'{"a": 1e999}', "1e999 is too large for a number (line 1, byte 6)"),
        (b'{"a": [0, 9007199254740992]}', "9007199254740992 is past 2^53-1"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "(line 1, byte 6)"),
    ],
)
def test_what_is_not_one_object_is_refused_with_its_place(data: bytes, place: str) -> None:
    assert place in failure_of(data)


@pytest.mark.fault(8)
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark (byte 0)"),
        (b'{"a": "\0"}', "NUL (byte 7)"),
        ('{"a": 1}'.encode("utf-16-le"), "NUL (byte 1)"),
        (b'{"a": "\xff"}', "byte 7: invalid start byte"),
        (b'{"a": "\xed\xa0\x80"}', "byte 7"),
        (b'{"a": [1, {"b": "x\\ud800y"}]}', "'a[1].b'"),
        (b'{"a": {"\\uDFFF": 1}}', r"'a.\udfff'"),
    ],
)
def test_bytes_that_are_no_clean_text_are_refused_with_their_place(data: bytes, place: str) -> None:
    assert place in failure_of(data)


def test_a_whole_surrogate_pair_and_an_escaped_backslash_are_text() -> None:
    assert one_object(rb'{"a": "\ud83d\ude00", "b": "\\ud800"}') == {"a": "😀", "b": r"\ud800"}


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("data", "key", "places"),
    [
        (b'{"decision": "block", "decision": "allow"}', "'decision'", "line 1, byte 1; line 1, byte 22"),
        (b'{"a": 1,\n "b": [{"k": 1,\n  "k": 2}]}', "'k'", "line 2, byte 17; line 3, byte 27"),
        (rb'{"decision": "block", "d\u0065cision": "allow"}', "'decision'", "line 1, byte 1; line 1, byte 22"),
        (b'{"a": {"a": {"a": ":"}}, "b": {"x": 1, "x" : 1}}', "'x'", "byte 31; line 1, byte 39"),
        (b'{"a": "{", "a": "}"}', "'a'", "byte 1; line 1, byte 11"),
    ],
)
def test_a_key_that_stands_twice_at_any_depth_is_refused_with_both_places(data: bytes, key: str, places: str) -> None:
    reason = failure_of(data)
    assert key in reason
    assert places in reason


@given(VALUES, st.data())
@settings(max_examples=50, deadline=None)
def test_a_repeated_key_is_found_wherever_it_stands(value: object, data: st.DataObject) -> None:
    twice = '{"k": 1, "k": 1}'
    place = data.draw(st.sampled_from(["$", "[$]", '{"a": $}', '[1, {"b": [$]}]']))
    written = '{"before": ' + json.dumps(value) + ', "it": ' + place.replace("$", twice) + "}"
    assert "the key 'k' stands twice" in failure_of(written.encode())


@pytest.mark.fault(9)
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_200_000_brackets_are_refused_with_the_place_where_it_gets_too_deep(opening: bytes) -> None:
    assert f"more than {MAX_LEVELS} levels (line 1, byte " in failure_of(opening * 200_000)


def test_levels_are_counted_outside_of_texts_only() -> None:
    deepest = b'{"a": ' + b"[" * (MAX_LEVELS - 1) + b"]" * (MAX_LEVELS - 1) + b"}"
    assert one_object(deepest)
    assert "byte 105" in failure_of(b'{"a": ' + b"[" * MAX_LEVELS + b"]" * MAX_LEVELS + b"}")
    assert one_object(b'{"a": "' + rb"\"[{" * 1000 + b'", "b": [' + b"[]," * 1000 + b"1]}")


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ 1eNaudt', max_size=40).map(str.encode))
def test_any_bytes_are_an_object_or_bad_output(data: bytes) -> None:
    found = None
    with contextlib.suppress(HookFailure):  # any other exception fails the test
        found = one_object(data)
    assert found is None or json.loads(data) == found


def test_what_an_error_names_is_escaped_and_cut() -> None:
    assert shown("a\n\u202e") == r"'a\n\u202e'"
    assert len(failure_of(b'{"' + b"k" * 5000 + b'": 1, "' + b"k" * 5000 + b'": 1}')) < 300


@settings(deadline=None)
@given(VALUES)
def test_any_value_is_read_back_too(value: object) -> None:
    assert one_value(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice"),
        (b"NaN", "NaN is no JSON value"),
        (b"1 2", "Extra data"),
        (b"", "it is empty"),
        (rb'"\ud800"', "half a surrogate pair"),
    ],
)
def test_what_is_not_one_value_is_said_without_calling_it_an_answer(data: bytes, why: str) -> None:
    with pytest.raises(NotJson, match=why):
        one_value(data)
