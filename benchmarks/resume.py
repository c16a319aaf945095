"""How fast a run goes on from its journal: entries a second and memory, for 2,500, 5,000 and 10,000 operations.

`python -m benchmarks.resume`. A run of `conversation` is suspended at its end by a hook. It is resumed in a process of
its own without a decision, so that all of its record is gone through and nothing else is done; a short run is resumed
there before it, so that what is loaded late is loaded. Memory is the most that is resident meanwhile, above what was
before.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.conversation import TASK, project
from tenter import Harness, RunResult, Suspend, hook
from tenter.catalogue import OutputEvent
from tenter.harness import Setup

LENGTHS = (2_500, 5_000, 10_000)
"""Operations, of which each step has three."""
ROUNDS = 3
SHORT = 5
"""Steps of the short run."""


@hook("task.complete.pre")
async def ask(event: OutputEvent) -> Suspend:
    """Wants a person to look at the output."""
    return Suspend("a person has to look at it")


def measure(lengths: tuple[int, ...] = LENGTHS, rounds: int = ROUNDS) -> dict[str, float]:
    """Entries a second (the most of several) and bytes of memory by length, and the longest's to the shortest's."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as root:
        folders = {steps: Path(root, str(steps)) for steps in (SHORT, *(operations // 3 for operations in lengths))}
        for steps, folder in folders.items():
            folder.mkdir()
            _apart("record", str(folder), str(steps))
        for operations in lengths * rounds:
            done = _apart("resume", str(folders[SHORT]), str(folders[operations // 3]))
            entries, seconds, grown = json.loads(done)
            speed, memory = f"entries_a_second_{operations}", f"memory_bytes_{operations}"
            figures[speed] = max(entries / seconds, figures.get(speed, 0.0))
            figures[memory] = min(grown, figures.get(memory, grown))
    for name in ("entries_a_second", "memory_bytes"):
        shortest, longest = (figures[f"{name}_{operations}"] for operations in (lengths[0], lengths[-1]))
        figures[f"{name}_longest_to_shortest"] = longest / shortest
    return figures


async def record(folder: Path, steps: int) -> None:
    """Leaves a run of so many steps in `folder` that waits at its end."""
    async with Harness(_project(folder, steps)) as harness:
        _check(await harness.run(TASK, "go", max_steps=steps + 1))


async def resume(short: Path, folder: Path) -> tuple[int, float, int]:
    """Entries of the run in `folder`, seconds that it takes to go on, and bytes by which memory grows meanwhile."""
    await _resumed(short)
    before = _memory("VmRSS")
    _begin_peak()
    entries, seconds = await _resumed(folder)
    return entries, seconds, _memory("VmHWM") - before


async def _resumed(folder: Path) -> tuple[int, float]:
    setup = _project(folder, 0)
    async with Harness(setup) as harness:
        (run,) = await setup.store.streams("run")
        entries = (await setup.store.head(run.stream)).sequence
        began = time.perf_counter()
        _check(await harness.resume(run.stream.id))
        return entries, time.perf_counter() - began


def _project(folder: Path, steps: int) -> Setup:
    return project(folder, steps, declared=(ask,))


def _check(result: RunResult) -> None:
    if result.status != "awaiting_approval":
        raise RuntimeError(f"the run is {result.status}: {result.error}")


def _memory(name: str) -> int:
    """Bytes of resident memory: `VmRSS` now, `VmHWM` at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    return int(line.split()[1]) * 1024


def _begin_peak() -> None:
    """From now on `VmHWM` is the most since now."""
    Path("/proc/self/clear_refs").write_text("5")


def _apart(verb: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.resume", verb, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def main(arguments: list[str]) -> None:
    match arguments:
        case ["record", folder, steps]:
            asyncio.run(record(Path(folder), int(steps)))
        case ["resume", short, folder]:
            print(json.dumps(asyncio.run(resume(Path(short), Path(folder)))))
        case _:
            for name, figure in measure().items():
                print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main(sys.argv[1:])
