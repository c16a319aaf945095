from pathlib import Path

from tests.journal.world import asking, decision, request, run_stream, suspended

from tenter.journal.entry import Entry, Stream
from tenter.journal.memory import MemoryStore
from tenter.journal.sqlite import SqliteStore
from tenter.wire.canonical import Document

RUN = Stream("run", "r1")


async def test_both_stores_come_to_the_same_head_and_read_the_same_records(tmp_path: Path) -> None:
    memory, file = MemoryStore(), SqliteStore(tmp_path / "journal.db")
    try:
        entries = [
            Entry(kind="run", time=1, content={"task": "fix", "limits": (1, 2.5), "message": Document({"a": b"\xff"})}),
            Entry(kind="result", time=2, content={"status": "failed", "large": "\udcff" * 70_000}),
        ]
        assert await memory.append(RUN, entries) == await file.append(RUN, entries)
        records = [record async for record in memory.read(RUN)]
        assert records == [record async for record in file.read(RUN)]
        assert list(await memory.streams()) == list(await file.streams())
    finally:
        await file.close()


async def test_both_stores_list_the_same_requests_with_the_same_cursors(tmp_path: Path) -> None:
    memory, file = MemoryStore(), SqliteStore(tmp_path / "journal.db")
    try:
        for store in (memory, file):
            await suspended(store, request("b", "r2", at=2.0), request("a"), request("c", "r2", at=1.0))
            await store.decide(decision("c", "r2"))
            await store.append(run_stream("r2"), [asking(request("c", "r2", at=9.0))])
        assert await memory.approvals(state=None) == await file.approvals(state=None)
        assert list(await memory.streams()) == list(await file.streams())
        assert await memory.head(run_stream("r2")) == await file.head(run_stream("r2"))
    finally:
        await file.close()
