"""Loops from their request to their end, with real programs, and loops that are continued after their process died."""

import asyncio
import gc
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.commandline import digest_of, started
from tests.outside import alive_with, comes_true, leaves_nothing

from tenter.config import Untrusted
from tenter.journal import SqliteStore, Stream
from tenter.kernel import TenterError
from tenter.loop import starting
from tenter.loop.claim import place_of, registry_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Parts, Told
from tenter.loop.preflight import PreflightFailed
from tenter.loop.process_id import ProcessId, started_by_proc
from tenter.loop.reason import ReleaseHow
from tenter.loop.record import LoopRecord
from tenter.loop.release import by_this_process
from tenter.loop.request import LoopRequest, LoopResult
from tenter.loop.signal_file import Signal, write_signal
from tenter.loop.starting import continue_loop, run_loop
from tenter.loop.state import LoopState
from tenter.loop.suspension import read_state

LONGEST = 30.0
DONE = "echo LOOP_COMPLETE"
GATE = {"name": "gate", "script": "test -e open", "on_error": "suspend"}


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("TENTER_TRUST", raising=False)


def project(tmp_path: Path, agent: str, *, hooks: Mapping[str, Sequence[object]] | None = None, **loop: object) -> Path:
    """A project whose agent is a shell script; its folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    settings = {"backend": {"command": ["/bin/sh", "agent.sh"]}, **loop}
    (folder / "agent.sh").write_text(f"{agent}\n")
    config = {"version": 1, "loop": settings, "hooks": {"events": hooks or {}}}
    (folder / "tenter.yaml").write_text(json.dumps(config))
    return folder


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, **request: object) -> LoopRequest:
    """The request for a loop of a project that is trusted as it is."""
    monkeypatch.setenv("TENTER_TRUST", digest_of(folder / "tenter.yaml"))
    return LoopRequest(config=str(folder / "tenter.yaml"), prompt="mend it", **request)  # pyright: ignore[reportArgumentType]  # fields of a request, by their names


def only_row(folder: Path) -> LoopRow:
    (row,) = registry_of(folder).rows(everything=True)
    return row


def unheard(_: Told) -> None:
    """For tests that do not look at what people are told."""


def ask_for(row: LoopRow, how: ReleaseHow) -> None:
    asking = Signal(kind=how, loop_id=row.loop_id, suspension_id=None, at="2026-02-28T15:31:00Z", by=by_this_process())
    write_signal(place_of(row), asking)


async def test_a_loop_runs_its_program_until_that_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = '{"schema_version": 1, "topic": "part.done", "payload": 1}'
    agent = f"""cat > prompt; test -e half && {DONE} && exit; touch half; echo '{event}' >> "$TENTER_EVENTS_FILE" """
    folder = project(tmp_path, agent)
    told: list[Told] = []
    gc.collect()  # what other tests left to be closed
    async with leaves_nothing():
        result = await run_loop(asked(folder, monkeypatch), tell=told.append)
    assert (result.reason, result.iterations) == ("completed", 2)
    assert "- part.done" in (folder / "prompt").read_text()
    row = only_row(folder)
    assert (row.status, row.workspace, row.prompt, row.primary) == ("completed", str(folder), "mend it", True)
    assert told[0].text == f"loop {row.loop_id} in {folder}"
    assert [one.kind for one in told] == ["began", "iteration", "iteration", "output", "ended"]
    assert json.loads(Path(result.summary).read_text())["topics"] == {"part.done": 1}


async def test_a_stop_ends_the_program_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "sleep 1000 & echo ready; wait")

    def stops(told: Told) -> None:
        if told.kind == "output":
            ask_for(only_row(folder), "stop")

    result = await asyncio.wait_for(run_loop(asked(folder, monkeypatch), tell=stops), LONGEST)
    assert result.reason == "stopped"
    assert await comes_true(lambda: not alive_with(f"TENTER_LOOP_ID={result.loop_id}"))


async def test_an_interruption_ends_the_program_and_is_raised_when_all_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "echo ready; sleep 1000")
    ready = asyncio.Event()

    def hears(told: Told) -> None:
        if told.kind == "output":
            ready.set()

    running = asyncio.create_task(run_loop(asked(folder, monkeypatch), tell=hears))
    await asyncio.wait_for(ready.wait(), LONGEST)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    row = only_row(folder)
    assert (row.reason, row.status) == ("interrupted", "failed")
    assert await comes_true(lambda: not alive_with(f"TENTER_LOOP_ID={row.loop_id}"))


async def test_an_interruption_does_not_keep_the_end_from_being_put_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finishing, goes_on = asyncio.Event(), asyncio.Event()
    finish = starting.finish

    async def slow(parts: Parts, state: LoopState, record: LoopRecord) -> LoopResult:
        finishing.set()
        await goes_on.wait()
        return await finish(parts, state, record)

    monkeypatch.setattr(starting, "finish", slow)
    folder = project(tmp_path, DONE)
    running = asyncio.create_task(run_loop(asked(folder, monkeypatch), tell=unheard))
    await asyncio.wait_for(finishing.wait(), LONGEST)
    running.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    assert only_row(folder).status == "completed"


@pytest.mark.fault(55)
@pytest.mark.promise(14)
async def test_a_loop_of_an_untrusted_project_starts_nothing(tmp_path: Path) -> None:
    folder = project(tmp_path, "touch ran")
    with pytest.raises(Untrusted):
        await run_loop(LoopRequest(config=str(folder / "tenter.yaml"), prompt="x"), tell=unheard)
    assert sorted(path.name for path in folder.iterdir()) == ["agent.sh", "tenter.yaml"]


async def test_a_loop_that_fails_its_preflight_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path, "touch ran", backend={"command": ["./not-there"]})
    with pytest.raises(PreflightFailed):
        await run_loop(asked(folder, monkeypatch), tell=unheard)
    assert sorted(path.name for path in folder.iterdir()) == ["agent.sh", "tenter.yaml"]


async def test_a_loop_that_cannot_be_built_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise TenterError("it cannot be built")

    monkeypatch.setattr(starting, "build", breaks)
    folder = project(tmp_path, DONE)
    with pytest.raises(TenterError, match="cannot be built"):
        await run_loop(asked(folder, monkeypatch), tell=unheard)
    assert registry_of(folder).rows(everything=True) == ()


def killed_while_suspended(folder: Path) -> LoopRow:
    """Runs a loop in a process of its own, which is killed when the loop is suspended."""
    with started("loop", "run", "--prompt", "mend it", cwd=folder) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "suspended at" in line:
                break
        process.send_signal(signal.SIGKILL)
        process.wait(LONGEST)
    return only_row(folder)


async def pieces(folder: Path, row: LoopRow) -> list[str]:
    """The kinds of the entries of the loop's stream."""
    store = SqliteStore(folder / ".tenter" / "journal.db")
    try:
        return [record.entry.kind async for record in store.read(Stream("loop", row.loop_id))]
    finally:
        await store.close()


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


@pytest.mark.fault(47)
async def test_a_loop_whose_process_was_killed_is_told_of_at_the_next_start_and_keeps_its_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE]})
    row = killed_while_suspended(folder)
    told: list[Told] = []
    with pytest.raises(TenterError, match=f"{row.loop_id} holds"):
        await run_loop(asked(folder, monkeypatch), tell=told.append)
    assert any(f"'tenter loop resume {row.loop_id}' continues it" in one.text for one in told)
    assert only_row(folder) == row


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
    with pytest.raises(TenterError, match=f"was taken over by the process {parent} at"):
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
        patch.setattr(starting, "_run", dies)
        with pytest.raises(TenterError, match="is gone"):
            await run_loop(request, tell=unheard)
    row = only_row(folder)
    assert row.status == "running"
    result = await asyncio.wait_for(continue_loop(row, tell=unheard), LONGEST)
    assert (result.reason, result.started_at) == ("completed", row.started_at)
