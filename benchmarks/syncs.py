"""Fsyncs and time of an operation, for 1 run and for 8 at once on one journal.

`python -m benchmarks.syncs`. The runs are those of `conversation`: all hooks on, and an operation has ended when that
is on disk. Those that end at the same time share an fsync.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.conversation import TASK, project
from tenter import Harness, RunResult
from tenter.journal import SqliteStore, Stream

RUNS = (1, 8)
STEPS = 50
ROUNDS = 3


def measure(steps: int = STEPS, rounds: int = ROUNDS) -> dict[str, float]:
    """Fsyncs an operation, and seconds an operation (the least of several), by how many runs go on at once."""
    figures: dict[str, float] = {}
    for _ in range(rounds):
        for count in RUNS:
            syncs, seconds = asyncio.run(_run(count, steps))
            runs = f"{count}_run{'s' * (count > 1)}"
            figures[f"fsyncs_an_operation_{runs}"] = min(syncs, figures.get(f"fsyncs_an_operation_{runs}", syncs))
            name = f"seconds_an_operation_{runs}"
            figures[name] = min(seconds, figures.get(name, seconds))
    few, many = (figures[f"seconds_an_operation_{runs}"] for runs in ("1_run", "8_runs"))
    return figures | {"seconds_an_operation_8_runs_to_1": many / few}


async def _run(count: int, steps: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        setup = project(Path(folder), steps)
        store = setup.store
        assert isinstance(store, SqliteStore), "the default"
        async with Harness(setup) as harness:
            await harness.run(TASK, max_steps=1)
            before, began = store.syncs, time.perf_counter()
            runs = [harness.run(TASK, "go", max_steps=steps + 1) for _ in range(count)]
            results = await asyncio.gather(*runs)
            seconds, syncs = time.perf_counter() - began, store.syncs - before
            operations = sum([await _operations(store, result) for result in results])
    return syncs / operations, seconds / operations


async def _operations(store: SqliteStore, result: RunResult) -> int:
    """How many operations of the run have ended, the two ends of the run itself among them."""
    if result.status != "completed":
        raise RuntimeError(f"the run ended {result.status}: {result.error}")
    entries = store.read(Stream("run", result.run_id), whole=False)
    return sum([recorded.entry.kind == "finished" async for recorded in entries])


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main()
