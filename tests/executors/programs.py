"""Programs to run, and the bounds that every call keeps (FAULTS G1, G4)."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

from tests.outside import leaves_nothing, one_of_three, steady_loop

from tenter.executors.process import ProcessResult, ProcessSpec, run_process

DEADLINE, GRACE, CAP = 2.0, 0.5, 1 << 20
MB = 1 << 20
PYTHON = f"#!{sys.executable} -S"
COOKIE_NAME = "TENTER_TEST_CALL"


def script(folder: Path, *lines: str, first: str = "#!/bin/sh") -> str:
    """A program of these lines in a folder."""
    path = folder / f"hook-{uuid4().hex[:8]}"
    path.write_text("\n".join((first, *lines, "")))
    path.chmod(0o755)
    return str(path)


def spec(
    *argv: str,
    timeout: float = DEADLINE,
    grace: float = GRACE,
    cap: int = CAP,
    answer: bool = False,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
) -> ProcessSpec:
    return ProcessSpec(
        argv=argv,
        cwd=cwd,
        env={"PATH": os.environ["PATH"]} if env is None else env,
        timeout_seconds=timeout,
        grace_seconds=grace,
        max_output_bytes=cap,
        stdout_is_answer=answer,
        cookie_name=COOKIE_NAME,
        cookie=uuid4().hex,
    )


@asynccontextmanager
async def bounded(call: ProcessSpec) -> AsyncGenerator[None]:
    """G1 and G4: in time, a steady loop, and nothing left."""
    start = time.monotonic()
    async with leaves_nothing(call.cookie):
        async with steady_loop(0.05):
            yield
        elapsed = time.monotonic() - start
    limit = call.timeout_seconds + call.grace_seconds + 0.25
    assert elapsed <= limit, f"took {elapsed:.3f} s; at most {limit}"


async def run_bounded(call: ProcessSpec, stdin: bytes = b"") -> ProcessResult:
    """Run within the bounds of every case; one try of three must keep them."""
    results: list[ProcessResult] = []

    async def attempt() -> None:
        async with bounded(call):
            results.append(await run_process(call, stdin))

    await one_of_three(attempt)
    return results[-1]


@contextmanager
def busy_cores() -> Generator[None]:
    """Every core has something else to do."""
    spinners = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 2)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait(5)
