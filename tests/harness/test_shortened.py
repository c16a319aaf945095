"""Nothing of a secret is left at a cut, and none of its lines."""

import pytest
from hypothesis import given, strategies as st

from tenter.harness.shortened import MARGIN, line_masking, shortened
from tenter.kernel import MASK, Redactor

SECRET = "S3cr3t-abcdefghijklmnopqrstuvwxyz-0123456"
LINES = "first-line-of-it\nsecond-line-of-it\nthird-line-of-it"
MASKING = Redactor(secrets=[SECRET, LINES]).mask_text


def whole_only(text: str) -> str:
    """Knows no part of a secret."""
    return text.replace(LINES, MASK).replace(SECRET, MASK)


@pytest.mark.promise(4)
@given(st.integers(0, 3 * len(SECRET)), st.booleans())
def test_no_part_of_a_secret_at_the_cut_is_shown(before: int, is_cut: bool) -> None:
    text = "x" * before + SECRET + "y" * MARGIN
    shown = shortened(text, 2 * len(SECRET), MASKING, is_cut=is_cut)
    assert SECRET[:4] not in shown
    assert shown == ("x" * before + MASK + "y" * MARGIN)[: 2 * len(SECRET)][: len(shown)]


@pytest.mark.promise(4)
def test_masks_before_the_cut_bring_no_half_of_a_secret_into_view() -> None:
    many = SECRET * 5_000
    for is_cut, text in ((False, many + SECRET), (True, many[:-1])):
        shown = shortened(text, 50_000, MASKING, is_cut=is_cut)
        assert set(shown.split(MASK)) <= {"", *(MASK[:end] for end in range(len(MASK)))}


def test_a_text_that_is_short_is_only_masked() -> None:
    assert shortened(f"a {SECRET}", 100, MASKING) == f"a {MASK}"


@pytest.mark.promise(4)
def test_a_line_of_a_secret_of_several_lines_is_masked() -> None:
    mask = line_masking(f"head\n  {LINES} tail\nand {SECRET}\nend", whole_only)
    assert mask("  first-line-of-it\n") == f"{MASK}\n"
    assert mask("second-line-of-it") == MASK
    assert mask("third-line-of-it tail") == MASK
    assert mask(f"and {SECRET}") == f"and {MASK}"
    assert [mask(line) for line in ("head\n", "end")] == ["head\n", "end"]


def test_the_lines_of_a_text_without_secrets_are_as_they_are() -> None:
    assert line_masking("a\nb", MASKING)("a\n") == "a\n"
