"""What `verified` finds, in both stores and after every kind of tampering with the file."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.journal.test_store import OpenStore, closing as closing_store, note, over_every_store
from tests.outside import flat_memory

from tenter.journal.approvals import Standing
from tenter.journal.entry import Entry, Stream, genesis
from tenter.journal.memory import MemoryStore
from tenter.journal.sqlite import SqliteStore
from tenter.journal.store import JournalError
from tenter.journal.verification import Verified, verified
from tenter.wire.canonical import Document, digest

RUN = Stream("run", "r1")
KEY = b"a key of thirty-two characters.."


async def _written(path: Path, *, key: bytes | None = None) -> list[str]:
    """Five entries, the third of which names a message; the hashes from the genesis on."""
    store = SqliteStore(path, key=key)
    async with closing_store(store):
        heads = [genesis(RUN).hash]
        for number in range(1, 6):
            content = note(number, message=Document({"role": "user"})) if number == 3 else note(number)
            heads.append((await store.append(RUN, [content])).hash)
    return heads


def _tamper(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        assert other.execute(statement, values).rowcount == 1


async def _verified(path: Path, *, key: bytes | None = None, expect: str | None = None) -> Verified:
    async with closing_store(SqliteStore(path, key=key)) as store:
        return await verified(store, RUN, expect=expect)


@over_every_store
async def test_a_stream_as_it_was_written_holds_to_its_head(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing_store(open_store(tmp_path)) as store:
        await store.append(RUN, [note(number, message=Document({"n": number})) for number in range(600)])
        head = await store.head(RUN)
        assert await verified(store, RUN) == Verified(entries=600, head=head.hash, keyed=False)


@over_every_store
async def test_an_expected_head_is_the_head_or_was_it(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing_store(open_store(tmp_path)) as store:
        first = await store.append(RUN, [note(1)])
        last = await store.append(RUN, [note(2), note(3)])
        ends = [(genesis(RUN).hash, 0), (first.hash, 1), (last.hash, 3)]
        for expect, place in ends:
            found = await verified(store, RUN, expect=expect)
            assert (found.fault, found.entries, found.expected_at) == (None, 3, place)


@over_every_store
async def test_a_head_that_never_was_is_a_fault(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing_store(open_store(tmp_path)) as store:
        await store.append(RUN, [note(1)])
        found = await verified(store, RUN, expect=digest("elsewhere"))
        assert found.fault is not None
        assert f"the expected head {digest('elsewhere')!r} is not among its 1 entries: " in found.fault
        assert (found.entries, found.expected_at) == (1, None)
        empty = await verified(store, Stream("run", "r2"), expect=digest("elsewhere"))
        assert empty.fault is not None


@over_every_store
async def test_a_stream_without_entries_holds(open_store: OpenStore, tmp_path: Path) -> None:
    async with closing_store(open_store(tmp_path)) as store:
        assert await verified(store, RUN) == Verified(entries=0, head=genesis(RUN).hash, keyed=False)


SECOND = "WHERE id % 4294967296 = 2"
TAMPERINGS = (
    (f"UPDATE entries SET content = CAST('{{\"text\":9}}' AS BLOB) {SECOND}", 2, "its content is not what its digest"),
    (f"UPDATE entries SET kind = 'finished' {SECOND}", 2, "its hash is not that of the chain"),
    (f"UPDATE entries SET time = 9 {SECOND}", 2, "its hash is not that of the chain"),
    (f"UPDATE entries SET digest = zeroblob(32) {SECOND}", 2, "its content is not what its digest"),
    (f"UPDATE entries SET hash = zeroblob(32) {SECOND}", 2, "its hash is not that of the chain"),
    (f"DELETE FROM entries {SECOND}", 2, "entry 3 stands in its place"),
    (f"UPDATE entries SET id = id + 90 {SECOND}", 2, "entry 3 stands in its place"),
    (f"UPDATE entries SET content = CAST('[' AS BLOB) {SECOND}", 2, "it was damaged, or changed"),
    ('UPDATE kept SET data = CAST(\'{"role":"tool"}\' AS BLOB)', 3, "its content is not what its digest"),
    ("DELETE FROM kept", 3, "which an entry names, is missing"),
)


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(("statement", "place", "why"), TAMPERINGS)
async def test_the_first_entry_that_does_not_hold_is_named_with_the_reason(
    tmp_path: Path, statement: str, place: int, why: str, key: bytes | None
) -> None:
    path = tmp_path / "journal.db"
    heads = await _written(path, key=key)
    _tamper(path, statement)
    found = await _verified(path, key=key, expect=heads[-1])
    assert found.fault is not None
    assert found.fault.startswith(f"entry {place} ")
    assert why in found.fault
    assert (found.entries, found.head) == (place - 1, heads[place - 1])


@pytest.mark.fault(36)
async def test_that_the_end_was_cut_off_only_the_expected_head_tells(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    heads = await _written(path)
    _tamper(path, "DELETE FROM entries WHERE id % 4294967296 = 5")
    assert (await _verified(path)).fault is None
    cut = await _verified(path, expect=heads[5])
    assert cut.fault is not None
    assert (cut.entries, cut.head) == (4, heads[4])
    assert (await _verified(path, expect=heads[4])).fault is None


@over_every_store
async def test_content_that_a_pruning_erased_is_counted_and_the_chain_holds(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with closing_store(open_store(tmp_path, key=KEY)) as store:
        before = await store.append(RUN, [note(1), Entry(kind="result", time=5, content={"status": "failed"})])
        assert (await store.prune(before=6, erase=True)).runs == 1
        head = await store.head(RUN)
        found = await verified(store, RUN, expect=before.hash)
        assert found == Verified(entries=3, head=head.hash, erased=2, keyed=True, expected_at=2)


@pytest.mark.fault(36)
@pytest.mark.parametrize("erased", [False, True])
async def test_content_that_somebody_else_took_away_is_a_fault(erased: bool, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with closing_store(SqliteStore(path)) as store:
        await store.append(RUN, [note(1), Entry(kind="result", time=5, content={"status": "failed"})])
        if erased:
            await store.prune(before=6, erase=True)
        await store.append(RUN, [note(3), note(4)])
        assert (await verified(store, RUN)).fault is None
    last = 4 + erased
    for place in (last, last - 1):
        _tamper(path, f"UPDATE entries SET content = NULL WHERE id % 4294967296 = {place}")
        found = await _verified(path)
        assert found.fault == f"entry {place} has no content, and no entry after it says that it was erased"
        assert (found.entries, found.erased) == (last, 2 * erased + last + 1 - place)


async def test_a_run_that_is_blank_and_whose_last_entry_is_blank_too_does_not_pass_for_an_erased_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    async with closing_store(SqliteStore(path)) as store:
        await store.append(RUN, [note(1), Entry(kind="result", time=5, content={"status": "failed"})])
        await store.prune(before=6, erase=True)
    _tamper(path, "UPDATE entries SET content = NULL WHERE kind = 'erased'")
    assert "entry 1 has no content" in str((await _verified(path)).fault)


async def test_under_a_key_an_end_that_was_written_anew_without_it_does_not_hold(tmp_path: Path) -> None:
    path, forged = tmp_path / "journal.db", tmp_path / "forged.db"
    await _written(path, key=KEY)
    await _written(forged)
    with closing(sqlite3.connect(forged)) as source:
        (hash_,) = source.execute("SELECT hash FROM entries WHERE id % 4294967296 = 5").fetchone()
    _tamper(path, "UPDATE entries SET hash = ? WHERE id % 4294967296 = 5", hash_)
    found = await _verified(path, key=KEY)
    assert (found.entries, found.keyed) == (4, True)


async def test_that_the_key_was_stripped_is_told(tmp_path: Path) -> None:
    path, forged = tmp_path / "journal.db", tmp_path / "forged.db"
    await _written(path, key=KEY)
    assert (await _verified(path, key=KEY)).keyed
    _tamper(path, "UPDATE streams SET keyed = 0")
    flagged = await _verified(path, key=KEY)
    assert (flagged.keyed, flagged.entries) == (False, 0)
    assert flagged.fault is not None
    await _written(forged)  # the whole chain, as somebody without the key writes it
    anew = await _verified(forged, key=KEY)
    assert (anew.keyed, anew.fault) == (False, None)


@pytest.mark.parametrize("key", [None, b"another key of thirty characters"])
async def test_without_the_right_key_nothing_is_verified(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "journal.db"
    await _written(path, key=KEY)
    with pytest.raises(JournalError, match="run 'r1' was journaled under a key, ") as caught:
        await _verified(path, key=key)
    assert caught.value.trouble == "key"


async def test_a_trouble_that_is_no_damage_is_not_taken_for_a_fault() -> None:
    class Closing(MemoryStore):
        async def key_of(self, stream: Stream) -> bytes | None:
            await self.close()
            return None

    with pytest.raises(JournalError, match="was closed"):
        await verified(Closing(), RUN)


@pytest.mark.timed
@pytest.mark.fault(41)
async def test_verifying_a_long_stream_takes_the_memory_of_a_page(tmp_path: Path) -> None:
    async with closing_store(SqliteStore(tmp_path / "journal.db")) as store:
        for number in range(1500):
            await store.append(RUN, [Entry(kind="note", time=1, content={"text": str(number) + "x" * 60_000})])
        async with flat_memory(40_000_000):
            assert (await verified(store, RUN)).entries == 1500


class _Pruned(MemoryStore):
    """Somebody prunes it while a listing is looked at."""

    async def standing(self, run_id: str) -> Sequence[Standing]:
        await self.prune(before=10)
        return await super().standing(run_id)


async def test_a_stream_that_is_pruned_while_it_is_verified_is_not_said_to_be_wrong() -> None:
    async with closing_store(_Pruned()) as store:
        entries = [("run", {"task": "fix"}), ("status", {"status": "completed"}), ("result", {"status": "completed"})]
        await store.append(RUN, [Entry(kind=kind, time=5, content=content) for kind, content in entries])
        with pytest.raises(JournalError, match="was pruned or replaced while it was verified") as raised:
            await verified(store, RUN)
    assert raised.value.trouble == "removed"
