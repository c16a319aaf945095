"""What the local engine writes of an operation (D§10, D§11): from events and endings to journal entries. No I/O.

Messages, responses and tool lists are stored once, by digest; see `model_requests` for those of a model. The envelope
stands in the run's first entry, and in no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, assert_never, cast

import msgspec

from tenter.agent import Waiting
from tenter.catalogue import ModelRequest, ModelRequestEvent, ModelResponse, Op, ToolInfo
from tenter.harness.model_requests import ModelRequests
from tenter.harness.recording import RecordedPass
from tenter.journal import Entry, JournalError, OperationKind, microseconds
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Phase, Retry, Suspended, Unknown
from tenter.wire import CanonicalError, Document, digest

P = ParamSpec("P")

Ending = Done[Event] | Blocked | Suspended | Escalated | Retry | Failed | Unknown | Waiting
"""How a pass ends; `Waiting` is that of a sub-run whose people are asked."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of an operation, or one end of a span."""

    operation: Operation[Any, Any]
    op: Op
    phase: Phase | None = None
    """Which end of a span: both have the same `op`, by which a hook pairs them."""

    @property
    def name(self) -> str:
        return f"{self.op.path}#{self.op.pass_}"


def _recordable(
    make: Callable[Concatenate["Recorder", P], Entry],
) -> Callable[Concatenate["Recorder", P], Entry]:
    """`make`, whose failure to find a canonical form is the journal's."""

    @wraps(make)
    def made(self: "Recorder", /, *args: P.args, **kwargs: P.kwargs) -> Entry:
        try:
            return make(self, *args, **kwargs)
        except CanonicalError as error:
            raise JournalError("content", f"an entry {make.__name__!r} cannot be journaled, {error}") from error

    return made


class Recorder:
    """Makes the entries of one run, in the order in which its operations happen.

    Every method raises JournalError for content that a journal cannot hold. Times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self._requests = ModelRequests()
        self._response: tuple[ModelResponse, Document] | None = None

    @_recordable
    def started(self, turn: Pass, event: Event, now: float) -> Entry:
        """A pass begins: its place and the digest of its input (D§11), which replay holds against it."""
        content = {"operation": turn.operation.name, "op": turn.op.id, "input": self.input_digest(event)}
        return _entry("started", turn, now, content)

    def input_digest(self, event: Event) -> str:
        """Names the input of a pass (D§11), wherever it stands. Raises CanonicalError for one without canonical form.

        A request to a model continues the conversation with this, as with `started`.
        """
        return digest(self._input(event))

    @_recordable
    def acting(self, turn: Pass, event: Event, now: float) -> Entry:
        """The pre chain is through: the event that the work is given."""
        return _entry("acting", turn, now, {"event": self._content(turn, event)})

    @_recordable
    def acted(self, turn: Pass, after: Event, now: float) -> Entry:
        """The work is done: its result, before the post chain."""
        return _entry("acted", turn, now, {"result": self._results(turn, after)})

    @_recordable
    def finished(
        self, turn: Pass, ending: Ending, now: float, *, known: Event | None, trace: int | None = None
    ) -> Entry:
        """The pass is over. The event that it ends with is written where it is not the one that is `known`.

        `trace` is how many entries the trace of the run has.
        """
        traced = {} if trace is None else {"trace": trace}
        return _entry("finished", turn, now, self._ending(turn, ending, known) | traced)

    def follow(self, turn: Pass, event: Event, recorded: RecordedPass) -> RecordedPass:
        """Takes a pass that is on record as if it had been made here, so that what comes after it continues it.

        After `input_digest` of the same event. Gives the pass with a request that stands on its own: where it was
        recorded as a change of what an earlier pass sent, as a change of the loop's own conversation.
        Raises JournalError where the record of the request is not to be understood.
        """
        if isinstance(event, ModelRequestEvent):
            return self._requests.follow(turn.name, recorded)
        return recorded

    def _ending(self, turn: Pass, ending: Ending, known: Event | None) -> dict[str, object]:
        match ending:
            case Done():
                return {"outcome": "done", **self._output(turn, ending.event, known)}
            case Suspended():
                asked = [msgspec.to_builtins(requirement) for requirement in ending.requirements]
                return {"outcome": "suspended", "requirements": asked, **self._call(turn, ending.event, ending.digest)}
            case Unknown():
                call = {} if ending.event is None else self._call(turn, ending.event, ending.digest)
                return {"outcome": "unknown", "reason": ending.reason, **call}
            case Waiting():
                return {"outcome": "waiting", "requests": msgspec.to_builtins(ending.requests)}
            case Retry():
                return {"outcome": "retry", "reason": ending.reason, "feedback": ending.feedback}
            case Blocked() | Escalated() | Failed():
                return {"outcome": type(ending).__name__.lower(), **msgspec.to_builtins(ending)}
            case _:
                assert_never(ending)

    def _output(self, turn: Pass, event: Event, known: Event | None) -> dict[str, object]:
        if event is known:
            return {}
        if turn.phase == "pre":
            return {"event": self._content(turn, event)}
        results = self._results(turn, event)
        return {"result": results} if results else {}

    def _call(self, turn: Pass, event: Event, digest: str) -> dict[str, object]:
        return {"event": self._content(turn, event), "digest": digest}

    def _input(self, event: Event) -> dict[str, object]:
        return {
            name: self._requests.asked(value) if isinstance(value, ModelRequest) else self._value(value)
            for name, value in event.own_fields().items()
        }

    def _content(self, turn: Pass, event: Event) -> dict[str, object]:
        return {
            name: self._requests.sent(value, turn.name) if isinstance(value, ModelRequest) else self._value(value)
            for name, value in event.own_fields().items()
        }

    def _results(self, turn: Pass, after: Event) -> dict[str, object]:
        return {name: self._value(getattr(after, name)) for name in turn.operation.results}

    def _value(self, value: object) -> object:
        match value:
            case ModelResponse():
                if self._response is None or self._response[0] is not value:
                    self._response = (value, Document(value))
                return self._response[1]
            case ToolInfo():
                return value.name
            case _:
                return value


def _entry(kind: OperationKind, turn: Pass, now: float, content: Mapping[str, object]) -> Entry:
    place: dict[str, object] = {"path": turn.op.path, "pass": turn.op.pass_}
    phase = {} if turn.phase is None else {"phase": turn.phase}
    return Entry(kind=kind, time=microseconds(now), content=cast("dict[str, object]", place | phase | dict(content)))
