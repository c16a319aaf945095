"""Loops that are continued, or brought to their end, after their process died."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.loop.projects import (
    DONE,
    GATE,
    LONGEST,
    ask_for,
    asked,
    killed_while_suspended,
    only_row,
    pieces,
    project,
    unheard,
)
from tests.loop.world import LOOP, continued, die, resume, says, stop, world

from tenter.executors.process_id import ProcessId, started_by_proc
from tenter.kernel import Suspend, TenterError
from tenter.loop import starting
from tenter.loop.building import Built
from tenter.loop.claim import place_of, registry_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Told
from tenter.loop.reason import ReleaseHow
from tenter.loop.release import Release, by_this_process
from tenter.loop.request import LoopResult
from tenter.loop.resuming import TakenOver, continue_loop
from tenter.loop.starting import run_loop
from tenter.loop.suspension import StateUnreadable, clear_state, read_state


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("TENTER_TRUST", raising=False)


@pytest.mark.fault(47)
async def test_a_loop_whose_process_was_killed_while_suspended_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = {"name": "note", "script": "echo x >> begun", "on_error": "block"}
    folder = project(tmp_path, DONE, hooks={"pre.loop.start": [note], "pre.iteration.start": [GATE]})
    row = killed_while_suspended(folder)
    assert (row.status, read_state(place_of(row))) == ("suspended", row.suspension)
    asked(folder, monkeypatch)
    told: list[Told] = []
    result = await asyncio.wait_for(continue_loop(row, tell=told.append), LONGEST)
    assert (result.reason, result.iterations, result.loop_id) == ("completed", 1, row.loop_id)
    assert (folder / "begun").read_text() == "x\n"
    assert (only_row(folder).status, only_row(folder).pid) == ("completed", os.getpid())
    kinds = await pieces(folder, row)
    assert (kinds.count("run"), kinds.count("loop_suspended"), kinds.count("loop_released")) == (1, 1, 1)
    assert kinds[-1] == "result"


async def test_a_stop_that_was_there_before_ends_a_loop_that_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE]})
    row = killed_while_suspended(folder)
    ask_for(row, "stop")
    asked(folder, monkeypatch)
    result = await asyncio.wait_for(continue_loop(row, tell=unheard), LONGEST)
    assert result.reason == "stopped"


@pytest.mark.fault(45)
async def test_a_loop_that_another_process_has_taken_over_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE]})
    row = killed_while_suspended(folder)
    parent = os.getppid()
    registry_of(folder).take_over(row.loop_id, ProcessId(parent, started_by_proc(parent) or ""))
    asked(folder, monkeypatch)
    with pytest.raises(TakenOver, match=f"was taken over by the process {parent} at"):
        await continue_loop(row, tell=unheard)
    assert read_state(place_of(row)) == row.suspension


async def test_a_loop_that_died_before_its_first_boundary_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE)
    request = asked(folder, monkeypatch)

    async def dies(*_: object, **__: object) -> LoopResult:
        raise TenterError("the process is gone")

    with monkeypatch.context() as patch:
        patch.setattr(starting, "run_built", dies)
        with pytest.raises(TenterError, match="is gone"):
            await run_loop(request, tell=unheard)
    row = only_row(folder)
    assert row.status == "running"
    result = await asyncio.wait_for(continue_loop(row, tell=unheard), LONGEST)
    assert (result.reason, result.started_at) == ("completed", row.started_at)


ASKED = {"name": "gate", "script": "echo x >> asked; test -e open", "on_error": "suspend"}


async def test_the_state_file_of_a_suspension_that_was_ended_lets_no_hook_be_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [ASKED]})
    row, registry = killed_while_suspended(folder), registry_of(folder)
    assert row.suspension is not None
    heard = Release(how="resume", by=by_this_process(), at="2026-02-28T15:31:00Z")
    registry.release(row.loop_id, row.suspension.suspension_id, heard)
    registry.go_on(row.loop_id)
    asked(folder, monkeypatch)

    def stops(told: Told) -> None:
        if told.kind == "held":
            ask_for(row, "stop")

    result = await asyncio.wait_for(continue_loop(only_row(folder), tell=stops), LONGEST)
    assert result.reason == "stopped"
    assert (folder / "asked").read_text() == "x\nx\n"


async def test_a_loop_goes_on_from_what_is_on_record_when_it_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [ASKED]})
    row = killed_while_suspended(folder)
    clear_state(place_of(row))
    asked(folder, monkeypatch)
    before = row.but(suspension=None, status="running")
    result = await asyncio.wait_for(continue_loop(before, tell=unheard), LONGEST)
    assert result.reason == "completed"
    assert (folder / "asked").read_text() == "x\n"


@pytest.mark.parametrize("harm", ["changed", "broken", "gone", "all gone", "asked for nonsense"])
@pytest.mark.parametrize(("how", "reason"), [("stop", "stopped"), ("restart", "restart_requested")])
async def test_a_dead_loop_whose_project_cannot_be_used_any_more_can_be_ended(
    how: ReleaseHow, reason: str, harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_end = {"name": "told", "script": "echo x >> told", "on_error": "block"}
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE], "pre.loop.error": [told_end]})
    killed_while_suspended(folder)
    asked(folder, monkeypatch)
    harmed(folder, harm)
    row = only_row(folder)
    with pytest.raises(TenterError):
        await continue_loop(row, tell=unheard)
    assert only_row(folder).status == "suspended"
    told: list[Told] = []
    result = await continue_loop(row, tell=told.append, asked=how)
    assert (result.reason, only_row(folder).reason, only_row(folder).suspension) == (reason, reason, None)
    assert by_this_process().user in result.message
    assert "its hooks were not told of its end: " in result.message
    assert read_state(place_of(row)) is None
    assert (folder / "told").exists() is False
    assert [one.kind for one in told][-1] == "ended"
    if harm != "all gone":
        assert json.loads(Path(result.summary).read_text())["reason"] == reason
    assert registry_of(folder).add(row.but(loop_id="loop-0000-0002"), hold=True) is None, "its place is free"


def harmed(folder: Path, harm: str) -> None:
    match harm:
        case "changed":
            (folder / "agent.sh").write_text("exit 1\n")
        case "broken":
            (folder / "tenter.yaml").write_text("version: 99\n")
        case "gone":
            (folder / "tenter.yaml").unlink()
        case "all gone":
            shutil.rmtree(folder / ".tenter" / "loops")
            (folder / ".tenter" / "loops").touch()
            for name in ("agent.sh", "tenter.yaml"):
                (folder / name).unlink()
        case _:
            registry_of(folder).update(only_row(folder).loop_id, request={"prompt": 3})


@pytest.mark.parametrize(("how", "reason"), [("stop", "stopped"), ("restart", "restart_requested")])
async def test_a_dead_loop_that_is_asked_to_end_tells_its_hooks_and_runs_no_agent(
    how: ReleaseHow, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_end = {"name": "told", "script": "echo x >> told", "on_error": "block"}
    folder = project(tmp_path, "touch ran", hooks={"pre.loop.error": [told_end]})
    row = await died_at_its_start(folder, monkeypatch)
    result = await asyncio.wait_for(continue_loop(row, tell=unheard, asked=how), LONGEST)
    assert (result.reason, (folder / "told").read_text()) == (reason, "x\n")
    assert not (folder / "ran").exists()
    assert "not told" not in result.message


async def test_a_state_file_that_nobody_can_read_keeps_no_dead_loop_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE)
    row = await died_at_its_start(folder, monkeypatch)
    place_of(row).suspend_state.write_text("{")
    with pytest.raises(StateUnreadable):
        await continue_loop(row, tell=unheard)
    result = await asyncio.wait_for(continue_loop(row, tell=unheard, asked="stop"), LONGEST)
    assert (result.reason, "not told" in result.message) == ("stopped", False)


async def died_at_its_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> LoopRow:
    """A loop whose process died before its first boundary."""

    async def dies(built: Built, *_: object, **__: object) -> LoopResult:
        async with built.harness:
            built.close()
        raise TenterError("the process is gone")

    with monkeypatch.context() as patch:
        patch.setattr(starting, "run_built", dies)
        with pytest.raises(TenterError, match="is gone"):
            await run_loop(asked(folder, monkeypatch), tell=unheard)
    return only_row(folder)


async def test_where_another_loop_works_now_a_dead_one_changes_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE)
    dead = await died_at_its_start(folder, monkeypatch)
    registry, living = registry_of(folder), dead.but(loop_id="loop-0000-0002")
    registry.remove([dead.loop_id])
    registry.add(dead.but(started="an earlier process of this number"), hold=False)
    registry.add(living, hold=True)
    ask_for(living, "stop")
    pending = place_of(living).signal("stop").read_bytes()
    with pytest.raises(TenterError, match=r"the loop loop-0000-0002 has its workspace") as refused:
        await continue_loop(dead, tell=unheard, asked="stop")
    assert not isinstance(refused.value, TakenOver)
    assert place_of(living).signal("stop").read_bytes() == pending


@pytest.mark.fault(47)
async def test_a_loop_that_died_when_its_hooks_were_told_of_its_end_tells_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_end = {"name": "told", "script": "echo x >> told", "on_error": "block"}
    folder = project(tmp_path, DONE, hooks={"post.loop.complete": [told_end]})
    result = await run_loop(asked(folder, monkeypatch), tell=unheard)
    row, place = only_row(folder), place_of(only_row(folder))
    registry_of(folder).update(row.loop_id, status="running", reason=None, ended_at=None)
    place.summary.unlink()
    again = await asyncio.wait_for(continue_loop(only_row(folder), tell=unheard), LONGEST)
    assert (again, only_row(folder)) == (result, row)
    assert (folder / "told").read_text() == "x\n"
    assert (await pieces(folder, row)).count("result") == 1
    assert place.summary.exists()


async def test_the_configuration_of_another_project_is_not_what_a_loop_goes_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "touch ran")
    row = await died_at_its_start(folder, monkeypatch)
    (other := tmp_path / "other").mkdir()
    for name in ("agent.sh", "tenter.yaml"):
        (folder / name).rename(other / name)
    (folder / "tenter.yaml").symlink_to(other / "tenter.yaml")
    asked(other, monkeypatch)
    with pytest.raises(TenterError, match="that of another project"):
        await continue_loop(row, tell=unheard)
    assert not (other / "ran").exists()


POINT = "iteration.start.pre"


@pytest.mark.parametrize(("path", "asked"), [("1.iteration.start.0", 1), ("", 1), ("2.iteration.start.0", 2)])
async def test_a_loop_goes_on_only_from_the_suspension_of_the_call_that_it_is_at(
    path: str, asked: int, tmp_path: Path
) -> None:
    before = world(tmp_path, hooks=[says(POINT, Suspend("sure?"))], when_held=[die])
    await before.run_and_die()
    suspension = before.row.suspension
    assert suspension is not None
    assert suspension.path == "1.iteration.start.0"
    before.parts.registry.suspend(LOOP, msgspec.structs.replace(suspension, path=path))
    after = await continued(before, hooks=[says(POINT, Suspend("sure?"))], when_held=[resume, stop])
    await after.run()
    assert [one.entry.kind for one in await after.journal()].count("loop_suspended") == asked


async def test_a_dead_loop_whose_project_is_gone_can_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], timeout=30, check=True)
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE]})
    row, registry = killed_while_suspended(folder), registry_of(tmp_path)
    asked(folder, monkeypatch)
    shutil.rmtree(folder)
    result = await continue_loop(row, tell=unheard, asked="stop")
    assert (result.reason, registry.resolve(row.loop_id).reason) == ("stopped", "stopped")
    assert "its workspace" in result.message
