"""Runs one program to its end, whatever it does: stdin, output, deadline, exit, and everything that it started.

It names how a process ended. What a hook's answer means is said above it (`executors/command.py`). Below it `spawn`
starts, `running` follows, `child` signals and reaps, `pipes` moves bytes, `capture` keeps them, and `descendants` finds
what left the group. All of it knows bytes, signals and exit codes, and no event.
"""

import asyncio
import math
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tenter.executors.capture import NOTHING, Captured
from tenter.executors.pipes import Output
from tenter.executors.running import Failure, Running
from tenter.executors.spawn import SpawnFailed, spawn

ProcessEnding = Failure | Literal["ok", "crashed", "signal", "spawn_failed", "unknown"]
"""How a process can end (FAULTS G2); `unknown`: somebody else took its exit status, and nobody tells."""

NO_STATUS = "its exit status was taken by somebody else in this program (SIGCHLD ignored, or a wait for any child)"
NO_END = "it did not vanish although it was killed; the kernel holds it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What to run and within which bounds."""

    argv: tuple[str, ...]
    """The program (resolved already) and its arguments; no shell sees them."""
    cwd: str
    env: Mapping[str, str]
    """The whole environment but for the cookie; nothing is inherited."""
    timeout_seconds: float
    """Covers spawn, stdin, run, output and exit; infinity: no bound."""
    silence_seconds: float = math.inf
    """So long it may print nothing; then it is ended, as at a timeout."""
    grace_seconds: float = 1.0
    """Between TERM and KILL."""
    max_output_bytes: int
    """Of each stream."""
    stdout_is_answer: bool = False
    """More than `max_output_bytes` on stdout ends the process as `output_capped`, instead of being cut."""
    cookie_name: str
    cookie: str
    """An environment variable that every descendant inherits, with a value of this call alone, by which it is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How it ended. `exit_code` and `signal` are told whenever there was one, after a timeout too."""

    result: ProcessEnding
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that killed the process itself (`SIGSEGV`); exit code 139 is none."""
    stdout: Captured = NOTHING
    stderr: Captured = NOTHING
    """Both with `tail`, the text of their last 4096 bytes."""
    duration_seconds: float
    error: str = ""
    """Why it could not start, or why its exit status is unknown: errno, path at fault, what to do."""
    ended_descendants: int = 0
    """Processes that it left running and that were ended; as many as could be found."""
    was_silent: bool = False
    """Whether a timeout was that of `silence_seconds`."""

    @property
    def timed_out(self) -> bool:
        return self.result == "timeout"


async def run_process(
    spec: ProcessSpec,
    stdin: bytes | Callable[[], Awaitable[bytes]],
    *,
    on_cancelled: Callable[[ProcessResult], None] | None = None,
    on_output: Callable[[Output, bytes], None] | None = None,
) -> ProcessResult:
    """Run `spec` with `stdin` on its standard input; back at the latest 0.25 s after deadline and grace.

    A `stdin` that is still to be made is made while the process starts, which takes it some 0.3 ms; what that raises
    ends the process and is raised again. `on_output`, which must not raise, gets the outputs piece by piece as they
    come.

    Never raises for what the process does; one that could not start is a result too. When it returns, nothing that the
    process started lives on, as far as it carries the cookie or stayed in the group. Cancelling the awaiting task ends
    the process in the same way, tells `on_cancelled` how it ended and raises CancelledError; cancelling it once more
    cuts the grace short.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    deadline = started + spec.timeout_seconds
    env = {**spec.env, spec.cookie_name: spec.cookie}
    try:
        spawned = await spawn(
            spec.argv, stdin if isinstance(stdin, bytes) else None, cwd=spec.cwd, env=env, until=deadline
        )
    except SpawnFailed as failure:
        return ProcessResult(result="spawn_failed", duration_seconds=loop.time() - started, error=str(failure))
    except asyncio.CancelledError:
        if on_cancelled is not None:
            on_cancelled(ProcessResult(result="cancelled", duration_seconds=loop.time() - started))
        raise
    mark = f"{spec.cookie_name}={spec.cookie}"
    running = Running(spawned, mark=mark, limit=spec.max_output_bytes, stdout_is_answer=spec.stdout_is_answer)
    if on_output is not None or spec.silence_seconds < math.inf:
        running.listen(on_output, silence=spec.silence_seconds)
    try:
        if not isinstance(stdin, bytes):
            running.pipes.feed(await stdin())
        await running.run(deadline, grace=spec.grace_seconds)
        return _result(running, loop.time() - started)
    except asyncio.CancelledError:
        try:
            await running.stop("cancelled", spec.grace_seconds)
        finally:
            running.close()
            if on_cancelled is not None:
                on_cancelled(_result(running, loop.time() - started))
        raise
    finally:
        running.close()


def _result(running: Running, duration: float) -> ProcessResult:
    status = running.child.status
    return ProcessResult(
        result=running.failure or _ending(status),
        exit_code=status if status is not None and status >= 0 else None,
        signal=_signal_name(-status) if status is not None and status < 0 else None,
        stdout=running.pipes.stdout.captured(),
        stderr=running.pipes.stderr.captured(),
        duration_seconds=duration,
        error="" if status is not None else NO_STATUS if running.child.reaped else NO_END,
        ended_descendants=running.ended_descendants,
        was_silent=running.was_silent,
    )


def _ending(status: int | None) -> ProcessEnding:
    if status is None:
        return "unknown"
    if status < 0:
        return "signal"
    return "crashed" if status else "ok"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
