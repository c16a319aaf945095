"""What a run is to do, and how it stands: the frozen values that the agent loop takes and passes on."""

from typing import Literal, TypeAlias, TypeVar, cast

import msgspec

from tenter.catalogue import (
    ApprovalRequest,
    Budgets,
    Envelope,
    ErrorInfo,
    Limits,
    Message,
    RetryPolicy,
    Status,
    TaskRef,
    ToolInfo,
    ToolSpec,
    Usage,
)
from tenter.kernel import Growing

N = TypeVar("N", int, float)

DEEPEST = 8
"""How many runs may stand inside one another."""


class Subtask(msgspec.Struct, frozen=True, kw_only=True):
    """A task of which the run may spawn a sub-run."""

    name: str
    version: int = 1
    description: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run: who it is, what the task says, what it may use."""

    envelope: Envelope
    input: str
    sender: str | None = None
    instructions: str = ""
    model_alias: str = "default"
    model: str = ""
    tools: tuple[ToolInfo, ...] = ()
    subtasks: tuple[Subtask, ...] = ()
    parallel_tools: bool = False
    limits: Limits = Limits()
    max_repairs: int = 2
    retries: RetryPolicy = RetryPolicy()
    idempotency_key: str | None = None
    root_run_id: str = ""
    """The outermost of the runs that this one is in; empty for one on its own."""
    depth: int = 1
    """How many runs this one is in, itself included."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come: its conversation and what it used. A change is a new value."""

    messages: tuple[Message, ...] = msgspec.field(default_factory=Growing[Message])
    usage: Usage = Usage()
    cost_usd: float = 0.0
    cost_known: bool = True
    repairs: int = 0
    """Retries so far, of responses and of candidates for the output alike."""
    attempt: int = 0
    """Candidates for the output that were sent back."""

    def said(self, *messages: Message) -> "Progress":
        """The conversation with `messages` at its end."""
        grew = isinstance(self.messages, Growing)  # not where it was decoded
        known = cast("Growing[Message]", self.messages) if grew else Growing(self.messages)
        return msgspec.structs.replace(self, messages=known.grown(*messages))

    def spent(self, usage: Usage, cost_usd: float | None) -> "Progress":
        """With the use of one more response or sub-run; None for a cost that nobody told."""
        return msgspec.structs.replace(
            self,
            usage=self.usage + usage,
            cost_usd=self.cost_usd + (cost_usd or 0.0),
            cost_known=self.cost_known and cost_usd is not None,
        )


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run's terminal state."""

    status: Literal["completed", "blocked", "escalated", "failed", "cancelled"]
    progress: Progress = Progress()
    output: object = None
    error: ErrorInfo | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits for people: what each is asked, in the order of the calls; those of sub-runs are among them."""

    requests: tuple[ApprovalRequest, ...]
    progress: Progress = Progress()


Standing: TypeAlias = Ended | Waiting
"""What a loop comes to in this process."""


def status_of(standing: Standing) -> Status:
    """The run's status as `RunResult` and the trace name it."""
    return standing.status if isinstance(standing, Ended) else "awaiting_approval"


def reason_of(standing: Standing) -> str:
    """Why a run stands so, in one word; none for one that completed."""
    if isinstance(standing, Waiting):
        return standing.requests[0].reasons[0].code
    return "" if standing.error is None else str(standing.error.details.get("code", standing.error.code))


def specified(tool: ToolInfo) -> ToolSpec:
    """The tool as a model is shown it."""
    return ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)


def tightened(own: Limits, asked: Limits) -> Limits:
    """The limits of a run after its start: a hook may tighten them, and a looser value changes nothing."""
    mine, theirs = own.budgets, asked.budgets
    budgets = Budgets(
        tokens=_least(mine.tokens, theirs.tokens),
        cost_usd=_least(mine.cost_usd, theirs.cost_usd),
        model_calls=_least(mine.model_calls, theirs.model_calls),
        tool_calls=_least(mine.tool_calls, theirs.tool_calls),
        wall_seconds=_least(mine.wall_seconds, theirs.wall_seconds),
    )
    return msgspec.structs.replace(
        own,
        deadline=_least(own.deadline, asked.deadline),
        max_steps=min(own.max_steps, asked.max_steps),
        budgets=budgets,
    )


def child_of(parent: TaskRef, subtask: Subtask, run_id: str) -> TaskRef:
    """The task of a sub-run with the id `run_id`."""
    assert run_id != parent.id, "a run is not its own sub-run"
    return TaskRef(id=run_id, name=subtask.name, version=subtask.version)


def _least(*limits: N | None) -> N | None:
    return min((limit for limit in limits if limit is not None), default=None)
