"""The events of the agent operations (D§4.3; the names of seed 003 for the thirteen portable points)."""

from collections.abc import Mapping
from typing import Final, Literal, Self

import msgspec

from tenter.catalogue.contracts import (
    ApprovalDecision,
    ApprovalRequest,
    ErrorInfo,
    Limits,
    ModelRequest,
    ModelResponse,
    RetryPolicy,
    Seconds,
    Status,
    SubtaskResult,
    ToolCall,
    ToolInfo,
    ToolResult,
    Usage,
)
from tenter.catalogue.envelope import EMPTY, Approval, Envelope, Op, TaskRef
from tenter.kernel import AfterEvent, BeforeEvent, Event

Verdict = Literal["wait", "complete", "fail"]

ARGUMENTS: Final = "call.arguments."
"""How a hook names an argument of a tool call that a person may edit: by this, and its own name."""

DUPLICATE: Final = "duplicate"
"""The check before a tool acts that asks for a person where the call may have been made; the loop asks in its name."""


class AgentEvent(Event, frozen=True, kw_only=True):
    """An event of a run: it says whose run and which call it belongs to."""

    envelope: Envelope  # pyright: ignore[reportGeneralTypeIssues]  # no default: every event of a run has one
    op: Op  # pyright: ignore[reportGeneralTypeIssues]  # as above


class AgentBefore(AgentEvent, BeforeEvent, frozen=True, kw_only=True):
    """The input of an operation of a run."""


class AgentAfter(AgentEvent, AfterEvent, frozen=True, kw_only=True):
    """The input and the output of an operation of a run."""


class RunStartEvent(AgentBefore, frozen=True, kw_only=True):
    task: TaskRef
    input: str
    limits: Limits = Limits()
    idempotency_key: str | None = None


class RunEndEvent(AgentAfter, frozen=True, kw_only=True):
    task: TaskRef
    input: str
    status: Status
    limits: Limits = Limits()
    idempotency_key: str | None = None
    output: object = None
    error: ErrorInfo | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None


class InputEvent(AgentBefore, frozen=True, kw_only=True):
    input: str
    sender: str | None = None


class InputReceivedEvent(AgentAfter, frozen=True, kw_only=True):
    input: str
    sender: str | None = None


class TaskCreateEvent(AgentBefore, frozen=True, kw_only=True):
    task: TaskRef


class TaskCreatedEvent(AgentAfter, frozen=True, kw_only=True):
    task: TaskRef


class TaskStateChangedEvent(AgentEvent, frozen=True, kw_only=True):
    before: Status
    after: Status
    reason: str = ""


class ModelRequestEvent(AgentBefore, frozen=True, kw_only=True):
    request: ModelRequest


class ModelResponseEvent(AgentAfter, frozen=True, kw_only=True):
    request: ModelRequest
    response: ModelResponse


class ToolCallsEvent(AgentBefore, frozen=True, kw_only=True):
    response: ModelResponse


class ToolCallsExtractedEvent(AgentAfter, frozen=True, kw_only=True):
    response: ModelResponse
    calls: tuple[ToolCall, ...]


class ToolCallEvent(AgentBefore, frozen=True, kw_only=True):
    """`tool` is None for a tool that the task was not offered; `approval` is set when a person approved this call."""

    call: ToolCall
    tool: ToolInfo | None = None
    approval: Approval | None = None

    def editable_fields(self) -> frozenset[str]:
        """The fields, and the arguments of the call by their own names."""
        own = self.call.arguments
        named = own if isinstance(own, Mapping) else EMPTY  # pyright: ignore[reportUnnecessaryIsInstance]  # see ToolCall
        return super().editable_fields() | frozenset(named)

    def with_arguments(self, arguments: Mapping[str, object] = EMPTY, /, **changes: object) -> Self:
        """The same call with `arguments` and `changes` laid over its own, or in their place where these are text."""
        own = self.call.arguments
        kept = own if isinstance(own, Mapping) else EMPTY  # pyright: ignore[reportUnnecessaryIsInstance]  # see ToolCall
        return self.replace(call=msgspec.structs.replace(self.call, arguments={**kept, **arguments, **changes}))


class ToolResultEvent(AgentAfter, frozen=True, kw_only=True):
    call: ToolCall
    result: ToolResult
    tool: ToolInfo | None = None
    approval: Approval | None = None


class OutputEvent(AgentBefore, frozen=True, kw_only=True):
    """`attempt` is 0, then 1 for the first repair."""

    output: object
    attempt: int = 0
    schema_name: str | None = None
    approval: Approval | None = None


class TaskCompletedEvent(AgentAfter, frozen=True, kw_only=True):
    verdict: Verdict
    output: object
    reason: str = ""
    attempt: int = 0
    schema_name: str | None = None
    approval: Approval | None = None


class ActivityFailedEvent(AgentBefore, frozen=True, kw_only=True):
    """`policy` is how it will be tried again where its error allows that; None: it will not."""

    error: ErrorInfo
    step: int
    operation: str | None = None
    attempt: int | None = None
    policy: RetryPolicy | None = None


class RunErrorEvent(AgentAfter, frozen=True, kw_only=True):
    """`error` is the failure as classified."""

    error: ErrorInfo
    step: int
    operation: str | None = None
    attempt: int | None = None
    policy: RetryPolicy | None = None


class ActivityRetryEvent(AgentBefore, frozen=True, kw_only=True):
    """`attempt` is the one that failed, `policy` how the next ones are made."""

    operation: str
    attempt: int
    policy: RetryPolicy


class ActivityRetriedEvent(AgentAfter, frozen=True, kw_only=True):
    """`delay` is how long is waited before the next attempt, in seconds."""

    operation: str
    attempt: int
    policy: RetryPolicy
    delay: Seconds


class HelpRequestEvent(AgentBefore, frozen=True, kw_only=True):
    request: ApprovalRequest


class HelpRequestedEvent(AgentAfter, frozen=True, kw_only=True):
    request: ApprovalRequest


class ApprovalResolvedEvent(AgentBefore, frozen=True, kw_only=True):
    request: ApprovalRequest
    decision: ApprovalDecision


class HelpDecidedEvent(AgentAfter, frozen=True, kw_only=True):
    request: ApprovalRequest
    decision: ApprovalDecision


class SubtaskSpawnEvent(AgentBefore, frozen=True, kw_only=True):
    """`parent` is the task that spawns, `task` the one that is spawned, `input` what it is given."""

    parent: TaskRef
    task: TaskRef
    input: str


class SubtaskSpawnedEvent(AgentAfter, frozen=True, kw_only=True):
    parent: TaskRef
    task: TaskRef
    input: str
    result: SubtaskResult


class PersistenceWriteEvent(AgentBefore, frozen=True, kw_only=True):
    kind: str
    key: str
    record: Mapping[str, object]


class PersistenceWrittenEvent(AgentAfter, frozen=True, kw_only=True):
    kind: str
    key: str
    record: Mapping[str, object]


class ShutdownEvent(Event, frozen=True, kw_only=True):
    """No run's: the process's own end, so envelope and op are None."""

    reason: str
