"""The reasons for which a loop ends, and how each is listed."""

from typing import get_args

import pytest

from tenter.loop.reason import REASONS, Reason, Standing, standing_after


def test_every_reason_is_listed_once() -> None:
    assert len(set(REASONS)) == len(REASONS) == len(get_args(Reason)) == 14


@pytest.mark.parametrize("reason", REASONS)
def test_a_loop_that_neither_completed_nor_was_cancelled_has_failed(reason: Reason) -> None:
    assert standing_after(reason) == (reason if reason in ("completed", "cancelled") else "failed")
    assert standing_after(reason) in get_args(Standing)
