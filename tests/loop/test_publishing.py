"""What an iteration leaves is published event by event; hooks refuse some, and the agent hears of it."""

from pathlib import Path

import pytest
from tests.loop.hearing import Heard, points
from tests.loop.world import DONE, OK, listeners, says, wait, world

from tenter.kernel import Block, Declaration, Event, Suspend
from tenter.loop.state import Published
from tenter.loop.suspension import read_state
from tenter.loop.work import Work, Worked

NO = Block("not today")


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


async def test_a_plan_that_nobody_released_in_time_is_refused_and_the_loop_is_suspended_no_more(tmp_path: Path) -> None:
    gate = says("plan.created.pre", Suspend("sure?", expires_in=0.01))
    run = world(tmp_path, [("plan.a", 1)], hooks=[gate], when_held=[wait])
    result = await run.run()
    assert (result.reason, result.iterations) == ("completed", 2)
    assert (run.row.suspension, read_state(run.place)) == (None, None)
    assert "was not published: nobody came in time" in run.agent.works[1].prompt
