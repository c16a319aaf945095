"""The contract of `Store`, over every store."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.outside import one_of_three, steady_loop

from tenter.journal.entry import Entry, Head, Recorded, Stream, genesis, link, verify
from tenter.journal.memory import MemoryStore
from tenter.journal.sqlite import SqliteStore
from tenter.journal.store import HeadMoved, JournalError, Store
from tenter.wire.canonical import LARGE_TEXT, Document, Reference, digest

RUN = Stream("run", "r1")
OTHER = Stream("session", "r1")


KEY = b"a key of thirty-two characters.."


def _open_memory(_folder: Path, key: bytes | None = None) -> Store:
    return MemoryStore(key)


def _open_sqlite(folder: Path, key: bytes | None = None) -> Store:
    return SqliteStore(folder / ".tenter" / "journal.db", key=key)


OpenStore = Callable[..., Store]
"""Opens a store in a folder, under the `key` where one is given."""
over_every_store = pytest.mark.parametrize("open_store", [_open_memory, _open_sqlite])


@asynccontextmanager
async def closing(store: Store) -> AsyncGenerator[Store]:
    try:
        yield store
    finally:
        await store.close()


def note(text: object, **more: object) -> Entry:
    return Entry(kind="note", time=1_790_000_000_000_000, content={"text": text, **more})


async def read(store: Store, stream: Stream = RUN, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
    return [recorded async for recorded in store.read(stream, after=after, limit=limit)]


async def texts(store: Store, stream: Stream = RUN) -> list[object]:
    return [recorded.entry.content["text"] for recorded in await read(store, stream)]


@over_every_store
async def test_an_entry_comes_back_with_its_sequence_and_hash_beside_it(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        entry = Entry(kind="started", time=17, content={"path": "1.tool.0", "pass": 1}, version=1)
        head = await store.append(RUN, [entry])
        expected = link(genesis(RUN), entry, digest(entry.content))
        (recorded,) = await read(store)
        assert head == expected == Head(1, recorded.hash)
        assert recorded == Recorded(
            stream=RUN, sequence=1, hash=head.hash, digest=digest(entry.content), entry=entry, erased=False
        )


@over_every_store
async def test_an_empty_stream_has_its_genesis_as_head_and_no_entries(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        assert await store.head(RUN) == genesis(RUN)
        assert await read(store) == []
        assert await store.append(RUN, [], expected_head=genesis(RUN).hash) == genesis(RUN)
        with pytest.raises(HeadMoved):
            await store.append(RUN, [], expected_head="sha256:other")
        assert await store.streams() == []


@over_every_store
async def test_entries_are_numbered_without_gaps_and_chained_within_their_stream(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with closing(open_store(tmp_path)) as store:
        for number in range(3):
            await store.append(RUN, [note(f"a{number}"), note(f"b{number}")])
            await store.append(OTHER, [note(f"c{number}")], durable=True)
        records = await read(store)
        assert [record.sequence for record in records] == [1, 2, 3, 4, 5, 6]
        assert await texts(store) == ["a0", "b0", "a1", "b1", "a2", "b2"]
        assert await texts(store, OTHER) == ["c0", "c1", "c2"]
        assert verify(records) is None
        assert await store.head(RUN) == records[-1].head


@over_every_store
async def test_reading_goes_on_after_a_sequence_and_stops_at_a_limit(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        await store.append(RUN, [note(number) for number in range(1, 701)])
        assert [record.sequence for record in await read(store)] == list(range(1, 701))
        assert [record.sequence for record in await read(store, after=298, limit=300)] == list(range(299, 599))
        assert await read(store, after=700) == []
        assert await read(store, limit=0) == []


@over_every_store
async def test_entries_appended_while_reading_do_not_disturb_it(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        await store.append(RUN, [note(number) for number in range(300)])
        seen: list[int] = []
        async for record in store.read(RUN, limit=400):
            seen.append(record.sequence)
            await store.append(RUN, [note("late")])
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) >= 300


@over_every_store
async def test_an_append_of_which_one_entry_is_refused_leaves_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        await store.append(RUN, [note("kept")])
        refused = note(2**60, kept=Document("never seen"))
        with pytest.raises(
            JournalError, match=r"an entry 'note' cannot be journaled, at 'text': an integer past"
        ) as caught:
            await store.append(RUN, [note("lost"), refused])
        assert caught.value.trouble == "content"
        assert await texts(store) == ["kept"]
        assert (await store.append(RUN, [note("next")])).sequence == 2


@over_every_store
async def test_an_append_onto_another_head_than_expected_is_refused(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        first = await store.append(RUN, [note(1)], expected_head=genesis(RUN).hash)
        second = await store.append(RUN, [note(2)], expected_head=first.hash, durable=True)
        for durable in (False, True):
            with pytest.raises(HeadMoved, match="run 'r1' has gone on to entry 2") as caught:
                await store.append(RUN, [note("lost")], expected_head=first.hash, durable=durable)
            assert caught.value.head == second
        assert await texts(store) == [1, 2]


@over_every_store
async def test_of_two_appends_onto_the_same_head_one_wins(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        head = genesis(RUN).hash
        answers = await asyncio.gather(
            *(store.append(RUN, [note(n)], expected_head=head, durable=n % 2 == 0) for n in range(10)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers].count(HeadMoved) == 9
        assert len(await read(store)) == 1


@over_every_store
async def test_durable_appends_at_once_share_the_order_and_not_their_failures(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with closing(open_store(tmp_path)) as store:
        head = await store.append(RUN, [note("first")])
        appends = [
            store.append(RUN, [note(0)], durable=True),
            store.append(RUN, [note("onto another head")], durable=True, expected_head=head.hash),
            store.append(RUN, [note(1)], durable=True),
            store.append(RUN, [note("refused"), note(object())], durable=True),
            store.append(OTHER, [note("elsewhere")], durable=True),
            store.append(RUN, [note(2)]),
            store.append(RUN, [note(Document("apart")), note(4)], durable=True),
        ]
        answers = await asyncio.gather(*appends, return_exceptions=True)
        troubles = [getattr(answer, "trouble", None) for answer in answers]
        assert troubles == [None, "moved", None, "content", None, None, None]
        assert await texts(store) == ["first", 0, 1, 2, "apart", 4]
        assert await texts(store, OTHER) == ["elsewhere"]
        assert verify(await read(store)) is None


@over_every_store
async def test_a_durable_append_that_nobody_waits_for_any_more_is_written_all_the_same(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with closing(open_store(tmp_path)) as store:
        await store.append(RUN, [note("first")])
        tasks = [asyncio.create_task(store.append(RUN, [note(number)], durable=True)) for number in range(3)]
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        tasks[1].cancel()
        await asyncio.wait(tasks, timeout=5)
        assert not any(task.cancelled() for task in (tasks[0], tasks[2]))
        assert await texts(store) == ["first", 0, 1, 2]


@over_every_store
async def test_what_is_begun_under_a_key_is_chained_under_it(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path, key=KEY)) as store:
        assert await store.key_of(RUN) == KEY
        assert await store.head(RUN) == genesis(RUN)
        await store.append(RUN, [note(1), note(2)])
        await store.append(RUN, [note(3)], expected_head=(await store.head(RUN)).hash)
        await store.append(RUN, [note([4])], durable=True)
        records = await read(store)
        assert len(records) == 4
        assert verify(records, key=KEY) is None
        assert verify(records) == 1
        assert await store.key_of(RUN) == KEY
    async with closing(open_store(tmp_path / "without")) as store:
        await store.append(RUN, [note(1)])
        assert await store.key_of(RUN) is None


@over_every_store
async def test_kinds_and_versions_from_elsewhere_are_kept(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        entry = Entry(kind="future_event", time=1, content={"detail": "ignored"}, version=7)
        await store.append(RUN, [entry])
        (recorded,) = await read(store)
        assert recorded.entry == entry


@over_every_store
async def test_entries_stand_in_the_order_of_the_calls(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        await store.append(OTHER, [note("opens it")])
        sizes = {3: 200_000, 50: 200_000}
        appends = [
            store.append(RUN, [note(number, filler="x" * sizes.get(number, 1))], durable=number % 7 == 0)
            for number in range(100)
        ]
        heads = await asyncio.gather(*appends)
        assert [head.sequence for head in heads] == list(range(1, 101))
        assert await texts(store) == list(range(100))


@over_every_store
async def test_content_comes_back_as_lists_and_mappings_with_all_its_text_and_bytes(
    open_store: OpenStore, tmp_path: Path
) -> None:
    class Call(msgspec.Struct, frozen=True):
        name: str
        argv: tuple[str, ...]

    async with closing(open_store(tmp_path)) as store:
        await store.append(RUN, [note(Call("sh", ("ls",)), raw=b"\xff", odd="\udcff\\", large="é" * LARGE_TEXT)])
        (recorded,) = await read(store)
        assert recorded.entry.content == {
            "text": {"name": "sh", "argv": ["ls"]},
            "raw": b"\xff",
            "odd": "\udcff\\",
            "large": "é" * LARGE_TEXT,
        }
        assert verify([recorded]) is None


@over_every_store
async def test_what_is_recorded_does_not_change_with_what_it_was_made_of(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        content: dict[str, object] = {"text": "before"}
        await store.append(RUN, [Entry(kind="note", time=1, content=content)])
        content["text"] = "after"
        (recorded,) = await read(store)
        assert isinstance(recorded.entry.content, dict)
        recorded.entry.content["text"] = "read and changed"
        assert await texts(store) == ["before"]


@over_every_store
async def test_a_document_comes_back_wherever_it_was_named(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        message = Document({"role": "user", "text": "hello"})
        await store.append(RUN, [note([message]), note([message, message])])
        await store.append(OTHER, [note(message)])
        assert await texts(store) == [[{"role": "user", "text": "hello"}], [{"role": "user", "text": "hello"}] * 2]
        assert await texts(store, OTHER) == [{"role": "user", "text": "hello"}]


@over_every_store
async def test_what_was_kept_apart_is_left_out_on_request_and_the_chain_still_holds(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with closing(open_store(tmp_path)) as store:
        message = Document({"role": "user"})
        await store.append(RUN, [note(message, large="x" * (LARGE_TEXT + 1))])
        records = [record async for record in store.read(RUN, whole=False)]
        assert records[0].entry.content["text"] == Reference(message.digest, "$document")
        assert isinstance(records[0].entry.content["large"], Reference)
        assert verify(records) is None


@over_every_store
async def test_streams_are_listed_with_the_last_begun_first(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing(open_store(tmp_path)) as store:
        for number in range(3):
            begin = Entry(kind="run", time=100 + number, content={"task": f"fix{number}"})
            running = Entry(kind="status", time=200, content={"status": "running"})
            await store.append(Stream("run", f"r{number}"), [begin, running])
        await store.append(OTHER, [note("x")])
        await store.append(Stream("run", "r0"), [Entry(kind="result", time=300, content={"status": "completed"})])
        runs = await store.streams("run")
        assert [(run.stream.id, run.name, run.status, run.started, run.ended) for run in runs] == [
            ("r2", "fix2", "running", 102, None),
            ("r1", "fix1", "running", 101, None),
            ("r0", "fix0", "completed", 100, 300),
        ]
        assert [summary.stream for summary in await store.streams(limit=2)] == [OTHER, Stream("run", "r2")]


@over_every_store
async def test_a_closed_store_says_so_and_closes_again(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.append(RUN, [note("x")])
    await store.close()
    await store.close()
    for use in (
        store.append(RUN, [note("y")]),
        store.append(RUN, [note("y")], durable=True),
        store.head(RUN),
        store.key_of(RUN),
        store.streams(),
        store.request("r1", "a"),
        read(store),
    ):
        with pytest.raises(JournalError, match="was closed; open a new") as caught:
            await use
        assert caught.value.trouble == "closed"


@pytest.mark.timed
@pytest.mark.fault(41)
@over_every_store
async def test_an_entry_of_50_mb_is_kept_apart_and_stalls_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    large = "x" * 50_000_000
    if open_store is _open_memory:
        async with closing(open_store(tmp_path)) as store:
            await store.append(RUN, [note(large)])
            assert await texts(store) == [large]
        return

    tries = iter(range(10))

    async def append() -> None:
        async with closing(open_store(tmp_path / str(next(tries)))) as store, steady_loop():
            await store.append(RUN, [note(large)])

    async def read_back() -> None:
        async with closing(open_store(tmp_path / "0")) as store, steady_loop():
            (recorded,) = [recorded async for recorded in store.read(RUN, whole=False)]
            assert isinstance(recorded.entry.content["text"], Reference)

    await one_of_three(append)
    await one_of_three(read_back)
    async with closing(open_store(tmp_path / "0")) as store:
        assert await texts(store) == [large]


HOSTILE = (
    'a\n{"kind":"finished","sequence":99}',
    "\x1b[2J\x1b]0;owned\x07",
    "line\u2028separator\u2029",
    "\u202eevil\u2066",
    "nul\x00byte",
    '"},{"kind":"forged"',
    "'); DROP TABLE entries; --",
)


@pytest.mark.fault(43)
@pytest.mark.parametrize("text", HOSTILE)
@over_every_store
async def test_hostile_text_stays_inside_one_string(open_store: OpenStore, tmp_path: Path, text: str) -> None:
    async with closing(open_store(tmp_path)) as store:
        stream = Stream("run", text)
        await store.append(stream, [Entry(kind="note", time=1, content={"text": text, text: 1}), note("after")])
        records = await read(store, stream)
        assert [record.entry.content for record in records] == [{"text": text, text: 1}, {"text": "after"}]
        assert verify(records) is None
        assert [summary.stream for summary in await store.streams()] == [stream]
