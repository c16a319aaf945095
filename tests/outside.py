"""What a test sees of the process from outside: `/proc`, open files, children, memory, and a heartbeat on the loop.

It asks the system and nothing of tenter, so that a promise is not checked by the code that makes it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

BEAT_SECONDS = 0.002
LOOK_SECONDS = 0.01
TRIES = 3
STATE, PARENT = 0, 1
"""Places in /proc/<pid>/stat after the name."""


class StalledLoop(AssertionError):
    """The event loop did not get its turn for too long."""


@asynccontextmanager
async def steady_loop(max_gap: float = 0.05) -> AsyncGenerator[None]:
    """Raises StalledLoop at its end when the loop stood still for more than `max_gap` seconds inside."""
    _runs_alone()
    loop = asyncio.get_running_loop()
    last, largest = loop.time(), 0.0
    timer: asyncio.TimerHandle | None = None

    def beat() -> None:
        nonlocal last, largest, timer
        largest = max(largest, loop.time() - last - BEAT_SECONDS)
        last = loop.time()
        timer = loop.call_later(BEAT_SECONDS, beat)

    beat()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
    largest = max(largest, loop.time() - last - BEAT_SECONDS)
    if largest > max_gap:
        raise StalledLoop(f"the event loop stood still for {largest * 1000:.0f} ms; at most {max_gap * 1000:.0f}")


async def one_of_three(attempt: Callable[[], Awaitable[None]]) -> None:
    """Run a check of a timing bound up to three times; it passes when one try does."""
    _runs_alone()
    for left in reversed(range(TRIES)):
        try:
            await attempt()
        except AssertionError:
            if not left:
                raise
        else:
            return


async def comes_true(condition: Callable[[], bool], *, within: float = 1.0) -> bool:
    """Whether `condition` holds at some moment of the next `within` seconds; the loop runs on meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while not condition():
        if loop.time() >= until:
            return False
        turn: asyncio.Future[None] = loop.create_future()
        loop.call_later(LOOK_SECONDS, turn.set_result, None)
        await turn
    return True


@asynccontextmanager
async def flat_memory(max_growth: int) -> AsyncGenerator[None]:
    """Fails at its end when this process grew by more than `max_growth` bytes at some moment inside."""
    _runs_alone()
    loop = asyncio.get_running_loop()
    before = largest = resident_bytes()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal largest, timer
        largest = max(largest, resident_bytes())
        timer = loop.call_later(LOOK_SECONDS, look)

    look()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
    largest = max(largest, resident_bytes())
    assert largest - before <= max_growth, f"grew by {largest - before} bytes; at most {max_growth}"


@asynccontextmanager
async def leaves_nothing(mark: str = "") -> AsyncGenerator[None]:
    """Fails unless, 1 s after its end at the latest, files, threads and children are those of before.

    With `mark`, also when a process lives that has this text in its environment or its arguments.
    """
    files, count, children = open_files(), threads(), children_of(os.getpid())
    yield
    # What earlier tests left to the garbage may go meanwhile.
    assert await comes_true(lambda: open_files() <= files), f"open files: {open_files() - files}"
    assert await comes_true(lambda: threads() <= count), f"{threads()} threads, before {count}"
    assert await comes_true(lambda: children_of(os.getpid()) == children), "children or zombies are left"
    if mark:
        assert await comes_true(lambda: not alive_with(mark)), f"still alive: {alive_with(mark)}"


def open_files() -> frozenset[tuple[int, str]]:
    """This process's open descriptors, each with what it is."""
    found: set[tuple[int, str]] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add((int(entry.name), str(entry.readlink())))
        except FileNotFoundError:
            continue  # the one that lists the others
    return frozenset(found)


def children_of(parent: int) -> tuple[int, ...]:
    """The children of a process, zombies included."""
    return tuple(pid for pid in _processes() if _stat(pid)[PARENT : PARENT + 1] == (str(parent),))


def threads() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return _stat(pid)[STATE : STATE + 1] not in ((), ("Z",), ("X",))


def alive_with(text: str) -> tuple[int, ...]:
    """The living processes that have `text` in their environment or their arguments."""
    needle = os.fsencode(text)
    return tuple(pid for pid in _processes() if needle in _read(pid, "environ") + b"\0" + _read(pid, "cmdline"))


def resident_bytes() -> int:
    """The memory that this process occupies now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _runs_alone() -> None:
    """Other tests beside it make a bound a matter of luck: such a test is marked."""
    assert "PYTEST_XDIST_WORKER" not in os.environ, "a test with a bound runs alone: mark it `timed`"


def _processes() -> tuple[int, ...]:
    return tuple(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> tuple[str, ...]:
    return tuple(_read(pid, "stat").rpartition(b")")[2].decode().split())
