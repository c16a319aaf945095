"""Loops of real programs: their projects, what is asked of them, and processes of theirs that are killed."""

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.commandline import digest_of, started

from tenter.journal import SqliteStore, Stream
from tenter.loop.claim import place_of, registry_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Told
from tenter.loop.reason import ReleaseHow
from tenter.loop.release import by_this_process
from tenter.loop.request import LoopRequest
from tenter.loop.signal_file import Signal, write_signal

LONGEST = 30.0
DONE = "echo LOOP_COMPLETE"
GATE = {"name": "gate", "script": "test -e open", "on_error": "suspend"}


def project(tmp_path: Path, agent: str, *, hooks: Mapping[str, Sequence[object]] | None = None, **loop: object) -> Path:
    """A project whose agent is a shell script; its folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    settings = {"backend": {"command": ["/bin/sh", "agent.sh"]}, **loop}
    (folder / "agent.sh").write_text(f"{agent}\n")
    config = {"version": 1, "loop": settings, "hooks": {"events": hooks or {}}}
    (folder / "tenter.yaml").write_text(json.dumps(config))
    return folder


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, **request: object) -> LoopRequest:
    """The request for a loop of a project that is trusted as it is."""
    monkeypatch.setenv("TENTER_TRUST", digest_of(folder / "tenter.yaml"))
    return LoopRequest(config=str(folder / "tenter.yaml"), prompt="mend it", **request)  # pyright: ignore[reportArgumentType]  # fields of a request, by their names


def only_row(folder: Path) -> LoopRow:
    (row,) = registry_of(folder).rows(everything=True)
    return row


def unheard(_: Told) -> None:
    """For tests that do not look at what people are told."""


def ask_for(row: LoopRow, how: ReleaseHow) -> None:
    asking = Signal(kind=how, loop_id=row.loop_id, suspension_id=None, at="2026-02-28T15:31:00Z", by=by_this_process())
    write_signal(place_of(row), asking)


def killed_while_suspended(folder: Path) -> LoopRow:
    """Runs a loop in a process of its own, which is killed when the loop is suspended."""
    with started("loop", "run", "--prompt", "mend it", cwd=folder) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "suspended at" in line:
                break
        process.send_signal(signal.SIGKILL)
        process.wait(LONGEST)
    return only_row(folder)


async def pieces(folder: Path, row: LoopRow) -> list[str]:
    """The kinds of the entries of the loop's stream."""
    store = SqliteStore(folder / ".tenter" / "journal.db")
    try:
        return [record.entry.kind async for record in store.read(Stream("loop", row.loop_id))]
    finally:
        await store.close()
