"""Who has a run: of several that want it one gets it, and the others hear which one has it, and since when."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.world import BOTH, STORES, act, acting, calls, journal, lines, only_run, processes, project
from tests.outside import comes_true

from tenter import Harness
from tenter.executors import ProcessId, this_process
from tenter.executors.process_id import started_by_proc
from tenter.harness.held import (
    HERE,
    Holder,
    RunHeld,
    begun_here,
    check_free,
    claim,
    claim_of,
    claimed,
    is_here,
    kept_here,
)
from tenter.journal import Entry, Head, JournalError, MemoryStore, SqliteStore, Store, Stream, StreamSummary
from tenter.kernel import TenterError
from tenter.testing import FakeClock

STREAM = Stream("run", "r1")
NOW = 1_700_000_000.0
SINCE = "2023-11-14 22:13:20 UTC"


def summary(process: ProcessId, host: str) -> StreamSummary:
    holder = Holder(process=process, host=host, since=int(NOW * 1e6))
    return StreamSummary(stream=STREAM, started=1, status="running", holder=msgspec.json.encode(holder).decode())


async def begun(store: Store, **content: object) -> None:
    await store.append(STREAM, [Entry(kind="run", time=int(NOW * 1e6), content={"task": "work", **content})])


def test_who_has_a_run_is_read_from_its_summary_where_that_can_be_told() -> None:
    told = Holder.of(summary(ProcessId(7, "9"), "here"))
    assert told == Holder(process=ProcessId(7, "9"), host="here", since=int(NOW * 1e6))
    assert Holder.of(StreamSummary(stream=STREAM, started=1)) is None
    assert Holder.of(StreamSummary(stream=STREAM, started=1, holder="{broken")) is None
    assert Holder.of(StreamSummary(stream=STREAM, started=1, holder='{"process": 3}')) is None


def test_a_run_goes_on_once_in_this_process() -> None:
    check_free(summary(this_process(), socket.gethostname()))
    store, other = MemoryStore(), MemoryStore()
    with kept_here(store, STREAM, NOW):
        with pytest.raises(RunHeld, match=rf"run 'r1' goes on in process {os.getpid()} since {SINCE}; wait for it"):
            kept_here(store, STREAM, NOW).__enter__()
        with kept_here(store, Stream("run", "r2"), NOW), kept_here(other, STREAM, NOW):
            assert len(HERE) == 3
        assert is_here(store, STREAM)
        assert not is_here(other, STREAM)
    assert HERE == {}


def test_two_harnesses_with_the_same_file_have_the_same_runs(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "journal.db") for _ in range(2)]
    with kept_here(stores[0], STREAM, NOW):
        assert is_here(stores[1], STREAM)


@pytest.mark.fault(48)
def test_a_process_of_another_host_counts_as_living_and_another_with_the_same_number_does_not() -> None:
    with pytest.raises(RunHeld, match=rf"in process 7 on elsewhere since {SINCE};.*: '--accept holder'"):
        check_free(summary(ProcessId(7, "9"), "elsewhere"))
    check_free(summary(ProcessId(7, "9"), "elsewhere"), vouched=True)
    parent = process_of(os.getppid())
    with pytest.raises(RunHeld, match=f"in process {parent.pid} since {SINCE}"):
        check_free(summary(parent, socket.gethostname()), vouched=True)
    assert not Holder(process=ProcessId(parent.pid, "earlier"), host=socket.gethostname(), since=1).lives()
    assert not Holder(process=ProcessId(os.getpid(), "earlier"), host=socket.gethostname(), since=1).lives()


def process_of(pid: int) -> ProcessId:
    started = started_by_proc(pid)
    assert started is not None
    return ProcessId(pid, started)


@pytest.mark.parametrize("kind", BOTH)
async def test_a_claim_is_an_entry_that_says_who_and_when(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    await begun(store)
    before = await claim(store, STREAM, by="ada", now=NOW)
    (_, claiming) = await journal(store, "r1")
    now = await store.summary(STREAM)
    await store.close()
    assert before.holder == ""
    assert (claiming.entry.kind, claiming.entry.time) == ("resumed", int(NOW * 1e6))
    assert msgspec.to_builtins({**claim_of("ada"), "status": "running"}) == claiming.entry.content
    assert now is not None
    assert (now.status, Holder.of(now)) == (
        "running",
        Holder(process=this_process(), host=socket.gethostname(), since=int(NOW * 1e6)),
    )


@pytest.mark.parametrize("kind", BOTH)
async def test_a_claim_of_what_is_over_leaves_it_over_and_of_what_is_not_there_appends_nothing(
    tmp_path: Path, kind: str
) -> None:
    store = STORES[kind](tmp_path)
    with pytest.raises(TenterError, match="the journal holds no run"):
        await claim(store, STREAM, by="", now=NOW)
    await begun(store)
    await store.append(STREAM, [Entry(kind="status", time=2, content={"status": "completed"})])
    async with claimed(store, STREAM, by="", clock=FakeClock(NOW)) as before:
        assert before.status == "completed"
        held = await store.summary(STREAM)
        assert held is not None
        assert (held.status, held.holder != "") == ("completed", True)
    now = await store.summary(STREAM)
    kinds = lines(await journal(store, "r1"))
    await store.close()
    assert now is not None
    assert (now.status, now.holder) == ("completed", "")
    assert kinds == ["run", "status", "resumed", "released"]


class Raced(MemoryStore):
    """Somebody else appends between the look at the head and the claim."""

    def __init__(self, kind: str, **content: object) -> None:
        super().__init__()
        self.other = [Entry(kind=kind, time=5, content=content)]

    async def summary(self, stream: Stream) -> StreamSummary | None:
        found = await super().summary(stream)
        if self.other:
            await super().append(stream, [self.other.pop()])
        return found


@pytest.mark.fault(45)
async def test_a_claim_that_another_was_quicker_with_is_looked_at_again() -> None:
    decided = Raced("note")
    await begun(decided)
    await claim(decided, STREAM, by="", now=NOW)
    assert lines(await journal(decided, "r1")) == ["run", "note", "resumed"]
    process = {"pid": 1, "started": "1"}
    taken = Raced("resumed", process=process, host="elsewhere", by="", status="running")
    await begun(taken)
    with pytest.raises(RunHeld, match="in process 1 on elsewhere since 1970-01-01 00:00:00 UTC"):
        await claim(taken, STREAM, by="", now=NOW)
    assert lines(await journal(taken, "r1")) == ["run", "resumed"]


@pytest.mark.parametrize("status", ["awaiting_approval", None])
async def test_what_cannot_be_gone_on_with_is_let_go_of_as_it_was(status: str | None) -> None:
    store = MemoryStore()
    await begun(store)
    if status:
        await store.append(STREAM, [Entry(kind="status", time=2, content={"status": status})])
    before = await store.summary(STREAM)
    with pytest.raises(ZeroDivisionError):
        async with claimed(store, STREAM, by="ada", clock=FakeClock(NOW)):
            raise ZeroDivisionError
    after = await store.summary(STREAM)
    assert before is not None
    assert after is not None
    assert (after.status, after.holder) == (before.status, "")
    assert lines(await journal(store, "r1"))[-2:] == ["resumed", "released"]


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
async def test_what_ended_meanwhile_is_let_go_of_with_its_end(error: type[Exception] | None) -> None:
    store = MemoryStore()
    await begun(store)
    with suppress(ZeroDivisionError):
        async with claimed(store, STREAM, by="ada", clock=FakeClock(NOW)):
            await store.append(STREAM, [Entry(kind="status", time=2, content={"status": "failed"})])
            if error is not None:
                raise error
    assert lines(await journal(store, "r1")) == ["run", "resumed", "status", "released"]
    after = await store.summary(STREAM)
    assert after is not None
    assert (after.status, after.holder) == ("failed", "")


class Ended(MemoryStore):
    """Another process, which has the run when it is first looked at, brings it to its end before it is claimed."""

    looks = 0

    async def head(self, stream: Stream) -> Head:
        self.looks += 1
        if self.looks == 1:
            await super().append(stream, [Entry(kind="status", time=5, content={"status": "completed"})])
            await super().append(stream, [Entry(kind="released", time=5, content={"status": "completed"})])
        return await super().head(stream)


@pytest.mark.fault(46)
@pytest.mark.parametrize("error", [None, asyncio.CancelledError])
async def test_a_run_that_ended_before_it_was_claimed_stays_ended_and_nobody_has_it(
    error: type[BaseException] | None,
) -> None:
    store = Ended()
    gone = {"process": ProcessId(7, "gone"), "host": socket.gethostname()}
    await begun(store, **gone)
    await store.append(STREAM, [Entry(kind="status", time=2, content={"status": "running"})])
    with suppress(asyncio.CancelledError):
        async with claimed(store, STREAM, by="ada", clock=FakeClock(NOW)) as before:
            assert before.status == "completed"
            if error is not None:
                raise error
    after = await store.summary(STREAM)
    assert after is not None
    assert (after.status, after.holder) == ("completed", "")
    assert lines(await journal(store, "r1"))[-2:] == ["resumed", "released"]


class CutShort(MemoryStore):
    """The caller is cancelled while its claim goes to disk."""

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        head = await super().append(stream, entries, durable=durable, expected_head=expected_head)
        if entries[0].kind == "resumed":
            raise asyncio.CancelledError
        return head


@pytest.mark.parametrize("status", ["awaiting_approval", "completed"])
async def test_a_claim_that_is_cut_short_lets_go_of_the_run_as_it_was(status: str) -> None:
    store = CutShort()
    await begun(store)
    await store.append(STREAM, [Entry(kind="status", time=2, content={"status": status})])
    with pytest.raises(asyncio.CancelledError):
        await claim(store, STREAM, by="ada", now=NOW)
    after = await store.summary(STREAM)
    assert after is not None
    assert (after.status, after.holder) == (status, "")


@pytest.mark.fault(45)
@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_that_is_over_is_held_by_who_tells_of_its_end(tmp_path: Path, kind: str) -> None:
    store, parent = STORES[kind](tmp_path), process_of(os.getppid())
    await begun(store, process=parent, host=socket.gethostname())
    await store.append(STREAM, [Entry(kind="status", time=2, content={"status": "failed"})])
    with pytest.raises(RunHeld, match=rf"'r1' ended failed, which is being told in process {parent.pid} since {SINCE}"):
        await claim(store, STREAM, by="", now=NOW)
    await store.append(STREAM, [Entry(kind="released", time=2, content={"status": "failed"})])
    assert (await claim(store, STREAM, by="", now=NOW)).status == "failed"
    await store.close()


async def test_a_run_that_was_begun_here_is_let_go_of_once_it_is_over() -> None:
    store, clock = MemoryStore(), FakeClock(NOW)
    async with begun_here(store, STREAM, clock=clock):
        assert is_here(store, STREAM)
        await begun(store, **claim_of(""))
    assert lines(await journal(store, "r1")) == ["run"]
    async with begun_here(store, STREAM, clock=clock):
        await store.append(STREAM, [Entry(kind="status", time=2, content={"status": "blocked"})])
    after = await store.summary(STREAM)
    assert after is not None
    assert (after.status, after.holder) == ("blocked", "")


@pytest.mark.fault(45)
@pytest.mark.parametrize("kind", BOTH)
async def test_of_two_who_go_on_at_once_one_does_and_the_other_hears_who(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work")
        await made.harness().approve(waiting.run_id, by="ada")
        resumed = [made.harness().resume(waiting.run_id) for _ in range(3)]
        ends = await asyncio.gather(*resumed, return_exceptions=True)
        assert lines(await journal(made.store, waiting.run_id)).count("resumed") == 1
    held = [end for end in ends if isinstance(end, RunHeld)]
    assert len(held) == 2
    assert [end.status for end in ends if not isinstance(end, BaseException)] == ["completed"]
    assert all(f"run '{waiting.run_id}' goes on in process {os.getpid()} since" in str(end) for end in held)
    assert (tmp_path / "acted").read_text().count("a ") == 1


RISKY = {"risk": "high"}

STANDS = """\
import sys
from tenter import tool

@tool
def act() -> str:
    print("acting", flush=True)
    sys.stdin.read()
    return "done"
"""

CHILD = """\
import asyncio, sys
from tenter import Harness

async def main():
    async with Harness.from_file(sys.argv[1]) as harness:
        await harness.run("work", "go")

asyncio.run(main())
"""


@pytest.mark.fault(45)
@pytest.mark.fault(48)
async def test_a_run_of_a_living_process_is_told_by_its_number_and_one_that_was_killed_can_be_gone_on_with(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_tools.py").write_text(STANDS)
    settings = {"tools": {"act": {"python": "./my_tools.py:act", "idempotent": True}}}
    path = project(tmp_path, calls(("act", {})), "Done.", tools=["act"], settings=settings)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        while child.stdout.readline().strip() != "acting":
            assert child.poll() is None
        store = SqliteStore(tmp_path / ".tenter" / "journal.db")
        run_id = await only_run(store)
        entries = lines(await journal(store, run_id))
        (tmp_path / "my_tools.py").write_text(STANDS.replace("sys.stdin.read()", "pass"))
        harness = Harness.from_file(path, store=store)
        with pytest.raises(RunHeld, match=rf"run '{run_id}' goes on in process {child.pid} since \d{{4}}-\d\d-\d\d"):
            await harness.resume(run_id)
        assert lines(await journal(store, run_id)) == entries
    finally:
        child.kill()
        child.wait(10)
        child.stdin.close()
        child.stdout.close()
    result = await harness.resume(run_id)
    await harness.close()
    assert (result.status, result.output) == ("completed", "Done.")


RESUMES = """\
import asyncio, sys
from tenter import Harness
from tenter.harness import RunHeld

async def main():
    async with Harness.from_file(sys.argv[1]) as harness:
        try:
            print((await harness.resume(sys.argv[2])).status)
        except RunHeld as held:
            print(held)

asyncio.run(main())
"""


@pytest.mark.fault(45)
async def test_of_two_processes_that_go_on_at_once_one_does_and_the_other_hears_which_and_since_when(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_tools.py").write_text(STANDS)
    settings = {"tools": {"act": {"python": "./my_tools.py:act", "risk": "high"}}}
    path = project(tmp_path, calls(("act", {})), "Done.", tools=["act"], settings=settings)
    async with Harness.from_file(path) as harness:
        waiting = await harness.run("work", "go")
        await harness.approve(waiting.run_id, by="ada")
    command = [sys.executable, "-c", RESUMES, str(path), waiting.run_id]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert await comes_true(lambda: any(child.poll() is not None for child in children), within=20)
        (loser,) = [child for child in children if child.poll() is not None]
        (winner,) = [child for child in children if child is not loser]
        heard, _ = loser.communicate(timeout=10)
        done, _ = winner.communicate("", timeout=10)
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=10)
    assert f"run '{waiting.run_id}' goes on in process {winner.pid} since 2" in heard
    assert done.split() == ["acting", "completed"]


@pytest.mark.parametrize("accept", ["holderr", ["task", "holder"]])
async def test_who_ends_a_run_may_accept_nothing_but_that_its_holder_is_gone(tmp_path: Path, accept: Any) -> None:
    path, store = acting(tmp_path, act("a"), tool={"risk": "high"}), MemoryStore()
    harness = Harness.from_file(path, store=store)
    waiting = await harness.run("work", "go")
    with pytest.raises(TenterError, match="is nothing that can be accepted here; there is 'holder'"):
        await harness.cancel(waiting.run_id, accept=accept)
    assert len(await harness.approvals(waiting.run_id)) == 1
    assert (await harness.cancel(waiting.run_id, accept="holder")) is not None


async def test_a_journal_that_is_closed_raises_what_it_does() -> None:
    store = MemoryStore()
    await begun(store)
    await store.close()
    with pytest.raises(JournalError):
        await claim(store, STREAM, by="", now=NOW)
