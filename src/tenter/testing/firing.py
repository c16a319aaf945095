"""`fire`: one hook at one point, for a hook's own test (D§16)."""

import asyncio
from typing import Any

import msgspec

from tenter.catalogue import CATALOGUE
from tenter.kernel import (
    Block,
    Decision,
    Declaration,
    Escalate,
    Event,
    Hook,
    Outcome,
    Record,
    Retry,
    Runtime,
    Suspend,
    TenterError,
    hook,
)
from tenter.testing.samples import sample_event


class Fired(msgspec.Struct, frozen=True):
    """What a hook made of an event."""

    before: Event
    decision: Decision

    @property
    def event(self) -> Event:
        """The event that leaves the point: the hook's replacement, where it gave one."""
        return self.decision.event

    @property
    def outcome(self) -> Outcome | None:
        return self.decision.outcome

    @property
    def records(self) -> tuple[Record, ...]:
        return self.decision.records

    @property
    def blocked(self) -> bool:
        return isinstance(self.outcome, Block)

    @property
    def suspended(self) -> bool:
        return isinstance(self.outcome, Suspend)

    @property
    def escalated(self) -> bool:
        return isinstance(self.outcome, Escalate)

    @property
    def retried(self) -> bool:
        return isinstance(self.outcome, Retry)

    @property
    def replaced(self) -> bool:
        """Whether the event that leaves is another than the one that came."""
        return self.event != self.before

    @property
    def failed(self) -> bool:
        """Whether the hook failed, whatever its policy made of that."""
        return any(record.result not in ("ok", "denied") for record in self.records)


def fire(target: object, point: str, **fields: Any) -> Fired:
    """Fires `point` with `target` as its one hook, on an event with `fields` (see `sample_event`).

    A function that `@hook` did not make is tried as it is. Raises TenterError inside a running event loop (use
    `await fire_async(…)` there) and RegistrationError for a hook that cannot attach to the point.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(fire_async(target, point, **fields))
    raise TenterError("fire was called inside a running event loop; write `await fire_async(…)` there")


async def fire_async(target: object, point: str, **fields: Any) -> Fired:
    """`fire`, inside an event loop."""
    event = sample_event(point, **fields)
    runtime = Runtime(CATALOGUE, [_as_hook(target, point)])
    if runtime.chain(point).empty:
        raise TenterError(f"{target!r} is no hook at {point!r}; name a point that it attaches to")
    return Fired(event, await runtime.dispatch(point, event))


def _as_hook(target: object, point: str) -> object:
    declared = isinstance(target, Hook | Declaration | type) or hasattr(target, "__tenter_hooks__")
    return target if declared or not callable(target) else hook(point)(target)
