"""A line of the events file is an event, or it is said in a few words why not; nothing is guessed."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tenter.loop.events_file import MOST_PAYLOAD, publish
from tenter.loop.published import LONGEST_LINE, Malformed, count_lines, parse_events
from tenter.loop.state import Published

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
PAYLOADS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def line(topic: object = "build.done", **more: object) -> bytes:
    return json.dumps({"schema_version": 1, "topic": topic, **more}).encode()


def why(data: bytes) -> str:
    (found,) = parse_events(data + b"\n")
    assert isinstance(found, Malformed)
    return found.why


@given(st.lists(st.tuples(st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5}){0,2}", fullmatch=True), PAYLOADS), max_size=5))
def test_every_payload_of_json_comes_back_frozen(written: list[tuple[str, object]]) -> None:
    data = b"".join(line(topic, payload=payload, at=1.5) + b"\n" for topic, payload in written)
    assert parse_events(data) == tuple(Published(topic, payload) for topic, payload in written)


def test_what_tenter_publishes_is_read_however_long_it_is(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    for payload in ("\0" * MOST_PAYLOAD, "✓" * (MOST_PAYLOAD // 3), {"a": [1, None]}, None):
        publish(file, "build.done", payload, at=1_770_000_000.25)
    topics = [one.topic for one in parse_events(file.read_bytes()) if isinstance(one, Published)]
    assert topics == ["build.done"] * 4


def test_a_payload_may_be_missing_and_keys_that_are_not_known_are_left_aside() -> None:
    assert parse_events(line() + b"\r\n" + line("a", colour="red", payload=1)) == (
        Published("build.done"),
        Published("a", 1),
    )


@pytest.mark.fault(8)
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_line_counts_with_and_without_its_end_and_half_of_it_is_no_event(end: bytes) -> None:
    assert parse_events(line("a") + b"\n" + line("b") + end) == (Published("a"), Published("b"))
    found = parse_events(line("a") + b"\n" + line("b")[:-5] + end)
    assert found[0] == Published("a")
    assert isinstance(found[1], Malformed)
    assert found[1].line == 2


def test_lines_are_numbered_from_the_first_of_the_file_and_blank_ones_say_nothing() -> None:
    data = b"\n  \nx\n" + line("a") + b"\n\t\r\n{}\n\n"
    assert [one.line if isinstance(one, Malformed) else one.topic for one in parse_events(data, 41)] == [43, "a", 46]
    assert parse_events(b"") == parse_events(b"\n\n") == ()


@given(st.lists(st.sampled_from([b"", b"{}", b" ", line()])), st.booleans())
def test_every_line_is_counted_once(lines: list[bytes], ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    expected = len(lines) if ended or not lines or lines[-1] else len(lines) - 1
    assert count_lines(data) == expected


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"hello", "Expecting value (byte 0)"),
        (b"[1]", "it is no JSON object"),
        (b'"a"', "it is no JSON object"),
        (b"{}", "it has no 'schema_version': 1"),
        (line(schema_version=0), "it has no 'schema_version': 1"),
        (line(schema_version=True), "it has no 'schema_version': 1"),
        (line(schema_version="1"), "it has no 'schema_version': 1"),
        (line(schema_version=2), "its schema_version is newer than this tenter reads (1)"),
        (b'{"schema_version": 1}', "its 'topic' is not words of letters"),
        (line(5), "its 'topic' is not words of letters"),
        (line("a b"), "its 'topic' is not words of letters"),
        (line("plan.*"), "its 'topic' is not words of letters"),
        (line("a" * 201), "its 'topic' is not words of letters"),
        (line(at="now"), "its 'at' is no number of seconds"),
        (line(at=True), "its 'at' is no number of seconds"),
        (b'{"schema_version": 1, "topic": "a", "topic": "b"}', "the key 'topic' stands twice in one object (byte 22"),
        (b'{"schema_version": 1, "topic": "a", "payload": {"k": 1, "k": 2}}', "the key 'k' stands twice in one object"),
        (line(payload=float("nan")), "NaN is no JSON value (byte "),
        (b'{"schema_version": 1, "topic": "a", "payload": 1e999}', "1e999 is too large for a number"),
        (b'{"schema_version": 1, "topic": "a", "payload": 9007199254740992}', "9007199254740992 is past 2^53-1"),
        (line(payload="\ud800"), "the text at 'payload' holds half a surrogate pair"),
        (b'{"schema_version": 1, "topic": "a\0"}', "it holds NUL (byte 33)"),
        (b'{"schema_version": 1, "topic": "\xff"}', "it is not UTF-8 (byte 32"),
        (b"\xef\xbb\xbf" + line(), "it begins with a byte order mark"),
        (line() + line(), "Extra data (byte "),
        (b'{"schema_version": 1, "topic": "a", "payload": ' + b"[" * 200_000, "it nests more than 100 levels"),
        (b"[" * 200_000, "it nests more than 100 levels"),
        (line(payload="x" * 10_000_000), f"it is longer than {LONGEST_LINE} bytes"),
        (b"x" * 10_000_000, f"it is longer than {LONGEST_LINE} bytes"),
        (b'{"' + b"k" * 100_000 + b'": 1, "' + b"k" * 100_000 + b'": 2}', "the key 'kkkk"),
    ],
)
def test_what_is_no_event_is_said_in_a_few_words(data: bytes, said: str) -> None:
    found = why(data)
    assert found.startswith(said)
    assert len(found) < 200
    assert found.isprintable()


@given(st.binary(max_size=200))
def test_whatever_stands_there_is_read_line_by_line(data: bytes) -> None:
    found = parse_events(data, 7)
    worded = [number for number, one in enumerate(data.split(b"\n"), 7) if one.strip()]
    assert len(found) == len(worded)
    assert all(one.line == number for one, number in zip(found, worded, strict=True) if isinstance(one, Malformed))


@pytest.mark.timed
def test_many_events_take_as_long_as_they_are_many() -> None:
    def seconds(count: int) -> float:
        data = b"".join(line(payload={"n": number}) + b"\n" for number in range(count))
        begun = time.process_time()
        assert len(parse_events(data)) == count
        return time.process_time() - begun

    assert any(seconds(100_000) < 40 * seconds(5_000) for _ in range(3))
