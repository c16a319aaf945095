"""Whole loops, in process: which points fire, what hooks make of them, and how loops end."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from tests.loop.world import DONE, EVERYTHING, LOOP, OK, POINTS, Turn, World, listeners, resume, says, stop, world

from tenter.catalogue import LoopEndedEvent, LoopEndEvent, LoopFacts
from tenter.catalogue.loop_events import LoopEvent
from tenter.kernel import Block, Declaration, Escalate, Event, Suspend
from tenter.loop.state import Published
from tenter.loop.work import Work, Worked
from tenter.testing import FakeClock

Heard = list[tuple[str, Event]]
NO = Block("not today")

CANCELLED: Turn = [("loop.cancel", None)]
UNCHANGED = {"plan.created.pre": "completed", "human.interact.pre": "completed"}
"""Where a Block refuses something and the loop goes on."""


def leading_to(point: str) -> Turn:
    """What the agent does first, so that a loop comes to `point`."""
    return CANCELLED if point.startswith("loop.error") else EVERYTHING


def points(heard: Heard) -> list[str]:
    return [point for point, _ in heard]


def ends(heard: Heard) -> list[tuple[str, str]]:
    """The endings that hooks heard of, with their reasons."""
    return [(point, event.reason) for point, event in heard if isinstance(event, LoopEndEvent | LoopEndedEvent)]


def facts(event: Event) -> LoopFacts:
    assert isinstance(event, LoopEvent)
    assert event.op.loop is not None
    return event.op.loop


@pytest.mark.promise(1)
async def test_a_loop_of_two_iterations_fires_its_points_in_order(tmp_path: Path) -> None:
    heard: Heard = []
    result = await world(tmp_path, EVERYTHING, hooks=listeners(heard)).run()
    assert (result.reason, result.status, result.iterations) == ("completed", "completed", 2)
    operations = [
        "loop.start",
        "iteration.start",
        "plan.created",
        "human.interact",
        "iteration.start",
        "loop.complete",
    ]
    assert points(heard) == [f"{operation}.{phase}" for operation in operations for phase in ("pre", "post")]


@pytest.mark.promise(1)
async def test_loops_together_fire_every_point_of_a_loop(tmp_path: Path) -> None:
    heard: Heard = []
    for name, turn in (("one", EVERYTHING), ("two", CANCELLED)):
        (tmp_path / name).mkdir()
        await world(tmp_path / name, turn, hooks=listeners(heard)).run()
    assert set(points(heard)) == set(POINTS)


async def test_the_selection_is_told_before_the_backend_runs(tmp_path: Path) -> None:
    heard: Heard = []

    async def works(work: Work) -> Worked:
        assert points(heard)[-2:] == ["iteration.start.pre", "iteration.start.post"]
        return OK

    result = await world(tmp_path, works, hooks=listeners(heard)).run()
    assert (result.reason, result.iterations) == ("completed", 2)


async def test_the_five_keys_of_the_context_are_always_there_and_null_before_the_selection(tmp_path: Path) -> None:
    heard: Heard = []
    hats = {"planner": {"triggers": ["task.*"]}, "builder": {"triggers": ["build.*"]}}
    run = world(tmp_path, [("build.wall", 1)], hooks=listeners(heard), config={"loop": {"hats": hats}})
    await run.run()
    told = [(point, facts(event)) for point, event in heard]
    keys = {"active_hat", "selected_hat", "selected_task", "termination_reason", "human_interact"}
    assert all(set(one.context) == keys for _, one in told)
    hats_told = [(point, one.context["active_hat"], one.context["selected_hat"]) for point, one in told]
    assert hats_told == [
        ("loop.start.pre", None, None),
        ("loop.start.post", None, None),
        ("iteration.start.pre", None, None),
        ("iteration.start.post", "planner", "planner"),
        ("iteration.start.pre", "planner", None),
        ("iteration.start.post", "builder", "builder"),
        ("loop.complete.pre", "builder", "builder"),
        ("loop.complete.post", "builder", "builder"),
    ]
    assert [one.context["termination_reason"] for _, one in told][-3:] == [None, "completed", "completed"]
    assert {one.loop["id"] for _, one in told} == {LOOP}
    assert [one.iteration["current"] for _, one in told] == [0, 0, 1, 1, 2, 2, 2, 2]


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


async def test_a_block_at_loop_complete_is_told_as_blocked_once(tmp_path: Path) -> None:
    heard: Heard = []
    await world(tmp_path, hooks=[says("loop.complete.pre", NO), *listeners(heard)]).run()
    assert ends(heard) == [
        ("loop.complete.pre", "completed"),
        ("loop.error.pre", "blocked"),
        ("loop.error.post", "blocked"),
    ]


@pytest.mark.parametrize(
    ("point", "topic"), [("plan.created.pre", "plan.drawn"), ("human.interact.pre", "human.interact")]
)
async def test_what_was_blocked_is_not_published_and_the_agent_is_told_why(
    tmp_path: Path, point: str, topic: str
) -> None:
    run = world(tmp_path, [(topic, {"question": "?"}), ("other.event", 1)], hooks=[says(point, NO)])
    assert (await run.run()).reason == "completed"
    _, second = run.agent.works
    assert "not today" in second.prompt
    assert f"- {topic}" not in second.prompt
    assert "- other.event" in second.prompt
    assert not run.texts("question")


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


COMPLETING: dict[str, Turn] = {
    "event": [("build.done", None), DONE],
    "line": Worked(status="ok", last_line="LOOP_COMPLETE"),
}


@pytest.mark.parametrize("turn", COMPLETING.values(), ids=COMPLETING)
async def test_the_promise_ends_the_loop_as_the_last_event_and_as_the_last_line(tmp_path: Path, turn: Turn) -> None:
    result = await world(tmp_path, turn).run()
    assert (result.reason, result.iterations) == ("completed", 1)


@pytest.mark.parametrize("turn", COMPLETING.values(), ids=COMPLETING)
async def test_the_promise_is_refused_while_required_events_are_unseen_and_the_agent_is_told(
    tmp_path: Path, turn: Turn
) -> None:
    run = world(tmp_path, turn, [("test.passed", None), DONE], config={"loop": {"required_events": ["test.passed"]}})
    result = await run.run()
    assert (result.reason, result.iterations) == ("completed", 2)
    assert "'LOOP_COMPLETE' did not end the loop" in run.agent.works[1].prompt


async def test_the_promise_of_a_backend_that_failed_does_not_count(tmp_path: Path) -> None:
    run = world(tmp_path, Worked(status="failed", last_line="LOOP_COMPLETE", error="it broke"))
    assert (await run.run()).iterations == 2
    assert "it broke" in run.agent.works[1].prompt


async def test_a_completion_in_the_last_allowed_iteration_is_one(tmp_path: Path) -> None:
    result = await world(tmp_path, [], config={"loop": {"max_iterations": 2}}).run()
    assert (result.reason, result.iterations) == ("completed", 2)


IDLE: Turn = [("some.thing", 1)]
FAILING = Worked(status="failed", error="it broke")
ENDINGS: dict[str, tuple[Sequence[Turn], dict[str, object], int]] = {
    "cancelled": ([[("loop.cancel", "enough")]], {}, 1),
    "max_iterations": ([[], [], []], {"max_iterations": 2}, 2),
    "max_cost": ([Worked(status="ok", cost_usd=0.3)] * 3, {"max_cost_usd": 0.5}, 2),
    "consecutive_failures": ([FAILING] * 3, {"max_consecutive_failures": 2}, 2),
    "loop_stale": ([IDLE] * 5, {}, 3),
    "escalated": ([Worked(status="escalated", queue="owners")], {}, 1),
}


@pytest.mark.parametrize("reason", ENDINGS)
async def test_every_other_end_is_told_as_an_error_once_and_left_in_a_summary(tmp_path: Path, reason: str) -> None:
    turns, config, iterations = ENDINGS[reason]
    heard: Heard = []
    run = world(tmp_path, *turns, hooks=listeners(heard), config={"loop": config})
    result = await run.run()
    assert (result.reason, result.iterations) == (reason, iterations)
    assert ends(heard) == [("loop.error.pre", reason), ("loop.error.post", reason)]
    assert (run.row.reason, run.row.status) == (reason, result.status)
    assert f'"reason": "{reason}"' in run.place.summary.read_text()


async def test_three_lines_that_are_no_events_end_the_loop_and_each_is_told_by_its_number(tmp_path: Path) -> None:
    async def scribbles(work: Work) -> Worked:
        with run.place.events.open("a") as file:
            file.write("no event\n")
        return OK

    run = world(tmp_path, scribbles, scribbles, scribbles)
    result = await run.run()
    assert (result.reason, result.iterations) == ("validation_failure", 3)
    assert "line 1 of the events file" in run.agent.works[1].prompt
    assert "line 2 of the events file" in run.agent.works[2].prompt


async def test_the_time_of_the_loop_ends_it_and_waiting_for_a_person_does_not_count(tmp_path: Path) -> None:
    async def takes(work: Work) -> Worked:
        clock(run).advance(6)
        return OK

    def waits(held: World) -> None:
        clock(held).advance(1_000)
        resume(held)

    hooks = [says("iteration.start.post", Suspend("sure?"), None)]
    config = {"loop": {"max_runtime_seconds": 10}}
    run = world(tmp_path, takes, takes, takes, hooks=hooks, config=config, when_held=[waits])
    result = await run.run()
    assert (result.reason, result.iterations) == ("max_runtime", 2)
    assert run.state.waited_seconds == 1_000
    assert [work.deadline for work in run.agent.works] == [result.started_at + 1_010] * 2


def clock(run: World) -> FakeClock:
    assert isinstance(run.parts.setup.clock, FakeClock)
    return run.parts.setup.clock


async def test_a_stop_while_the_backend_runs_ends_the_backend_and_then_the_loop(tmp_path: Path) -> None:
    ended: list[str] = []

    async def hangs(work: Work) -> Worked:
        run.signal("stop")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("backend")
        return OK

    heard: Heard = []
    run = world(tmp_path, hangs, hooks=listeners(heard))
    result = await run.run()
    assert ended == ["backend"]
    assert (result.reason, result.iterations) == ("stopped", 1)
    assert ends(heard) == [("loop.error.pre", "stopped"), ("loop.error.post", "stopped")]


async def test_a_restart_ends_the_loop_so_that_it_is_started_anew(tmp_path: Path) -> None:
    async def hangs(work: Work) -> Worked:
        run.signal("restart")
        await asyncio.get_running_loop().create_future()
        return OK

    run = world(tmp_path, hangs)
    assert (await run.run()).reason == "restart_requested"


async def test_a_stop_between_two_events_of_an_iteration_leaves_the_rest_unpublished(tmp_path: Path) -> None:
    heard: Heard = []

    async def asks_for_a_stop(event: Event) -> None:
        run.signal("stop")
        while run.attention.asked is None:
            await run.attention.until_asked(within=1.0)

    stopper = Declaration(name="stopper", point="plan.created.post", call=asks_for_a_stop)
    run = world(tmp_path, [("plan.a", 1), ("plan.b", 1)], hooks=[stopper, *listeners(heard)])
    assert (await run.run()).reason == "stopped"
    assert points(heard).count("plan.created.pre") == 1


async def test_a_backend_that_breaks_ends_the_loop_and_is_told_to_whoever_runs_it(tmp_path: Path) -> None:
    async def breaks(work: Work) -> Worked:
        raise ZeroDivisionError("a bug")

    heard: Heard = []
    run = world(tmp_path, breaks, hooks=listeners(heard))
    with pytest.raises(ZeroDivisionError):
        await run.run()
    (result,) = run.ended
    assert (result.reason, run.row.status) == ("failed", "failed")
    assert "ZeroDivisionError" in result.message
    assert ends(heard) == [("loop.error.pre", "failed"), ("loop.error.post", "failed")]


async def test_what_an_agent_is_told_it_is_told_once(tmp_path: Path) -> None:
    run = world(tmp_path, Worked(status="failed", error="it broke"), [("part.a", 1)], [("part.b", 1)])
    await run.run()
    assert ["it broke" in work.prompt for work in run.agent.works] == [False, True, False, False]


async def test_what_an_agent_publishes_is_given_to_the_next_iteration(tmp_path: Path) -> None:
    run = world(tmp_path, [("build.wall", {"bricks": 3})], prompt="build a house")
    await run.run()
    first, second = run.agent.works
    assert "build a house" in first.prompt
    assert "- build.wall" in second.prompt
    assert '{"bricks": 3}' in second.prompt
    assert second.environment["TENTER_ITERATION"] == "2"
    assert run.state.pending == ()
    assert run.state.last == Published(*DONE)
