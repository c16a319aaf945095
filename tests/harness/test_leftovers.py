import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenter.harness.leftovers import RUN_VARIABLE, end_leftovers

BEHIND = """
import os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", "print('up', flush=True); input()"],
    stdin=os.open(sys.argv[1], os.O_RDWR), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    start_new_session=True, text=True,
)
child.stdout.readline()
print(child.pid, flush=True)
os._exit(0)
"""
"""Leaves a process behind that nobody who runs this test started, waiting for a line that never comes."""


def left_behind(folder: Path, run_id: str) -> int:
    """The id of a process that a dead process of this run has left."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    environment = {**os.environ, RUN_VARIABLE: run_id}
    done = subprocess.run(
        [sys.executable, "-c", BEHIND, str(pipe)], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.fault(47)
async def test_what_a_dead_run_left_running_is_ended(tmp_path: Path) -> None:
    process = left_behind(tmp_path, f"dead-{tmp_path}")
    assert is_there(process)
    assert await end_leftovers(f"dead-{tmp_path}") == 1
    assert not is_there(process)


async def test_what_is_of_another_run_is_left_alone(tmp_path: Path) -> None:
    process = left_behind(tmp_path, f"other-{tmp_path}")
    assert await end_leftovers(f"dead-{tmp_path}") == 0
    assert is_there(process)
    assert await end_leftovers(f"other-{tmp_path}") == 1


async def test_what_this_process_started_is_left_alone() -> None:
    environment = {**os.environ, RUN_VARIABLE: "run-own"}
    script = "print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as own:
        assert own.stdout is not None
        assert own.stdout.readline() == b"up\n"
        assert await end_leftovers("run-own") == 0
        assert own.poll() is None
        own.kill()
