"""A whole scripted run of 250, 500 and 1,000 tool calls with three function hooks: time, journal and memory a call.

`python -m benchmarks.run`. One call a step; the journal is a SQLite file, the redactor has all patterns and a secret,
and each length runs in a process of its own. What grows with the length shows in the ratios to the shortest.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from tenter import Harness, hook
from tenter.catalogue import ModelRequestEvent, ToolCallEvent, ToolResultEvent
from tenter.config import Position
from tenter.harness import Setup
from tenter.harness.script import Alternatives, CallLine, Turn
from tenter.harness.scripted import ScriptedModel
from tenter.harness.setup import Given, set_up
from tenter.kernel import FrozenDict

LENGTHS = (250, 500, 1000)
FILE_BYTES = 400
"""Of each file that the tool reads."""
CONFIG = """\
version: 1
secrets: [BENCHMARK_SECRET]
models: {default: {provider: scripted, file: script.yaml}}
tasks: {long: {version: 1, model: default, instructions: Read the files., tools: [read_file]}}
"""


@hook("model.before")
async def budget(event: ModelRequestEvent) -> None:
    """Has nothing to say, as the others."""


@hook("tool.before")
def guard(event: ToolCallEvent) -> None:
    """As above."""


@hook("tool.after", observe=True)
async def audit(event: ToolResultEvent) -> None:
    """As above."""


def project(folder: Path, calls: int) -> Setup:
    """A project whose model reads so many files, one a turn. Its script is longer than a file of YAML may be."""
    (folder / "tenter.yaml").write_text(CONFIG)
    (folder / "script.yaml").write_text("{version: 1, turns: [Done.]}")
    turns: list[Turn] = []
    for number in range(calls):
        (folder / f"{number}.txt").write_text(f"{number} ".ljust(FILE_BYTES, "x"))
        call = CallLine(name="read_file", arguments=FrozenDict({"path": f"{number}.txt"}))
        turns.append(Turn(text=f"I read file {number}.", tool_calls=(call,), cost_usd=0))
    steps = [Alternatives((turn,), Position("script")) for turn in (*turns, Turn(text="Done.", cost_usd=0))]
    setup = set_up(folder / "tenter.yaml", (budget, guard, audit), Given())
    task = replace(setup.task("long"), model=ScriptedModel(steps))
    return replace(setup, tasks=FrozenDict({"long": task}))


async def measure_one(folder: Path, calls: int) -> dict[str, float]:
    """Seconds, bytes of journal and bytes of resident memory that one run of `calls` calls takes, each a call."""
    async with Harness(project(folder, calls)) as harness:
        await harness.run("long", max_steps=1)  # opens the journal and loads what is loaded late
        before, began = psutil.Process().memory_info().rss, time.perf_counter()
        result = await harness.run("long", "go", max_steps=calls + 1)
        seconds, grown = time.perf_counter() - began, psutil.Process().memory_info().rss - before
    if result.status != "completed":
        raise RuntimeError(f"the run ended {result.status}: {result.error}")
    journal = sum(file.stat().st_size for file in (folder / ".tenter").iterdir())
    return {"seconds": seconds / calls, "journal_bytes": journal / calls, "memory_bytes": grown / calls}


def measure(lengths: tuple[int, ...] = LENGTHS) -> dict[str, float]:
    """Each figure a call, by length, and the ratio of the longest run's to the shortest's."""
    figures: dict[str, float] = {}
    for calls in lengths:
        command = [sys.executable, "-m", "benchmarks.run", str(calls)]
        environment = {**os.environ, "BENCHMARK_SECRET": "a secret value"}
        done = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
        row: dict[str, float] = json.loads(done.stdout)
        figures |= {f"{name}_per_call_{calls}": value for name, value in row.items()}
    for name in ("seconds", "journal_bytes", "memory_bytes"):
        shortest, longest = (figures[f"{name}_per_call_{calls}"] for calls in (lengths[0], lengths[-1]))
        figures[f"{name}_longest_to_shortest"] = longest / shortest
    return figures


def main(arguments: list[str]) -> None:
    if arguments:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(asyncio.run(measure_one(Path(folder), int(arguments[0])))))
        return
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main(sys.argv[1:])
