"""Waits for what other processes tell a loop through its workspace: a release, a stop, an answer.

A look costs one stat of the folder; the files in it are looked at only when it changed, and once a second in any case,
as some network file systems tell of changes late. It is one timer, and never a busy wait.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from tenter.kernel import TenterError
from tenter.loop.place import Place
from tenter.loop.reason import ReleaseHow
from tenter.loop.release import Release
from tenter.loop.signal_file import SetAside, Signal, take_answer, take_signal

T = TypeVar("T")

LOOK_SECONDS: Final = 0.1
LOOKS_BLINDLY: Final = 10
"""So many looks after the last, the files are looked at although nothing seems to have changed."""

IN_A_SUSPENSION: Final[Sequence[ReleaseHow]] = ("stop", "restart", "resume")
"""By precedence (seed 001, "Signal precedence while suspended")."""

AT_WORK: Final[Sequence[ReleaseHow]] = ("stop", "restart")

Listener = Callable[[str], None]
"""Is told what was set aside, in a sentence for people that is not escaped."""


def unheard(_: str) -> None:
    """For those who do not want to know."""


async def wait_for_release(place: Place, *, loop_id: str, suspension_id: str, told: Listener = unheard) -> Release:
    """What ends this suspension: of what is there at a look, stop before restart before resume; the rest is used up.

    Raises TenterError, naming it, where the workspace vanishes meanwhile or a signal cannot be claimed.
    """
    return await _until(
        place, lambda: look_for_release(place, IN_A_SUSPENSION, loop_id=loop_id, suspension_id=suspension_id, told=told)
    )


async def stop_asked(place: Place, *, loop_id: str, told: Listener = unheard) -> Release:
    """The stop or the restart that the loop is asked for; stop first. Nothing is lost when it is cancelled.

    Raises as `wait_for_release`.
    """
    return await _until(place, lambda: look_for_release(place, AT_WORK, loop_id=loop_id, suspension_id=None, told=told))


async def wait_for_answer(place: Place, *, loop_id: str, question_id: str, told: Listener = unheard) -> str:
    """The answer to this question. Nothing is lost when it is cancelled. Raises as `wait_for_release`."""

    def look() -> str | None:
        found = take_answer(place, loop_id=loop_id, question_id=question_id)
        if isinstance(found, SetAside):
            told(found.text)
            return None
        return None if found is None else found.text

    return await _until(place, look)


def look_for_release(
    place: Place, kinds: Sequence[ReleaseHow], *, loop_id: str, suspension_id: str | None, told: Listener
) -> Release | None:
    """The first of `kinds` that is asked for now. All are claimed: none of them is left for a later suspension."""
    found = [take_signal(place, kind, loop_id=loop_id, suspension_id=suspension_id) for kind in kinds]
    for one in found:
        if isinstance(one, SetAside):
            told(one.text)
    signal = next((one for one in found if isinstance(one, Signal)), None)
    if signal is None:
        return None
    return Release(how=signal.kind, by=signal.by, at=signal.at, suspension_id=suspension_id)


async def _until(place: Place, look: Callable[[], T | None]) -> T:
    seen: tuple[int, int, int] | None = None
    unchanged = 0
    while True:
        stamp = _stamp(place)
        unchanged = unchanged + 1 if stamp == seen else 0
        seen = stamp
        # Once more after a change: what comes in the same tick of the file system's clock leaves the stamp as it is.
        if unchanged <= 1 or unchanged % LOOKS_BLINDLY == 0:
            found = look()
            if found is not None:
                return found
        await asyncio.sleep(LOOK_SECONDS)


def _stamp(place: Place) -> tuple[int, int, int]:
    """What changes whenever a name is put into the folder or taken away."""
    folder = place.signals
    try:
        found = os.stat(folder)  # noqa: PTH116  # a third of the time of Path.stat, ten times a second
    except (FileNotFoundError, NotADirectoryError) as error:
        what = folder if place.workspace.is_dir() else place.workspace
        raise TenterError(
            f"{str(what)!r} is gone, where the loop {place.loop_id!r} works and is told what to do; it cannot go on"
        ) from error
    except OSError as error:
        raise TenterError(
            f"the loop {place.loop_id!r} cannot look for what it is told in {str(folder)!r}: {error.strerror}"
        ) from error
    return found.st_dev, found.st_ino, found.st_mtime_ns
