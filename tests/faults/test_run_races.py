"""Runs that several processes or tasks want to go on with, or to end, at the same moment (FAULTS 45, 46 and 48)."""

import asyncio
import json
import os
import re
import select
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from tests.commandline import (
    LONGEST,
    TENTER,
    Ended,
    calls,
    environment,
    gate,
    heard,
    started,
    tenter,
    write_project,
)
from tests.faults.acting import acted, acting, ask, of
from tests.harness.world import calls as several, journal, of_kind
from tests.waiting import ACT, acted as shell_acted, states, statuses, suspends, wait, waiting_project

from tenter.catalogue import ApprovalDecision
from tenter.executors import ProcessId
from tenter.harness import Harness, RunHeld, RunResult
from tenter.journal import DecisionRefused, Entry, Head, MemoryStore, SqliteStore, Store, Stream
from tenter.kernel import TenterError

T = TypeVar("T")

RACES = 1_000
TURNS = 60
"""How many turns of the event loop one of two who race is behind at most: a run is over by then."""

STANDS = f"{ACT}; echo $$ > begun; cat go"
"""A tool that acts, says that it did, and stands until it is told to go on."""


async def told(asking: Awaitable[T]) -> T | TenterError:
    """What somebody is told who asks something of a run."""
    try:
        return await asking
    except TenterError as error:
        return error


async def later(turns: int, asking: Awaitable[T]) -> T | TenterError:
    for _ in range(turns):
        await asyncio.sleep(0)
    return await told(asking)


async def race(harness: Harness, run_id: str, number: int) -> tuple[object, object]:
    """What each is told: who resumes the run and who cancels it, the one or the other some turns behind."""
    behind = number // 2 % TURNS
    first, second = (behind, 0) if number % 2 else (0, behind)
    return await asyncio.gather(later(first, harness.resume(run_id)), later(second, harness.cancel(run_id, by="ann")))


def disagrees(said: object, status: str) -> bool:
    """Whether somebody is told of another end than the one on record."""
    match said:
        case RunResult():
            return said.status != status
        case RunHeld():
            return re.search(r"goes on in process \d+ since ", str(said)) is None
        case TenterError():
            return f"it ended {status}" not in str(said)
        case None:
            return False
        case _:
            return True


@pytest.mark.fault(46)
@pytest.mark.timeout(LONGEST * 5)
@pytest.mark.parametrize("decided", [True, False], ids=["decided", "undecided"])
async def test_a_resume_that_races_a_cancel_has_one_end_that_both_are_told(tmp_path: Path, decided: bool) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path), store, ask)
    wrong: list[object] = []
    ends: Counter[str] = Counter()
    for number in range(RACES // 2):
        run_id = (await harness.run("work", "go")).run_id
        if decided:
            await harness.approve(run_id, by="ann")
        both = await race(harness, run_id, number)
        summary = await store.summary(Stream("run", run_id))
        assert summary is not None
        ends[summary.status] += 1
        results = of_kind(await journal(store, run_id), "result")
        if [one["status"] for one in results] != [summary.status] or len(acted(run_id)) > decided:
            wrong.append((number, results, acted(run_id)))
        resumed, cancelled = both
        waited = isinstance(resumed, RunResult) and resumed.status == "awaiting_approval" and not decided
        if disagrees(cancelled, summary.status) or (disagrees(resumed, summary.status) and not waited):
            wrong.append((number, summary.status, both))
    await harness.close()
    assert wrong == []
    assert set(ends) == ({"completed", "cancelled"} if decided else {"cancelled"})


@pytest.mark.fault(46)
async def test_a_cancel_that_comes_at_any_moment_of_a_resume_is_heeded(tmp_path: Path) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path, several(("act", {}), ("stand", {})), "Done."), store, ask)
    for turns in range(TURNS):
        run_id = (await harness.run("work", "go")).run_id
        await harness.approve(run_id, by="ann")
        both = asyncio.gather(told(harness.resume(run_id)), later(turns, harness.cancel(run_id)))
        resumed, cancelled = await asyncio.wait_for(both, LONGEST)
        summary = await store.summary(Stream("run", run_id))
        assert summary is not None
        assert summary.status == "cancelled", turns
        assert not disagrees(cancelled, "cancelled"), (turns, cancelled)
        assert not disagrees(resumed, "cancelled"), (turns, resumed)
    await harness.close()


class AskedLate(MemoryStore):
    """Another process asks for the end of a run at the moment in which it is let go of."""

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        if any(entry.content.get("status") == "awaiting_approval" for entry in entries):
            await super().append(stream, [Entry(kind="cancel_requested", time=1, content={"by": "ann"})])
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


@pytest.mark.fault(46)
async def test_a_run_that_was_asked_to_end_as_it_began_to_wait_ends(tmp_path: Path) -> None:
    store = AskedLate()
    harness = of(acting(tmp_path), store, ask)
    result = await harness.run("work", "go")
    assert await store.approvals(run=result.run_id) == []
    await harness.close()
    assert (result.status, acted(result.run_id)) == ("cancelled", [])


def at_once(folder: Path, *commands: tuple[str, ...]) -> list[Ended]:
    """What several commands came to that were started at the same moment."""
    running = [
        subprocess.Popen(
            [TENTER, *command],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    said = [process.communicate(timeout=LONGEST) for process in running]
    return [Ended(one.returncode, *two) for one, two in zip(running, said, strict=True)]


def wait_and_approve(folder: Path, command: str) -> str:
    """A run whose call of the shell was approved and has not been made; its id."""
    run_id = wait(waiting_project(folder, calls("shell", command=command), {"text": "done"}))
    assert tenter("approvals", "approve", run_id, cwd=folder).code == 0
    return run_id


@pytest.mark.fault(45)
def test_of_processes_that_resume_a_run_at_once_one_does_and_the_others_hear_which_one_and_since_when(
    tmp_path: Path,
) -> None:
    run_id = wait_and_approve(tmp_path, STANDS)
    os.mkfifo(tmp_path / "go")
    with (
        gate(tmp_path / "begun") as begins,
        started("resume", run_id, cwd=tmp_path) as one,
        started("resume", run_id, cwd=tmp_path) as two,
    ):
        heard(begins)
        lost = next_to_end(one, two)
        won = two if lost is one else one
        said = lost.communicate(timeout=LONGEST)
        (tmp_path / "go").write_text("went\n")
        assert won.wait(LONGEST) == 0
    assert (lost.returncode, said[0]) == (1, "")
    assert re.search(rf"goes on in process {won.pid} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC", said[1]), said
    assert (shell_acted(tmp_path), statuses(tmp_path)) == (1, ["completed"])


def next_to_end(*processes: "subprocess.Popen[str]") -> "subprocess.Popen[str]":
    """The first of these that has ended."""
    opened = [os.pidfd_open(one.pid) for one in processes]
    try:
        ready, _, _ = select.select(opened, [], [], LONGEST)
        assert ready, "none has ended"
        return processes[opened.index(ready[0])]
    finally:
        for descriptor in opened:
            os.close(descriptor)


@pytest.mark.fault(45)
@pytest.mark.fault(47)
def test_a_run_that_begins_to_wait_is_its_processs_until_all_are_told(tmp_path: Path) -> None:
    once = "[ -e told ] || { touch told; echo $$ > begun; cat go > /dev/null; }"
    slow = {"name": "slow", "script": f'case "$(cat)" in *awaiting_approval*) {once} ;; esac', "on_error": "warn"}
    events = {"tool.before": [suspends()], "task.state_changed.pre": [slow]}
    write_project(tmp_path, [calls("shell", command=ACT), {"text": "done"}], events=events)
    os.mkfifo(tmp_path / "go")
    with gate(tmp_path / "begun") as begins, started("run", "job", cwd=tmp_path) as process:
        heard(begins)
        assert states(tmp_path) == ["open"]
        (row,) = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
        assert tenter("approvals", "approve", row["run_id"], cwd=tmp_path).code == 0
        early = tenter("resume", row["run_id"], cwd=tmp_path)
        (tmp_path / "go").write_text("went\n")
        code = process.wait(LONGEST)
    assert early.code == 1, early
    assert f"goes on in process {process.pid} since" in early.err
    assert code == 0, "it was approved by then"
    assert (shell_acted(tmp_path), statuses(tmp_path)) == (1, ["completed"])


@pytest.mark.fault(46)
def test_processes_that_resume_and_cancel_a_run_at_once_leave_it_with_one_end(tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_id = wait_and_approve(folder, ACT)
        resumed, cancelled = at_once(folder, ("resume", run_id), ("runs", "cancel", run_id))
        (status,) = statuses(folder)
        assert status in ("completed", "cancelled"), (resumed, cancelled)
        assert shell_acted(folder) <= 1
        if status == "completed":
            assert resumed.code == 0, (resumed, cancelled)
            assert shell_acted(folder) == 1
            assert "cancelled in" not in cancelled.err
        else:
            assert resumed.code != 0, (resumed, cancelled)
            assert "completed" not in resumed.err + cancelled.err


@pytest.mark.fault(45)
async def test_of_many_who_decide_a_request_at_once_one_does_and_the_others_hear_who(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / ".tenter" / "journal.db") for _ in range(4)]
    path = acting(tmp_path)
    harnesses = [of(path, store, ask) for store in stores]
    run_id = (await harnesses[0].run("work", "go")).run_id
    deciding = [
        told(one.approve(run_id, by=f"p{n}") if n % 2 else one.reject(run_id, by=f"p{n}"))
        for n, one in enumerate(harnesses)
    ]
    said = await asyncio.gather(*deciding)
    counted = [one for one in said if isinstance(one, ApprovalDecision)]
    assert len(counted) == 1, said
    others = [one for one in said if one is not counted[0]]
    heard_who = [one for one in others if isinstance(one, DecisionRefused) and f"by {counted[0].by!r} at" in str(one)]
    assert len(heard_who) == 3, said
    result = await harnesses[-1].resume(run_id)
    assert result.status == ("completed" if counted[0].decision == "approve" else "blocked")
    for one in harnesses:
        await one.close()


NAMES_ITSELF = """\
import sys
from tenter.executors import this_process
print(this_process().pid, this_process().started, flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process() -> Generator[tuple["subprocess.Popen[str]", ProcessId]]:
    """A process that lives until it is ended, and who it is."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", NAMES_ITSELF], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        pid, began = process.stdout.readline().split()
        try:
            yield process, ProcessId(int(pid), began)
        finally:
            process.kill()
            process.wait(LONGEST)


async def claimed_by(store: Store, run_id: str, process: ProcessId, host: str | None = None) -> None:
    """The process goes on with the run, says the journal."""
    content = {"process": process, "host": host or socket.gethostname(), "by": "", "status": "running"}
    await store.append(Stream("run", run_id), [Entry(kind="resumed", time=1_000_000, content=content)])


@pytest.mark.fault(48)
async def test_a_run_is_held_by_a_process_that_lives_and_not_by_a_number(tmp_path: Path) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path), store, ask)
    run_id = (await harness.run("work", "go")).run_id
    await harness.approve(run_id, by="ann")
    with another_process() as (_, living):
        await claimed_by(store, run_id, living)
        with pytest.raises(RunHeld, match=f"goes on in process {living.pid} since 1970"):
            await harness.resume(run_id)
        assert acted(run_id) == []
        await claimed_by(store, run_id, ProcessId(living.pid, "an earlier one"))
        result = await harness.resume(run_id)
    await harness.close()
    assert (result.status, len(acted(run_id))) == ("completed", 1)


@pytest.mark.fault(48)
async def test_a_run_whose_process_is_gone_goes_on_and_one_of_another_host_does_not(tmp_path: Path) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path), store, ask)
    run_id = (await harness.run("work", "go")).run_id
    await harness.approve(run_id, by="ann")
    with another_process() as (process, gone):
        process.kill()
        process.wait(LONGEST)
    await claimed_by(store, run_id, gone, "elsewhere")
    with pytest.raises(RunHeld, match=f"goes on in process {gone.pid} on elsewhere since"):
        await harness.resume(run_id)
    await claimed_by(store, run_id, gone)
    result = await harness.resume(run_id)
    await harness.close()
    assert (result.status, len(acted(run_id))) == ("completed", 1)


@pytest.mark.fault(46)
@pytest.mark.fault(48)
async def test_a_run_whose_process_died_before_it_heard_that_it_should_end_ends_when_somebody_goes_on_with_it(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path), store, ask)
    run_id = (await harness.run("work", "go")).run_id
    await harness.approve(run_id, by="ann")
    with another_process() as (process, gone):
        await claimed_by(store, run_id, gone)
        assert await harness.cancel(run_id, by="ann") is None, "another process has it, and was asked"
        process.kill()
        process.wait(LONGEST)
    result = await harness.resume(run_id)
    await harness.close()
    assert (result.status, acted(run_id)) == ("cancelled", [])
