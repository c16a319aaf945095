"""Gives a loop a place to work in: the project, or a worktree of its own while another loop holds that.

Two loops never share a workspace; what a suspended loop left, also one whose process is gone, stays its own.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tenter.executors import is_alive
from tenter.kernel import TenterError
from tenter.loop.belonging import strange
from tenter.loop.loop_row import LoopRow, holds
from tenter.loop.orphans import end_orphans, told_of_orphans
from tenter.loop.place import Place
from tenter.loop.registry import REGISTRY_PLACE, Registry, standing_of
from tenter.loop.waiting import unheard
from tenter.loop.worktree import WORKTREES, add_worktree, has_changes, remove_worktree, repo_root, worktree_of

LOOK_SECONDS: Final = 0.2
"""Between two looks at whether the project is free."""


def registry_of(folder: Path, told: Callable[[str], object] = unheard) -> Registry:
    """The registry of the repository that `folder` is in, or of the folder itself where there is none.

    What it says of loops outside of the repository is not believed, of which `told` hears.
    """
    root = repo_root(folder) or folder
    return Registry(root / REGISTRY_PLACE, strange=lambda row: strange(root, row), told=told)


async def claim(registry: Registry, row: LoopRow, *, exclusive: bool, told: Callable[[str], None]) -> LoopRow:
    """Registers the loop with a workspace that is its own: `row` as it stands, or with a worktree in its place.

    `exclusive` waits for the project instead. Raises TenterError where there is no place for it.
    """
    holder = registry.add(row, hold=True)
    if holder is None:
        return row
    if not exclusive:
        return _in_a_worktree(registry, row, holder, told)
    told(f"waits for the loop {holder.loop_id}, which holds {holder.workspace} ({standing_of(holder)})")
    while registry.add(row, hold=True) is not None:  # noqa: ASYNC110  # who ends it is another process
        await asyncio.sleep(LOOK_SECONDS)
    return row


async def clear(registry: Registry, row: LoopRow, told: Callable[[str], None]) -> None:
    """Ends what crashed loops left running in the workspace that `row` holds: nobody else continues them meanwhile.

    Raises TenterError where that cannot be.
    """
    for other in registry.rows():
        if other.workspace != row.workspace or holds(other, is_alive(other.process)):
            continue
        if count := await end_orphans(other.loop_id):
            told(told_of_orphans(other.loop_id, count))


def give_back(registry: Registry, row: LoopRow) -> None:
    """Takes away what a loop that could not begin left, its worktree too, and forgets it."""
    place_of(row).remove()
    root = repo_root(Path(row.project))
    if row.branch is not None and root is not None:
        remove_worktree(root, root / WORKTREES / row.loop_id, row.branch, force=True)
    registry.remove([row.loop_id])


def place_of(row: LoopRow) -> Place:
    """Where the files of a registered loop are."""
    return Place(row.loop_id, Path(row.project), Path(row.workspace))


def _in_a_worktree(registry: Registry, row: LoopRow, holder: LoopRow, told: Callable[[str], None]) -> LoopRow:
    project = Path(row.project)
    root = repo_root(project)
    if root is None:
        raise TenterError(
            f"the loop {holder.loop_id} holds {row.project!r} ({standing_of(holder)}), and without a git repository a "
            "second one has no worktree to work in; use --exclusive to wait for it, or 'tenter loop stop' to end it"
        )
    tree = worktree_of(root, row.loop_id)
    workspace = tree.path / os.path.relpath(project, root)
    moved = msgspec.structs.replace(row, workspace=str(workspace), branch=tree.branch, primary=False)
    registry.add(moved, hold=False)  # before there is a worktree: who dies now leaves none that nobody knows
    try:
        add_worktree(root, row.loop_id)
    except TenterError:  # it left nothing
        registry.remove([row.loop_id])
        raise
    if not workspace.is_dir():
        give_back(registry, moved)
        raise TenterError(f"the worktree {str(tree.path)!r} has no folder {str(workspace)!r}; commit the project first")
    without = "; changes of the project that are not committed are not in it" if has_changes(root) else ""
    told(f"works in a worktree, from the last commit, as the loop {holder.loop_id} holds {row.project}{without}")
    return moved
