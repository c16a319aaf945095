"""How errors name a culprit."""

from hypothesis import given, strategies as st

from tenter.harness.errors import LONGEST_SHOWN, shown


@given(st.text(max_size=3 * LONGEST_SHOWN))
def test_what_is_shown_is_one_printable_line_of_bounded_length(text: str) -> None:
    told = shown(text)
    assert told.isprintable()
    assert len(told) <= 10 * LONGEST_SHOWN + 40
    assert (len(text) > LONGEST_SHOWN) == told.endswith(f"({len(text)} characters)")
