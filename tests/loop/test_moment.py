"""Times as a loop's documents have them."""

from hypothesis import given, strategies as st

from tenter.loop.moment import moment, seconds_of


def test_a_moment_is_written_in_utc_to_the_second() -> None:
    assert moment(1_772_292_660.9) == "2026-02-28T15:31:00Z"


@given(st.integers(0, 4_000_000_000), st.floats(0, 0.999))
def test_a_moment_is_read_back_without_its_fraction(seconds: int, fraction: float) -> None:
    assert seconds_of(moment(seconds + fraction)) == seconds
