"""The end of a loop is put on record wherever one looks for it, however much of that is broken."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.loop.world import LOOP, World, die, says, world

from tenter.kernel import Suspend
from tenter.loop.finish import finish, finish_lost, settle
from tenter.loop.reason import Reason
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


@pytest.mark.parametrize("breaks", [closed_journal, summary_in_the_way, no_registry])
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


@pytest.mark.parametrize("reason", ["failed", "stopped", "restart_requested"])
async def test_a_loop_that_nobody_can_run_is_ended_from_outside(tmp_path: Path, reason: Reason) -> None:
    run = world(tmp_path, hooks=[says("iteration.start.pre", Suspend("sure?"))], when_held=[die])
    await run.run_and_die()
    run.signal("stop")
    result = finish_lost(run.parts.registry, run.row, reason=reason, message="it is gone", tell=run.hear)
    assert (result.reason, result.status, result.message) == (reason, "failed", "it is gone")
    assert (run.row.status, run.row.reason, run.row.ended_at) == ("failed", reason, result.ended_at)
    assert (run.row.suspension, read_state(run.place)) == (None, None)
    assert json.loads(run.place.summary.read_text())["message"] == "it is gone"
    assert run.texts("ended")[0].startswith(reason)
    assert not run.place.signal("stop").exists()


async def test_a_summary_that_cannot_be_written_keeps_no_lost_loop_from_its_end(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.place.summary.mkdir()
    finish_lost(run.parts.registry, run.row, reason="failed", message="it is gone", tell=run.hear)
    assert run.row.status == "failed"
    assert "cannot be written" in run.texts("note")[0]


@pytest.mark.promise(4)
async def test_no_answer_as_it_was_typed_is_left_at_the_end(tmp_path: Path) -> None:
    run = world(tmp_path)
    await run.orchestrator.run()
    folder = run.place.signals
    left = ["answer-given", ".answer-given-0a1b.tmp", ".stop-requested-0a1b.tmp", "restart-requested.set-aside"]
    for name in left:
        (folder / name).write_text("my password")
    others = [folder / ".resume-requested-0a1b.tmp", folder / "mine.tmp", folder / ".gitignore"]
    others[0].mkdir()
    others[1].touch()
    await finish(run.parts, run.state, run.record)
    assert [name for name in left if (folder / name).exists()] == []
    assert [path for path in others if not path.exists()] == []
    assert run.texts("note") == []


async def test_an_end_that_is_put_on_record_once_more_is_the_same(tmp_path: Path) -> None:
    run = world(tmp_path, [("build.wall", 1)])
    result = await run.run()
    summary, row = run.place.summary.read_bytes(), run.row
    run.place.summary.unlink()
    settle(run.parts, run.state, result)
    assert (run.place.summary.read_bytes(), run.row) == (summary, row)
    assert [record.entry.kind for record in await run.journal()].count("result") == 1
