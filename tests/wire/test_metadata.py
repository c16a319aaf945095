"""Metadata without a verdict are exactly one object with the one key `metadata`, or nothing at all."""

import json

import pytest
from hypothesis import given, strategies as st

from tenter.kernel import FrozenDict, HookFailure
from tenter.wire.metadata import decode_metadata


def failure_of(data: bytes) -> str:
    with pytest.raises(HookFailure) as caught:
        decode_metadata(data)
    assert caught.value.result == "bad_output"
    return caught.value.reason


def test_metadata_are_read_frozen_all_the_way_down() -> None:
    found = decode_metadata(b' {"metadata": {"risk_score": 0.72, "gates": ["a", {"b": null}]}}\n')
    assert found == {"risk_score": 0.72, "gates": ("a", {"b": None})}
    assert isinstance(found, FrozenDict)
    assert hash(found["gates"]) is not None


def test_an_empty_object_of_metadata_is_some() -> None:
    assert decode_metadata(b'{"metadata": {}}') == {}


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t "])
def test_blank_output_gives_none(data: bytes) -> None:
    assert decode_metadata(data) is None


@pytest.mark.fault(8)
@pytest.mark.fault(9)
@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"risk is high", "line 1, byte 0"),
        (b'{"metadata": {"a": 1}', "line 1, byte 21"),
        (b'checking\n{"metadata": {}}', "line 1, byte 0"),
        (b'{"metadata": {}} {"metadata": {}}', "line 1, byte 17"),
        (b"[]", "it is an array"),
        (b'"metadata"', "it is a string"),
        (b"null", "it is null"),
        (b"{}", "the object is empty"),
        (b'{"metadata": []}', "'metadata' is no object"),
        (b'{"metadata": null}', "'metadata' is no object"),
        (b'{"metadata": {}, "prompt": "x"}', "it has the key 'prompt'"),
        (b'{"metadata": {}, "replace": {}}', "it has the key 'replace'"),
        (b'{"decision": "block", "reason": "no"}', "it has the key 'decision', which counts only with 'verdict: json'"),
        (b'{"metadata": {}, "metadata": {}}', "'metadata' stands twice"),
        (b'{"metadata": {"a": 1, "a": 2}}', "'a' stands twice"),
        (b'{"metadata": {"a": NaN}}', "NaN"),
        (b'{"metadata": {"a": 9007199254740993}}', "2^53-1"),
        (b'{"metadata": {"a": "\\ud800"}}', "half a surrogate pair"),
        (b'\xef\xbb\xbf{"metadata": {}}', "byte order mark"),
        (b'{"metadata": {"a": "\xff"}}', "not UTF-8 (byte 20"),
        (b'{"metadata": {}}\0', "NUL (byte 16)"),
        (b'{"metadata":' + b"[" * 200_000, "100 levels"),
    ],
)
def test_anything_else_is_a_failure_that_says_why_and_what_was_expected(data: bytes, why: str) -> None:
    said = failure_of(data)
    assert said.startswith("invalid mutation output: ")
    assert why in said
    assert said.endswith('; expected exactly {"metadata": {…}}, or nothing')


@given(
    st.dictionaries(
        st.sampled_from(["metadata", "decision", "replace", "x"]), st.dictionaries(st.text("aé\u2028"), st.none())
    )
)
def test_an_object_counts_where_metadata_is_its_only_key(document: dict[str, dict[str, None]]) -> None:
    data = json.dumps(document).encode()
    if document.keys() == {"metadata"}:
        assert decode_metadata(data) == document["metadata"]
    else:
        assert failure_of(data)
