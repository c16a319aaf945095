"""The process ends in time and with its code, whatever is left in it."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "left",
    [
        "threading.Thread(target=time.sleep, args=(60,)).start()",
        "ThreadPoolExecutor().submit(time.sleep, 60)",
        "atexit.register(time.sleep, 60)",
        "pass",
    ],
)
@pytest.mark.fault(27)
def test_what_is_left_keeps_neither_the_process_nor_what_was_printed(left: str, tmp_path: Path) -> None:
    code = (
        "import atexit, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from tenter.cli.leaving import leave\n"
        f"{left}\n"
        "print('the result')\n"
        "leave(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "the result\n", "")
