"""A loop hears within a quarter of a second what it is told, and of several things always the same one."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.outside import comes_true, one_of_three

from tenter.executors.process_id import this_process
from tenter.kernel import TenterError
from tenter.loop import waiting
from tenter.loop.place import Place
from tenter.loop.reason import ReleaseHow
from tenter.loop.registry import LoopRow, Registry
from tenter.loop.release import By, Release
from tenter.loop.signal_file import Answer, Signal, write_signal
from tenter.loop.waiting import stop_asked, wait_for_answer, wait_for_release

ID = "loop-12ab-34cd"
BY = By(7, "ann")
AT = "2026-02-28T15:31:00Z"
BOUND = 5.0


def place_in(folder: Path, loop_id: str = ID) -> Place:
    place = Place(loop_id, folder, folder)
    place.make()
    return place


def ask(place: Place, kind: ReleaseHow, suspension_id: str | None = "s1") -> None:
    write_signal(place, Signal(kind=kind, loop_id=place.loop_id, suspension_id=suspension_id, at=AT, by=BY))


async def released(place: Place, told: Callable[[str], None] = waiting.unheard) -> Release:
    waited = wait_for_release(place, loop_id=place.loop_id, suspension_id="s1", told=told)
    return await asyncio.wait_for(waited, BOUND)


def counted_looks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is asked of the file system from now on."""
    looks, stat = list[object](), os.stat

    def counted(path: int | str | Path, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        looks.append(path)
        return stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr("os.stat", counted)
    return looks


@pytest.mark.parametrize(
    ("present", "how"),
    [
        (("resume",), "resume"),
        (("restart", "resume"), "restart"),
        (("stop", "resume"), "stop"),
        (("stop", "restart"), "stop"),
        (("resume", "restart", "stop"), "stop"),
    ],
)
async def test_stop_comes_before_restart_and_restart_before_resume(
    present: tuple[ReleaseHow, ...], how: ReleaseHow, tmp_path: Path
) -> None:
    place = place_in(tmp_path)
    for kind in present:
        ask(place, kind)
    assert await released(place) == Release(how=how, by=BY, at=AT, suspension_id="s1")
    assert [kind for kind in present if place.signal(kind).exists()] == []


@pytest.mark.timed
@pytest.mark.parametrize("how", ["resume", "stop", "restart"])
async def test_it_wakes_within_a_quarter_of_a_second(how: ReleaseHow, tmp_path: Path) -> None:
    place, loop = place_in(tmp_path), asyncio.get_running_loop()

    async def attempt() -> None:
        waited = asyncio.create_task(released(place))
        assert not await comes_true(waited.done, within=0.02)
        ask(place, how)
        since = loop.time()
        await waited
        assert loop.time() - since <= 0.25

    await one_of_three(attempt)


async def test_waiting_is_a_look_ten_times_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, looks = place_in(tmp_path), counted_looks(monkeypatch)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait_for_release(place, loop_id=ID, suspension_id="s1"), 0.55)
    assert 2 <= looks.count(place.signals) <= 6


async def test_a_stale_signal_is_told_and_resumes_nothing(tmp_path: Path) -> None:
    place, told = place_in(tmp_path), list[str]()
    ask(place, "resume", "s0")
    place.signal("stop").touch()
    waited = asyncio.create_task(released(place, told.append))
    assert await comes_true(lambda: len(told) == 2)
    assert not waited.done()
    assert "empty" in told[0]
    assert "'s0'" in told[1]
    ask(place, "resume")
    assert (await waited).how == "resume"


async def test_a_signal_that_comes_in_the_same_tick_as_another_is_found_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.loop.waiting.LOOKS_BLINDLY", 10**9)
    place = place_in(tmp_path)
    place.signal("stop").touch()
    stamp = place.signals.stat().st_mtime_ns

    def within_the_tick(_: str) -> None:
        ask(place, "resume")
        os.utime(place.signals, ns=(stamp, stamp))

    assert (await released(place, within_the_tick)).how == "resume"


async def test_a_change_that_the_file_system_does_not_tell_is_found_by_a_blind_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.loop.waiting.LOOK_SECONDS", 0.005)
    place, looks = place_in(tmp_path), counted_looks(monkeypatch)
    waited = asyncio.create_task(released(place))
    assert await comes_true(lambda: looks.count(place.signals) > 4)
    stamp = place.signals.stat().st_mtime_ns
    ask(place, "resume")
    os.utime(place.signals, ns=(stamp, stamp))
    assert (await waited).how == "resume"


@pytest.mark.parametrize("gone", ["the workspace", "its state folder"])
async def test_a_workspace_that_vanishes_is_told(gone: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    place = Place(ID, tmp_path, workspace)
    place.make()
    waited = asyncio.create_task(released(place))
    assert not await comes_true(waited.done, within=0.02)
    what = workspace if gone == "the workspace" else place.signals
    shutil.rmtree(what)
    with pytest.raises(TenterError, match=f"'{what}' is gone"):
        await waited


async def test_a_loop_at_work_hears_a_stop_and_leaves_a_resume_alone(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    ask(place, "resume")
    waited = asyncio.create_task(stop_asked(place, loop_id=ID))
    assert not await comes_true(waited.done, within=0.02)
    ask(place, "restart", None)
    assert await asyncio.wait_for(waited, BOUND) == Release(how="restart", by=BY, at=AT)
    assert place.signal("resume").exists()


async def test_who_stops_waiting_takes_nothing_away(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    waited = asyncio.create_task(stop_asked(place, loop_id=ID))
    assert not await comes_true(waited.done, within=0.02)
    ask(place, "stop", None)
    waited.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waited
    assert (await asyncio.wait_for(stop_asked(place, loop_id=ID), BOUND)).how == "stop"


async def test_an_answer_is_waited_for_and_one_to_another_question_is_told(tmp_path: Path) -> None:
    place, told = place_in(tmp_path), list[str]()

    def give(question_id: str, text: str) -> None:
        write_signal(place, Answer(loop_id=ID, question_id=question_id, text=text, at=AT, by=BY))

    give("q0", "late")
    waited = asyncio.create_task(wait_for_answer(place, loop_id=ID, question_id="q1", told=told.append))
    assert await comes_true(lambda: bool(told))
    assert "'q0'" in told[0]
    give("q1", "yes")
    assert await asyncio.wait_for(waited, BOUND) == "yes"


def unsynced(_: int) -> None:
    """Instead of `os.fsync`: nobody pulls a plug here."""


@pytest.mark.fault(46)
async def test_a_resume_that_races_a_stop_has_one_end_that_both_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.loop.waiting.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("os.fsync", unsynced)
    registry, own, ends = Registry(tmp_path / ".tenter" / "loops.db"), this_process(), list[ReleaseHow]()
    for number in range(1000):
        place = place_in(tmp_path, f"loop-{number}")
        row = LoopRow(
            loop_id=place.loop_id,
            primary=True,
            project=str(tmp_path),
            workspace=str(tmp_path),
            config="tenter.yaml",
            pid=own.pid,
            started=own.started,
            started_at=0.0,
        )
        assert registry.add(row, hold=True) is None

        kinds: tuple[ReleaseHow, ...] = ("resume", "stop") if number % 2 else ("stop", "resume")
        racing = [asyncio.create_task(asyncio.to_thread(ask, place, kind)) for kind in kinds]
        release = registry.release(place.loop_id, "s1", await released(place))
        await asyncio.wait_for(asyncio.gather(*racing), BOUND)
        heard = [registry.released(place.loop_id, "s1") for _ in racing]
        assert heard == [release, release]
        later = Release(how="restart", by=BY, at=AT)
        assert registry.release(place.loop_id, "s1", later) == release
        ends.append(release.how)
        registry.update(place.loop_id, status="failed")
    registry.close()
    assert set(ends) == {"resume", "stop"}, "now one was first, now the other"
