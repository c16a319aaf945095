"""A run's entries: a failed append stops it, and once it was let go, stops nothing."""

from collections.abc import Sequence

import pytest
from tests.harness.world import journal

from tenter.harness.ledger import Ledger, RunExists
from tenter.journal import Entry, Head, JournalError, MemoryStore, Stream
from tenter.kernel import Trace
from tenter.testing import FakeClock

STREAM = Stream("run", "run-1")


class Refusing(MemoryStore):
    """Takes nothing while it is `broken`, and counts what it was asked for."""

    def __init__(self, broken: JournalError | None = None) -> None:
        super().__init__()
        self.broken = broken
        self.asked = 0

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        self.asked += 1
        if self.broken is not None:
            raise self.broken
        return await super().append(stream, entries, durable=durable, expected_head=expected_head)


def ledger(store: MemoryStore, trace: Trace | None = None, trouble: JournalError | None = None) -> Ledger:
    clock = FakeClock(start=1.000_000_4)
    trace = Trace() if trace is None else trace  # an empty one is false
    return Ledger(store, STREAM, clock=clock, trace=trace, trouble=lambda: trouble)


async def test_an_entry_bears_the_time_that_is_read_back_from_it() -> None:
    store = MemoryStore()
    kept = ledger(store)
    await kept.append(lambda: kept.entry("note", {"code": "a"}), lambda: kept.entry("note", {"code": "b"}, at=2.5))
    records = await journal(store, "run-1")
    assert [one.entry.time / 1_000_000 for one in records] == [kept.time(), 2.5]
    assert kept.time() == 1.0


async def test_a_failed_append_is_raised_and_the_next_is_tried() -> None:
    store = Refusing(JournalError("full", "no room"))
    kept = ledger(store)
    with pytest.raises(JournalError, match="no room"):
        await kept.append(lambda: kept.entry("note", {}))
    store.broken = None
    await kept.append(lambda: kept.entry("note", {}))
    assert len(await journal(store, "run-1")) == 1


async def test_after_letting_go_a_failed_append_is_noted_and_the_last_to_be_tried() -> None:
    store, trace = Refusing(JournalError("full", "no room")), Trace()
    kept = ledger(store, trace)
    kept.let_go()
    for _ in range(3):
        await kept.append(lambda: kept.entry("note", {}))
    assert store.asked == 1
    assert [(event.source, event.code) for event in trace.events()] == [("journal", "full")]


async def test_after_letting_go_content_that_no_journal_takes_leaves_the_next_entry_its_chance() -> None:
    store = MemoryStore()
    kept = ledger(store)
    kept.let_go()
    await kept.append(lambda: kept.entry("note", {"n": 2**60}))
    await kept.append(lambda: kept.entry("note", {"n": 1}))
    assert [one.entry.content for one in await journal(store, "run-1")] == [{"n": 1}]


async def test_the_missing_record_of_a_hook_stops_the_run_until_it_is_let_go() -> None:
    kept = ledger(MemoryStore(), trouble=JournalError("full", "no room"))
    with pytest.raises(JournalError, match="no room"):
        kept.check()
    kept.let_go()
    kept.check()


async def test_a_run_whose_first_entry_was_refused_has_no_other() -> None:
    store = Refusing(JournalError("io", "the disk refused"))
    kept = ledger(store)
    with pytest.raises(JournalError, match="the disk refused"):
        await kept.begin(lambda: kept.entry("run", {"task": "a"}))
    store.broken = None
    await kept.append(lambda: kept.entry("status", {"status": "failed"}))
    assert await journal(store, "run-1") == []


async def test_a_run_that_is_there_already_is_not_begun_again() -> None:
    store = MemoryStore()
    one, another = ledger(store), ledger(store)
    await one.begin(lambda: one.entry("run", {"task": "a"}))
    with pytest.raises(RunExists, match="the run 'run-1' already"):
        await another.begin(lambda: another.entry("run", {"task": "b"}))
    assert [recorded.entry.content for recorded in await journal(store, "run-1")] == [{"task": "a"}]
