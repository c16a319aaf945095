"""Events to try a hook on: every point's own, filled in where the caller says nothing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from tenter.catalogue import (
    CATALOGUE,
    LOOP_ERROR,
    ActivityFailedEvent,
    ActivityRetriedEvent,
    ActivityRetryEvent,
    ApprovalDecision,
    ApprovalReason,
    ApprovalRequest,
    ApprovalResolvedEvent,
    Envelope,
    ErrorInfo,
    HelpDecidedEvent,
    HelpRequestedEvent,
    HelpRequestEvent,
    HumanInteractedEvent,
    HumanInteractEvent,
    InputEvent,
    InputReceivedEvent,
    IterationStartedEvent,
    IterationStartEvent,
    LoopEndedEvent,
    LoopEndEvent,
    LoopFacts,
    LoopStartedEvent,
    LoopStartEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    Op,
    OutputEvent,
    PersistenceWriteEvent,
    PersistenceWrittenEvent,
    PlanCreatedEvent,
    PlanEvent,
    RetryPolicy,
    RunEndEvent,
    RunErrorEvent,
    RunStartEvent,
    ShutdownEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    TaskCompletedEvent,
    TaskCreatedEvent,
    TaskCreateEvent,
    TaskRef,
    TaskStateChangedEvent,
    ToolCall,
    ToolCallEvent,
    ToolCallsEvent,
    ToolCallsExtractedEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
)
from tenter.kernel import Event, TenterError, freeze

T = TypeVar("T", bound=msgspec.Struct)

Fields = dict[str, Any]

TASK = TaskRef(id="task-1", name="task")

ENVELOPE = Envelope(run_id="run-1", task=TASK, correlation_id="run-1")

OP = Op(id="run-1/1.sample.0#1", path="1.sample.0")

ERROR = ErrorInfo(code="internal", message="something failed")

REQUEST = ModelRequest(alias="default", model="sample", messages=(Message(role="user", content="hello"),))

RESPONSE = ModelResponse(model="sample", text="hello")

RESULT = ToolResult(output="")

LOOP = LoopFacts(
    loop={"id": "loop-1", "is_primary": True, "workspace": "/workspace", "repo_root": "/workspace", "pid": 1},
    iteration={"current": 1, "max": 100},
    context=dict.fromkeys(("active_hat", "selected_hat", "selected_task", "termination_reason", "human_interact")),
)

LOOPS: Fields = {"envelope": None, "op": Op(id="loop-1/1.sample.0#1", path="1.sample.0", loop=LOOP)}
"""What every event of a loop holds, which is none of a run."""

PLAN: Fields = {**LOOPS, "topic": "plan.ready", "payload": "do it"}

END: Fields = {**LOOPS, "reason": "completed", "message": "done", "iterations": 1}

ASKED = ApprovalRequest(
    id="request-1",
    run_id="run-1",
    operation="tool.invoked",
    path="1.tool.invoked.0",
    call={"call": {"id": "call-1", "name": "shell", "arguments": {}}},
    digest="sha256:0",
    reasons=(ApprovalReason(hook="guard", reason="a person must look", code="approval_required"),),
    requested_at=0.0,
    task="task",
)

DECIDED = ApprovalDecision(request_id="request-1", run_id="run-1", decision="approve", by="somebody", decided_at=0.0)

SPAWN: Fields = {"parent": TASK, "task": TaskRef(id="run-2", name="part"), "input": ""}

RECORD: Fields = {"kind": "result", "key": "run-1", "record": {}}

DEFAULTS: Mapping[type[Event], Fields] = {
    RunStartEvent: {"task": TASK, "input": ""},
    RunEndEvent: {"task": TASK, "input": "", "status": "completed"},
    InputEvent: {"input": ""},
    InputReceivedEvent: {"input": ""},
    TaskCreateEvent: {"task": TASK},
    TaskCreatedEvent: {"task": TASK},
    TaskStateChangedEvent: {"before": "pending", "after": "running"},
    ModelRequestEvent: {"request": REQUEST},
    ModelResponseEvent: {"request": REQUEST, "response": RESPONSE},
    ToolCallsEvent: {"response": RESPONSE},
    ToolCallsExtractedEvent: {"response": RESPONSE, "calls": ()},
    ToolCallEvent: {},
    ToolResultEvent: {},
    OutputEvent: {"output": ""},
    TaskCompletedEvent: {"verdict": "complete", "output": ""},
    ActivityFailedEvent: {"error": ERROR, "step": 1},
    RunErrorEvent: {"error": ERROR, "step": 1},
    ActivityRetryEvent: {"operation": "tool.invoked", "attempt": 1, "policy": RetryPolicy()},
    ActivityRetriedEvent: {"operation": "tool.invoked", "attempt": 1, "policy": RetryPolicy(), "delay": 1.0},
    HelpRequestEvent: {"request": ASKED},
    HelpRequestedEvent: {"request": ASKED},
    ApprovalResolvedEvent: {"request": ASKED, "decision": DECIDED},
    HelpDecidedEvent: {"request": ASKED, "decision": DECIDED},
    SubtaskSpawnEvent: SPAWN,
    SubtaskSpawnedEvent: {**SPAWN, "result": SubtaskResult(run_id="run-2", task="part", status="completed")},
    PersistenceWriteEvent: RECORD,
    PersistenceWrittenEvent: RECORD,
    ShutdownEvent: {"reason": "closed", "envelope": None, "op": None},
    LoopStartEvent: {**LOOPS, "prompt": "", "topic": "task.start"},
    LoopStartedEvent: {**LOOPS, "prompt": "", "topic": "task.start"},
    IterationStartEvent: {**LOOPS, "number": 1},
    IterationStartedEvent: {**LOOPS, "number": 1, "topics": ("task.start",)},
    PlanEvent: PLAN,
    PlanCreatedEvent: {**PLAN, "plan": "do it"},
    HumanInteractEvent: {**LOOPS, "question": "go on?"},
    HumanInteractedEvent: {**LOOPS, "question": "go on?", "outcome": "answered", "answer": "yes"},
    LoopEndEvent: END,
    LoopEndedEvent: END,
}
"""What each event holds where the caller says nothing. A new event is one new line."""

UNSUCCESSFUL: Fields = {"reason": "failed", "message": "something failed"}
"""What the events of `loop.error` hold instead of those of `loop.complete`."""


def sample_event(point: str, **fields: Any) -> Event:
    """An event of `point` with `fields`. Raises TenterError for a field that it does not have or a value that misfits.

    Shorthands: `tool`, by its name, and `arguments` for a call; what a ToolResult has, such as `output`, for a tool's
    result; `text` for a request's only message, or for a response.
    """
    found = CATALOGUE.resolve(point, "the test")
    cls, own = found.event, UNSUCCESSFUL if found.operation is LOOP_ERROR else {}
    try:
        for shorthand in SHORTHANDS.get(cls, ()):
            shorthand(fields)
        if unknown := fields.keys() - set(cls.__struct_fields__):
            known = ", ".join(cls.__struct_fields__)
            raise TenterError(f"{cls.__name__} has no field {min(unknown)!r}; it has {known}")
        return msgspec.convert(freeze({"envelope": ENVELOPE, "op": OP, **DEFAULTS[cls], **own, **fields}), cls)
    except msgspec.ValidationError as error:
        raise TenterError(f"no {cls.__name__} can be made of that: {error}") from None


def _call(fields: Fields) -> None:
    named = fields.get("tool", "shell")
    tool = ToolInfo(name=named) if isinstance(named, str) else msgspec.convert(named, ToolInfo | None)
    own = ToolCall(id="call-1", name="unknown" if tool is None else tool.name)
    call = fields["call"] = _with(ToolCall, fields.get("call", own), _taken(fields, ("arguments",)))
    fields["tool"] = tool if "tool" in fields else ToolInfo(name=call.name)


def _result(fields: Fields) -> None:
    fields["result"] = _with(ToolResult, fields.get("result", RESULT), _taken(fields, ToolResult.__struct_fields__))


def _request_text(fields: Fields) -> None:
    if "text" in fields:
        messages = ({"role": "user", "content": fields.pop("text")},)
        fields["request"] = _with(ModelRequest, fields.get("request", REQUEST), {"messages": messages})


def _response_text(fields: Fields) -> None:
    fields["response"] = _with(ModelResponse, fields.get("response", RESPONSE), _taken(fields, ("text",)))


def _taken(fields: Fields, names: Iterable[str]) -> Fields:
    return {name: fields.pop(name) for name in names if name in fields}


def _with(cls: type[T], given: object, changes: Fields) -> T:
    """What was given, with `changes`, all of the types that its fields have."""
    value = msgspec.convert(given, cls)
    return msgspec.convert({**msgspec.structs.asdict(value), **changes}, cls) if changes else value


SHORTHANDS: Mapping[type[Event], tuple[Callable[[Fields], None], ...]] = {
    ToolCallEvent: (_call,),
    ToolResultEvent: (_call, _result),
    ModelRequestEvent: (_request_text,),
    ModelResponseEvent: (_response_text,),
    ToolCallsEvent: (_response_text,),
    ToolCallsExtractedEvent: (_response_text,),
}
