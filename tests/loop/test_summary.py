"""What is left of a loop that is over."""

import json
from pathlib import Path

import msgspec
import pytest

from tenter.kernel import TenterError
from tenter.loop.place import Place
from tenter.loop.reason import Reason
from tenter.loop.request import LoopResult
from tenter.loop.state import LoopState
from tenter.loop.summary import LoopSummary, summary_lines, summary_of, write_summary

RESULT = LoopResult(
    loop_id="loop-12ab-34cd",
    status="failed",
    reason="blocked",
    message="the hook 'gate' blocked it: no ticket",
    iterations=2,
    cost_usd=0.25,
    started_at=1000.0,
    ended_at=1012.5,
    summary="/project/.tenter/loops/loop-12ab-34cd/summary.json",
    workspace="/project",
)
STATE = LoopState(
    started_at=1000.0,
    waited_seconds=2.5,
    metadata={"scores": {"risk": 0.7}},
    published=3,
    topics={"plan.ready": 2, "build.done": 1},
)

VERSION_1 = {
    "schema_version": 1,
    "loop_id": "loop-12ab-34cd",
    "status": "failed",
    "reason": "blocked",
    "message": "the hook 'gate' blocked it: no ticket",
    "iterations": 2,
    "started_at": 1000.0,
    "ended_at": 1012.5,
    "waited_seconds": 2.5,
    "cost_usd": 0.25,
    "published": 3,
    "topics": {"plan.ready": 2, "build.done": 1},
    "hook_metadata": {"scores": {"risk": 0.7}},
    "workspace": "/project",
}
"""A sample of the document."""


def test_the_summary_says_how_it_ended_and_what_it_came_to() -> None:
    assert msgspec.to_builtins(summary_of(RESULT, STATE)) == VERSION_1


def test_a_sample_of_version_1_is_read() -> None:
    assert msgspec.convert(VERSION_1, LoopSummary) == summary_of(RESULT, STATE)


def test_what_is_written_is_the_document_in_place_of_a_former_one(tmp_path: Path) -> None:
    place = Place("loop-12ab-34cd", tmp_path, tmp_path)
    place.make()
    place.summary.write_text("a former one that was longer" * 100)
    write_summary(place, summary_of(RESULT, STATE))
    assert json.loads(place.summary.read_text()) == VERSION_1
    assert place.summary.read_text().endswith("}\n")
    assert [file.name for file in place.folder.iterdir()] == ["summary.json"]


def test_a_summary_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    place = Place("loop-12ab-34cd", tmp_path, tmp_path)
    with pytest.raises(TenterError, match=r"the summary '.*summary\.json' cannot be written: No such file"):
        write_summary(place, summary_of(RESULT, STATE))


def test_people_read_it_in_a_few_lines() -> None:
    assert summary_lines(summary_of(RESULT, STATE)) == (
        "blocked at iteration 2 in 12.5 s, 2.5 s of it waiting: the hook 'gate' blocked it: no ticket",
        "cost: 0.2500 US dollars",
        "published: plan.ready 2x, build.done 1x",
        "metadata of hooks: scores",
    )


def test_people_are_told_nothing_of_what_there_was_not() -> None:
    result = msgspec.structs.replace(RESULT, iterations=1, cost_usd=0.0, reason="completed", message="the work is done")
    assert summary_lines(summary_of(result, LoopState(started_at=1000.0))) == (
        "completed after 1 iteration in 12.5 s: the work is done",
    )


def test_topics_that_are_not_named_are_said_to_be_there() -> None:
    state = STATE.but(published=4)
    assert summary_lines(summary_of(RESULT, state))[2] == "published: plan.ready 2x, build.done 1x, and others"


def test_no_more_was_waited_than_it_took() -> None:
    state = STATE.but(waited_seconds=13.0)
    assert "in 12.5 s, 12.5 s of it waiting" in summary_lines(summary_of(RESULT, state))[0]


@pytest.mark.parametrize(
    ("reason", "iterations", "told"),
    [
        ("completed", 2, "completed after 2 iterations in"),
        ("max_iterations", 1, "max_iterations after 1 iteration in"),
        ("blocked", 2, "blocked at iteration 2 in"),
        ("blocked", 0, "blocked before the first iteration in"),
    ],
)
def test_people_are_told_in_which_iteration_it_ended(reason: Reason, iterations: int, told: str) -> None:
    result = msgspec.structs.replace(RESULT, reason=reason, iterations=iterations)
    assert summary_lines(summary_of(result, STATE))[0].startswith(told)
