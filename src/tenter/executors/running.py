"""One running process, followed to its end in the event loop, without a thread.

Callbacks note what happened (bytes, exit); `run` decides what follows from it: go on, hold for a moment, end the group,
sweep up what left it. The exit is noticed by a pidfd, or by looking every 5 ms where there is none. It knows nothing of
how its ending is named: that is `process`.
"""

import asyncio
import math
import signal
from collections.abc import Callable
from typing import Literal

from tenter.executors import descendants
from tenter.executors.child import Child
from tenter.executors.pipes import Output, Pipes
from tenter.executors.spawn import Spawned

Failure = Literal["timeout", "output_capped", "cancelled"]
"""Why we ended a process."""

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


class Running:
    """A spawned process; whoever has it awaits `run`, or `stop` when that was cancelled, and closes it in any case."""

    __slots__ = (
        "_ended",
        "_exited_at",
        "_heard_at",
        "_kill_at",
        "_look",
        "_loop",
        "_mark_text",
        "_on_output",
        "_over",
        "_silence",
        "_started",
        "_wake",
        "_watched",
        "child",
        "failure",
        "pipes",
        "was_silent",
    )

    def __init__(self, spawned: Spawned, *, mark: str, limit: int, stdout_is_answer: bool) -> None:
        """`mark` is the `NAME=value` that all descendants inherit; `limit` the bytes that are kept of each output."""
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._mark_text = mark
        self.child = Child(spawned.process)
        self.pipes = Pipes(spawned, limit=limit, stdout_is_answer=stdout_is_answer, changed=self._on_pipes)
        self.failure: Failure | None = None
        """Why it was ended before it ended by itself."""
        self.was_silent = False
        """Whether that was because it said nothing for too long."""
        self._silence = math.inf
        self._heard_at = self._started
        self._on_output: Callable[[Output, bytes], None] | None = None
        self._exited_at: float | None = None
        self._ended: set[int] = set()
        self._wake: asyncio.Future[None] | None = None
        self._watched: int | None = None
        self._look: asyncio.TimerHandle | None = None
        self._kill_at = math.inf
        self._over = False

    def listen(self, on_output: Callable[[Output, bytes], None] | None, *, silence: float) -> None:
        """Before `run`: hand over what comes, piece by piece, and end the process after so many seconds of silence."""
        self._on_output, self._silence = on_output, silence
        self.pipes.heard = self._hear

    async def run(self, deadline: float, *, grace: float) -> None:
        """Follow the process to its end; at the deadline (time of the event loop) end it."""
        self.pipes.watch()
        self._watch_exit()
        await self._until_over(deadline)
        if self._exited_at is not None:
            hold = self._exited_at + HOLD_SECONDS
            await self._until(lambda: self.pipes.drained or self.pipes.overflowed, hold)
        if self.pipes.overflowed:
            await self.stop("output_capped", min(grace, CAPPED_GRACE))
        elif self._exited_at is None:
            self.was_silent = self._loop.time() < deadline
            await self.stop("timeout", grace)
        elif descendants.last_started() != self.child.pid:
            await self._sweep(recent=self._loop.time() - self._started < RECENT_SECONDS)
        self.pipes.drain()
        self._over = self.child.reap()

    async def stop(self, failure: Failure, grace: float) -> None:
        """End the group: TERM, CONT, after the grace KILL; then whatever left it."""
        self.failure = failure
        until = self._kill_at = min(self._kill_at, self._loop.time() + grace)
        alive, _ = await descendants.find(self._mark, descendants.running())
        self._ended.update(alive)
        self.child.signal_group(signal.SIGTERM)
        self.child.signal_group(signal.SIGCONT)
        await self._until(lambda: self._exited_at is not None, until)
        alive = [process for process in alive if self.child.has_in_group(process)]
        # Only a child can be awaited, not its children.
        while self._loop.time() < until and (alive := descendants.look(alive, self._mark)[0]):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        await self._sweep(recent=False)
        await self._until(lambda: self._exited_at is not None, self._loop.time() + VANISH_SECONDS)
        self._over = self.child.reap()

    @property
    def ended_descendants(self) -> int:
        """How many processes besides itself were found and ended."""
        return len(self._ended - {self.child.pid})

    def close(self) -> None:
        """Let go of everything; what lives still is killed, and waited for without the event loop. Harmless twice."""
        if not self._over:
            self._over = True
            # Before its stdin is closed: a part of what it was to be told must not pass for all of it.
            self._kill()
            self.pipes.close()
            self.child.reap_within(CLOSE_SECONDS)
            self._kill()
        self.pipes.close()
        self._unwatch_exit()
        self.child.close()

    def _kill(self) -> None:
        self.child.signal_group(signal.SIGKILL)
        for process in descendants.look(descendants.running(), self._mark)[0]:
            descendants.end(process, self._mark)

    @property
    def _mark(self) -> bytes:
        return descendants.environment_mark(self._mark_text)

    async def _sweep(self, *, recent: bool) -> None:
        self._ended |= await descendants.sweep(
            self._mark,
            since=self.child.pid if recent else None,
            until=self._loop.time() + VANISH_SECONDS,
            kill_group=lambda: self.child.signal_group(signal.SIGKILL),
        )

    async def _until_over(self, deadline: float) -> None:
        """Wait until the process has ended or must be ended."""
        while True:
            moment = min(deadline, self._heard_at + self._silence)
            await self._until(lambda: self._exited_at is not None or self.pipes.overflowed, moment)
            if self._loop.time() < moment or moment >= deadline:
                return
            # What was heard meanwhile, or waits to be read, moves the moment on: one timer a silence, none a piece.
            self.pipes.drain()
            if moment >= self._heard_at + self._silence:
                return

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

    def _hear(self, output: Output, chunk: bytes) -> None:
        self._heard_at = self._loop.time()
        if self._on_output is not None:
            self._on_output(output, chunk)

    def _on_pipes(self) -> None:
        if self._exited_at is not None or self.pipes.overflowed:
            self._notify()

    def _watch_exit(self) -> None:
        if self.child.pidfd is not None:
            self._loop.add_reader(self.child.pidfd, self._on_exit)
            self._watched = self.child.pidfd
        elif self.child.has_exited():
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
        self.pipes.drain()
        self._notify()
