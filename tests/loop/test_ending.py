"""However a loop ends, its hooks are told once, and for the reason that it ended with."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.loop.hearing import Heard, ends
from tests.loop.world import Turn, listeners, says, world

from tenter.kernel import Block
from tenter.loop.work import Worked

NO = Block("not today")


async def test_a_block_at_loop_complete_is_told_as_blocked_once(tmp_path: Path) -> None:
    heard: Heard = []
    await world(tmp_path, hooks=[says("loop.complete.pre", NO), *listeners(heard)]).run()
    assert ends(heard) == [
        ("loop.complete.pre", "completed"),
        ("loop.error.pre", "blocked"),
        ("loop.error.post", "blocked"),
    ]


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
