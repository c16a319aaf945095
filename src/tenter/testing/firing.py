"""`fire`: one hook at one point, for a hook's own test (D§16)."""

import asyncio
from collections.abc import Callable
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
    RegistrationError,
    Retry,
    Runtime,
    Suspend,
    TenterError,
    declarations,
    described,
    is_slug,
)
from tenter.testing.samples import sample_event

Target = Callable[..., object] | Hook | Declaration
"""What can be fired: a function, decorated or not, a `Hook` or its class, a declaration."""


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
        """Whether the hook answered Block. That a failed hook blocks by its policy is `failed`, and no answer."""
        return isinstance(self.outcome, Block) and not self.decision.failed

    @property
    def suspended(self) -> bool:
        return isinstance(self.outcome, Suspend) and not self.decision.failed

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
        """Whether the hook failed, whatever its policy made of that; `records` say how."""
        return any(record.result not in ("ok", "denied") for record in self.records)


def fire(target: Target, point: str, /, **fields: Any) -> Fired:
    """Fires `point` with `target` as its one hook, on an event with `fields` (see `sample_event`).

    A function that `@hook` did not make is tried as it is. Raises TenterError inside a running event loop (use
    `await fire_async(…)` there) and RegistrationError for a hook that cannot attach to the point.
    """
    if _in_loop():
        raise TenterError("fire was called inside a running event loop; write `await fire_async(…)` there")
    return asyncio.run(fire_async(target, point, **fields))


async def fire_async(target: Target, point: str, /, **fields: Any) -> Fired:
    """`fire`, inside an event loop."""
    event = sample_event(point, **fields)
    runtime = Runtime(CATALOGUE, [_as_hook(target, point)])
    if runtime.chain(point).empty:
        raise TenterError(f"{described(target)} is no hook at {point!r}; name a point that it attaches to")
    return Fired(event, await runtime.dispatch(point, event))


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _as_hook(target: Target, point: str) -> object:
    """What a runtime takes: of a bare function a declaration at `point`, which leaves the function as it is."""
    if not callable(target) or isinstance(target, type):
        return target
    try:
        declarations(target, CATALOGUE)
    except RegistrationError:
        name = getattr(target, "__name__", "").lower()
        return Declaration(name=name if is_slug(name) else "tried", point=point, call=target)
    return target
