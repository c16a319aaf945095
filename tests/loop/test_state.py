"""A loop's state as a value: what changes makes a new one, and what is asked anew at each boundary."""

import pytest
from hypothesis import given, strategies as st

from tenter.loop.state import Batch, LoopState, Published

FRESH = LoopState(started_at=1_000.0)


def test_a_new_loop_stands_before_its_start() -> None:
    assert (FRESH.stage, FRESH.side, FRESH.iteration, FRESH.passes) == ("start", "pre", 0, 1)
    assert (FRESH.reason, FRESH.pending, FRESH.batch) == (None, (), None)


def test_a_change_makes_a_new_state() -> None:
    changed = FRESH.but(iteration=3)
    assert (FRESH.iteration, changed.iteration) == (0, 3)


def test_at_another_boundary_nobody_was_asked_yet() -> None:
    state = FRESH.but(passes=4, side="post").at("iteration")
    assert (state.stage, state.side, state.passes) == ("iteration", "pre", 1)


def test_an_ending_says_why() -> None:
    state = FRESH.but(side="post").ending("blocked", "a hook said no")
    assert (state.stage, state.side) == ("ending", "pre")
    assert (state.reason, state.message) == ("blocked", "a hook said no")


def test_what_an_event_holds_cannot_be_changed() -> None:
    event = Published("a", {"list": [1, {"deep": 2}]})
    assert event.payload == {"list": (1, {"deep": 2})}
    with pytest.raises(TypeError, match="frozen"):
        event.payload["list"] = 1  # pyright: ignore[reportIndexIssue]  # that is what is tried


@given(st.sets(st.integers(0, 60)))
def test_a_batch_knows_the_events_that_were_refused_and_keeps_neighbours_together(refused: set[int]) -> None:
    batch = Batch(start=0, stop=1)
    for index in sorted(refused):
        batch = batch.but(index=index).refusing()
    assert batch.refuses() == refused
    assert len(batch.refused) == len([one for one in refused if one - 1 not in refused])
