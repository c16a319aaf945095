"""A command hook against `subprocess.run` of the same program with the same stdin, interleaved in one run.

`python -m benchmarks.command`. Figures are ratios of medians.
"""

import asyncio
import subprocess
import time
from statistics import median

from tenter.executors.process import ProcessSpec, run_process

ROUNDS = 400
STDIN = b'{"text": "' + b"x" * 2036 + b'"}'
PROGRAM = ("/bin/true",)
ENV = {"PATH": "/usr/bin:/bin"}
RESIDENT_BYTES = 1 << 30
PAGE = 4096


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """Ratios of our time to that of `subprocess.run`: from a small parent, and from one with 1 GB resident memory."""
    ours, theirs = asyncio.run(_interleaved(rounds))
    ballast = bytearray(RESIDENT_BYTES)
    ballast[::PAGE] = b"\1" * (RESIDENT_BYTES // PAGE)
    ours_large, theirs_large = asyncio.run(_interleaved(rounds // 4))
    del ballast
    return {
        "process_to_subprocess_run": ours / theirs,
        "process_to_subprocess_run_1gb": ours_large / theirs_large,
    }


async def _interleaved(rounds: int) -> tuple[float, float]:
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        spec = ProcessSpec(
            argv=PROGRAM, cwd="/", env=ENV, timeout_seconds=30, max_output_bytes=8192,
            cookie_name="TENTER_CALL", cookie=f"benchmark-{number}",
        )  # fmt: skip
        start = time.perf_counter()
        result = await run_process(spec, STDIN)
        between = time.perf_counter()
        _stock()
        theirs.append(time.perf_counter() - between)
        ours.append(between - start)
        if result.result != "ok":
            raise RuntimeError(f"/bin/true ended as {result}")
    return median(ours), median(theirs)


def _stock() -> None:
    subprocess.run(PROGRAM, input=STDIN, capture_output=True, cwd="/", env=ENV, check=True)


def main() -> None:
    for name, figure in measure().items():
        print(f"{name:40} {figure:.4g}")


if __name__ == "__main__":
    main()
