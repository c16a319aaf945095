"""What an engine of the tests does where nothing else is said: the work of operations, and the answers of people."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from tenter.agent import delay
from tenter.catalogue import ApprovalDecision, ApprovalRequest, DecisionKind, ModelResponse, ToolResult
from tenter.kernel import Blocked, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

Stopped = Blocked | Suspended | Escalated | Retry | Failed | Unknown
Results = Mapping[str, Any]
Answer = Callable[[ApprovalRequest], ApprovalDecision | None]
"""What people say to a request; None: nothing yet."""

WORK: Mapping[str, Callable[[Any], Results]] = {
    "task.created": lambda event: {"task": event.task},
    "request.received": lambda event: {"input": event.input},
    "llm.invoked": lambda event: {"response": ModelResponse(model="m", text="done", cost_usd=0.0)},
    "tool_calls.extracted": lambda event: {"calls": event.response.tool_calls},
    "tool.invoked": lambda event: {"result": ToolResult(output=f"{event.call.name} ran")},
    "task.complete": lambda event: {"verdict": "complete", "output": event.output},
    "help.requested": lambda event: {"request": event.request},
    "help.decided": lambda event: {"decision": event.decision},
    "activity.failed": lambda event: {"error": event.error},
    "subtask.spawned": lambda event: {},
    "activity.retried": lambda event: {"delay": delay(event.policy, event.attempt)},
}
"""What each operation does by itself."""


def done(operation: Operation[B, A], event: B, results: Results) -> A:
    """The after-event of an operation's own work, with other `results` and fields where they are given."""
    if not operation.results:
        return cast(A, event)
    own = WORK[operation.name](event)
    carried = {name: getattr(event, name) for name in operation.after.__struct_fields__ if hasattr(event, name)}
    return operation.after(**{**carried, **own, **results})


def begins(ending: object) -> bool:
    """Whether the work began of an operation that ended so."""
    return not isinstance(ending, Blocked | Suspended | Escalated)


def digest_of(event: Event) -> str:
    """Names the call, whoever approved it."""
    own = {name: value for name, value in event.own_fields().items() if name != "approval"}
    return hashlib.sha256(msgspec.json.encode(own, order="sorted")).hexdigest()[:12]


def says(decision: DecisionKind, *, reason: str = "", edits: Mapping[str, object] | None = None) -> Answer:
    """A person who answers every request so."""

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        by = "tenter" if decision == "expire" else "ann"
        return ApprovalDecision(
            request_id=request.id,
            run_id=request.run_id,
            decision=decision,
            by=by,
            reason=reason,
            edits=edits or {},
            decided_at=request.requested_at,
        )

    return answer


approve, reject, expire = says("approve"), says("reject", reason="too risky"), says("expire")


def nobody(request: ApprovalRequest) -> None:
    """Has not answered yet."""


def editing(**edits: object) -> Answer:
    return says("edit", edits=edits)


def each(**answers: Answer) -> Answer:
    """One answer for each tool, by the call's name."""

    def answer(request: ApprovalRequest) -> ApprovalDecision | None:
        call = cast("Mapping[str, Mapping[str, str]]", request.call)["call"]
        return answers[call["name"]](request)

    return answer
