"""What a run that goes on reads: each pass once, in whatever order it is asked for, and nothing that was touched."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.harness.recording import PAGE, RecordedPass, Recording
from tenter.journal import Entry, JournalError, MemoryStore, Recorded, SqliteStore, Stream
from tenter.kernel import TenterError

RUN = Stream("run", "r")
FIRST = Entry(kind="run", time=0, content={"task": "work"})

Key = tuple[str, int]


def place(key: Key) -> dict[str, object]:
    return {"path": key[0], "pass": key[1]}


def started(key: Key, at: int = 0) -> Entry:
    content = {**place(key), "operation": "tool.invoked", "op": f"r/{key[0]}#{key[1]}", "input": f"sha256:{key}"}
    return Entry(kind="started", time=at, content=content)


def steps(key: Key, at: int = 0, *, size: int = 0) -> list[Entry]:
    """All entries of one pass, a microsecond apart."""
    return [
        started(key, at),
        Entry(kind="acting", time=at + 1, content={**place(key), "event": {"n": key[0], "text": "x" * size}}),
        Entry(kind="acted", time=at + 2, content={**place(key), "result": {"result": key[0]}}),
        Entry(kind="finished", time=at + 3, content={**place(key), "outcome": "done", "trace": at}),
    ]


async def recording_of(*entries: Entry) -> Recording:
    store = MemoryStore()
    await store.append(RUN, [FIRST, *entries])
    return await Recording.begin(store, RUN)


class Touched(MemoryStore):
    """A store that gives back something else than it was given, and counts what it gives."""

    def __init__(self, touch: Callable[[Recorded], Recorded] = lambda one: one) -> None:
        super().__init__()
        self.touch = touch
        self.given = 0

    async def read(
        self, stream: Stream, *, after: int = 0, limit: int | None = None, whole: bool = True
    ) -> AsyncIterator[Recorded]:
        async for one in super().read(stream, after=after, limit=limit, whole=whole):
            self.given += 1
            yield self.touch(one)


async def test_a_pass_is_given_as_it_was_recorded_and_once() -> None:
    recording = await recording_of(*steps(("1.tool.invoked.0", 1), 1_500_000))
    found = await recording.next("1.tool.invoked.0", 1)
    assert found == RecordedPass(
        path="1.tool.invoked.0",
        number=1,
        phase=None,
        operation="tool.invoked",
        op="r/1.tool.invoked.0#1",
        input="sha256:('1.tool.invoked.0', 1)",
        acting={"path": "1.tool.invoked.0", "pass": 1, "event": {"n": "1.tool.invoked.0", "text": ""}},
        acted={"path": "1.tool.invoked.0", "pass": 1, "result": {"result": "1.tool.invoked.0"}},
        finished={"path": "1.tool.invoked.0", "pass": 1, "outcome": "done", "trace": 1_500_000},
        executions=1,
        at=1.500003,
    )
    assert await recording.next("1.tool.invoked.0", 1) is None


async def test_that_a_pass_is_on_record_is_told_without_giving_it() -> None:
    recording = await recording_of(*steps(("1.tool.invoked.0", 1), 1_500_000))
    assert [await recording.holds("1.tool.invoked.0", number) for number in (1, 2)] == [True, False]
    assert await recording.next("1.tool.invoked.0", 1) is not None
    assert not await recording.holds("1.tool.invoked.0", 1)


@given(st.data())
async def test_passes_side_by_side_are_given_whatever_the_order_of_entries_and_of_asking(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), unique=True, max_size=6))
    whole = [steps(key)[: data.draw(st.integers(1, 4))] for key in keys]
    entries: list[Entry] = []
    while pending := [one for one in whole if one]:
        entries.append(data.draw(st.sampled_from(pending)).pop(0))
    recording = await recording_of(*entries)
    for key in data.draw(st.permutations(keys)):
        found = await recording.next(*key)
        kinds = {entry.kind for entry in entries if (entry.content["path"], entry.content["pass"]) == key}
        assert found is not None
        assert {kind for kind in ("acting", "acted", "finished") if getattr(found, kind) is not None} == kinds - {
            "started"
        }
    assert await recording.rest() == ()


async def test_the_two_ends_of_a_span_are_two_passes() -> None:
    ends = [("pre", "a"), ("post", "b")]
    begun = [
        Entry(kind="started", time=0, content={**started(("0.run.0", 1)).content, "phase": phase, "input": text})
        for phase, text in ends
    ]
    recording = await recording_of(*begun)
    first, last = await recording.next("0.run.0", 1, "pre"), await recording.next("0.run.0", 1, "post")
    assert first is not None
    assert last is not None
    assert (first.phase, first.input, last.phase, last.input) == ("pre", "a", "post", "b")
    assert await recording.next("0.run.0", 1) is None


async def test_work_that_was_begun_twice_says_so_and_has_the_event_of_the_last_time() -> None:
    key = ("1.tool.invoked.0", 1)
    again = Entry(kind="acting", time=9, content={**place(key), "event": {"n": "again"}})
    found = await (await recording_of(*steps(key)[:2], again)).next(*key)
    assert found is not None
    assert (found.executions, found.acting and found.acting["event"], found.at) == (2, {"n": "again"}, 9e-6)


async def test_what_nobody_asked_for_is_told_in_the_order_in_which_it_began() -> None:
    recording = await recording_of(*steps(("a", 1)), started(("b", 1)), *steps(("c", 1)))
    await recording.next("a", 1)
    assert [one.path for one in await recording.rest()] == ["b", "c"]
    assert await recording.next("d", 1) is None


async def test_it_reads_no_further_than_it_is_asked_for() -> None:
    store, keys = Touched(), [(f"{number}", 1) for number in range(PAGE)]
    await store.append(RUN, [FIRST, *(entry for key in keys for entry in steps(key))])
    recording = await Recording.begin(store, RUN)
    assert await recording.next("0", 1) is not None
    assert store.given == PAGE
    assert await recording.next(f"{PAGE // 2}", 1) is not None
    assert store.given == 3 * PAGE


async def test_what_is_appended_after_its_end_was_read_is_not_part_of_it() -> None:
    store = MemoryStore()
    await store.append(RUN, [FIRST, *steps(("a", 1))])
    recording = await Recording.begin(store, RUN)
    await store.append(RUN, [started(("b", 1))])
    assert await recording.next("b", 1) is None
    assert [one.path for one in await recording.rest()] == ["a"]


async def test_branches_that_ask_at_the_same_time_share_what_is_read(tmp_path: Path) -> None:
    store, keys = SqliteStore(tmp_path / "journal.db"), [(f"{number}", 1) for number in range(PAGE)]
    await store.append(RUN, [FIRST, *(entry for key in keys for entry in steps(key))])
    recording = await Recording.begin(store, RUN)
    found = await asyncio.gather(*(recording.next(*key) for key in reversed(keys)))
    assert [one and one.path for one in found] == [path for path, _ in reversed(keys)]
    assert await asyncio.gather(recording.rest(), recording.rest()) == [(), ()]
    await store.close()


@pytest.mark.timed
async def test_memory_does_not_grow_with_the_journal() -> None:
    size = 20_000
    store, keys = MemoryStore(), [(f"{number}", 1) for number in range(8 * PAGE // 4)]
    for key in keys:
        await store.append(RUN, steps(key, size=size) if key[0] != "0" else [FIRST, *steps(key)])
    recording = await Recording.begin(store, RUN)
    tracemalloc.start()
    for key in keys:
        assert await recording.next(*key) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * PAGE // 4 * size, "two pages at a time, and not eight"


async def test_what_a_run_left_beside_its_passes_is_gathered() -> None:
    ended: list[Mapping[str, object]] = [
        {"hook": "count", "metadata": {"n": 1}},
        {"hook": "quiet"},
        {"hook": "other", "metadata": {"x": True}},
        {"hook": "count", "metadata": {"n": 2}},
    ]
    recording = await recording_of(
        Entry(kind="status", time=0, content={"status": "awaiting_approval"}),
        *(Entry(kind="hook_ended", time=0, content=content) for content in ended),
        *steps(("a", 1), 7),
        *(Entry(kind=kind, time=0, content={"key": "k"}) for kind in ("checkpoint", "checkpoint", "result")),
        Entry(kind="of_the_future", time=0, content={"path": "?"}),
    )
    await recording.rest()
    assert recording.first == FIRST.content
    assert recording.metadata == {"count": {"n": 2}, "other": {"x": True}}
    assert (recording.traced, recording.stored, recording.status) == (7, {"checkpoint": 2, "result": 1}, None)


async def test_a_run_that_ended_has_its_status_and_the_head_of_its_stream() -> None:
    store = MemoryStore()
    await store.append(RUN, [FIRST, Entry(kind="status", time=0, content={"status": "failed"})])
    recording = await Recording.begin(store, RUN)
    assert recording.status == "failed"
    assert recording.head == await store.head(RUN)


@pytest.mark.parametrize("stream", [Stream("run", "nobody"), Stream("loop", "l")])
async def test_a_stream_that_is_no_run_is_refused(stream: Stream) -> None:
    store = MemoryStore()
    await store.append(Stream("loop", "l"), [Entry(kind="note", time=0, content={})])
    with pytest.raises(TenterError, match=f"the journal holds no {stream.kind}"):
        await Recording.begin(store, stream)


TOUCHES: Sequence[tuple[Callable[[Recorded], Recorded], type[Exception], str]] = (
    (
        lambda one: msgspec.structs.replace(one, altered=True),
        JournalError,
        "entry 4 of run 'r' is not what was written",
    ),
    (lambda one: msgspec.structs.replace(one, sequence=5), JournalError, "entry 4 of run 'r' is not what was written"),
    (lambda one: msgspec.structs.replace(one, hash="sha256:0"), JournalError, "entry 4 of run 'r' is not"),
    (lambda one: msgspec.structs.replace(one, digest="sha256:0"), JournalError, "entry 4 of run 'r' is not"),
    (
        lambda one: msgspec.structs.replace(one, erased=True),
        TenterError,
        "the content of entry 4 of run 'r' was erased",
    ),
)


@pytest.mark.parametrize(("touch", "error", "text"), TOUCHES)
async def test_what_was_touched_is_not_gone_on_from(
    touch: Callable[[Recorded], Recorded], error: type[Exception], text: str
) -> None:
    store = Touched(lambda one: touch(one) if one.sequence == 4 else one)
    await store.append(RUN, [FIRST, *steps(("a", 1))])
    with pytest.raises(error, match=text):
        await Recording.begin(store, RUN)


async def test_entries_of_a_newer_version_are_refused() -> None:
    with pytest.raises(TenterError, match="entry 2 of run 'r' was written by a newer tenter"):
        await recording_of(Entry(kind="started", time=0, content={}, version=2))


async def test_a_pass_that_never_began_is_no_journal_of_ours() -> None:
    with pytest.raises(JournalError, match="entry 2 of run 'r' goes on with a pass that never began") as caught:
        await recording_of(*steps(("a", 1))[1:])
    assert caught.value.trouble == "damaged"


async def test_a_chain_under_a_key_is_held_against_it() -> None:
    store = MemoryStore(key=b"a key of the right length")
    await store.append(RUN, [FIRST, *steps(("a", 1))])
    found: Any = await (await Recording.begin(store, RUN)).next("a", 1)
    assert found.acted["result"] == {"result": "a"}
