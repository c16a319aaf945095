"""Stores to test, and runs that ask a person."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tenter.catalogue import ApprovalDecision, ApprovalReason, ApprovalRequest, DecisionKind
from tenter.journal.approvals import ApprovalState
from tenter.journal.entry import Entry, Recorded, Stream
from tenter.journal.memory import MemoryStore
from tenter.journal.sqlite import SqliteStore
from tenter.journal.store import Store

OpenStore = Callable[[Path], Store]


def open_memory(_folder: Path) -> Store:
    return MemoryStore()


def open_sqlite(folder: Path) -> Store:
    return SqliteStore(folder / ".tenter" / "journal.db")


over_every_store = pytest.mark.parametrize("open_store", [open_memory, open_sqlite])


@asynccontextmanager
async def opened(store: Store) -> AsyncGenerator[Store]:
    try:
        yield store
    finally:
        await store.close()


def run_stream(run: str) -> Stream:
    return Stream("run", run)


def entry(kind: str, at: int = 1, **content: object) -> Entry:
    return Entry(kind=kind, time=at, content=content)


def status(name: str, at: int = 1) -> Entry:
    return entry("status", at, status=name)


def request(
    request_id: str, run: str = "r1", *, at: float = 1.0, reasons: Sequence[Mapping[str, Any]] = ({},), **changes: Any
) -> ApprovalRequest:
    """A request for a call of the tool `shell`, with a reason for each mapping of what it says in particular."""
    said: dict[str, Any] = {"hook": "guard", "reason": "it deletes", "code": "risk"}
    fields: dict[str, Any] = {
        "id": request_id,
        "run_id": run,
        "operation": "tool.invoked",
        "path": "1.tool.0",
        "call": {"call": {"name": "shell", "arguments": {"command": "rm x"}}},
        "digest": "sha256:00",
        "reasons": tuple([ApprovalReason(**(said | dict(reason))) for reason in reasons]),
        "requested_at": at,
    }
    return ApprovalRequest(**(fields | changes))


def asking(asked: ApprovalRequest) -> Entry:
    content = cast("dict[str, object]", msgspec.to_builtins(asked))
    return Entry(kind="approval_requested", time=round(asked.requested_at * 1_000_000), content=content)


def decision(
    request_id: str, run: str = "r1", kind: DecisionKind = "approve", *, by: str = "anna", at: float = 2.0, **more: Any
) -> ApprovalDecision:
    return ApprovalDecision(request_id=request_id, run_id=run, decision=kind, by=by, decided_at=at, **more)


async def suspended(store: Store, *asked: ApprovalRequest) -> None:
    """Begin the runs of the requests, and let them wait."""
    for run in dict.fromkeys(each.run_id for each in asked):
        waits = [asking(each) for each in asked if each.run_id == run]
        begun = entry("run", task="fix", process={"pid": 7, "started": 1}, host="here")
        await store.append(run_stream(run), [begun, *waits, status("awaiting_approval")])


async def ended(store: Store, run: str, *, at: int, state: str = "completed") -> None:
    result = entry("result", at, status=state)
    await store.append(run_stream(run), [entry("run", task="fix"), entry("note", text="secret"), result])


async def read(store: Store, run: str) -> list[Recorded]:
    return [recorded async for recorded in store.read(run_stream(run))]


async def states(store: Store, run: str | None = None) -> dict[str, ApprovalState]:
    return {row.request.id: row.state for row in await store.approvals(run=run, state=None)}
