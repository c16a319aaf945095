"""Which process it is: a number alone is given to another one sooner or later (FAULTS 48).

It asks the system about processes, and knows nothing of runs or loops. A process of an earlier boot is dead; one on
another machine that shares the files cannot be seen and counts as dead too.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from tenter.kernel import TenterError

PROC: Final = Path("/proc")
PS_SECONDS: Final = 5.0
"""How long `ps` may take."""

_AFTER_NAME: Final = 2
"""In /proc/<pid>/stat, the number of the first field behind the name; fields count from 0 here."""
_START: Final = 21
"""The start time, field 22 of proc(5): ticks since the machine started."""
_DEAD: Final = frozenset("ZXx")
"""States of a process that has ended: a zombie, which only waits to be collected, and one that is about to go."""


class ProcessId(msgspec.Struct, frozen=True):
    """A process, told from a later one with the same number by when it started."""

    pid: int
    started: str
    """Opaque; equal for the same process on the same boot."""


def this_process() -> ProcessId:
    """The process that asks. It may have been forked since it was last asked, so this is never remembered.

    Raises TenterError on a system that tells of no process: without `/proc` and without `ps`.
    """
    pid = os.getpid()
    started = _started(pid)
    if started is None:
        raise TenterError("this system has neither /proc nor ps, by which one process is told from another; install ps")
    return ProcessId(pid, started)


def is_alive(process: ProcessId) -> bool:
    """Whether this very process runs; one that has ended and was not waited for does not."""
    return process.pid > 0 and _started(process.pid) == process.started


def _started(pid: int) -> str | None:
    """When the living process with that number started; None where there is none."""
    if (PROC / "self" / "stat").exists():
        return started_by_proc(pid)
    return started_by_ps(pid)


def started_by_proc(pid: int) -> str | None:
    """As `/proc` tells it: the boot, and ticks since then."""
    try:
        line = (PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # the second: it went while it was read
        return None
    fields = parse_stat(line)
    return None if fields is None else f"{_boot()}/{fields}"


def parse_stat(line: bytes) -> str | None:
    """The start time of a line of `/proc/<pid>/stat`; None for a process that has ended.

    The name is in parentheses and may hold spaces, parentheses and line ends itself.
    """
    fields = line.rpartition(b")")[2].decode("ascii", "replace").split()
    return None if fields[0] in _DEAD else fields[_START - _AFTER_NAME]


def started_by_ps(pid: int) -> str | None:
    """As `ps` tells it, to the second: for systems without `/proc`. None, too, where `ps` is missing."""
    program = shutil.which("ps")
    if program is None:
        return None
    done = subprocess.run(
        [program, "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
        env={"LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=PS_SECONDS,
        check=False,
    )
    state, _, started = done.stdout.decode("ascii", "replace").strip().partition(" ")
    return None if not started or state[:1] in _DEAD else " ".join(started.split())


def _boot() -> str:
    """Which start of the machine this is: ticks begin anew with each."""
    try:
        return (PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    except OSError:  # a /proc that hides it
        return "-"
