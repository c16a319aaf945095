"""Events to try a hook on: every point's own, filled in where the caller says nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenter.catalogue import (
    CATALOGUE,
    ActivityFailedEvent,
    Envelope,
    ErrorInfo,
    InputEvent,
    InputReceivedEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    Op,
    OutputEvent,
    PersistenceWriteEvent,
    PersistenceWrittenEvent,
    RunEndEvent,
    RunErrorEvent,
    RunStartEvent,
    ShutdownEvent,
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

Fields = dict[str, Any]

TASK = TaskRef(id="task-1", name="task")

ENVELOPE = Envelope(run_id="run-1", task=TASK, correlation_id="run-1")

OP = Op(id="run-1/1.sample.0#1", path="1.sample.0")

ERROR = ErrorInfo(code="internal", message="something failed")

REQUEST = ModelRequest(alias="default", model="sample", messages=(Message(role="user", content="hello"),))

RESPONSE = ModelResponse(model="sample", text="hello")

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
    ToolCallEvent: {"tool": "shell"},
    ToolResultEvent: {"tool": "shell", "output": ""},
    OutputEvent: {"output": ""},
    TaskCompletedEvent: {"verdict": "complete", "output": ""},
    ActivityFailedEvent: {"error": ERROR, "step": 1},
    RunErrorEvent: {"error": ERROR, "step": 1},
    PersistenceWriteEvent: RECORD,
    PersistenceWrittenEvent: RECORD,
    ShutdownEvent: {"reason": "closed", "envelope": None, "op": None},
}
"""What each event holds where the caller says nothing. A new event is one new line."""


def sample_event(point: str, **fields: Any) -> Event:
    """An event of `point` with `fields`. Raises TenterError for a field that it does not have.

    Shorthands: `tool` (a name) and `arguments` for the call, `output` and `is_error` for a tool's result, `text` for the
    last message of a request or for a response.
    """
    cls = CATALOGUE.resolve(point, "the test").event
    values: Fields = {"envelope": ENVELOPE, "op": OP, **DEFAULTS[cls], **fields}
    for shorten in SHORTHANDS.get(cls, ()):
        shorten(values)
    if unknown := values.keys() - set(cls.__struct_fields__):
        known = ", ".join(name for name in cls.__struct_fields__)
        raise TenterError(f"{cls.__name__} has no field {sorted(unknown)[0]!r}; it has {known}")
    return msgspec.convert(freeze(values), cls, from_attributes=True, strict=False)


def _call(values: Fields) -> None:
    arguments = values.pop("arguments", {})
    tool = values.pop("tool", None)
    if isinstance(tool, str):
        values.setdefault("call", ToolCall(id="call-1", name=tool, arguments=arguments))
        values["tool"] = ToolInfo(name=tool)
    elif tool is not None:
        values["tool"] = tool


def _result(values: Fields) -> None:
    output, is_error = values.pop("output", ""), values.pop("is_error", False)
    values.setdefault("result", ToolResult(output=output, is_error=is_error))


def _request_text(values: Fields) -> None:
    if (text := values.pop("text", None)) is not None:
        messages = (Message(role="user", content=text),)
        values["request"] = msgspec.structs.replace(values["request"], messages=messages)


def _response_text(values: Fields) -> None:
    if (text := values.pop("text", None)) is not None:
        values["response"] = msgspec.structs.replace(values["response"], text=text)


SHORTHANDS: Mapping[type[Event], tuple[Callable[[Fields], None], ...]] = {
    ToolCallEvent: (_call,),
    ToolResultEvent: (_call, _result),
    ModelRequestEvent: (_request_text,),
    ModelResponseEvent: (_response_text,),
    ToolCallsEvent: (_response_text,),
}
