"""The law of a capture: it says of a stream what its bytes say, however they came."""

import pytest
from hypothesis import given, strategies as st

from tenter.executors.capture import NOTHING, Capture, Captured, escape, from_whole_character

CHARACTERS = "aé€😀\0\ufeff"


def captured(*chunks: bytes, limit: int, tail_bytes: int = 0) -> Captured:
    capture = Capture(limit, tail_bytes=tail_bytes)
    for chunk in chunks:
        capture.feed(chunk)
    return capture.captured()


def test_a_stream_without_bytes_is_nothing() -> None:
    assert captured(limit=10) is NOTHING
    assert Captured(text="", raw=b"", truncated=False, total_bytes=0, tail="") == NOTHING


def test_a_short_stream_is_kept_whole() -> None:
    assert captured(b"warp ", b"and weft", limit=13) == Captured("warp and weft", b"warp and weft", False, 13)


def test_a_long_stream_is_cut_and_counted() -> None:
    assert captured(b"warp ", b"and weft", limit=6) == Captured("warp a", b"warp a", True, 13)


@pytest.mark.fault(8)
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\xffb", "a\\xffb"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        (b"\xc0\x80", "\\xc0\\x80"),
        (b"\xf0\x9f\x98", "\\xf0\\x9f\\x98"),
        (b"a\0b", "a\0b"),
        (b"\xef\xbb\xbf{}", "\ufeff{}"),
    ],
)
def test_bytes_that_are_no_text_are_kept_and_escaped(raw: bytes, text: str) -> None:
    result = captured(raw, limit=100)
    assert (result.raw, result.text, result.truncated) == (raw, text, False)


def test_a_cut_never_goes_through_a_character() -> None:
    assert [captured("a€b".encode(), limit=limit).text for limit in range(1, 6)] == ["a", "a", "a", "a€", "a€b"]


def test_a_character_that_the_stream_itself_left_unfinished_is_escaped() -> None:
    assert captured(b"a\xe2\x82", limit=3).text == "a\\xe2\\x82"


def test_a_limit_of_zero_keeps_nothing_and_counts() -> None:
    assert captured(b"abc", limit=0) == Captured("", b"", True, 3)


@given(st.lists(st.binary(max_size=12) | st.text(CHARACTERS, max_size=6).map(str.encode)), st.integers(0, 60))
def test_how_a_stream_was_cut_into_chunks_makes_no_difference(chunks: list[bytes], limit: int) -> None:
    assert captured(*chunks, limit=limit, tail_bytes=7) == captured(b"".join(chunks), limit=limit, tail_bytes=7)


@given(st.text(CHARACTERS), st.integers(0, 60))
def test_of_text_the_longest_beginning_of_whole_characters_within_the_limit_is_kept(text: str, limit: int) -> None:
    fitting = (text[:count] for count in range(len(text), -1, -1))
    longest = next(each for each in fitting if len(each.encode()) <= limit)
    assert captured(text.encode(), limit=limit).text == longest


@given(st.binary(), st.integers(0, 60))
def test_what_is_kept_is_a_beginning_of_the_stream_and_text_says_the_same(raw: bytes, limit: int) -> None:
    result = captured(raw, limit=limit)
    assert raw.startswith(result.raw)
    assert min(len(raw), limit) - 3 <= len(result.raw) <= limit
    assert result.text == escape(result.raw)
    assert result.total_bytes == len(raw)
    assert result.truncated == (len(raw) > limit)


@given(st.text(CHARACTERS), st.integers(1, 20))
def test_the_tail_is_the_longest_end_of_whole_characters(text: str, tail_bytes: int) -> None:
    fitting = (text[start:] for start in range(len(text) + 1))
    longest = next(each for each in fitting if len(each.encode()) <= tail_bytes)
    assert captured(text.encode(), limit=3, tail_bytes=tail_bytes).tail == longest


def test_the_tail_is_kept_past_the_limit_and_escaped() -> None:
    assert captured(b"x" * 100, b"the reason \xff", limit=10, tail_bytes=12).tail == "the reason \\xff"


def test_no_more_is_taken_from_the_front_than_a_character_can_have_left() -> None:
    assert from_whole_character(b"\x80" * 5) == b"\x80" * 2


def test_memory_is_bounded_by_limit_and_tail() -> None:
    capture = Capture(1000, tail_bytes=100)
    for _ in range(100):
        capture.feed(b"x" * 65_536)
    result = capture.captured()
    assert (len(result.raw), len(result.text), len(result.tail), result.total_bytes) == (1000, 1000, 100, 6_553_600)
