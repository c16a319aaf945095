"""A loop at work hears of a stop, once, and whatever it waits for is cut short by it."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.loop.world import LONGEST, World, stop, wait, world

from tenter.kernel import TenterError
from tenter.loop.release import Release, by_this_process

STOP = Release(how="stop", by=by_this_process(), at="2026-02-28T15:31:00Z")


async def heard(run: World) -> Release | None:
    await run.attention.until_asked(within=LONGEST)
    return run.attention.asked


async def test_a_stop_is_heard_and_stays_known(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.attention.watch()
    assert run.attention.asked is None
    stop(run)
    found = await heard(run)
    assert found is not None
    assert found.how == "stop"
    await run.attention.rest()
    assert run.attention.asked == found
    assert not run.place.signal("stop").exists()


async def test_what_was_asked_before_the_rest_is_known_after_it(tmp_path: Path) -> None:
    run = world(tmp_path)
    stop(run)
    run.attention.watch()
    await run.attention.rest()
    seen = run.attention.asked
    assert (seen is not None) != run.place.signal("stop").exists(), "it is claimed and known, or neither"


async def test_nothing_is_claimed_while_it_rests(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.attention.watch()
    await run.attention.rest()
    await run.attention.rest()
    stop(run)
    assert run.attention.asked is None
    assert run.place.signal("stop").exists()


async def test_a_wait_ends_with_what_is_waited_for_and_with_its_time(tmp_path: Path) -> None:
    run = world(tmp_path)
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    await asyncio.wait_for(run.attention.until_asked(done), LONGEST)
    await asyncio.wait_for(run.attention.until_asked(within=0.01), LONGEST)
    assert run.attention.asked is None
    await run.attention.rest()


async def test_a_pause_is_over_in_its_time_or_with_a_stop_and_then_nothing_is_tried_again(tmp_path: Path) -> None:
    run = world(tmp_path)
    assert await run.attention.pause(0.01)
    stop(run)
    assert not await asyncio.wait_for(run.attention.pause(2 * LONGEST), LONGEST)
    assert not await asyncio.wait_for(run.attention.pause(2 * LONGEST), LONGEST)


async def test_a_loop_in_a_hurry_does_not_pause(tmp_path: Path) -> None:
    run = world(tmp_path, when_held=[wait])
    run.attention.hurry()
    assert not await asyncio.wait_for(run.attention.pause(2 * LONGEST), LONGEST)


async def test_what_was_heard_elsewhere_is_known_and_nothing_more_is_looked_for(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.attention.note(STOP)
    run.attention.watch()
    await asyncio.wait_for(run.attention.until_asked(), LONGEST)
    assert run.attention.asked == STOP


async def test_a_workspace_that_is_gone_is_told_to_whoever_asks(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.attention.watch()
    shutil.rmtree(run.place.signals)
    with pytest.raises(TenterError, match="is gone"):
        await heard(run)
    await run.attention.rest()
