"""What waits for a person among 10,000 suspended runs in one store, against 10: a first page, and one decision.

`python -m benchmarks.approvals`. The two stores are asked in turn, for as many rows; before each decision another run
is suspended in both, so that as many wait as before. Each time is the median; `tenter approvals list` runs as a
process.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import cast

import msgspec

from benchmarks.conversation import CONFIG
from tenter.catalogue import ApprovalDecision, ApprovalReason, ApprovalRequest
from tenter.journal import JOURNAL_PLACE, Entry, SqliteStore, Stream
from tenter.kernel import FrozenDict

FEW, MANY = 10, 10_000
PAGE = 10
ROUNDS = 51
PROCESSES = 7
LIST = (str(Path(sys.executable).with_name("tenter")), "approvals", "list", "--limit", str(PAGE))
BEGAN = 1_700_000_000
"""Seconds since the epoch, at which the first run was suspended; each further one a second later."""


def measure(many: int = MANY, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each with few runs, and the ratios of many to few."""
    with tempfile.TemporaryDirectory() as few_folder, tempfile.TemporaryDirectory() as many_folder:
        folders = (Path(few_folder), Path(many_folder))
        figures = asyncio.run(_in_stores(folders, many, rounds))
        listings = [[_listed(folder) for folder in folders] for _ in range(PROCESSES)]
    return figures | _compared("command", listings)


async def _in_stores(folders: tuple[Path, Path], many: int, rounds: int) -> dict[str, float]:
    stores = [SqliteStore(folder / JOURNAL_PLACE) for folder in folders]
    for folder, store, count in zip(folders, stores, (FEW, many), strict=True):
        (folder / "tenter.yaml").write_text(CONFIG)
        for number in range(count):
            await _suspend(store, number)
    pages: list[list[float]] = []
    decisions: list[list[float]] = []
    for number in range(many, many + rounds):
        pages.append([await _timed(lambda store=store: _page(store)) for store in stores])
        for store in stores:
            await _suspend(store, number)
        decisions.append([await _timed(lambda store=store, number=number: _decide(store, number)) for store in stores])
    for store in stores:
        await store.close()
    return _compared("page", pages) | _compared("decision", decisions)


def _compared(name: str, pairs: list[list[float]]) -> dict[str, float]:
    few, many = (median(seconds) for seconds in zip(*pairs, strict=True))
    return {f"{name}_seconds_{FEW}_runs": few, f"{name}_of_many_to_{FEW}_runs": many / few}


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _page(store: SqliteStore) -> None:
    rows = await store.approvals(limit=PAGE)
    if len(rows) != PAGE:
        raise RuntimeError(f"a page has {len(rows)} rows")


async def _decide(store: SqliteStore, number: int) -> None:
    request = _request(number)
    decision = ApprovalDecision(
        request_id=request.id, run_id=request.run_id, decision="approve", by="bench", decided_at=request.requested_at
    )
    await store.decide(decision)


async def _suspend(store: SqliteStore, number: int) -> None:
    """A run that begins and waits, as the engine records it; what stands between is of no account here."""
    request = _request(number)
    at = round(request.requested_at * 1_000_000)
    asked = cast("dict[str, object]", msgspec.to_builtins(request))
    entries = (
        Entry(kind="run", time=at, content={"task": request.task, "version": "1"}),
        Entry(kind="approval_requested", time=at, content=asked),
        Entry(kind="status", time=at, content={"status": "awaiting_approval"}),
    )
    await store.append(Stream("run", request.run_id), entries)


def _request(number: int) -> ApprovalRequest:
    reason = ApprovalReason(hook="ask", reason="a person has to look at it", code="approval_required")
    call = FrozenDict({"call": FrozenDict({"name": "shell", "arguments": FrozenDict({"command": f"echo {number}"})})})
    return ApprovalRequest(
        id=f"a{number}",
        run_id=f"run{number:012}",
        operation="tool.invoked",
        path="1.tool.invoked.0",
        call=call,
        digest=f"sha256:{number:064x}",
        reasons=(reason,),
        requested_at=float(BEGAN + number),
        task="look",
    )


def _listed(folder: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(LIST, cwd=folder, capture_output=True, check=True, text=True)
    seconds = time.perf_counter() - began
    if len(done.stdout.splitlines()) != 2 * PAGE:
        raise RuntimeError(f"the list has other lines: {done.stdout[:500]}")
    return seconds


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main()
