"""A run on its way in this process, and who stops it."""

import asyncio
import warnings
from pathlib import Path

import pytest
from tests.harness.test_runs import Witness, running
from tests.harness.world import (
    BOTH,
    act,
    acting,
    only_run,
    processes,
    project,
    statuses,
)

from tenter import Harness
from tenter.journal import MemoryStore
from tenter.kernel import TenterError


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_goes_on_here_is_ended_and_both_callers_get_its_end(tmp_path: Path, kind: str) -> None:
    witness = Witness(pausing=True)
    async with processes(project(tmp_path), kind) as made:
        harness = made.harness(witness)
        task = await running(harness, witness)
        run_id = await only_run(made.store)
        told = await asyncio.wait_for(harness.cancel(run_id, by="ada", reason="enough"), 5)
        result = await asyncio.wait_for(task, 5)
        assert await statuses(made.store, run_id) == ["cancelled"]
        with pytest.raises(TenterError, match=f"the run {run_id} is over: it ended cancelled"):
            await harness.cancel(run_id)
    assert told is not None
    assert told.error == result.error
    assert (told.status, result.status, result.output) == ("cancelled", "cancelled", None)
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("cancelled", "the run was cancelled by ada: enough")
    assert witness.heard == [
        "pending->running",
        "running->cancelled",
        "end cancelled: the run was cancelled by ada: enough",
    ]


@pytest.mark.parametrize("first", ["somebody", "caller"])
async def test_a_caller_that_is_cancelled_as_somebody_ends_its_run_hears_of_that(tmp_path: Path, first: str) -> None:
    witness = Witness(pausing=True)
    async with processes(project(tmp_path), "memory") as made:
        harness = made.harness(witness)
        task = await running(harness, witness)
        if first == "caller":
            task.cancel()
        asking = asyncio.ensure_future(harness.cancel(await only_run(made.store)))
        asyncio.get_running_loop().call_soon(task.cancel)  # before the run itself hears of either
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        told = await asyncio.wait_for(asking, 5)
    assert told is not None
    assert (told.status, witness.heard[-1]) == ("cancelled", "end cancelled: the run was cancelled")


async def test_a_run_that_is_cancelled_before_its_first_step_leaves_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    async with Harness.from_file(project(tmp_path), store=store) as harness:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            running = asyncio.create_task(harness.run("work"))
            asyncio.get_running_loop().call_soon(running.cancel)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(running, 5)
        assert told == []
        assert await store.streams("run") == []


@pytest.mark.fault(46)
@pytest.mark.parametrize("kind", BOTH)
async def test_who_cancels_a_run_beside_another_hears_what_it_came_to(tmp_path: Path, kind: str) -> None:
    path, witness = acting(tmp_path, act("a"), "Done.", tool={"risk": "high"}), Witness()
    async with processes(path, kind) as made:
        harness = made.harness(witness)
        waiting = await harness.run("work", "go")
        ends = await asyncio.gather(*(harness.cancel(waiting.run_id, reason=str(n)) for n in range(3)))
        assert (await statuses(made.store, waiting.run_id)).count("cancelled") == 1
    assert [end and (end.status, end.error and end.error.message) for end in ends] == [
        ("cancelled", "the run was cancelled: 0")
    ] * 3
    assert [said for said in witness.heard if said.startswith("end")] == ["end cancelled: the run was cancelled: 0"]
