"""The neutral contracts between loop, models and tools (seed 003, "Event payloads"): no provider's own types."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

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


class ToolCall(FrozenStruct, frozen=True, kw_only=True):
    """What a model asks for. `arguments` is an object, or the text that the model gave where it was none."""

    id: str
    name: str
    arguments: Mapping[str, Any] = EMPTY


class ToolInfo(FrozenStruct, frozen=True, kw_only=True):
    """A tool as hooks see it. `parameters` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, object] = EMPTY
    idempotent: bool = False
    timeout_seconds: float | None = None


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


class Limits(FrozenStruct, frozen=True, kw_only=True):
    """What a run may use. `deadline` is in seconds since the epoch, `max_steps` counts model calls."""

    deadline: float | None = None
    max_steps: int = 50


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
