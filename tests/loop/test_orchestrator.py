"""Whole loops, in process: which points fire, what hooks make of them, and how loops end."""

import asyncio
from pathlib import Path

import pytest
from tests.loop.hearing import CANCELLED, Heard, ends, facts, points
from tests.loop.world import DONE, EVERYTHING, LOOP, OK, POINTS, Turn, World, listeners, resume, says, stop, world

from tenter.kernel import Suspend
from tenter.loop.work import Work, Worked
from tenter.testing import FakeClock


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


async def test_a_loop_that_was_asked_to_stop_before_it_went_on_starts_nothing(tmp_path: Path) -> None:
    heard: Heard = []
    run = world(tmp_path, hooks=listeners(heard))
    stop(run)
    assert (await run.run()).reason == "stopped"
    assert (run.agent.works, points(heard)) == ([], ["loop.error.pre", "loop.error.post"])


async def test_people_are_told_of_an_iteration_that_failed_as_the_agent_is(tmp_path: Path) -> None:
    run = world(tmp_path, Worked(status="failed", error="it broke"))
    assert (await run.run()).reason == "completed"
    assert run.texts("note") == ["in iteration 1: the iteration failed: it broke"]
