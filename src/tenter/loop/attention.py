"""Keeps an eye on stop and restart requests while a loop works, so that it is asked nowhere else."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from tenter.loop.place import Place
from tenter.loop.release import Release
from tenter.loop.waiting import AT_WORK, look_for_release, stop_asked


class Attention:
    """Looks between `watch` and `rest`. What was asked for stays known: a request is used once."""

    def __init__(self, place: Place, loop_id: str, told: Callable[[str], None]) -> None:
        self._place = place
        self._loop_id = loop_id
        self._told = told
        self._looking: asyncio.Task[Release] | None = None
        self._asked: Release | None = None
        self._hurried = False

    def look(self) -> None:
        """Looks once, at what was asked before anybody watched. Raises TenterError as `stop_asked`."""
        if self._asked is None:
            self._asked = look_for_release(
                self._place, AT_WORK, loop_id=self._loop_id, suspension_id=None, told=self._told
            )

    def watch(self) -> None:
        """Begins to look, where that is not done already."""
        if self._looking is None and self._asked is None:
            asking = stop_asked(self._place, loop_id=self._loop_id, told=self._told)
            self._looking = asyncio.create_task(asking, name="tenter-loop-attention")

    async def rest(self) -> None:
        """Stops looking."""
        looking, self._looking = self._looking, None
        if looking is None:
            return
        self._take(looking)
        looking.cancel()
        await asyncio.wait((looking,))
        self._take(looking)

    def hurry(self) -> None:
        """From now on nothing is tried again: the loop was interrupted."""
        self._hurried = True

    async def pause(self, seconds: float) -> bool:
        """Waits so many seconds before something is tried again; False where it is not to be."""
        if not self._hurried:
            await self.until_asked(within=seconds)
        return not self._hurried and self.asked is None

    def note(self, release: Release) -> None:
        """What was asked for and heard elsewhere."""
        self._asked = release

    @property
    def asked(self) -> Release | None:
        """Whether the loop was asked to stop or to restart. Raises TenterError where its workspace is gone."""
        if self._looking is not None and self._looking.done():
            self._asked, self._looking = self._looking.result(), None
        return self._asked

    async def until_asked(self, *others: "asyncio.Future[Any]", within: float | None = None) -> None:
        """Waits until something was asked for, one of `others` is done, or so many seconds have passed."""
        if self.asked is None:
            self.watch()
            waited = [one for one in (self._looking, *others) if one is not None]
            await asyncio.wait(waited, timeout=within, return_when=asyncio.FIRST_COMPLETED)

    def _take(self, looking: "asyncio.Task[Release]") -> None:
        if looking.done() and not looking.cancelled():
            with contextlib.suppress(Exception):  # a workspace that is gone is told by whoever needs it next
                self._asked = looking.result()
