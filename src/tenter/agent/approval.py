"""From a suspended operation to what a person is asked, and from the decision to the next pass (D§6, D§3.10). Pure."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from tenter.agent.plan import Plan
from tenter.catalogue import (
    ARGUMENTS,
    DUPLICATE,
    EVERY_FIELD,
    TOOL_INVOKED,
    Approval,
    ApprovalDecision,
    ApprovalReason,
    ApprovalRequest,
    Op,
    ToolCallEvent,
)
from tenter.kernel import Event, Requirement, Suspended, Unknown

E = TypeVar("E", bound=Event)

MOST_REQUESTS = 3
"""How often a person is asked for the same operation."""


class Halted(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that waits for a person: where, the event that its next pass begins with, and what it came to."""

    operation: str
    path: str
    index: int
    event: Event
    ending: Suspended | Unknown
    times: int = 0
    """How often people were asked for it before."""


def request_for(halted: Halted, plan: Plan, now: float) -> ApprovalRequest:
    """One request for all that the hooks require; its id is the same whenever the same run comes to the same place."""
    run_id, ending = plan.envelope.run_id, halted.ending
    shown = ending.event if ending.event is not None else halted.event
    name = hashlib.sha256(f"{run_id}/{halted.path}/{halted.times}/{ending.digest}".encode()).hexdigest()[:12]
    call = {field: value for field, value in shown.own_fields().items() if field != "approval"}
    return ApprovalRequest(
        id=name,
        run_id=run_id,
        operation=halted.operation,
        path=halted.path,
        call=msgspec.to_builtins(call),
        digest=ending.digest,
        reasons=tuple(_reason(one, now, editable=named(one.editable, shown)) for one in required(ending)),
        requested_at=now,
        task=plan.envelope.task.name,
        root_run_id=plan.root_run_id or run_id,
    )


def required(ending: Suspended | Unknown) -> tuple[Requirement, ...]:
    """What a person is asked for. What may have happened is a person's to find out (D§11)."""
    if isinstance(ending, Suspended):
        return ending.requirements
    return (Requirement(hook=DUPLICATE, reason=ending.reason, code="unknown", point=TOOL_INVOKED.point("pre")),)


def approved(halted: Halted, decision: ApprovalDecision, *, event: E, digest: str) -> E:
    """The event of the next pass: `event` is the call, edited or not, and `digest` names it as it is to be judged.

    Earlier approvals of the very same call hold on.
    """
    seen = required(halted.ending)
    hooks, asked = tuple(one.hook for one in seen), tuple(one.name for one in seen)
    before = halted.event.op.approval if isinstance(halted.event.op, Op) else None
    if before is not None and before.digest == digest:
        hooks, asked = tuple(dict.fromkeys((*before.hooks, *hooks))), tuple(dict.fromkeys((*before.asked, *asked)))
    approval = Approval(id=decision.request_id, hooks=hooks, asked=asked, digest=digest, by=decision.by)
    changes: dict[str, object] = {"op": Op(id="", approval=approval)}
    if "approval" in event.__struct_fields__:
        changes["approval"] = approval
    return msgspec.structs.replace(event, **changes)


def edited(event: E, edits: Mapping[str, object], editable: Collection[str]) -> E:
    """The event with other values of its fields, or of a tool call's arguments; `editable` are those that may change.

    Raises ValueError, with a text for people, for any other field and a value that does not fit.
    """
    if fixed := sorted(set(edits) - set(editable)) if EVERY_FIELD not in editable else []:
        raise ValueError(f"{fixed[0]!r} may not be edited")
    if isinstance(event, ToolCallEvent):
        return cast("E", event.with_arguments(edits))
    kinds: dict[str, Any] = get_type_hints(type(event))
    own = event.own_fields()
    if unknown := sorted(set(edits) - set(own) | set(edits) & {"approval"}):
        raise ValueError(f"it has no field {unknown[0]!r} that can be edited")
    try:
        return event.replace(**{name: msgspec.convert(value, kinds[name]) for name, value in edits.items()})
    except (TypeError, msgspec.ValidationError) as error:
        raise ValueError(f"an edit does not fit: {error}") from error


def named(editable: tuple[str, ...], event: Event) -> tuple[str, ...]:
    """The fields that may be edited as people name them: the arguments of a tool call, else fields of the event."""
    if not isinstance(event, ToolCallEvent):
        return tuple(dict.fromkeys(name.partition(".")[0] for name in editable))
    own = event.editable_fields()
    names: dict[str, None] = {}
    for name in editable:
        if name in (EVERY_FIELD, "call", ARGUMENTS.removesuffix(".")):
            names[EVERY_FIELD] = None
        elif name.startswith(ARGUMENTS) or (name in own and name not in event.own_fields()):
            names[name.removeprefix(ARGUMENTS)] = None
    return tuple(names)


def _reason(asked: Requirement, now: float, *, editable: tuple[str, ...]) -> ApprovalReason:
    return ApprovalReason(
        hook=asked.hook,
        reason=asked.reason,
        code=asked.code,
        editable=editable,
        expires_at=None if asked.expires_in is None else now + asked.expires_in,
        on_timeout=asked.on_timeout,
    )
