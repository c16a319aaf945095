"""What a run is to do, and how it stands: the frozen values that the agent loop takes and passes on."""

from typing import Literal, TypeAlias

import msgspec

from tenter.catalogue import Envelope, ErrorInfo, Limits, Message, Status, ToolInfo, ToolSpec, Usage
from tenter.kernel import Suspended


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run: who it is, what the task says, what it may use."""

    envelope: Envelope
    input: str
    sender: str | None = None
    instructions: str = ""
    model_alias: str = "default"
    model: str = ""
    tools: tuple[ToolInfo, ...] = ()
    limits: Limits = Limits()
    max_repairs: int = 2
    idempotency_key: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come: its conversation and what it used. A change is a new value."""

    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    cost_usd: float = 0.0
    cost_known: bool = True
    repairs: int = 0
    """Retries so far, of responses and of candidates for the output alike."""
    attempt: int = 0
    """Candidates for the output that were sent back."""

    def said(self, *messages: Message) -> "Progress":
        """The conversation with `messages` at its end."""
        return msgspec.structs.replace(self, messages=(*self.messages, *messages))

    def spent(self, usage: Usage, cost_usd: float | None) -> "Progress":
        """With the use of one more response; None for a cost that nobody told."""
        return msgspec.structs.replace(
            self,
            usage=self.usage + usage,
            cost_usd=self.cost_usd + (cost_usd or 0.0),
            cost_known=self.cost_known and cost_usd is not None,
        )


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run's terminal state."""

    status: Literal["completed", "blocked", "escalated", "failed", "cancelled"]
    progress: Progress
    output: object = None
    error: ErrorInfo | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits for a person: which operation, and what it asks."""

    operation: str
    path: str
    suspended: Suspended
    progress: Progress


Standing: TypeAlias = Ended | Waiting
"""What a loop comes to in this process."""


def status_of(standing: Standing) -> Status:
    """The run's status as `RunResult` and the trace name it."""
    return standing.status if isinstance(standing, Ended) else "awaiting_approval"


def reason_of(standing: Standing) -> str:
    """Why a run stands so, in one word; none for one that completed."""
    if isinstance(standing, Waiting):
        return standing.suspended.requirements[0].code
    return "" if standing.error is None else str(standing.error.details.get("code", standing.error.code))


def specified(tool: ToolInfo) -> ToolSpec:
    """The tool as a model is shown it."""
    return ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)


def tightened(own: Limits, asked: Limits) -> Limits:
    """The limits of a run after its start: a hook may tighten them, and a looser value changes nothing."""
    deadlines = [limit for limit in (own.deadline, asked.deadline) if limit is not None]
    max_steps = min(own.max_steps, asked.max_steps)
    return msgspec.structs.replace(own, deadline=min(deadlines, default=None), max_steps=max_steps)
