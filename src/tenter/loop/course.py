"""One loop under way in this process: where it stands, and how it crosses a boundary (seed 001).

What each boundary is about is said by `orchestrator`, `publishing` and `ending`; whether hooks let the loop go on, by
`points`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, assert_never

from tenter.catalogue import LOOP_ERROR, Op
from tenter.kernel import Blocked, Escalated, Operation
from tenter.loop.attention import Attention
from tenter.loop.facts import op_of
from tenter.loop.parts import Parts
from tenter.loop.points import Crossing, EventOf, Held, Points
from tenter.loop.record import LoopRecord
from tenter.loop.release import Release
from tenter.loop.state import LoopState, Side

Body = Callable[[LoopState], Awaitable[LoopState]]
"""The work of a boundary; a state that ends the loop skips what comes after it."""


class Course:
    """`state` is where the loop stands, always."""

    def __init__(
        self, parts: Parts, state: LoopState, *, points: Points, record: LoopRecord, attention: Attention
    ) -> None:
        self.state = state
        self.parts = parts
        self.points = points
        self.record = record
        self.attention = attention
        is_told = points.continued is not None and state.stage == "ending" and state.reason != "completed"
        self.told_end: Side | None = state.side if is_told else None
        """The last side of `loop.error` whose hooks were told."""

    async def cross(self, operation: Operation[Any, Any], event_of: EventOf, body: Body) -> Held | None:
        """One boundary with its body, from the side that the state is on; what holds the loop up there.

        Nothing holds up `loop.error`. Where the body ends the loop, the state says so and the other side is not asked.
        """
        crossing = self.points.crossing(operation)
        ending: BaseException | None = None
        try:
            return await self._sides(crossing, operation, event_of, body)
        except BaseException as error:
            ending = error
            raise
        finally:
            # Who was told of the end is told once more by the other side of it, and needs no other word.
            if ending is None or operation is not LOOP_ERROR or self.told_end != "pre":
                crossing.leave(ending)

    async def _sides(
        self, crossing: Crossing, operation: Operation[Any, Any], event_of: EventOf, body: Body
    ) -> Held | None:
        stage: str = self.state.stage
        if self.state.side == "pre":
            self.state, held = await crossing.side(self.state, event_of)
            if held is not None and operation is not LOOP_ERROR:
                return held
            self.state = await body(self.state)
            if self.state.stage != stage:
                return None
            self.state = self.state.at(self.state.stage, "post")
        self.state, held = await crossing.side(self.state, event_of)
        return None if operation is LOOP_ERROR else held

    def ended_by(self, held: Held, operation: str, state: LoopState | None = None) -> LoopState:
        """The state of a loop that ends for what held it up at a boundary."""
        state = state or self.state
        at = f"at {state.side}.{operation}"
        match held:
            case Blocked():
                return state.ending("blocked", f"the hook {held.hook!r} blocked it {at}: {held.reason}")
            case Escalated():
                told = f"the hook {held.hook!r} escalated it {at} to {held.queue!r}: {held.reason}"
                return state.ending("escalated", told)
            case Release():
                return asked_to_end(state, held)
            case _:
                assert_never(held)

    def op(self, operation: str, index: int = 0, *, state: LoopState | None = None) -> Op:
        """Which call of an operation it is."""
        return op_of(self.parts.identity, state or self.state, operation, index)

    def now(self) -> float:
        return self.parts.setup.clock.now()


async def nothing(state: LoopState) -> LoopState:
    """The body of a boundary at which the loop itself does nothing."""
    return state


def asked_to_end(state: LoopState, release: Release) -> LoopState:
    """The state of a loop that ends because somebody asked for it."""
    if release.how == "restart":
        return state.ending("restart_requested", f"a restart was asked for by {release.who}")
    return state.ending("stopped", f"it was stopped by {release.who}")
