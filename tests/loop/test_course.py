"""A boundary of a loop: what holds it up there, on either side, at every point."""

from pathlib import Path
from typing import cast

import pytest
from tests.loop.hearing import Heard, ends, leading_to, points
from tests.loop.world import EVERYTHING, POINTS, listeners, resume, says, stop, world

from tenter.catalogue.loop_events import LoopEvent
from tenter.kernel import Block, Escalate, Suspend

NO = Block("not today")
UNCHANGED = {"plan.created.pre": "completed", "human.interact.pre": "completed"}
"""Where a Block refuses something and the loop goes on."""


async def test_pre_and_post_of_a_boundary_have_the_same_op_and_no_two_boundaries_do(tmp_path: Path) -> None:
    heard: Heard = []
    await world(tmp_path, EVERYTHING, hooks=listeners(heard)).run()
    ids = [cast(LoopEvent, event).op.id for _, event in heard]
    assert ids[0::2] == ids[1::2]
    assert len(set(ids)) == len(ids) // 2


@pytest.mark.parametrize("point", POINTS)
async def test_a_block_ends_the_loop_or_refuses_what_the_point_is_about(tmp_path: Path, point: str) -> None:
    heard: Heard = []
    run = world(tmp_path, leading_to(point), hooks=[says(point, NO), *listeners(heard)])
    result = await run.run()
    is_error = point.startswith("loop.error")
    assert result.reason == ("cancelled" if is_error else UNCHANGED.get(point, "blocked"))
    assert ("gate" in result.message) == (result.reason == "blocked")
    ending = [one for one in ends(heard) if one[0].startswith("loop.error")]
    if result.reason == "completed":
        assert not ending
    else:
        assert ending == [("loop.error.pre", result.reason), ("loop.error.post", result.reason)]


@pytest.mark.parametrize("point", [point for point in POINTS if point.endswith("pre")])
async def test_the_post_of_what_was_blocked_at_its_pre_is_skipped(tmp_path: Path, point: str) -> None:
    heard: Heard = []
    await world(tmp_path, leading_to(point), hooks=[says(point, NO), *listeners(heard)]).run()
    post = point.removesuffix("pre") + "post"
    assert (post in points(heard)) == (point == "loop.error.pre")


@pytest.mark.parametrize("point", POINTS)
async def test_an_escalation_ends_the_loop_for_a_person_unless_it_has_failed_anyway(tmp_path: Path, point: str) -> None:
    heard: Heard = []
    hooks = [says(point, Escalate("look at it", queue="owners")), *listeners(heard)]
    result = await world(tmp_path, leading_to(point), hooks=hooks).run()
    assert result.reason == ("cancelled" if point.startswith("loop.error") else "escalated")
    ending = [one for one in ends(heard) if one[0].startswith("loop.error")]
    assert ending == [("loop.error.pre", result.reason), ("loop.error.post", result.reason)]


@pytest.mark.parametrize("point", POINTS)
async def test_a_suspended_loop_goes_on_after_a_resume_as_if_nothing_had_been(tmp_path: Path, point: str) -> None:
    plain: Heard = []
    heard: Heard = []
    for name, hears, hooks in (("plain", plain, []), ("held", heard, [says(point, Suspend("sure?"), None)])):
        (tmp_path / name).mkdir()
        run = world(tmp_path / name, leading_to(point), hooks=[*hooks, *listeners(hears)], when_held=[resume])
        result = await run.run()
        assert result.reason == ("cancelled" if point.startswith("loop.error") else "completed")
    assert points(heard) == points(plain)
    phase = f"{point.rpartition('.')[2]}.{point.rpartition('.')[0]}"
    (held,) = run.texts("held")
    assert f"suspended at {phase} by gate: sure?" in held
    assert run.texts("released") == [f"resumed at {phase}"]


@pytest.mark.parametrize("point", POINTS)
async def test_a_loop_that_is_stopped_while_suspended_ends_stopped_unless_it_has_failed_anyway(
    tmp_path: Path, point: str
) -> None:
    heard: Heard = []
    hooks = [says(point, Suspend("sure?"), None), *listeners(heard)]
    run = world(tmp_path, leading_to(point), hooks=hooks, when_held=[stop])
    result = await run.run()
    assert result.reason == ("cancelled" if point.startswith("loop.error") else "stopped")
    ending = [one for one in ends(heard) if one[0].startswith("loop.error")]
    assert ending == [("loop.error.pre", result.reason), ("loop.error.post", result.reason)]
    assert run.row.status == ("cancelled" if point.startswith("loop.error") else "failed")
