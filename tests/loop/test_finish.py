"""The end of a loop is put on record wherever one looks for it, however much of that is broken."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.loop.world import LOOP, World, world

from tenter.loop.finish import finish, finish_lost
from tenter.loop.state import LoopState
from tenter.loop.suspension import read_state


async def test_an_end_is_in_the_journal_the_registry_and_the_summary_and_people_are_told(tmp_path: Path) -> None:
    run = world(tmp_path, [("build.wall", 1)])
    result = await run.run()
    (end,) = [record.entry.content for record in await run.journal() if record.entry.kind == "result"]
    assert (end["status"], end["reason"], end["iterations"]) == ("completed", "completed", 2)
    summary = json.loads(run.place.summary.read_text())
    assert (summary["loop_id"], summary["reason"], summary["published"]) == (LOOP, "completed", 2)
    assert summary["topics"] == {"build.wall": 1, "LOOP_COMPLETE": 1}
    row = run.row
    assert (row.status, row.reason, row.message, row.iteration) == ("completed", "completed", result.message, 2)
    assert (row.ended_at, row.suspension, row.question) == (result.ended_at, None, None)
    assert result.summary == str(run.place.summary)
    (told,) = run.texts("ended")
    assert told.startswith("completed after 2 iterations")


async def test_what_was_asked_too_late_is_not_left_for_another_loop(tmp_path: Path) -> None:
    run = world(tmp_path)
    await run.orchestrator.run()
    for how in ("stop", "restart", "resume"):
        run.signal(how)
    await finish(run.parts, run.state, run.record)
    assert [path.name for path in run.place.signals.iterdir() if "requested" in path.name] == []


async def closed_journal(run: World) -> None:
    await run.store.close()


async def summary_in_the_way(run: World) -> None:
    run.place.summary.mkdir()


async def no_registry(run: World) -> None:
    run.parts.registry.path.unlink()


async def events_in_the_way(run: World) -> None:
    run.place.events.unlink(missing_ok=True)
    run.place.events.mkdir()


@pytest.mark.parametrize("breaks", [closed_journal, summary_in_the_way, no_registry, events_in_the_way])
async def test_what_cannot_be_written_is_told_and_the_rest_is_done(
    tmp_path: Path, breaks: Callable[[World], object]
) -> None:
    run = world(tmp_path)
    await run.orchestrator.run()
    await breaks(run)  # pyright: ignore[reportGeneralTypeIssues]  # all of them are awaited
    result = await finish(run.parts, run.state, run.record)
    assert result.reason == "completed"
    assert (run.place.summary.is_file(), breaks is summary_in_the_way) in ((True, False), (False, True))
    if breaks is not no_registry:
        assert run.row.status == "completed"
    assert (run.texts("note") != []) == (breaks is not closed_journal)
    assert len(run.texts("ended")) == 1


@pytest.mark.promise(4)
async def test_a_message_shows_nothing_that_looks_like_a_secret(tmp_path: Path) -> None:
    run = world(tmp_path)
    ended = LoopState(started_at=1.0).ending("failed", "password: hunter2hunter2").at("over")
    result = await finish(run.parts, ended, run.record)
    for text in (result.message, run.row.message, run.place.summary.read_text(), str(run.told)):
        assert "hunter2" not in text


async def test_a_loop_whose_workspace_is_gone_is_ended_from_outside(tmp_path: Path) -> None:
    run = world(tmp_path)
    result = finish_lost(run.parts.registry, run.row, 2_000.0)
    assert (result.reason, result.status, result.ended_at) == ("failed", "failed", 2_000.0)
    assert (run.row.status, run.row.ended_at) == ("failed", 2_000.0)
    assert json.loads(run.place.summary.read_text())["message"] == run.row.message
    assert read_state(run.place) is None
