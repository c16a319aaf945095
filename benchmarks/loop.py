"""Iterations of a loop against `subprocess.run` of the same programs, in turn in one process.

`python -m benchmarks.loop`. The backend is `/bin/true`: 1,000 iterations of it against 1,000 plain `subprocess.run` of
it; then the same with one command hook on all points, against spawning as many commands. All is on: registry, journal,
events file, output log, the watch for stop requests. Each figure is the median of ratios of a loop and the runs
after it.
"""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from tenter.catalogue import LOOP_OPERATIONS
from tenter.config import Untrusted, trust_state
from tenter.loop import LoopRequest, Told, run_loop

PROGRAM = "/bin/true"
ITERATIONS = 1000
ROUNDS = 3
AROUND = 4
"""Points that fire once a loop, and not once an iteration: both phases of its start and of its end."""
WITHIN = 2
"""Points that fire in each iteration of a backend that publishes nothing."""


def measure(iterations: int = ITERATIONS, rounds: int = ROUNDS) -> dict[str, float]:
    """Ratios to `subprocess.run`; overhead in seconds an iteration; the last against a tenth of the iterations."""
    plain, hooked, few = ([_ratio(number, hooks=hooks) for _ in range(rounds)] for number, hooks in (
        (iterations, False), (iterations, True), (max(iterations // 10, 1), False)
    ))  # fmt: skip
    return {
        "loop_to_subprocess_run": median(ratio for ratio, _ in plain),
        "overhead_seconds_an_iteration": median(overhead for _, overhead in plain),
        "loop_with_hooks_to_as_many_subprocess_run": median(ratio for ratio, _ in hooked),
        "overhead_an_iteration_to_that_of_a_tenth": median(o for _, o in plain) / median(o for _, o in few),
    }


def _ratio(iterations: int, *, hooks: bool) -> tuple[float, float]:
    """How long a loop takes against spawning the commands that it spawns, and its overhead an iteration in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        config = _project(Path(folder), hooks=hooks)
        start = time.perf_counter()
        result = asyncio.run(
            run_loop(LoopRequest(config=str(config), prompt="x", max_iterations=iterations), tell=_hear)
        )
        took = time.perf_counter() - start
    if result.reason != "max_iterations" or result.iterations != iterations:
        raise RuntimeError(f"the loop ended otherwise: {result.message}")
    commands = iterations + (iterations * WITHIN + AROUND if hooks else 0)
    start = time.perf_counter()
    for _ in range(commands):
        subprocess.run([PROGRAM], check=True)
    stock = time.perf_counter() - start
    return took / stock, (took - stock) / iterations


def _project(folder: Path, *, hooks: bool) -> Path:
    points = [f"{phase}.{operation.name}" for operation in LOOP_OPERATIONS for phase in ("pre", "post")]
    hook = {"name": "true", "command": [PROGRAM], "on_error": "block"}
    spec = {
        "version": 1,
        "hooks": {"events": {point: [hook] for point in points} if hooks else {}},
        "loop": {"backend": {"command": [PROGRAM]}, "preflight": {"enabled": False}},
    }
    path = folder / "tenter.yaml"
    path.write_text(json.dumps(spec))
    state = trust_state(path)
    if isinstance(state, Untrusted):
        os.environ["TENTER_TRUST"] = state.now.digest
    return path


def _hear(told: Told) -> None:
    """Nobody is told: what is measured is the loop."""


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:50} {figure:.4g}")


if __name__ == "__main__":
    main()
