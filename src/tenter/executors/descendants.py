"""Finding and ending what a child process left behind, by a mark in the environment that its descendants inherit.

Reads /proc and sends signals; where there is no /proc it finds nothing. It knows no hook and no pipe. A descendant that
clears or overwrites its environment is not found.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Sequence

COOKIES = ("TENTER_HOOK_ID", "TENTER_TOOL_CALL", "TENTER_BACKEND_CALL")
"""The variables that carry marks; passed on to whatever is started, or a call within a call would lose the outer's."""
PROCESSES = "/proc"
SLICE = 100
"""Processes looked at before the event loop has its turn (about 1 ms; 10 ms on a busy machine)."""
KILLS = 25
"""Processes killed before the event loop has its turn (about 3 ms)."""
READ = 32_768
BARE = b"\0"
"""The environment of a process that has none, or is being executed and has none yet (for some 0.2 ms)."""
BARE_LOOKS = 3
"""How often `sweep` looks at processes without environment before it believes that they have none."""
FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.02
"""Seconds between two rounds of `sweep`: a killed process needs a moment to vanish."""
GONE_SECONDS = 2.0
"""How long `end_marked` waits for what it killed."""


def environment_mark(variable: str) -> bytes:
    """The mark of a process whose environment holds this `NAME=value`, or a value that goes on from it with a dot.

    The latter is that of a call within the call: a hook may run tenter, which has hooks of its own.
    """
    return b"\0" + os.fsencode(variable)


def within(outer: str | None, call: str) -> str:
    """The value by which `call` is found, also by the call `outer` that it is a part of, if any."""
    return f"{outer}.{call}" if outer else call


def last_started() -> int | None:
    """The id that the newest process or thread of this machine got; None where the system does not tell.

    As long as it is a child's id, nothing was started since that child, so it has no descendants. Costs 4 µs.
    """
    try:
        descriptor = os.open(f"{PROCESSES}/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return int(os.read(descriptor, 256).rsplit(None, 1)[-1])
    finally:
        os.close(descriptor)


def started_between(ids: Iterable[int], first: int, last: int) -> list[int]:
    """Those of `ids` that were given out after `first` up to `last`; ids are given out in a circle."""
    if first <= last:
        return [each for each in ids if first < each <= last]
    return [each for each in ids if each > first or each <= last]


def running() -> list[int]:
    """The ids of all processes that this one may see; none where /proc shows the processes of another namespace."""
    try:
        if os.readlink(f"{PROCESSES}/self") != str(os.getpid()):  # noqa: PTH115  # Path costs 10x
            return []
        return [int(name) for name in os.listdir(PROCESSES) if name.isdigit()]  # noqa: PTH208  # Path costs 10x
    except OSError:
        return []


def look(ids: Iterable[int], mark: bytes) -> tuple[list[int], list[int]]:
    """Those of `ids` that carry the mark, and those whose environment is empty.

    Zombies carry nothing, and what may not be looked into is not ours.
    """
    marked: list[int] = []
    bare: list[int] = []
    for each in ids:
        environment = _environment(each)
        if _carries(environment, mark):
            marked.append(each)
        elif environment == BARE:
            bare.append(each)
    return marked, bare


async def find(mark: bytes, ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """`look`, in slices, so that a machine with many processes does not stall the event loop."""
    marked, bare = look(ids[:SLICE], mark)
    for start in range(SLICE, len(ids), SLICE):
        await asyncio.sleep(0)
        more_marked, more_bare = look(ids[start : start + SLICE], mark)
        marked += more_marked
        bare += more_bare
    return marked, bare


def end(process: int, mark: bytes, number: signal.Signals = signal.SIGKILL) -> bool:
    """Kill the process (or send it `number`) if it carries the mark still; never one that got its id meanwhile."""
    handle = _handle(process)
    try:
        if not _carries(_environment(process), mark):
            return False
        if handle is None:
            os.kill(process, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


async def sweep(mark: bytes, *, since: int | None, until: float, kill_group: Callable[[], None]) -> frozenset[int]:
    """Kill whatever carries the mark, and what it starts meanwhile, until nothing does; the ids of what was found.

    `since` is the id of a process that was started before all of them, a moment ago (None: look at all processes);
    `until` the time of the event loop at which to give up. `kill_group` kills those that need not carry the mark; it is
    called after each look, so that they were counted.
    """
    loop = asyncio.get_running_loop()
    ended: set[int] = set()
    pause = FIRST_PAUSE
    patience = BARE_LOOKS
    while True:
        marked, bare = await find(mark, candidates(since))
        ended.update(marked)
        kill_group()
        for count, process in enumerate(marked, start=1):
            end(process, mark)
            if count % KILLS == 0:
                await asyncio.sleep(0)
        patience = BARE_LOOKS if marked else patience - 1
        if (not marked and not (bare and patience)) or loop.time() >= until:
            return frozenset(ended)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


async def end_marked(
    mark: bytes, *, spared: Callable[[int], bool], grace: float
) -> tuple[frozenset[int], frozenset[int]]:
    """End whatever carries the mark and is not `spared`, also what starts meanwhile: TERM, after `grace` seconds KILL.

    The ids of what was asked to end, and of those that live on all the same, because the kernel holds them.
    """
    loop = asyncio.get_running_loop()
    kill_at = loop.time() + grace
    asked: set[int] = set()
    pause, patience = FIRST_PAUSE, BARE_LOOKS
    while True:
        marked, bare = await find(mark, running())
        alive = [process for process in marked if not spared(process)]
        patience = BARE_LOOKS if alive else patience - 1
        now = loop.time()
        if (not alive and not (bare and patience)) or now >= kill_at + GONE_SECONDS:
            return frozenset(asked), frozenset(alive)
        for process in alive:
            if now >= kill_at:
                end(process, mark)
            elif process not in asked:
                end(process, mark, signal.SIGTERM)
                end(process, mark, signal.SIGCONT)  # one that is stopped hears nothing else
        asked.update(alive)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def candidates(since: int | None) -> list[int]:
    """The processes that may descend from `since`, or all."""
    last = last_started()
    if since is None or last is None:
        return running()
    return started_between(running(), since, last)


def _carries(environment: bytes, mark: bytes) -> bool:
    return mark + b"\0" in environment or mark + b"." in environment


def _environment(process: int) -> bytes:
    """The environment between two NULs; empty where nobody may look, `BARE` where there is none (yet)."""
    try:
        descriptor = os.open(f"{PROCESSES}/{process}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        environment = b"\0"
        while chunk := os.read(descriptor, READ):
            environment += chunk
            if len(chunk) < READ:
                break
        return environment
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _handle(process: int) -> int | None:
    # Without pidfd (another system, no free descriptor) the check of the mark right before the kill must do.
    with contextlib.suppress(OSError, AttributeError):
        return os.pidfd_open(process)
    return None
