"""From a pass that is on record to what the agent loop was given then: the inverse of `record`. Pure.

What a post chain changed of the fields that an event carries along, beside the operation's results, is on no record:
nobody reads it. A mapping comes back with its keys in the journal's order, a set as a tuple.
"""

import functools
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

import msgspec

from tenter.agent import Waiting
from tenter.catalogue import ApprovalRequest, Message, ModelRequest, ToolInfo
from tenter.harness.record import Ending, Pass
from tenter.harness.recording import RecordedPass
from tenter.harness.thawed import thawed, types_of
from tenter.journal import JournalError
from tenter.kernel import (
    Blocked,
    Done,
    Escalated,
    Event,
    Failed,
    FrozenDict,
    Operation,
    Requirement,
    Retry,
    Suspended,
    Unknown,
)

P = ParamSpec("P")
R = TypeVar("R")

Tools = Mapping[str, ToolInfo]
NONE: Final[Tools] = FrozenDict()

_REQUEST: Final = types_of(ModelRequest)
_TOOL: Final[Any] = ToolInfo | None

_encoded = msgspec.json.Encoder(order="sorted").encode


def _recallable(make: Callable[P, R]) -> Callable[P, R]:
    """`make`, whose failure to understand a record is the journal's."""

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return make(*args, **kwargs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"a recorded pass is not to be understood ({type(error).__name__}: {error})"
            raise JournalError("damaged", reason) from error

    return made


@_recallable
def ending_of(turn: Pass, event: Event, recorded: RecordedPass, *, tools: Tools = NONE) -> Ending:
    """How a finished pass ended, as the loop was told. `event` is its input; `tools` are those that events may name.

    A request to a model must have been followed before (`Recorder.follow`). Raises JournalError.
    """
    finished = cast("Mapping[str, Any]", recorded.finished)
    match finished["outcome"]:
        case "done":
            return Done(_output(turn, event, recorded, tools))
        case "suspended":
            return Suspended(
                requirements=tuple(msgspec.convert(finished["requirements"], list[Requirement])),
                event=_rebuilt(event, finished["event"], tools),
                digest=finished["digest"],
            )
        case "unknown":
            call = finished.get("event")
            rebuilt = None if call is None else _rebuilt(event, call, tools)
            return Unknown(reason=finished["reason"], event=rebuilt, digest=finished.get("digest", ""))
        case "waiting":
            return Waiting(requests=cast("Any", thawed(finished["requests"], tuple[ApprovalRequest, ...])))
        case "retry":
            return Retry(finished["reason"], finished["feedback"])
        case outcome:
            return msgspec.convert(finished, _STOPS[outcome])


@_recallable
def acting_event(event: Event, recorded: RecordedPass, *, tools: Tools = NONE) -> Event:
    """The event as the work was given it; `event` itself where the pre chain changed nothing or the work did not begin.

    Raises JournalError.
    """
    return _given(event, recorded, tools)


@_recallable
def acted_event(turn: Pass, event: Event, recorded: RecordedPass, *, tools: Tools = NONE) -> Event:
    """The result of the work before its post chain. Raises JournalError."""
    acted = cast("Mapping[str, Any]", recorded.acted)
    return _after(turn.operation, _given(event, recorded, tools), acted["result"])


_STOPS: Final[Mapping[str, type[Blocked | Escalated | Failed]]] = {
    "blocked": Blocked,
    "escalated": Escalated,
    "failed": Failed,
}


def _output(turn: Pass, event: Event, recorded: RecordedPass, tools: Tools) -> Event:
    finished = cast("Mapping[str, Any]", recorded.finished)
    if (content := finished.get("event")) is not None:
        return _rebuilt(event, content, tools)
    results = finished.get("result") or (recorded.acted and recorded.acted["result"])
    if not results:
        return event
    return _after(turn.operation, _given(event, recorded, tools), results)


def _given(event: Event, recorded: RecordedPass, tools: Tools) -> Event:
    return event if recorded.acting is None else _rebuilt(event, recorded.acting["event"], tools)


def _after(operation: Operation[Any, Any], before: Event, results: Mapping[str, Any]) -> Event:
    after = operation.after
    carried, types = _carried(type(before), after)
    values = {name: getattr(before, name) for name in carried if name not in results}
    return after(**values, **{name: thawed(raw, types[name]) for name, raw in results.items()})


@functools.lru_cache(256)
def _carried(before: type[Event], after: type[Event]) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """The fields that an after-event takes over, and the types of all of its fields."""
    names = after.__struct_fields__
    return tuple(name for name in before.__struct_fields__ if name in names), types_of(after)


def _rebuilt(event: Event, content: Mapping[str, Any], tools: Tools) -> Event:
    """`event` with what the record has otherwise."""
    _, types = _carried(type(event), type(event))
    changed = {
        name: value
        for name, raw in content.items()
        if (value := _field(getattr(event, name), raw, types[name], tools)) is not getattr(event, name)
    }
    return msgspec.structs.replace(event, **changed) if changed else event


def _field(known: object, raw: Any, declared: Any, tools: Tools) -> object:
    """What was recorded as `raw`: `known` itself where it is that."""
    if isinstance(known, ModelRequest):
        return _request(known, raw)
    if declared == _TOOL:
        if known is None or raw is None or cast("ToolInfo", known).name != raw:
            return None if raw is None else tools.get(raw) or ToolInfo(name=raw)
        return known
    return known if _is_recorded_as(known, raw) else thawed(raw, declared)


def _request(known: ModelRequest, raw: Mapping[str, Any]) -> ModelRequest:
    """The request that was sent where the loop asked for `known`."""
    changed = {
        name: thawed(raw[name], _REQUEST[name])
        for name in known.__struct_fields__
        if name != "messages" and not _is_recorded_as(getattr(known, name), raw[name])
    }
    if (splice := raw.get("sent")) is not None:
        changed["messages"] = _sent(known.messages, splice)
    return msgspec.structs.replace(known, **changed) if changed else known


def _sent(own: tuple[Message, ...], splice: Mapping[str, Any]) -> tuple[Message, ...]:
    if splice["of"] is not None:
        raise ValueError(f"what was sent stands as a change of what {splice['of']!r} sent")
    added = cast("tuple[Message, ...]", thawed(splice["added"], tuple[Message, ...]))
    return (*own[: splice["kept"]], *added, *own[len(own) - splice["rest"] :])


def _is_recorded_as(known: object, raw: object) -> bool:
    """Whether `known` has the record `raw`; False, too, where that is not seen at a glance."""
    if known is raw:
        return True
    if type(known) is str:
        return type(raw) is str and known == raw
    try:
        return _encoded(known) == _encoded(raw)
    except (TypeError, ValueError):  # what JSON has no form for
        return False
