"""Whether what a registry says of a loop can be so: a repository may bring a registry along, with rows of its own.

It looks at paths, and asks git where a project is outside of the repository's main worktree. It changes nothing.
"""

import os
from functools import cache
from pathlib import Path

from tenter.kernel import TenterError
from tenter.loop.loop_row import LoopRow
from tenter.loop.worktree import repo_root


def strange(root: Path, row: LoopRow) -> str | None:
    """Why a row of the registry of `root` is not believed; None where it can be so.

    A loop's project is inside `root`, links followed, or in another worktree of that repository; its workspace is the
    project or inside `root`; its configuration is in the project.
    """
    if not _is_inside(row.project, root) and not _is_worktree_of(str(root), row.project):
        return f"its project {row.project!r} is not in {str(root)!r}"
    if row.workspace != row.project and not _is_inside(row.workspace, root):
        return f"its workspace {row.workspace!r} is not in {str(root)!r}"
    if not _is_inside(os.path.dirname(row.config), Path(row.project)):  # noqa: PTH120  # as the row has it
        return f"its configuration {row.config!r} is not in {row.project!r}"
    return None


def _is_inside(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


@cache
def _is_worktree_of(root: str, project: str) -> bool:
    try:
        found = repo_root(Path(project))
    except TenterError:  # it is gone, or not for us
        return False
    return found is not None and os.path.realpath(found) == os.path.realpath(root)
