"""What people say goes on record as text that every record takes, and nothing else does."""

from typing import cast

import pytest

from tenter.harness.answers import MOST_OF_A_NAME, MOST_OF_A_REASON, check_ids, decision_of, named, said_by, said_why
from tenter.kernel import TenterError


def test_what_no_record_takes_is_escaped() -> None:
    made = decision_of("approve", by="J\udcfcrgen", reason="s\ud83d!")
    assert (made.by, made.reason) == (r"J\udcfcrgen", r"s\ud83d!")
    assert (said_by("Jürgen 🙂"), said_why("")) == ("Jürgen 🙂", "")


def test_who_and_why_are_texts_of_a_bounded_length() -> None:
    assert len(said_by("x" * MOST_OF_A_NAME) + said_why("x" * MOST_OF_A_REASON)) == MOST_OF_A_NAME + MOST_OF_A_REASON
    with pytest.raises(TenterError, match="'by' has 201 characters, and may have 200"):
        said_by("x" * 201)
    with pytest.raises(TenterError, match="'reason' has 10001 characters"):
        said_why("x" * 10_001)
    for wrong in (None, 7, b"ann"):
        with pytest.raises(TenterError, match="'by' must be a text"):
            said_by(wrong)


@pytest.mark.parametrize("by", ["", "  ", None, 7])
def test_a_decision_says_who(by: object) -> None:
    with pytest.raises(TenterError, match="'by'"):
        decision_of("approve", by=by, reason="")


@pytest.mark.parametrize("edits", [[], "x", {1: 2}, {"x": object()}, 7])
def test_edits_that_are_no_data_are_refused(edits: object) -> None:
    with pytest.raises(TenterError, match="the edits of a decision must be"):
        decision_of("edit", by="ann", reason="", edits=edits)


def test_edits_of_any_depth_are_data_or_refused() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TenterError, match="the edits of a decision must be data"):
        decision_of("edit", by="ann", reason="", edits={"x": deep})


def test_a_plain_text_is_one_name() -> None:
    assert named("task") == ("task",)
    assert set(named(["task", "holder"])) == {"task", "holder"}
    for wrong in (None, 7, [7]):
        with pytest.raises(TenterError, match="'accept'"):
            named(wrong)


def test_ids_are_texts() -> None:
    check_ids("r1", None)
    check_ids("r1", "q1")
    for run_id, request_id in ((None, None), ("r1", 7), ("\ud800", None), ("r1", "\ud800"), (b"r1", "q1")):
        with pytest.raises(TenterError, match="the id of a"):
            check_ids(run_id, cast("object", request_id))
