"""The neutral contracts between loop, models and tools (seed 003, "Event payloads"): no provider's own types."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta

from tenter.catalogue.envelope import EMPTY
from tenter.kernel import FrozenStruct, OnTimeout

Role = Literal["system", "user", "assistant", "tool"]

Status = Literal["pending", "running", "awaiting_approval", "completed", "blocked", "escalated", "failed", "cancelled"]
"""Where a run stands (seed 003, "Run statuses")."""

ErrorCode = Literal[
    "validation",
    "policy",
    "budget",
    "timeout",
    "provider_transient",
    "provider_permanent",
    "tool",
    "approval",
    "cancelled",
    "internal",
]
"""The taxonomy that failures are classified into."""


Risk = Literal["low", "medium", "high"]
"""What harm a tool can do; a call of one with high risk needs a person (D§6)."""

Sandbox = Literal["none", "process"]
"""Where a tool is executed: in this process, or in one of its own."""

DecisionKind = Literal["approve", "reject", "edit", "expire"]
"""What a request came to. Nobody answers `expire`: it stands for an answer that did not come in time."""

EVERY_FIELD: Final = "*"
"""Among the fields that a person may edit: all of them; of a tool call, every argument."""


class ToolCall(FrozenStruct, frozen=True, kw_only=True):
    """What a model asks for. `arguments` is an object, or the text that the model gave where it was none."""

    id: str
    name: str
    arguments: Mapping[str, Any] = EMPTY


class ToolInfo(FrozenStruct, frozen=True, kw_only=True):
    """A tool as hooks see it. `parameters` is a JSON Schema; `principals` are names with `*`, none for anyone."""

    name: str
    description: str = ""
    parameters: Mapping[str, object] = EMPTY
    idempotent: bool = False
    timeout_seconds: float | None = None
    risk: Risk = "medium"
    sandbox: Sandbox = "none"
    principals: tuple[str, ...] = ()


class ToolSpec(FrozenStruct, frozen=True, kw_only=True):
    """A tool as a model is shown it."""

    name: str
    description: str = ""
    parameters: Mapping[str, object] = EMPTY


class ToolResult(FrozenStruct, frozen=True, kw_only=True):
    """What came of a tool call. `untrusted` marks text from outside, `truncated` text that was cut."""

    output: str
    is_error: bool = False
    untrusted: bool = False
    truncated: bool = False


class Message(FrozenStruct, frozen=True, kw_only=True):
    """One turn of a conversation. `extensions` is a provider's own, kept opaque and handed back unchanged."""

    __opaque__: ClassVar[tuple[str, ...]] = ("extensions",)

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    """Of a tool's message: whether the call failed or was refused."""
    extensions: Mapping[str, object] = EMPTY


class Usage(FrozenStruct, frozen=True, kw_only=True):
    """Tokens."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens, output_tokens=self.output_tokens + other.output_tokens
        )


class ModelRequest(FrozenStruct, frozen=True, kw_only=True):
    alias: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, object] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = False
    metadata: Mapping[str, object] = EMPTY


class ModelResponse(FrozenStruct, frozen=True, kw_only=True):
    """A model's answer. `cost_usd` is None where the price is not known."""

    __opaque__: ClassVar[tuple[str, ...]] = ("extensions",)

    model: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    output: object = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    finish_reason: str = "stop"
    extensions: Mapping[str, object] = EMPTY


class ErrorInfo(FrozenStruct, frozen=True, kw_only=True):
    """What went wrong: a code of the taxonomy, a text for people, and facts such as `code`, `hook`, `queue`."""

    code: ErrorCode
    message: str
    details: Mapping[str, object] = EMPTY


Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]
"""How long is waited: a year at most, so that it is a number, and no mistake for ever."""


class RetryPolicy(FrozenStruct, frozen=True, kw_only=True):
    """How often and how soon an operation that failed is tried again.

    The first wait is `first_seconds`, each further one `factor` times as long, up to `cap_seconds`. `attempts` counts
    the first one, too. `jitter` is the number that was drawn: 1 leaves the wait whole, 0 halves it.
    """

    first_seconds: Seconds = 1.0
    factor: Annotated[float, Meta(ge=0, le=1000)] = 2.0
    cap_seconds: Seconds = 60.0
    attempts: Annotated[int, Meta(ge=1, le=1_000_000)] = 5
    jitter: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Budgets(FrozenStruct, frozen=True, kw_only=True):
    """What a run and its sub-runs may use together; None: as much as they like.

    `tokens` are those of requests and responses. `wall_seconds` count from the run's start, without the time in which
    it waits for a person.
    """

    tokens: int | None = None
    cost_usd: float | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    wall_seconds: float | None = None


class Limits(FrozenStruct, frozen=True, kw_only=True):
    """What a run may use. `deadline` is in seconds since the epoch, `max_steps` counts model calls."""

    deadline: float | None = None
    max_steps: int = 50
    budgets: Budgets = Budgets()


class ApprovalReason(FrozenStruct, frozen=True, kw_only=True):
    """Why a person is asked: which hook wants it, and what it said."""

    hook: str
    reason: str
    code: str
    editable: tuple[str, ...] = ()
    expires_at: float | None = None
    on_timeout: OnTimeout = "block"


class ApprovalRequest(FrozenStruct, frozen=True, kw_only=True):
    """What waits for a person: the operation, the exact call, every reason, and the digest that binds a decision."""

    id: str
    run_id: str
    operation: str
    path: str
    call: Mapping[str, object]
    digest: str
    reasons: tuple[ApprovalReason, ...]
    requested_at: float
    task: str = ""
    root_run_id: str = ""
    """The outermost run, which is resumed; empty where that is the run itself."""

    @property
    def editable(self) -> tuple[str, ...]:
        """The fields that every reason lets be edited; `*` stands for every argument of a tool call."""
        named = [reason.editable for reason in self.reasons]
        fields = dict.fromkeys(field for fields in named for field in fields)
        kept = tuple(field for field in fields if all(field in fields or EVERY_FIELD in fields for fields in named))
        return (EVERY_FIELD,) if EVERY_FIELD in kept else kept

    @property
    def expires_at(self) -> float | None:
        """When the first of its reasons expires, in seconds since the epoch; None: never."""
        return min((at for reason in self.reasons if (at := reason.expires_at) is not None), default=None)

    @property
    def on_timeout(self) -> OnTimeout:
        """What it comes to when it expires, as the reason says that expires first."""
        timed = [reason for reason in self.reasons if reason.expires_at is not None]
        return min(timed, key=lambda reason: reason.expires_at or 0.0).on_timeout if timed else "block"


class ApprovalDecision(FrozenStruct, frozen=True, kw_only=True):
    """What a person decided: of which request, who, why, and the fields in place of the call's own.

    `decided_at` is in seconds since the epoch.
    """

    request_id: str
    run_id: str
    decision: DecisionKind
    by: str
    decided_at: float
    reason: str = ""
    edits: Mapping[str, object] = EMPTY


class SubtaskResult(FrozenStruct, frozen=True, kw_only=True):
    """What came of a sub-run. `cost_usd` is None where it is not known."""

    run_id: str
    task: str
    status: Status
    output: object = None
    error: ErrorInfo | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    model_calls: int = 0
    tool_calls: int = 0
