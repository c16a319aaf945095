"""How text reaches a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given, strategies as st

from tenter.cli.texts import YEAR_10000, ends, escaped, json_text, moment, one_line, quoted_block, seconds

JOINERS = "\u200c\u200d"
HOSTILE = "\x1b[31m\x9b2J\u202e\u2066\u2028\u2029\u0085\x00\x7f\r\x0b"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("aé\u202e\x1b😀", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def obeyed(text: str) -> list[str]:
    """The characters that a terminal would obey, or that would move their neighbours."""
    return [
        one
        for one in text
        if one not in "\n\t" + JOINERS and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    ]


@pytest.mark.fault(43)
@given(st.text())
def test_nothing_in_an_escaped_text_is_obeyed(text: str) -> None:
    assert obeyed(escaped(text)) == []
    assert escaped(text).count("\n") == text.count("\n")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_prints_is_left_alone(text: str) -> None:
    assert escaped(text) == text


def test_joined_emoji_and_tabs_are_shown_as_they_are() -> None:
    assert escaped("👩\u200d🔧\tx\u00a0y") == "👩\u200d🔧\tx\u00a0y"


@pytest.mark.fault(43)
@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_line_and_no_longer_than_asked(text: str, length: int) -> None:
    shown = one_line(text, length)
    assert "\n" not in shown
    assert "\t" not in shown
    assert obeyed(shown) == []
    assert len(shown) <= length


def test_a_run_of_spaces_stays_and_a_line_end_becomes_one_space() -> None:
    assert one_line("  a  b\n    c\t d ") == "  a  b c d"


def test_what_is_no_text_is_shown_as_json() -> None:
    assert one_line({"path": "ä"}) == '{"path": "ä"}'


def test_a_cut_is_marked() -> None:
    assert one_line("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", ""), ("one\n", "one"), ("one\ntwo", "one … two (2 lines)"), ("\n a\n\n b\n", "a … b (3 lines)")],
)
def test_the_ends_of_a_text_say_how_long_it_is(text: str, shown: str) -> None:
    assert ends(text) == shown


@given(st.text(), st.integers(20, 100))
def test_the_ends_of_a_text_fit_the_line(text: str, length: int) -> None:
    assert len(ends(text, length)) <= length
    assert obeyed(ends(text, length)) == []


@pytest.mark.fault(43)
def test_no_line_of_a_foreign_text_can_be_taken_for_one_of_ours() -> None:
    shown = quoted_block(f"no\nrun 1: completed\r\nrun 2: completed{HOSTILE}x\n")
    assert all(line.startswith("  | ") for line in shown.splitlines())
    assert len(shown.splitlines()) == 3


@pytest.mark.fault(43)
@given(JSON)
def test_json_is_exact_plain_ascii_and_one_line(value: object) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert all(" " <= one <= "~" for one in text)


@pytest.mark.parametrize(("duration", "shown"), [(0.0004, "0 ms"), (0.25, "250 ms"), (1.0, "1.0 s"), (75.04, "75.0 s")])
def test_a_duration_is_told_in_milliseconds_below_a_second(duration: float, shown: str) -> None:
    assert seconds(duration) == shown


def test_a_moment_is_told_in_utc_and_one_past_all_dates_as_such() -> None:
    assert moment(1_000.9) == "1970-01-01T00:16:40Z"
    assert moment(YEAR_10000 - 1) == "9999-12-31T23:59:59Z"
    assert moment(YEAR_10000) == "the year 10000 or later"


@pytest.mark.fault(51)
def test_what_is_on_record_is_printed_whatever_it_is() -> None:
    assert json_text({"a": "\udcff", "b": 2**70, "c": "é\x7f"}) == (
        r'{"a":"\udcff","b":1180591620717411303424,"c":"\u00e9\u007f"}'
    )
    assert escaped("\udcff\n") == "\\udcff\n"
    assert one_line({"a": "\ud800"}) == r'{"a": "\ud800"}'
