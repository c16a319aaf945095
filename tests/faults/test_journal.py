"""Journals whose writers are killed, and that two processes write at once (FAULTS, journal)."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenter.journal import Recorded, Stream, verify
from tenter.journal.database import Database

pytestmark = pytest.mark.timed

RUN = Stream("run", "r1")

WRITER = """
import asyncio, os, sys
from pathlib import Path
from tenter.journal.entry import Entry, Stream
from tenter.journal.sqlite import SqliteStore

async def write(path, writer, count, acknowledge):
    store = SqliteStore(Path(path))
    for number in range(count):
        entry = Entry(kind="note", time=1, content={"writer": writer, "n": number, "filler": "x" * (number * 37 % 900)})
        durable = number % (3 if acknowledge else 50) == 0
        head = await store.append(Stream("run", "r1"), [entry], durable=durable)
        if acknowledge:
            os.write(1, b"%d\\n" % head.sequence)
    await store.close()
"""

WRITE_ALL = WRITER + "asyncio.run(write(sys.argv[1], sys.argv[2], 10_000, False))"

# Forks a writer for each line that it is given, so that 200 of them cost 200 forks and one start of Python.
WRITE_UNTIL_KILLED = (
    WRITER
    + """
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        asyncio.run(write(sys.argv[1], line.strip(), 1_000_000, True))
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"dead\\n")
"""
)


def whole(database: Database, after: int = 0) -> Iterator[Recorded]:
    """The stream's entries after a sequence."""
    while page := database.page(RUN, after=after, limit=1000, whole=True):
        yield from page
        after = page[-1].sequence


def _killed_once(writers: "subprocess.Popen[bytes]", name: str, after: int) -> int:
    """Start a writer, kill it when it has acknowledged `after` entries; return the last sequence it acknowledged."""
    assert writers.stdin is not None
    assert writers.stdout is not None
    writers.stdin.write(name.encode() + b"\n")
    writers.stdin.flush()
    pid, acknowledged, last = 0, 0, 0
    for line in writers.stdout:
        word, _, rest = line.strip().partition(b" ")
        if word == b"pid":
            pid = int(rest)
        elif word == b"dead":
            return last
        else:
            acknowledged, last = acknowledged + 1, int(word)
        if pid and acknowledged >= after:
            os.kill(pid, signal.SIGKILL)
            after = sys.maxsize
    raise AssertionError("the writers ended")


@pytest.mark.fault(35)
@pytest.mark.promise(9)
def test_200_kills_lose_nothing_acknowledged_and_leave_only_whole_entries(tmp_path: Path) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    chance, head, seen = random.Random(35), 0, list[Recorded]()
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writers:
        for number in range(200):
            acknowledged = _killed_once(writers, str(number), chance.choice([0, 1, 2, 5, 20]))
            with closing(Database(path)) as database:
                head = database.head(RUN).sequence
                seen.extend(whole(database, after=len(seen)))
            assert len(seen) == head >= acknowledged
        assert writers.stdin is not None
        writers.stdin.close()
        assert writers.wait(10) == 0
    assert verify(seen) is None
    keys = [(record.entry.content["writer"], record.entry.content["n"]) for record in seen]
    assert len(set(keys)) == len(keys) > 200


@pytest.mark.fault(39)
def test_two_processes_that_write_10000_entries_each_leave_20000_in_order(tmp_path: Path) -> None:
    path = tmp_path / ".tenter" / "journal.db"
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_ALL, str(path), name]) for name in "ab"]
    assert [writer.wait(50) for writer in writers] == [0, 0]
    with closing(Database(path)) as database:
        records = list(whole(database))
    assert verify(records) is None
    assert [record.sequence for record in records] == list(range(1, 20_001))
    for name in "ab":
        numbers = [record.entry.content["n"] for record in records if record.entry.content["writer"] == name]
        assert numbers == list(range(10_000))
