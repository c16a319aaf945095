"""One run on its way in this process: the task that drives it, and how it is stopped from outside."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from tenter.agent import AgentLoop, Standing, Waiting
from tenter.catalogue import ErrorInfo
from tenter.harness.local import LocalEngine
from tenter.harness.parts import Run


@dataclass(slots=True)
class Going:
    """A run on its way in this process."""

    engine: LocalEngine
    agent: AgentLoop
    run: Run
    began: float
    task: "asyncio.Task[Standing | KeyboardInterrupt] | None" = None
    """Once it does something: one that was cancelled before that could not end the run."""
    waits: bool = False
    """Whether it did something here and let go to wait for people."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def stop(self, error: ErrorInfo) -> None:
        """Has the run come to its end, for the reason that is given first."""
        if self.engine.stopped is None:
            self.engine.stop(error)
            if self.task is not None:
                self.task.cancel()

    async def kept(
        self, drive: Callable[[], Coroutine[object, object, Standing]], *, is_ending: bool
    ) -> Standing | KeyboardInterrupt:
        """What the run comes to. The user's interrupt is handed over: raised in a task, it would leave the event loop.

        One that somebody stopped before it did anything is cancelled at once; `is_ending` already, it goes on.
        """
        self.task = cast("asyncio.Task[Standing | KeyboardInterrupt]", asyncio.current_task())
        if self.engine.stopped is not None and not is_ending:
            self.task.cancel()
        try:
            standing = await drive()
        except KeyboardInterrupt as interrupt:
            return interrupt
        self.waits = isinstance(standing, Waiting) and not self.engine.replaying
        if self.engine.stopped is not None:
            with suppress(asyncio.CancelledError):  # it may have come in the last step, which asyncio then forgets
                await asyncio.sleep(0)
        return standing
