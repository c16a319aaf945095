"""Fires the points of a loop, and waits in place where their hooks ask for it (seed 001, D§6).

A Block ends the chain, a Suspend does not: all that suspended wait once. Before the wait everything is on record: the
state in the journal, the suspension in the registry and in `suspend-state.json`. What a hook that holds the loop up
means for the loop is the orchestrator's matter.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from tenter.catalogue import CATALOGUE
from tenter.kernel import (
    Blocked,
    Done,
    Escalated,
    Event,
    Failed,
    Operation,
    Point,
    Requirement,
    Retry,
    Stopped,
    Suspended,
    TenterError,
    Trace,
)
from tenter.loop.attention import Attention
from tenter.loop.facts import path_of
from tenter.loop.moment import moment, seconds_of
from tenter.loop.parts import Parts
from tenter.loop.record import LoopRecord
from tenter.loop.state import LoopState
from tenter.loop.suspension import Suspender, SuspendState, clear_state, write_state
from tenter.loop.waiting import Release, wait_for_release

Held = Blocked | Escalated | Release
"""Why a loop does not go on at a boundary; a Release is here a stop or a restart."""

EventOf = Callable[[LoopState], Event]
"""The event of a boundary's side as the state has it."""


class Points:
    """The points of one loop, in this process.

    `continued` is the suspension in which a former process of the loop ended: the first boundary goes on with its wait
    instead of asking its hooks.
    """

    def __init__(
        self, parts: Parts, record: LoopRecord, attention: Attention, *, continued: SuspendState | None = None
    ) -> None:
        self.parts = parts
        self.record = record
        self._attention = attention
        self.continued = continued
        self.hurried = False
        """Whether nobody is waited for any more."""

    def crossing(self, operation: Operation[Any, Any]) -> "Crossing":
        """One boundary of the loop, from its `pre` or, where the loop goes on from there, from its `post`."""
        return Crossing(self, operation)

    def is_heard(self, operation: Operation[Any, Any]) -> bool:
        """Whether a hook is at one of its sides, or somebody waits there: else there is nothing to cross."""
        chains = self.parts.setup.runtime.chains
        sides = (f"{operation.name}.pre", f"{operation.name}.post")
        return self.continued is not None or not all(chains[side].empty for side in sides)

    def take_continued(self) -> SuspendState | None:
        continued, self.continued = self.continued, None
        return continued

    def hurry(self) -> None:
        """From now on nobody is waited for: the loop was interrupted, or cannot go on."""
        self.hurried, self.continued = True, None
        self._attention.hurry()

    async def suspend(self, requirements: Sequence[Requirement], point: Point, state: LoopState) -> SuspendState:
        """Puts the suspension on record, everywhere, before anything waits for it."""
        parts = self.parts
        mask, now = parts.setup.redactor.mask_fuzzy, parts.setup.clock.now()
        suspensions = tuple(
            Suspender(
                hook_name=one.hook,
                reason=mask(one.reason),
                code=one.code,
                suspend_mode=parts.modes.get((point.name, one.hook), "wait_for_resume"),
                expires_at=None if one.expires_in is None else now + one.expires_in,
                on_timeout=one.on_timeout,
            )
            for one in requirements
        )
        first = suspensions[0]
        suspension = SuspendState(
            loop_id=parts.loop_id,
            phase_event=f"{point.phase}.{point.operation.name}",
            path=_path(state, point),
            hook_name=first.hook_name,
            reason=first.reason,
            suspend_mode=first.suspend_mode,
            suspended_at=moment(now),
            suspension_id=f"{parts.setup.random.getrandbits(64):016x}",
            suspensions=suspensions,
        )
        await self.record.suspended(state, suspension)
        write_state(parts.place, suspension)
        await parts.patiently(lambda: parts.registry.suspend(parts.loop_id, suspension))
        return suspension

    async def wait(self, suspension: SuspendState, state: LoopState) -> tuple[LoopState, Release | Blocked | Escalated]:
        """Waits for a person, and puts on record what came of it before the loop acts on it.

        Where nobody came in the time that a hook gave, the loop is blocked or escalated, as the hook said.
        """
        parts, attention, since = self.parts, self._attention, self._since(suspension)
        by = " and by ".join(f"{one.hook_name}: {one.reason}" for one in suspension.suspensions)
        parts.tell(
            "held",
            f"suspended at {suspension.phase_event} by {by}; 'tenter loop resume {parts.loop_id}' continues it",
        )
        await attention.rest()
        decided = await parts.patiently(lambda: parts.registry.released(parts.loop_id, suspension.suspension_id))
        ending = decided or attention.asked or await self._came(suspension)
        if isinstance(ending, Release):
            ending = await self._decided(suspension, ending)
            await self.record.released(suspension.suspension_id, ending.how, ending.by)
            word = _WORDS[ending.how]
        else:
            await self.record.released(suspension.suspension_id, "expired", None)
            word = "waited in vain"
        parts.tell("released", f"{word} at {suspension.phase_event}")
        attention.watch()
        waited = max(parts.setup.clock.now() - since, 0.0)
        return state.but(waited_seconds=state.waited_seconds + waited), ending

    async def go_on(self) -> None:
        """The loop is suspended no more. What it goes on with is on record: a process that dies now loses nothing."""
        parts = self.parts
        try:
            clear_state(parts.place)
        except TenterError as error:  # the registry says what holds: a file that stays is none's suspension any more
            parts.note(str(error))
        await parts.patiently(lambda: parts.registry.go_on(parts.loop_id))

    def _since(self, suspension: SuspendState) -> float:
        """Since when it waits; what was written just now tells that but for the fraction of a second."""
        now, told = self.parts.setup.clock.now(), seconds_of(suspension.suspended_at)
        return told if now - told >= 1 else now

    async def _came(self, suspension: SuspendState) -> Release | Blocked | Escalated:
        """Who came, or what comes of it that nobody did."""
        parts, first = self.parts, _first_to_expire(suspension)
        left = None if first is None else max((first.expires_at or 0.0) - parts.setup.clock.now(), 0.0)
        if left is None or left > 0:  # what is over already nobody can answer, not even who continues the loop
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    return await wait_for_release(
                        parts.place, loop_id=parts.loop_id, suspension_id=suspension.suspension_id, told=parts.note
                    )
        assert first is not None, "it was waited for a time"
        reason = f"nobody came in time: {first.reason}"
        if first.on_timeout == "escalate":
            return Escalated(reason=reason, queue="default", hook=first.hook_name)
        return Blocked(reason=reason, code="expired", hook=first.hook_name)

    async def _decided(self, suspension: SuspendState, asked: Release) -> Release:
        """The one decision on this suspension, which another process may have made."""
        parts = self.parts
        release = await parts.patiently(lambda: parts.registry.release(parts.loop_id, suspension.suspension_id, asked))
        if asked.how != "resume" and release.how == "resume":
            self._attention.note(asked)
        return release


class Crossing:
    """One boundary on its way; whoever has it calls `leave` in any case."""

    def __init__(self, points: Points, operation: Operation[Any, Any]) -> None:
        self._points = points
        self._operation = operation
        self._trace = Trace()
        self._traced = 0
        self._boundary = points.parts.setup.runtime.boundary(operation, trace=self._trace)
        self._ending: Done[Event] | Stopped | None = None

    def leave(self, error: BaseException | None) -> None:
        """Tells hooks that would not hear of it how it ended (D§3.5): by `error`, or as its last side did."""
        self._boundary.leave(error or self._ending)

    async def side(self, state: LoopState, event_of: EventOf) -> tuple[LoopState, Held | None]:
        """The hooks of the side that the state is on, and the waits that they ask for.

        Returns the state after them, and what holds the loop up. Raises JournalError and TenterError where that cannot
        be put on record.
        """
        points, ending = self._points, None
        await points.record.state(state)
        suspension = await self._continued(state)
        if suspension is None and state.released:
            return state.but(released=False), None
        if suspension is None:
            fire = self._boundary.pre if state.side == "pre" else self._boundary.post
            ending = self._ending = await fire(event_of(state))
            state = self._after_hooks(state)
        while suspension is not None or isinstance(ending, Suspended):
            if points.hurried:
                return state, None
            if isinstance(ending, Suspended):
                suspension = await points.suspend(ending.requirements, self._point(state), state)
            assert suspension is not None, "it is suspended"
            state, came = await points.wait(suspension, state)
            if isinstance(came, Release) and came.how != "resume":
                return state, came  # it stays on record as suspended until its end is
            if not isinstance(came, Release):
                await points.record.state(state)
                await points.go_on()
                return state, came
            state, ending = await self._go_on(suspension, state, event_of)
            self._ending, suspension = ending, None
        return state, None if ending is None else _held(ending)

    async def _continued(self, state: LoopState) -> SuspendState | None:
        """The suspension in which a former process ended, if it was here and the loop has not gone on from it."""
        suspension = self._points.take_continued()
        if suspension is None:
            return None
        point = self._point(state)
        is_here = suspension.phase_event == f"{point.phase}.{point.operation.name}"
        if is_here and suspension.path in ("", _path(state, point)) and not state.released:
            return suspension
        await self._points.go_on()
        return None

    async def _go_on(
        self, suspension: SuspendState, state: LoopState, event_of: EventOf
    ) -> tuple[LoopState, Done[Event] | Stopped | None]:
        """After a resume: asks the hooks once more that must pass then."""
        hooks = [one.hook_name for one in suspension.suspensions if one.suspend_mode == "wait_then_retry"]
        state = state.but(passes=state.passes + 1) if hooks else state.but(released=True)
        await self._points.record.state(state)
        await self._points.go_on()
        if not hooks:
            return state.but(released=False), None
        try:
            ending = await self._boundary.again(state.side, event_of(state), hooks)
        except TenterError as error:  # the hook in whose hands the loop was is not there any more
            return state, Blocked(reason=str(error), code="hook_missing", hook=hooks[0], failed=True)
        return self._after_hooks(state), ending

    def _after_hooks(self, state: LoopState) -> LoopState:
        """The state with what hooks said; raises JournalError where one of them is not on record."""
        parts, new = self._points.parts, self._trace.events(self._traced)
        self._traced = len(self._trace)
        trouble = parts.setup.sink.trouble(parts.loop_id)
        if trouble is not None and not self._points.record.lenient:
            raise trouble
        for entry in new:
            if entry.kind == "failure" and entry.details.get("disposition") == "warn":
                where = f"{self._operation.name}.{state.side}"
                parts.note(
                    f"the hook {entry.source!r} failed at {where} ({entry.code}), which was let pass; "
                    f"'tenter hooks log --loop {parts.loop_id}' tells more"
                )
        metadata = parts.setup.sink.metadata(self._points.record.stream)
        return state if metadata == state.metadata else state.but(metadata=metadata)

    def _point(self, state: LoopState) -> Point:
        return CATALOGUE[f"{self._operation.name}.{state.side}"]


_WORDS = {"resume": "resumed", "stop": "stopped", "restart": "asked to restart"}


def _path(state: LoopState, point: Point) -> str:
    """Which call of the operation the state is at, as in the `op` of its event."""
    index = state.batch.index if state.stage == "publishing" and state.batch is not None else 0
    return path_of(state, point.operation.name, index)


def _first_to_expire(suspension: SuspendState) -> Suspender | None:
    expiring = [one for one in suspension.suspensions if one.expires_at is not None]
    return min(expiring, key=lambda one: one.expires_at or 0.0, default=None)


def _held(ending: Done[Event] | Stopped) -> Held | None:
    match ending:
        case Done():
            return None
        case Blocked() | Escalated():
            return ending
        case Failed():
            return Blocked(reason=ending.message, code=ending.code, hook=ending.hook or "", failed=True)
        case Suspended() | Retry():
            raise AssertionError(f"{type(ending).__name__} was waited for, or is not taken here")
        case _:
            assert_never(ending)
