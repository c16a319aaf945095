"""What the local engine writes of an operation (D§10, D§11): from events and endings to journal entries. No I/O.

Messages, responses and tool lists are stored once: a request is the reference of the conversation that it continues and
the messages that it adds. The envelope stands in the run's first entry, and in no other.
"""

from typing import assert_never, cast

import msgspec

from tenter.catalogue import ModelRequest, ModelResponse, Op, ToolInfo
from tenter.journal import Conversation, Entry, delta, microseconds
from tenter.journal.entry import OperationKind
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown
from tenter.wire import Document, digest

Ending = Done[Event] | Blocked | Suspended | Escalated | Retry | Failed | Unknown


class Recorder:
    """Makes the entries of one run, in the order in which its operations happen.

    It remembers the conversation that was recorded last, so that a step costs what it adds to it.
    """

    def __init__(self) -> None:
        self._conversation = Conversation()
        self._specs: tuple[object, Document] | None = None

    def started(self, operation: Operation[Event, Event], op: Op, event: Event, now: float) -> Entry:
        """A pass of an operation begins: its place and the digest of its input (D§11), which replay holds against it."""
        content = self._content(event)
        return _entry("started", op, now, {"operation": operation.name, "op": op.id, "input": digest(_named(content))})

    def acting(self, op: Op, event: Event, now: float) -> Entry:
        """The pre chain is through: the event that the work is given."""
        return _entry("acting", op, now, {"event": self._content(event)})

    def acted(self, operation: Operation[Event, Event], op: Op, after: Event, now: float) -> Entry:
        """The work is done: its result, before the post chain."""
        return _entry("acted", op, now, {"result": self._results(operation, after)})

    def finished(
        self, operation: Operation[Event, Event], op: Op, ending: Ending, now: float, *, acted: Event | None
    ) -> Entry:
        """The pass is over. The result is written where the post chain changed what `acted` has."""
        return _entry("finished", op, now, self._ending(operation, ending, acted))

    def _ending(self, operation: Operation[Event, Event], ending: Ending, acted: Event | None) -> dict[str, object]:
        match ending:
            case Done():
                if ending.event is acted or not operation.results:
                    return {"outcome": "done"}
                return {"outcome": "done", "result": self._results(operation, ending.event)}
            case Suspended():
                call = self._content(ending.event)
                asked = [msgspec.to_builtins(requirement) for requirement in ending.requirements]
                return {"outcome": "suspended", "event": call, "digest": ending.digest, "requirements": asked}
            case Retry():
                return {"outcome": "retry", "reason": ending.reason, "feedback": ending.feedback}
            case Blocked() | Escalated() | Failed() | Unknown():
                return {"outcome": type(ending).__name__.lower(), **msgspec.to_builtins(ending)}
            case _:
                assert_never(ending)

    def _results(self, operation: Operation[Event, Event], after: Event) -> dict[str, object]:
        return {name: self._value(getattr(after, name)) for name in operation.results}

    def _content(self, event: Event) -> dict[str, object]:
        return {name: self._value(value) for name, value in event.payload().items()}

    def _value(self, value: object) -> object:
        match value:
            case ModelRequest():
                return self._request(value)
            case ModelResponse():
                return Document(value)
            case ToolInfo():
                return value.name
            case _:
                return value

    def _request(self, request: ModelRequest) -> dict[str, object]:
        continuation, self._conversation = delta(self._conversation, request.messages)
        if self._specs is None or self._specs[0] is not request.tools:
            self._specs = (request.tools, Document(request.tools))
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        return {**fields, "tools": self._specs[1], "messages": continuation.content()}


def _named(content: dict[str, object]) -> dict[str, object]:
    """The content as its digest sees it: a conversation by its own digest alone, however it was come to."""
    if not isinstance(found := content.get("request"), dict):
        return content
    request = cast("dict[str, object]", found)
    messages = cast("dict[str, object]", request["messages"])
    return {**content, "request": {**request, "messages": messages["head"]}}


def _entry(kind: OperationKind, op: Op, now: float, content: dict[str, object]) -> Entry:
    return Entry(kind=kind, time=microseconds(now), content={"path": op.path, "pass": op.pass_, **content})
