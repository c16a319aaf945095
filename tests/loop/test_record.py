"""The state of a loop comes back from the journal as it was written, and large parts of it are written once."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tenter.journal import Entry, Head, JournalError, MemoryStore, SqliteStore, Store, Stream
from tenter.kernel import Redactor, TenterError
from tenter.loop.reason import REASONS
from tenter.loop.record import PAGE, LoopRecord, last_result, last_state
from tenter.loop.request import LoopResult
from tenter.loop.state import Asked, Batch, LoopState, Published
from tenter.loop.suspension import Suspender, SuspendState
from tenter.testing import FakeClock

STREAM = Stream("loop", "loop-12ab-34cd")
FRESH = LoopState(started_at=1_000.0)

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
).filter(lambda value: value not in (float("inf"), float("-inf")))
FINITE = st.floats(0, 1e12)
EVENTS = st.lists(st.builds(Published, TEXT, st.none() | TEXT | st.dictionaries(TEXT, TEXT, max_size=2)), max_size=40)
BATCHES = st.builds(
    Batch,
    start=st.integers(0, 9),
    stop=st.integers(9, 99),
    refused=st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), max_size=2).map(tuple),
    asked=st.none()
    | st.builds(Asked, question=TEXT, outcome=st.sampled_from(["answered", None]), answer=st.none() | TEXT),
    failed=st.booleans(),
    error=TEXT,
    escalated=st.none() | TEXT,
)
STATES = st.builds(
    LoopState,
    stage=st.sampled_from(["start", "next", "iteration", "backend", "publishing", "ending"]),
    side=st.sampled_from(["pre", "post"]),
    iteration=st.integers(0, 999),
    started_at=FINITE,
    waited_seconds=FINITE,
    cost_usd=FINITE,
    last=st.none() | st.builds(Published, TEXT, JSON),
    seen=st.lists(TEXT, max_size=3).map(tuple),
    pending=EVENTS.map(tuple),
    taken=EVENTS.map(tuple),
    notes=st.lists(TEXT, max_size=3).map(tuple),
    active_hat=st.none() | TEXT,
    batch=st.none() | BATCHES,
    metadata=st.dictionaries(TEXT, st.dictionaries(TEXT, JSON, max_size=2), max_size=2),
    passes=st.integers(1, 9),
    reason=st.none() | st.sampled_from(REASONS),
    message=TEXT,
)


def record_in(store: Store, *, redactor: Redactor | None = None) -> LoopRecord:
    return LoopRecord(store, STREAM, redactor=redactor or Redactor(), clock=FakeClock())


async def entries(store: Store, *, whole: bool = True) -> Sequence[Entry]:
    return [record.entry async for record in store.read(STREAM, whole=whole)]


@pytest.mark.promise(9)
@given(st.lists(STATES, min_size=1, max_size=3))
async def test_the_state_that_was_written_last_is_read_back_as_it_was(states: Sequence[LoopState]) -> None:
    store = MemoryStore()
    record = record_in(store)
    for state in states:
        await record.state(state)
    assert await last_state(store, STREAM) == states[-1]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STATES)
async def test_the_state_is_read_back_from_a_file_too(tmp_path: Path, state: LoopState) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    try:
        await record_in(store).state(state)
        assert await last_state(store, STREAM) == state
    finally:
        await store.close()


async def test_the_state_is_found_before_many_entries_of_hooks() -> None:
    store = MemoryStore()
    await record_in(store).state(FRESH.but(iteration=7))
    other = [Entry(kind="hook_started", time=n, content={"n": n}) for n in range(3 * PAGE)]
    await store.append(STREAM, other)
    assert await last_state(store, STREAM) == FRESH.but(iteration=7)


async def test_events_that_wait_are_kept_once_however_often_the_state_is_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    record = record_in(store)
    state = FRESH.but(pending=tuple(Published("some.thing", "x" * 100) for _ in range(5_000)))
    for number in range(20):
        await record.state(state.but(iteration=number))
    assert await last_state(store, STREAM) == state.but(iteration=19)
    await store.close()
    once = 5_000 * 130
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 * once


async def test_a_loop_that_came_to_no_boundary_has_no_state() -> None:
    assert await last_state(MemoryStore(), STREAM) is None


UNREADABLE: Mapping[str, Mapping[str, object]] = {
    "no state": {"state": "{}", "pending": "[]", "taken": "[]", "metadata": "{}"},
    "no mapping": {"state": "3", "pending": "[]", "taken": "[]", "metadata": "{}"},
    "no JSON": {"state": "{", "pending": "[]", "taken": "[]", "metadata": "{}"},
    "nothing": {},
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_is_no_state_is_told_and_not_guessed_at(content: Mapping[str, object]) -> None:
    store = MemoryStore()
    await store.append(STREAM, [Entry(kind="loop_state", time=1, content=content)])
    with pytest.raises(TenterError, match="cannot be read"):
        await last_state(store, STREAM)


async def test_a_state_of_a_newer_version_is_refused() -> None:
    store = MemoryStore()
    await store.append(STREAM, [Entry(kind="loop_state", time=1, content={}, version=2)])
    with pytest.raises(TenterError, match="version 2"):
        await last_state(store, STREAM)


@pytest.mark.promise(4)
async def test_what_is_secret_is_masked_in_every_entry() -> None:
    store = MemoryStore()
    record = record_in(store, redactor=Redactor(secrets=["swordfish-4711"]))
    await record.begin({"prompt": "it is swordfish-4711"})
    await record.state(FRESH.but(pending=(Published("a", "swordfish-4711"),), message="swordfish-4711"))
    await record.ended({"message": "swordfish-4711"})
    written = await entries(store)
    assert [entry.kind for entry in written] == ["run", "loop_state", "result"]
    assert "swordfish" not in str(written)


async def test_a_suspension_and_what_ended_it_are_on_record() -> None:
    store = MemoryStore()
    record = record_in(store)
    by = Suspender(hook_name="gate", reason="sure?", code="", suspend_mode="wait_for_resume")
    suspension = SuspendState(
        loop_id=STREAM.id,
        phase_event="pre.iteration.start",
        hook_name="gate",
        reason="sure?",
        suspend_mode="wait_for_resume",
        suspended_at="2026-02-28T15:31:00Z",
        suspension_id="00000000000000aa",
        suspensions=(by,),
    )
    await record.suspended(FRESH, suspension)
    await record.released(suspension.suspension_id, "resume", None)
    state, held, released = await entries(store)
    assert (state.kind, held.kind, released.kind) == ("loop_state", "loop_suspended", "loop_released")
    assert held.content["suspension_id"] == released.content["suspension_id"] == "00000000000000aa"


async def test_what_cannot_be_written_is_raised_until_the_record_lets_go() -> None:
    store = MemoryStore()
    await store.close()
    record = record_in(store)
    for writing in (record.begin({}), record.state(FRESH), record.released("00aa", "stop", None), record.ended({})):
        with pytest.raises(JournalError):
            await writing
    record.let_go()
    for writing in (record.begin({}), record.state(FRESH), record.released("00aa", "stop", None), record.ended({})):
        await writing
    assert record.lenient


class FullOnce(MemoryStore):
    """Takes nothing once, and then everything."""

    is_full = True

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        if self.is_full:
            self.is_full = False
            raise JournalError("full", "no room")
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


@pytest.mark.fault(38)
async def test_nothing_is_recorded_after_what_could_not_be_so_that_the_loop_goes_on_from_there() -> None:
    store = FullOnce()
    record = record_in(store)
    with pytest.raises(JournalError, match="no room"):
        await record.state(FRESH)
    with pytest.raises(JournalError, match="no room"):
        await record.state(FRESH)
    record.let_go()
    await record.ended({"status": "failed"})
    assert await entries(store) == []


async def test_an_end_is_read_back_until_the_loop_goes_on() -> None:
    store, stream = MemoryStore(), STREAM
    record = record_in(store)
    result = LoopResult(
        loop_id=STREAM.id,
        status="completed",
        reason="completed",
        message="all is done",
        iterations=3,
        cost_usd=0.5,
        started_at=1_000.0,
        ended_at=1_001.5,
        summary="/p/summary.json",
        workspace="/p",
    )
    assert await last_result(store, stream) is None
    await record.state(FRESH)
    assert await last_result(store, stream) is None
    await record.ended({"status": result.status, **msgspec.structs.asdict(result)})
    await store.append(stream, [Entry(kind="hook_ended", time=1, content={})])
    assert await last_result(store, stream) == result
    await record.state(FRESH)
    assert await last_result(store, stream) is None


async def test_an_end_that_is_none_is_told() -> None:
    store = MemoryStore()
    await store.append(STREAM, [Entry(kind="result", time=1, content={"reason": "tired"})])
    with pytest.raises(TenterError, match="cannot be read"):
        await last_result(store, STREAM)
