"""Runs one program to its end, whatever it does: stdin, output, deadline, exit, and everything that it started.

All of it happens in the event loop, without a thread. The runner knows bytes, signals and exit codes; what a hook's
answer means is said above it (`executors/command.py`). Below it `spawn` starts, `child` signals and reaps, `pipes`
moves bytes, `capture` keeps them, `descendants` finds what left the group. The exit is noticed by a pidfd, or by
looking every 5 ms where there is none.
"""

import asyncio
import math
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tenter.executors import descendants
from tenter.executors.capture import NOTHING, Captured
from tenter.executors.child import Child
from tenter.executors.pipes import Pipes
from tenter.executors.spawn import Spawned, SpawnFailed, spawn

Failure = Literal["timeout", "output_capped", "cancelled"]
"""Why we ended a process."""
ProcessEnding = Failure | Literal["ok", "crashed", "signal", "spawn_failed", "unknown"]
"""How a process can end (FAULTS G2); `unknown`: somebody else took its exit status, and nobody tells."""

HOLD_SECONDS = 0.25
"""How long after the child's exit a descendant that keeps the pipes open can hold the call."""
CAPPED_GRACE = 0.1
"""Seconds between TERM and KILL for a child whose answer is too long: it is to end at once."""
VANISH_SECONDS = 0.1
"""How long what was killed may take to vanish before the call ends without it."""
CLOSE_SECONDS = 0.04
"""The same where the event loop must wait for it, because the awaiting task is being destroyed."""
PAUSE = 0.005
"""Seconds between two looks at what cannot be waited for: a child without pidfd, a group in its grace."""
RECENT_SECONDS = 1.0
"""For so long after the spawn a descendant is surely newer than the child: the ids of processes have not come round."""
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
    """Covers spawn, stdin, run, output and exit."""
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
    """With `tail`, the text of its last 4096 bytes."""
    duration_seconds: float
    error: str = ""
    """Why it could not start, or why its exit status is unknown: errno, path at fault, what to do."""
    ended_descendants: int = 0
    """Processes that it left running and that were ended; as many as could be found."""

    @property
    def timed_out(self) -> bool:
        return self.result == "timeout"


async def run_process(
    spec: ProcessSpec, stdin: bytes, *, on_cancelled: Callable[[ProcessResult], None] | None = None
) -> ProcessResult:
    """Run `spec` with `stdin` on its standard input; back at the latest 0.25 s after deadline and grace.

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
        spawned = await spawn(spec.argv, stdin, cwd=spec.cwd, env=env, until=deadline)
    except SpawnFailed as failure:
        return ProcessResult(result="spawn_failed", duration_seconds=loop.time() - started, error=str(failure))
    except asyncio.CancelledError:
        if on_cancelled is not None:
            on_cancelled(ProcessResult(result="cancelled", duration_seconds=loop.time() - started))
        raise
    call = _Call(spec, spawned, started)
    try:
        await call.run(deadline)
        return call.result()
    except asyncio.CancelledError:
        try:
            await call.stop("cancelled", spec.grace_seconds)
        finally:
            call.close()
            if on_cancelled is not None:
                on_cancelled(call.result())
        raise
    finally:
        call.close()


class _Call:
    """One running process. Callbacks of the event loop note what happened; `run` decides what follows from it."""

    __slots__ = (
        "_child",
        "_ended",
        "_exited_at",
        "_failure",
        "_kill_at",
        "_look",
        "_loop",
        "_over",
        "_pipes",
        "_spec",
        "_started",
        "_wake",
        "_watched",
    )

    def __init__(self, spec: ProcessSpec, spawned: Spawned, started: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._started = started
        self._child = Child(spawned.process)
        self._pipes = Pipes(
            spawned, limit=spec.max_output_bytes, stdout_is_answer=spec.stdout_is_answer, changed=self._on_pipes
        )
        self._exited_at: float | None = None
        self._failure: Failure | None = None
        self._ended: set[int] = set()
        self._wake: asyncio.Future[None] | None = None
        self._watched: int | None = None
        self._look: asyncio.TimerHandle | None = None
        self._kill_at = math.inf
        self._over = False

    async def run(self, deadline: float) -> None:
        """Follow the process to its end."""
        self._pipes.watch()
        self._watch_exit()
        await self._until(lambda: self._exited_at is not None or self._pipes.overflowed, deadline)
        if self._exited_at is not None:
            hold = self._exited_at + HOLD_SECONDS
            await self._until(lambda: self._pipes.drained or self._pipes.overflowed, hold)
        if self._pipes.overflowed:
            await self.stop("output_capped", min(self._spec.grace_seconds, CAPPED_GRACE))
        elif self._exited_at is None:
            await self.stop("timeout", self._spec.grace_seconds)
        elif descendants.last_started() != self._child.pid:
            await self._sweep(recent=self._loop.time() - self._started < RECENT_SECONDS)
        self._pipes.drain()
        self._over = self._child.reap()

    async def stop(self, failure: Failure, grace: float) -> None:
        """End the group: TERM, CONT, after the grace KILL; then whatever left it."""
        self._failure = failure
        until = self._kill_at = min(self._kill_at, self._loop.time() + grace)
        alive, _ = await descendants.find(self._mark, descendants.running())
        self._ended.update(alive)
        self._child.signal_group(signal.SIGTERM)
        self._child.signal_group(signal.SIGCONT)
        await self._until(lambda: self._exited_at is not None, until)
        alive = [process for process in alive if self._child.has_in_group(process)]
        # Only a child can be awaited, not its children.
        while self._loop.time() < until and (alive := descendants.look(alive, self._mark)[0]):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        await self._sweep(recent=False)
        await self._until(lambda: self._exited_at is not None, self._loop.time() + VANISH_SECONDS)
        self._over = self._child.reap()

    def result(self) -> ProcessResult:
        """How it ended; call it once, after `run` or `stop`."""
        status = self._child.status
        return ProcessResult(
            result=self._failure or _ending(status),
            exit_code=status if status is not None and status >= 0 else None,
            signal=_signal_name(-status) if status is not None and status < 0 else None,
            stdout=self._pipes.stdout.captured(),
            stderr=self._pipes.stderr.captured(),
            duration_seconds=self._loop.time() - self._started,
            error="" if status is not None else NO_STATUS if self._child.reaped else NO_END,
            ended_descendants=len(self._ended - {self._child.pid}),
        )

    def close(self) -> None:
        """Let go of everything; what lives still is killed, and waited for without the event loop. Harmless twice."""
        self._pipes.close()
        if not self._over:
            self._over = True
            self._kill()
            self._child.reap_within(CLOSE_SECONDS)
            self._kill()
        self._unwatch_exit()
        self._child.close()

    def _kill(self) -> None:
        self._child.signal_group(signal.SIGKILL)
        for process in descendants.look(descendants.running(), self._mark)[0]:
            descendants.end(process, self._mark)

    @property
    def _mark(self) -> bytes:
        return descendants.environment_mark(self._spec.cookie_name, self._spec.cookie)

    async def _sweep(self, *, recent: bool) -> None:
        self._ended |= await descendants.sweep(
            self._mark,
            since=self._child.pid if recent else None,
            until=self._loop.time() + VANISH_SECONDS,
            kill_group=lambda: self._child.signal_group(signal.SIGKILL),
        )

    async def _until(self, reached: Callable[[], bool], moment: float) -> None:
        """Wait until something is reached, at most to that time of the event loop."""
        while not reached() and self._loop.time() < moment:
            self._wake = self._loop.create_future()
            timer = self._loop.call_at(moment, self._notify)
            try:
                await self._wake
            finally:
                timer.cancel()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _on_pipes(self) -> None:
        if self._exited_at is not None or self._pipes.overflowed:
            self._notify()

    def _watch_exit(self) -> None:
        if self._child.pidfd is not None:
            self._loop.add_reader(self._child.pidfd, self._on_exit)
            self._watched = self._child.pidfd
        elif self._child.has_exited():
            self._on_exit()
        else:
            self._look = self._loop.call_later(PAUSE, self._watch_exit)

    def _unwatch_exit(self) -> None:
        if self._watched is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._watched)
        self._watched = None
        if self._look is not None:
            self._look.cancel()

    def _on_exit(self) -> None:
        self._unwatch_exit()
        self._exited_at = self._loop.time()
        self._pipes.drain()
        self._notify()


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
