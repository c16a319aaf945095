from pathlib import Path

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
