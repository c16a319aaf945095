"""What a loop would do, without starting it (`tenter loop run --dry-run`): the same checks, and then a look."""

from tenter.catalogue import LOOP_OPERATIONS
from tenter.config import list_hooks
from tenter.executors import is_alive
from tenter.kernel import FrozenStruct
from tenter.loop.claim import registry_of
from tenter.loop.loop_row import holds
from tenter.loop.request import LoopRequest
from tenter.loop.starting import check, told_backend


class DryRun(FrozenStruct, frozen=True, kw_only=True):
    """A loop that was not started. Paths are absolute; a limit that is None does not hold."""

    config: str
    workspace: str
    """Where it would work: the project, or "a new git worktree"."""
    held_by: str | None
    """The loop that holds the project now."""
    backend: str
    task: str | None
    prompt: str
    hats: tuple[str, ...]
    completion_promise: str
    required_events: tuple[str, ...]
    max_iterations: int
    max_runtime_seconds: float | None
    max_cost_usd: float | None
    max_consecutive_failures: int
    hooks: tuple[str, ...]
    """What hangs at the points of loops, in order: `point: hook (kind)`."""


def dry_run(request: LoopRequest) -> DryRun:
    """What `run_loop` would start now. Raises as it does before it starts anything."""
    checked = check(request)
    project, loop = str(checked.project), checked.loop
    rows = registry_of(checked.project).rows()
    holder = next((row for row in rows if row.workspace == project and holds(row, is_alive(row.process))), None)
    points = {operation.point(phase) for operation in LOOP_OPERATIONS for phase in operation.rules}
    listed = list_hooks(checked.spec, checked.user).rows
    return DryRun(
        config=request.config,
        workspace=project if holder is None or request.exclusive else "a new git worktree",
        held_by=None if holder is None else holder.loop_id,
        backend=told_backend(checked),
        task=checked.task,
        prompt=checked.prompt,
        hats=tuple(loop.hats),
        completion_promise=loop.completion_promise,
        required_events=loop.required_events,
        max_iterations=loop.max_iterations,
        max_runtime_seconds=loop.max_runtime_seconds,
        max_cost_usd=loop.max_cost_usd,
        max_consecutive_failures=loop.max_consecutive_failures,
        hooks=tuple(f"{row.full_name}: {row.name} ({row.kind})" for row in listed if row.full_name in points),
    )
