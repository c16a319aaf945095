"""What a loop is asked to do, and what came of it. Data alone; a request is kept, so that a later process can go on."""

from tenter.kernel import FrozenStruct
from tenter.loop.reason import Reason, Standing


class LoopRequest(FrozenStruct, frozen=True, kw_only=True):
    """A loop to be started. `config` is the path of the configuration, `prompt` the text itself.

    `task` names a task of the configuration: a harness backend runs it, other backends are given its instructions
    where there is no prompt. `max_iterations` None: as the configuration says.
    """

    config: str
    task: str | None = None
    prompt: str | None = None
    max_iterations: int | None = None
    exclusive: bool = False
    """Whether it waits until the project is free, instead of working in a worktree."""
    skip_preflight: bool = False


class LoopResult(FrozenStruct, frozen=True, kw_only=True):
    """A loop that is over. Times are in seconds since the epoch, paths absolute."""

    loop_id: str
    status: Standing
    reason: Reason
    message: str
    iterations: int
    cost_usd: float
    started_at: float
    ended_at: float
    summary: str
    workspace: str
