"""Gives a loop a place to work in: the project, or a worktree of its own while another loop holds that.

Two loops never share a workspace; what a suspended loop left, also one whose process is gone, stays its own.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tenter.kernel import TenterError
from tenter.loop.loop_row import LoopRow, status_of
from tenter.loop.place import Place
from tenter.loop.process_id import is_alive
from tenter.loop.registry import REGISTRY_PLACE, Registry
from tenter.loop.worktree import add_worktree, remove_worktree, repo_root

LOOK_SECONDS: Final = 0.2
"""Between two looks at whether the project is free."""


def registry_of(folder: Path) -> Registry:
    """The registry of the repository that `folder` is in, or of the folder itself where there is none."""
    return Registry((repo_root(folder) or folder) / REGISTRY_PLACE)


async def claim(registry: Registry, row: LoopRow, *, exclusive: bool, told: Callable[[str], None]) -> LoopRow:
    """Registers the loop with a workspace that is its own: `row` as it stands, or with a worktree in its place.

    `exclusive` waits for the project instead. Raises TenterError where there is no place for it.
    """
    holder = registry.add(row, hold=True)
    if holder is None:
        return row
    if not exclusive:
        return _in_a_worktree(registry, row, holder)
    told(f"waits for the loop {holder.loop_id}, which holds {holder.workspace} ({_how(holder)})")
    while registry.add(row, hold=True) is not None:  # noqa: ASYNC110  # who ends it is another process
        await asyncio.sleep(LOOK_SECONDS)
    return row


def give_back(registry: Registry, row: LoopRow) -> None:
    """Forgets a loop that could not begin, and takes away its worktree."""
    registry.remove([row.loop_id])
    root = repo_root(Path(row.project))
    if row.branch is not None and root is not None:
        remove_worktree(root, root / ".worktrees" / row.loop_id, row.branch, force=True)


def place_of(row: LoopRow) -> Place:
    """Where the files of a registered loop are."""
    return Place(row.loop_id, Path(row.project), Path(row.workspace))


def _in_a_worktree(registry: Registry, row: LoopRow, holder: LoopRow) -> LoopRow:
    project = Path(row.project)
    root = repo_root(project)
    if root is None:
        raise TenterError(
            f"the loop {holder.loop_id} holds {row.project!r} ({_how(holder)}), and without a git repository a second "
            "one has no worktree to work in; use --exclusive to wait for it, or 'tenter loop stop' to end it"
        )
    tree = add_worktree(root, row.loop_id)
    workspace = tree.path / os.path.relpath(project, root)
    moved = msgspec.structs.replace(row, workspace=str(workspace), branch=tree.branch, primary=False)
    if not workspace.is_dir() or registry.add(moved, hold=True) is not None:
        remove_worktree(root, tree.path, tree.branch, force=True)
        raise TenterError(f"the worktree {str(tree.path)!r} has no folder {str(workspace)!r}; commit the project first")
    return moved


def _how(row: LoopRow) -> str:
    return status_of(row, is_alive(row.process))
