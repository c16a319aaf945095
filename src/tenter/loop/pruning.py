"""Takes away what loops that are over have left: their row, folder and worktree. What is on record of them stays.

Nothing that somebody could miss goes with it: changes that are not committed keep the loop, and commits that are
nowhere else its branch. A loop that crashed could be continued, so it goes only where it is named, and with it what it
left running. A loop that runs or is suspended is never touched. Git and the disk are waited for without the event loop.
"""

import contextlib
from collections.abc import Sequence
from typing import Literal

from tenter.executors import is_alive, this_process
from tenter.kernel import SYSTEM_CLOCK, FrozenStruct, TenterError
from tenter.loop.claim import place_of
from tenter.loop.loop_row import LoopRow, has_ended, holds
from tenter.loop.orphans import end_orphans, told_of_orphans
from tenter.loop.place import Place
from tenter.loop.registry import Registry, Taken
from tenter.loop.suspension import StateUnreadable, clear_state, read_state
from tenter.loop.worktree import WORKTREES, remove_worktree


class Pruned(FrozenStruct, frozen=True, kw_only=True):
    """What became of one loop. The message is for people, and not escaped."""

    loop_id: str
    result: Literal["removed", "kept"]
    message: str


async def prune(registry: Registry, rows: Sequence[LoopRow] | None = None) -> tuple[Pruned, ...]:
    """Takes away what these loops left; without `rows`, what all left that have ended, the last one first.

    Raises TenterError, before anything is taken away, where one of `rows` runs or is suspended.
    """
    for row in rows or ():
        if holds(row, is_alive(row.process)):
            raise TenterError(f"the loop {row.loop_id} is not over; 'tenter loop stop {row.loop_id}' ends it")
    if rows is None:
        rows = [row for row in registry.rows(everything=True) if has_ended(row)]
    return tuple([await _prune(registry, row) for row in rows])


async def _prune(registry: Registry, row: LoopRow) -> Pruned:
    orphans = ""
    try:
        if row.ended_at is None:
            _take(registry, row)
            if count := await end_orphans(row.loop_id):
                orphans = f"; {told_of_orphans(row.loop_id, count)}"
        told = _remove_worktree(registry, row)
        _remove_files(place_of(row))
        if row.ended_at is None:
            registry.update(row.loop_id, status="failed", reason="failed", ended_at=SYSTEM_CLOCK.now())
        registry.remove([row.loop_id])
    except TenterError as error:
        return Pruned(loop_id=row.loop_id, result="kept", message=f"kept: {error}{orphans}")
    return Pruned(loop_id=row.loop_id, result="removed", message=f"removed{told}{orphans}")


def _take(registry: Registry, row: LoopRow) -> None:
    """Takes a crashed loop into our hands, so that nobody continues it meanwhile. Raises TenterError where one does."""
    taken = registry.take_over(row.loop_id, this_process())
    if isinstance(taken, Taken):
        raise TenterError(f"process {taken.by.pid} works where it was; try again when that is over")


def _remove_worktree(registry: Registry, row: LoopRow) -> str:
    """What is to be said of it. Raises TenterError where it has changes that are not committed."""
    if row.branch is None:
        return ""
    root = registry.path.parent.parent
    if remove_worktree(root, root / WORKTREES / row.loop_id, row.branch, force=False) == "branch_kept":
        return f"; its branch {row.branch!r} stays: it has commits that are nowhere else"
    return ""


def _remove_files(place: Place) -> None:
    """The folder of the loop, and a suspend state that it left. Raises TenterError where that cannot be."""
    with contextlib.suppress(StateUnreadable):  # nobody knows whose it is
        state = read_state(place)
        if state is not None and state.loop_id == place.loop_id:
            clear_state(place)
    place.remove()
