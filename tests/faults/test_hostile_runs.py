"""People, stores and clocks that do what they should not: what is refused says why, and the run stays as it was."""

import asyncio
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.faults.acting import ONE_CALL, TOOLS, acted, acting, ask, of
from tests.harness.world import BOTH, STORES, calls, journal, of_kind, statuses

from tenter import Block, Suspend, hook
from tenter.catalogue import ToolCallEvent
from tenter.harness import Harness, RunHeld, RunResult
from tenter.harness.setup import Given, set_up
from tenter.journal import DecisionRefused, Entry, Head, JournalError, MemoryStore, Stream, database, verify
from tenter.kernel import TenterError
from tenter.testing import FakeClock

SOON = 60.0
BREAKS = {"python": "tests.faults.acting:broken", "idempotent": True}

MANY = 250
"""More requests than a page of them has."""


class JumpingClock(FakeClock):
    """A clock that somebody sets, back and forth; what measures durations goes on as it should."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by = 0.0

    def now(self) -> float:
        return super().now() + self.set_by


@hook("tool.before", name="ask", match={"tool": "act"})
def ask_soon(event: ToolCallEvent) -> object:
    return Suspend("it acts", expires_in=SOON, on_timeout="block")


@hook("tool.before", name="ask", match={"tool": "act"})
def ask_of_all(event: ToolCallEvent) -> object:
    return Suspend("it acts", editable=("call.arguments.text", "call.arguments.times"))


@hook("tool.before", name="no-bombs", match={"tool": "act"}, priority=900)
def no_bombs(event: ToolCallEvent) -> object:
    return Block("no bombs") if "bomb" in str(event.call.arguments.get("text")) else None


async def waiting(harness: Harness) -> RunResult:
    result = await harness.run("work", "go")
    assert result.status == "awaiting_approval", result
    return result


async def refusal(harness: Harness, run_id: str, request_id: str | None, **edits: object) -> DecisionRefused:
    """Why a decision does not count."""
    with pytest.raises(DecisionRefused) as raised:
        await harness.approve(run_id, request_id, by="bob", edits=edits or None)
    return raised.value


# decisions


@pytest.mark.parametrize("kind", BOTH)
async def test_a_decision_that_comes_twice_or_too_late_or_at_the_wrong_place_says_why_it_does_not_count(
    tmp_path: Path, kind: str
) -> None:
    store = STORES[kind](tmp_path)
    harness = of(acting(tmp_path), store, ask)
    one, two = await waiting(harness), await waiting(harness)
    assert one.approval is not None
    assert two.approval is not None
    unknown = await refusal(harness, one.run_id, "nothing")
    foreign = await refusal(harness, one.run_id, two.approval.id)
    await harness.approve(one.run_id, one.approval.id, by="ann", reason="it is fine")
    decided = await refusal(harness, one.run_id, one.approval.id)
    result = await harness.resume(one.run_id)
    after = await refusal(harness, one.run_id, one.approval.id)
    await harness.cancel(two.run_id)
    finished = await refusal(harness, two.run_id, two.approval.id)
    whys = [refused.why for refused in (unknown, foreign, decided, after, finished)]
    assert whys == ["unknown", "foreign", "decided", "decided", "finished"]
    assert two.run_id in str(foreign)
    assert "by 'ann' at 20" in str(decided)
    assert "(it is fine)" in str(decided)
    assert "'cancelled'" in str(finished)
    assert (result.status, len(acted(one.run_id)), len(acted(two.run_id))) == ("completed", 1, 0)
    with pytest.raises(DecisionRefused, match="its run is over"):
        await harness.approve(two.run_id, by="bob")
    with pytest.raises(TenterError, match="has no open request"):
        await harness.approve("no-such-run", by="bob")
    await harness.close()


@pytest.mark.parametrize("kind", BOTH)
async def test_an_answer_that_comes_after_its_time_counts_for_nobody(tmp_path: Path, kind: str) -> None:
    clock, store = JumpingClock(), STORES[kind](tmp_path)
    harness = of(acting(tmp_path), store, ask_soon, clock=clock)
    result = await waiting(harness)
    clock.advance(SOON + 1)
    assert (await refusal(harness, result.run_id, None)).why == "expired"
    ended = await harness.resume(result.run_id)
    await harness.close()
    assert ended.error is not None
    assert (ended.status, ended.error.details["code"]) == ("blocked", "approval_expired")
    assert acted(result.run_id) == []


@pytest.mark.parametrize(
    ("edits", "says"),
    [({"times": "many"}, "times"), ({"text": None}, "text"), ({"times": 2, "text": ["a"]}, "text")],
    ids=["a text for a number", "nothing", "one of two"],
)
async def test_an_edit_that_does_not_fit_the_tool_is_refused_when_it_is_made_and_the_request_stays_open(
    tmp_path: Path, edits: Mapping[str, object], says: str
) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path), store, ask_of_all)
    result = await waiting(harness)
    refused = await refusal(harness, result.run_id, None, **edits)
    assert "the edit does not fit" in str(refused)
    assert says in str(refused)
    assert [row.state for row in await store.approvals(run=result.run_id, state=None)] == ["open"]
    assert acted(result.run_id) == []
    await harness.approve(result.run_id, by="ann", edits={"times": 2})
    assert (await harness.resume(result.run_id)).status == "completed"
    assert len(acted(result.run_id)) == 1
    await harness.close()


async def test_an_edit_of_a_field_that_nobody_may_edit_is_refused_when_it_is_made(tmp_path: Path) -> None:
    harness = of(acting(tmp_path), MemoryStore(), ask)
    result = await waiting(harness)
    refused = await refusal(harness, result.run_id, None, times=3)
    assert (refused.why, "'times' may not be edited" in str(refused)) == ("not_editable", True)
    assert (await refusal(harness, result.run_id, None, text="b", times=3)).why == "not_editable"
    await harness.approve(result.run_id, by="ann", edits={"text": "b"})
    assert (await harness.resume(result.run_id)).status == "completed"
    await harness.close()


async def test_an_edited_call_is_looked_at_again_by_every_hook_and_blocked_where_one_forbids_it(tmp_path: Path) -> None:
    store = MemoryStore()
    harness = of(acting(tmp_path), store, ask, no_bombs)
    result = await waiting(harness)
    await harness.approve(result.run_id, by="ann", edits={"text": "bombs away"})
    await harness.resume(result.run_id)
    refused = of_kind(await journal(store, result.run_id), "finished", "1.tool.invoked.0")[-1]
    await harness.close()
    assert (refused["outcome"], refused["hook"]) == ("blocked", "no-bombs"), refused
    assert acted(result.run_id) == []


async def test_of_two_who_resume_at_once_in_one_process_one_does(tmp_path: Path) -> None:
    harness = of(acting(tmp_path), MemoryStore(), ask)
    result = await waiting(harness)
    await harness.approve(result.run_id, by="ann")
    said = await asyncio.gather(*(harness.resume(result.run_id) for _ in range(3)), return_exceptions=True)
    await harness.close()
    done = [one for one in said if isinstance(one, RunResult)]
    held = [one for one in said if isinstance(one, RunHeld) and f"process {os.getpid()} since" in str(one)]
    assert ([one.status for one in done], len(held)) == (["completed"], 2), said
    assert len(acted(result.run_id)) == 1


async def test_many_requests_at_once_are_all_asked_and_all_answered(tmp_path: Path) -> None:
    many = calls(*[("act", {"text": f"{number}"}) for number in range(MANY)])
    harness = of(acting(tmp_path, many, "Done.", task={"parallel_tools": True}), MemoryStore(), ask)
    result = await waiting(harness)
    assert len({request.id for request in result.approvals}) == MANY
    for request in result.approvals:
        await harness.approve(result.run_id, request.id, by="ann")
    done = await harness.resume(result.run_id)
    await harness.close()
    assert (done.status, len(acted(done.run_id)), len(set(acted(done.run_id)))) == ("completed", MANY, MANY)


# clocks


async def test_a_clock_that_jumps_between_asking_and_answering_expires_only_what_is_past_its_time(
    tmp_path: Path,
) -> None:
    clock, store = JumpingClock(), MemoryStore()
    harness = of(acting(tmp_path), store, ask_soon, clock=clock)
    late, early = await waiting(harness), await waiting(harness)
    clock.set_by = -10 * SOON
    assert (await harness.resume(early.run_id)).status == "awaiting_approval", "set back: there is time left"
    await harness.approve(early.run_id, by="ann")
    clock.set_by = 10 * SOON
    assert (await refusal(harness, late.run_id, None)).why == "expired"
    clock.set_by = -10 * SOON
    assert (await harness.resume(early.run_id)).status == "completed", "what was decided in time stays decided"
    ended = await harness.resume(late.run_id)
    assert (ended.status, acted(late.run_id), len(acted(early.run_id))) == ("blocked", [], 1)
    for run_id in (late.run_id, early.run_id):
        assert verify(await journal(store, run_id)) is None
    await harness.close()


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
async def test_a_clock_that_jumps_while_a_run_waits_leads_to_the_same_end(tmp_path: Path, jump: float) -> None:
    clock, store = JumpingClock(), MemoryStore()
    harness = of(acting(tmp_path, ONE_CALL, calls(("act", {"text": "b"})), "Done."), store, ask, clock=clock)
    result = await waiting(harness)
    clock.set_by += jump
    await harness.approve(result.run_id, by="ann")
    clock.set_by -= jump / 2
    result = await harness.resume(result.run_id)
    assert result.status == "awaiting_approval"
    await harness.approve(result.run_id, by="ann")
    clock.set_by += jump
    result = await harness.resume(result.run_id)
    assert (result.status, len(acted(result.run_id))) == ("completed", 2)
    assert await statuses(store, result.run_id) == ["awaiting_approval", "awaiting_approval", "completed"]
    await harness.close()


def of_a_retry(entry: Entry) -> bool:
    """Whether a retry was told of with it: what follows is the wait."""
    return entry.kind == "finished" and "activity.retried" in str(entry.content["path"])


@pytest.mark.parametrize("jump", [-86_400.0, 0.0, 86_400.0])
async def test_a_clock_that_is_set_while_a_run_waits_to_try_again_holds_nobody_up(tmp_path: Path, jump: float) -> None:
    clock, paused = JumpingClock(), list[float]()

    async def pause(seconds: float) -> bool:
        paused.append(seconds)
        return True

    class Sets(MemoryStore):
        """Somebody sets the clock when a wait begins."""

        async def append(
            self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
        ) -> Head:
            if any(of_a_retry(entry) for entry in entries):
                clock.set_by += jump
            return await super().append(stream, entries, durable=durable, expected_head=expected_head)

    path = acting(tmp_path, calls(("large", {})), "Done.", tools={**TOOLS, "large": BREAKS})
    setup = set_up(path, (), Given(store=Sets(), clock=clock, pause=pause))
    async with Harness(setup) as harness:
        result = await harness.run("work", "go")
    assert (result.status, len(acted(result.run_id))) == ("completed", 5), "it was tried as often as it may be"
    assert len(paused) == (0 if jump > 0 else 4)
    assert all(0 < seconds <= 8 for seconds in paused), paused


async def test_a_deadline_that_passed_while_people_were_asked_ends_the_run(tmp_path: Path) -> None:
    clock = JumpingClock()
    harness = of(acting(tmp_path), MemoryStore(), ask, clock=clock)
    result = await harness.run("work", "go", deadline=clock.now() + SOON)
    clock.set_by = 2 * SOON
    await harness.approve(result.run_id, by="ann")
    ended = await harness.resume(result.run_id)
    await harness.close()
    assert ended.error is not None
    assert (ended.status, ended.error.code, acted(result.run_id)) == ("failed", "timeout", [])


# stores


async def approved(folder: Path) -> tuple[Path, str]:
    """The configuration of a run that was approved and not gone on with, and its id."""
    path = acting(folder)
    async with of(path, None, ask) as harness:
        run_id = (await waiting(harness)).run_id
        await harness.approve(run_id, by="ann")
    return path, run_id


async def trouble(path: Path, run_id: str) -> JournalError:
    """What keeps a run from being gone on with."""
    async with of(path, None, ask) as harness:
        with pytest.raises(JournalError) as raised:
            await harness.resume(run_id)
    return raised.value


async def goes_on(path: Path, run_id: str) -> None:
    """The run comes to its end after all, and acts once."""
    assert acted(run_id) == []
    async with of(path, None, ask) as harness:
        assert (await harness.resume(run_id)).status == "completed"
    assert len(acted(run_id)) == 1


async def test_a_store_that_somebody_locks_is_waited_for_and_then_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, run_id = await approved(tmp_path)
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.3)
    with closing(sqlite3.connect(tmp_path / ".tenter" / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        raised = await trouble(path, run_id)
        other.execute("ROLLBACK")
    assert raised.trouble == "locked"
    assert "journal.db" in str(raised)
    await goes_on(path, run_id)


async def test_a_store_that_is_no_database_any_more_is_told_of(tmp_path: Path) -> None:
    path, run_id = await approved(tmp_path)
    file = tmp_path / ".tenter" / "journal.db"
    whole = file.read_bytes()
    file.write_bytes(b"\0" * 4096 + whole[4096:])
    raised = await trouble(path, run_id)
    assert raised.trouble in ("damaged", "foreign")
    assert "journal.db" in str(raised)
    file.write_bytes(whole)
    await goes_on(path, run_id)


async def test_a_store_with_garbage_in_its_middle_is_told_of_and_never_half_read(tmp_path: Path) -> None:
    path, run_id = await approved(tmp_path)
    file = tmp_path / ".tenter" / "journal.db"
    whole, seen = file.read_bytes(), list[str]()
    for page in range(4096, len(whole), 4096):
        file.write_bytes(whole[:page] + b"\xa5" * 4096 + whole[page + 4096 :])
        for log in ("journal.db-wal", "journal.db-shm"):
            (tmp_path / ".tenter" / log).unlink(missing_ok=True)
        before = len(acted(run_id))
        async with of(path, None, ask) as harness:
            try:
                seen.append((await harness.resume(run_id)).status)
            except JournalError as error:
                seen.append(error.trouble)
        assert len(acted(run_id)) - before <= 1
    assert set(seen) <= {"damaged", "completed", "failed"}, "a page that is written first is found to be damaged then"
    assert "damaged" in seen
