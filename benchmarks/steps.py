"""Framework time of one step of a run, against the same conversation in pydantic-ai, with hooks in both.

`python -m benchmarks.steps`; needs the extra `bench`. Ours has a hook at both ends of every operation and its journal
on disk, fsyncs and all; theirs has its own hooks before and after each request and each call of the tool, and keeps no
record. Both have a model that is a Python object, one asynchronous tool, and one call of it a step (`conversation`,
`pydantic_steps`). Each run stands in a process of its own, ours and theirs in turn; each time is the least of several.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.conversation import TASK, project
from tenter import Harness

LENGTHS = (20, 200)
ROUNDS = 7


async def ours(steps: int) -> float:
    """Seconds that one run of so many steps takes."""
    with tempfile.TemporaryDirectory() as folder:
        async with Harness(project(Path(folder), steps)) as harness:
            await harness.run(TASK, max_steps=1)  # opens the journal and loads what is loaded late
            began = time.perf_counter()
            result = await harness.run(TASK, "go", max_steps=steps + 1)
            seconds = time.perf_counter() - began
    if result.status != "completed":
        raise RuntimeError(f"the run ended {result.status}: {result.error}")
    return seconds


async def theirs(steps: int) -> float:
    """As `ours`, of pydantic-ai."""
    try:
        from benchmarks.pydantic_steps import seconds
    except ImportError as error:
        raise SystemExit(f"pydantic-ai is missing ({error}); install the extra 'bench', as 'make bench' does") from None
    return await seconds(steps)


SIDES = {"ours": ours, "theirs": theirs}


def measure(lengths: tuple[int, ...] = LENGTHS, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds a step of each, by length; ours to theirs; and of each the longest run's to the shortest's."""
    figures: dict[str, float] = {}
    for steps in lengths:
        for _ in range(rounds):
            for side in SIDES:
                name = f"{side}_seconds_a_step_{steps}"
                figures[name] = min(_apart(side, steps) / steps, figures.get(name, float("inf")))
        figures[f"ours_to_theirs_{steps}"] = (
            figures[f"ours_seconds_a_step_{steps}"] / figures[f"theirs_seconds_a_step_{steps}"]
        )
    for side in SIDES:
        shortest, longest = (figures[f"{side}_seconds_a_step_{steps}"] for steps in (lengths[0], lengths[-1]))
        figures[f"{side}_a_step_longest_to_shortest"] = longest / shortest
    return figures


def _apart(side: str, steps: int) -> float:
    command = [sys.executable, "-m", "benchmarks.steps", side, str(steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return float(json.loads(done.stdout))


def main(arguments: list[str]) -> None:
    if arguments:
        side, steps = arguments
        print(json.dumps(asyncio.run(SIDES[side](int(steps)))))
        return
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main(sys.argv[1:])
