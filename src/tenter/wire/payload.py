"""What a hook outside the process is told (D§9): one JSON document on stdin, and a few `TENTER_*` variables.

A superset of seed 001's stdin payload. The document's type is here, and its schema is made from it. It writes an event
as it is: whoever sends it out of the process masks it first (D§3.4). It reads no clock and no environment.
"""

import json
import math
import re
import time
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tenter.catalogue import Approval, Envelope, LoopFacts, Op
from tenter.kernel import (
    Allow,
    Block,
    Escalate,
    Event,
    Fail,
    HookFailure,
    Outcome,
    Phase,
    Point,
    Result,
    Retry,
    Suspend,
)

SCHEMA_VERSION: Final = 1
"""Of the payload, and of the verdict that answers it."""

NO_RUN: Final = "process"
"""What stands in a key for the run or loop that an event does not have."""

Facts = Mapping[str, object]
Decided = Literal["allow", "block", "suspend", "escalate", "retry", "result", "fail"]

_DECIDED: Final[Mapping[type[Outcome], Decided]] = {
    Allow: "allow",
    Block: "block",
    Suspend: "suspend",
    Escalate: "escalate",
    Retry: "retry",
    Result: "result",
    Fail: "fail",
}
_HALF_PAIR: Final = re.compile(r"[\ud800-\udfff]")
_NOT_IN_A_VARIABLE: Final = re.compile(r"[\0\ud800-\udc7f\udd00-\udfff]")  # the rest are bytes of a path (PEP 383)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How the chain ended that an observer watched: its combined outcome, and the hook that gave it."""

    decision: Decided
    reason: str
    code: str | None
    hook: str

    @classmethod
    def by(cls, outcome: Outcome, hook: str) -> Self:
        """As `outcome` says, which is of one of the classes that a chain can end with."""
        return cls(
            decision=_DECIDED[type(outcome)],
            reason=getattr(outcome, "reason", ""),
            code=getattr(outcome, "code", None),
            hook=hook,
        )


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The op of the event. `deadline` is in seconds since the epoch."""

    id: str
    path: str
    pass_: int = msgspec.field(name="pass")
    attempt: int
    parent: str | None
    deadline: float | None
    approval: Approval | None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an orchestrator is about (seed 001); all null outside a loop."""

    active_hat: object
    selected_hat: object
    selected_task: object
    termination_reason: object
    human_interact: object


class Accumulated(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier hooks with `mutate.enabled` said."""

    accumulated: Facts


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """The document of version 1. Later versions may add keys; a reader leaves aside those that it does not know."""

    schema_version: Literal[1]
    id: str
    key: str
    point: str
    alias: str | None
    phase: Phase
    event: str
    phase_event: str
    timestamp: Annotated[str, Meta(pattern=r"^\d{4,}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
    run: Envelope | None
    op: Call | None
    loop: Facts | None
    iteration: Facts | None
    context: Context
    payload: Facts
    metadata: Accumulated
    ended: Ended | UnsetType | None = UNSET


_NO_FACTS: Final = LoopFacts()


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a hook outside the process."""

    id: str
    """New for each execution."""
    point: Point
    event: Event
    hook: str
    at: float
    """When it starts, in seconds since the epoch."""
    recheck: bool = False
    ended: Ended | UnsetType | None = UNSET
    """Of observers: how the chain ended, None where nobody answered. UNSET for a hook that answers."""
    workspace: str | None = None
    project_dir: str | None = None
    accumulated: Facts | None = None
    """Metadata of earlier hooks; None takes those of the op's loop facts."""
    scope: str = NO_RUN
    """What `key` names where the event has neither run nor loop."""

    @property
    def key(self) -> str:
        """The same when this execution is repeated after a crash; see `execution_key`."""
        return execution_key(self.event, self.point, hook=self.hook, recheck=self.recheck, scope=self.scope)


def execution_key(event: Event, point: Point, *, hook: str, recheck: bool = False, scope: str = NO_RUN) -> str:
    """`<run or loop>/<path>#<pass>/<phase>/<hook>`, with `/recheck` where a guard judges once more (D§9).

    An op without a path goes by its id, an event without op by its operation's name, one without run and loop by
    `scope`.
    """
    op = event.op if isinstance(event.op, Op) else None
    whose = event.envelope.run_id if isinstance(event.envelope, Envelope) else _loop_id(event) or scope
    call = f"{op.path or op.id}#{op.pass_}" if op is not None else f"{point.operation.name}#1"
    return f"{whose}/{call}/{point.phase}/{hook}" + ("/recheck" if recheck else "")


def encode_payload(execution: Execution) -> bytes:
    """The document of `execution`, in UTF-8, without a line end.

    Bytes are base64; half a surrogate pair, which UTF-8 cannot say, becomes the text `\\udXXX`; NaN and infinities
    are null. Raises HookFailure (`crashed`) where the event holds what JSON has no form for.
    """
    try:
        document = _document(execution)
        try:
            return _encode(document)
        except UnicodeEncodeError:
            return _encode_anything(document)
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"the event of {execution.point.label!r} cannot be written as JSON for {execution.hook!r}: {error}"
        raise HookFailure("crashed", reason) from error


def environment(execution: Execution) -> dict[str, str]:
    """The `TENTER_*` variables of `execution`; those that have no value are left out.

    NUL, and half a surrogate pair that is no byte of a path, stand escaped.
    """
    point = execution.point
    facts = _loop_facts(execution.event)
    envelope = execution.event.envelope
    iteration = facts.iteration.get("current")
    found = {
        "TENTER_HOOK_POINT": point.name,
        "TENTER_HOOK_EVENT": point.operation.name,
        "TENTER_HOOK_PHASE": point.phase,
        "TENTER_HOOK_PHASE_EVENT": f"{point.phase}.{point.operation.name}",
        "TENTER_RUN_ID": envelope.run_id if isinstance(envelope, Envelope) else None,
        "TENTER_LOOP_ID": _loop_id(execution.event),
        "TENTER_WORKSPACE": execution.workspace,
        "TENTER_ITERATION": None if iteration is None else str(iteration),
        "TENTER_PROJECT_DIR": execution.project_dir,
    }
    return {name: _NOT_IN_A_VARIABLE.sub(_escaped, value) for name, value in found.items() if value is not None}


def _loop_facts(event: Event) -> LoopFacts:
    return (event.op.loop if isinstance(event.op, Op) else None) or _NO_FACTS


def _loop_id(event: Event) -> str | None:
    found = _loop_facts(event).loop.get("id")
    return None if found is None else str(found)


def _document(execution: Execution) -> Payload:
    point, event = execution.point, execution.event
    facts = _loop_facts(event)
    accumulated = facts.accumulated if execution.accumulated is None else execution.accumulated
    return Payload(
        schema_version=SCHEMA_VERSION,
        id=execution.id,
        key=execution.key,
        point=point.name,
        alias=point.portable,
        phase=point.phase,
        event=point.operation.name,
        phase_event=f"{point.phase}.{point.operation.name}",
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(execution.at)),
        run=event.envelope if isinstance(event.envelope, Envelope) else None,
        op=_call(event.op) if isinstance(event.op, Op) else None,
        loop=facts.loop or None,
        iteration=facts.iteration or None,
        context=_context(facts.context),
        payload=event.own_fields(),
        metadata=Accumulated(accumulated=accumulated),
        ended=execution.ended,
    )


def _call(op: Op) -> Call:
    return Call(
        id=op.id,
        path=op.path,
        pass_=op.pass_,
        attempt=op.attempt,
        parent=op.parent,
        deadline=op.deadline,
        approval=op.approval,
    )


def _context(facts: Facts) -> Context:
    return Context(**{name: facts.get(name) for name in Context.__struct_fields__})


def _as_text(value: object) -> str:
    """Of what an event may hold, paths, complex numbers and time zones: msgspec has no form of its own for these."""
    return str(value)


_encode: Final = msgspec.json.Encoder(enc_hook=_as_text).encode


def _encode_anything(document: Payload) -> bytes:
    """The slow way, for texts with half a surrogate pair."""
    plain = _writable(msgspec.to_builtins(document, str_keys=True, enc_hook=_as_text))
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _writable(value: object) -> object:
    if isinstance(value, str):
        return _HALF_PAIR.sub(_escaped, value)
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        written = {_HALF_PAIR.sub(_escaped, key): _writable(item) for key, item in given.items()}
        if len(written) != len(given):
            raise ValueError("two keys of one mapping differ only in how half a surrogate pair is written")
        return written
    if isinstance(value, list | tuple):
        return [_writable(item) for item in cast("list[object]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _escaped(found: re.Match[str]) -> str:
    return "\\x00" if found[0] == "\0" else f"\\u{ord(found[0]):04x}"
