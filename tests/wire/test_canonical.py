import enum
import hashlib
import math
from dataclasses import dataclass

import msgspec
import pytest
import rfc8785
from hypothesis import given, strategies as st

from tenter.kernel import FrozenDict
from tenter.wire.canonical import (
    LARGE_TEXT,
    CanonicalError,
    Document,
    OversizeError,
    Parts,
    canonical,
    digest,
    digest_of_bytes,
    restore,
)

_SAFE = 2**53 - 1
_texts = st.text(st.characters(exclude_categories=["Cs"]))
_numbers = st.integers(-_SAFE, _SAFE) | st.floats(allow_nan=False, allow_infinity=False)
_keys = _texts.filter(lambda key: not key.startswith("$"))
_json = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner) | st.dictionaries(_keys, inner),
    max_leaves=30,
)
_odd_texts = st.text(st.characters() | st.characters(categories=["Cs"]) | st.sampled_from("\\\ud800\udfff$:"))
_odd_keys = st.sampled_from(
    ["$sha256", "$document", "$base64", "$text", "$$text", "$text:x", "$$text:x", "$", "$ref", "$sha256\n"]
)
_anything = st.recursive(
    st.none() | st.booleans() | _numbers | _odd_texts | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(_odd_texts | _odd_keys, inner),
    max_leaves=20,
)
_atoms = st.none() | st.booleans() | _numbers | _odd_texts


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: object


def _nothing(_digest: str) -> Parts | None:
    return None


@given(_json)
def test_plain_json_has_exactly_the_form_of_rfc_8785(value: object) -> None:
    expected = rfc8785.dumps(value)  # pyright: ignore[reportArgumentType]  # the strategy makes JSON values only
    assert canonical(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_has_the_form_of_rfc_8785(value: float) -> None:
    assert canonical({"n": value}) == rfc8785.dumps({"n": value})


@given(st.lists(st.binary(max_size=5), max_size=5))
def test_bytes_in_parts_have_the_digest_of_the_whole(parts: list[bytes]) -> None:
    assert digest_of_bytes(*parts) == "sha256:" + hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -7.0, 1e14, 999999999999999.0, 1e15, 0.5, 1.05])
def test_a_float_without_a_fraction_is_an_integer_beside_text_that_looks_like_one(value: float) -> None:
    content: list[object] = [value, "1.0", {"2.0": "x 3.0, 4.0"}, Call("5.0", (value,))]
    plain = [value, "1.0", {"2.0": "x 3.0, 4.0"}, {"name": "5.0", "arguments": [value]}]
    assert canonical(content) == Document(content).data == rfc8785.dumps(plain)


@given(_anything)
def test_what_is_written_comes_back(value: object) -> None:
    assert restore(canonical(value), _nothing) == value


@given(_anything)
def test_what_comes_back_has_the_same_form(value: object) -> None:
    data = canonical(value)
    assert canonical(restore(data, _nothing)) == data


@given(st.lists(_atoms) | st.dictionaries(_odd_texts | _odd_keys, _atoms))
def test_a_flat_value_has_the_same_form_by_itself_as_within_another(value: object) -> None:
    assert canonical([[value]]) == b"[[%b]]" % canonical(value)
    assert Document({"a": [value]}).data == b'{"a":[%b]}' % Document(value).data


@given(_anything)
def test_a_struct_has_the_form_of_the_mapping_that_it_stands_for(value: object) -> None:
    plain = {"name": "f", "arguments": value}
    assert canonical(Call("f", value)) == canonical(plain)
    assert canonical({"a": (Call("f", value), 1)}) == canonical({"a": [plain, 1]})
    assert Document([Call("f", value)]).data == Document([plain]).data


@given(_anything, _atoms)
def test_a_value_has_the_same_form_whether_what_it_keeps_is_wanted_or_not(value: object, atom: object) -> None:
    holder = {"documents": [Document(value)], "atom": atom}
    assert canonical(holder) == Document(holder).data


def test_what_is_known_is_not_fetched_again() -> None:
    inner = Document({"a": [1]})
    outer = Document({"one": inner, "other": [inner]})
    fetched: list[str] = []

    def fetch(name: str) -> Parts | None:
        fetched.append(name)
        return outer.kept.get(name)

    known: dict[str, object] = {}
    for _ in range(2):
        assert restore(outer.data, fetch, known) == {"one": {"a": [1]}, "other": [{"a": [1]}]}
    assert fetched == [inner.digest]
    assert known == {inner.digest: {"a": [1]}}


@given(st.integers(LARGE_TEXT // 4 - 2, LARGE_TEXT + 2), st.sampled_from(["a", "é", "😀", "\ud800"]))
def test_long_text_comes_back_and_is_kept_apart_only_above_64_kb(length: int, character: str) -> None:
    text = character * length
    document = Document(text)
    assert restore(document.data, document.kept.get) == text
    if character != "\ud800":
        assert bool(document.kept) == (len(text.encode()) > LARGE_TEXT)


def test_the_example_of_rfc_8785_has_its_form() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(value).decode() == expected


def test_keys_are_sorted_by_utf_16() -> None:
    assert canonical({"\ufb33": 1, "😀": 2}).decode() == '{"😀":2,"\ufb33":1}'


def test_the_digest_is_pinned() -> None:
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest({"b": [1, 1.5], "a": b"\x00"}) == (
        "sha256:7214626ceac0e28037f6da4788c9723fba81c51c22212cde99030ad55c5cc8f0"
    )


def test_structs_tuples_frozen_mappings_and_enums_have_the_form_of_plain_json() -> None:
    class Risk(enum.StrEnum):
        HIGH = "high"

    value = {"call": Call("shell", FrozenDict[str, object]({"argv": ("ls", Risk.HIGH)})), "tags": {"b", "a"}}
    assert canonical(value) == b'{"call":{"arguments":{"argv":["ls","high"]},"name":"shell"},"tags":["a","b"]}'


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**30])
def test_an_integer_past_2_53_is_refused_naming_the_place(number: int) -> None:
    with pytest.raises(CanonicalError, match=r"at 'calls\.1\.arguments\.n': an integer past 2\^53-1 .* as text"):
        canonical({"calls": [0, Call("f", {"n": number})]})
    with pytest.raises(CanonicalError, match=r"at 'n': an integer past"):
        canonical({"n": number})


def test_the_largest_integers_are_written_as_they_are() -> None:
    assert canonical([_SAFE, -_SAFE]) == b"[9007199254740991,-9007199254740991]"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_refused(number: float) -> None:
    with pytest.raises(CanonicalError, match=r"at 'x': .* no JSON number"):
        canonical({"x": number})


def test_a_large_float_comes_back_as_a_float() -> None:
    back = restore(canonical(1e20), _nothing)
    assert (back, type(back)) == (1e20, float)


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(CanonicalError, match="a key must be text, not 'int'"):
        canonical({1: "one"})


def test_an_unknown_object_is_refused_by_the_name_of_its_class() -> None:
    with pytest.raises(CanonicalError, match="at 'x': a value of 'object' has no canonical form"):
        canonical({"x": object()})


@pytest.mark.parametrize("open_bracket", ["[", "{"])
def test_deep_nesting_is_refused(open_bracket: str) -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value] if open_bracket == "[" else {"k": value}
    with pytest.raises(CanonicalError, match="nested more than 200 levels"):
        canonical(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(CanonicalError, match="nested more than 200 levels"):
        canonical(value)


@pytest.mark.fault(43)
def test_a_text_cannot_pose_as_a_mark() -> None:
    forged = {"$sha256": "00" * 32}
    assert canonical(forged) != canonical("x" * (LARGE_TEXT + 1))
    assert restore(canonical(forged), _nothing) == forged
    assert canonical({"$ref": "#/x"}) == b'{"$ref":"#/x"}'
    assert canonical({"$base64": "AAAA"}) != canonical(b"\x00\x00\x00")


@pytest.mark.fault(8)
def test_lone_surrogates_are_escaped_and_come_back() -> None:
    text = "a\\\udcffb\n"
    assert canonical(text) == rb'{"$text":"a\\\\\\udcffb\n"}'
    assert restore(canonical({text: text}), _nothing) == {text: text}


def test_a_document_is_written_by_its_digest_and_kept_with_what_it_keeps() -> None:
    large = "x" * (LARGE_TEXT + 1)
    message = Document({"role": "tool", "text": large})
    outer = Document({"added": [message]})
    assert outer.data == b'{"added":[{"$document":"%s"}]}' % message.digest.removeprefix("sha256:").encode()
    assert outer.kept.keys() == {message.digest, *message.kept}
    assert restore(outer.data, outer.kept.get) == {"added": [{"role": "tool", "text": large}]}


@pytest.mark.parametrize(
    "value", ["x" * (LARGE_TEXT + 1), b"x" * (LARGE_TEXT + 1), "\ud800" * LARGE_TEXT, Document({"a": 1})]
)
def test_what_was_not_fetched_is_a_reference_with_the_form_of_the_value(value: object) -> None:
    data = canonical([value])
    back = restore(data, _nothing)
    assert "Reference" in repr(back)
    assert canonical(back) == data


def test_more_text_than_allowed_is_refused_before_it_is_written() -> None:
    Document({"a": "x" * 99}, at_most=101)
    for value in ({"a": "x" * 101}, {"a": b"x" * 101}, {"x" * 101: 1}, [0] * 102):
        with pytest.raises(OversizeError, match="more than 101 characters"):
            Document(value, at_most=101)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b'{"$base64":"a"}'])
def test_bytes_that_are_no_canonical_form_are_refused(data: bytes) -> None:
    with pytest.raises(CanonicalError, match="no canonical form"):
        restore(data, _nothing)


def test_a_value_is_not_changed_by_being_written() -> None:
    inner = {"$text": "x", "b": [b"1", "\ud800"]}
    value = {"a": inner, "t": (1.0, inner)}
    canonical(value)
    assert value == {"a": {"$text": "x", "b": [b"1", "\ud800"]}, "t": (1.0, inner)}


def test_documents_are_equal_by_their_digest() -> None:
    @dataclass(frozen=True)
    class Message:
        role: str

    assert {Document({"role": "user"}), Document(Message("user"))} == {Document({"role": "user"})}
    assert Document({"a": 1}) != Document({"a": True})
