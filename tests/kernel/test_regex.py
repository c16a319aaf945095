"""RE2: linear, silent, and clear about what it does not take."""

import time

import pytest

from tenter.kernel.regex import Regex, RegexError


def test_an_expression_is_searched_for_or_matched_as_a_whole() -> None:
    assert Regex("b+").search("abbc")
    assert not Regex("b+").fullmatch("abbc")
    assert Regex("b+").fullmatch("bb")
    assert not Regex("é").search("É")
    assert Regex("é", ignore_case=True).search("É")


@pytest.mark.parametrize("text", ["a.b", "(", "é*", "a/b\n", "\\"])
def test_an_escaped_text_matches_itself_and_nothing_else(text: str) -> None:
    assert Regex(Regex.escape(text)).fullmatch(text)
    assert not Regex(Regex.escape(text)).fullmatch(f"{text}x")


@pytest.mark.parametrize("expression", ["(", r"(a)\1", "(?=a)", "a{1000}{1000}", "\ud800"])
def test_what_re2_does_not_take_is_an_error_that_says_why_and_prints_nothing(
    expression: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RegexError, match=r"\w"):
        Regex(expression)
    assert capfd.readouterr() == ("", "")


def test_text_with_half_a_character_never_matches() -> None:
    assert not Regex(".*").search("a\ud800")


@pytest.mark.timed
@pytest.mark.fault(34)
def test_an_expression_that_hangs_re_is_linear() -> None:
    best = 1.0
    for _ in range(3):
        started = time.perf_counter()
        assert not Regex("(a+)+$").search("a" * 10_000 + "!")
        best = min(best, time.perf_counter() - started)
    assert best < 0.01
