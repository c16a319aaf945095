"""Tells how a loop ended, once: by `loop.complete`, or by `loop.error` for every other reason (seed 001)."""

import asyncio

from tenter.catalogue import LOOP_COMPLETE, LOOP_ERROR, LoopEndedEvent, LoopEndEvent
from tenter.journal import JournalError
from tenter.kernel import TenterError
from tenter.loop.course import Course, nothing
from tenter.loop.reason import Reason
from tenter.loop.state import LoopState


async def end(course: Course) -> None:
    """Tells the hooks, for the reason that the loop ends with. What holds up a failed loop changes nothing."""
    operation = LOOP_COMPLETE if course.state.reason == "completed" else LOOP_ERROR

    def made(state: LoopState) -> LoopEndEvent | LoopEndedEvent:
        course.told_end = state.side if operation is LOOP_ERROR else None
        kind = LoopEndEvent if state.side == "pre" else LoopEndedEvent
        return kind(
            op=course.op(operation.name, state=state),
            reason=state.reason or "",
            message=state.message,
            iterations=state.iteration,
        )

    held = await course.cross(operation, made, nothing)
    course.state = course.state.at("over") if held is None else course.ended_by(held, operation.name)


async def end_in_any_case(course: Course, reason: Reason, message: str, *, interruptions: int = 0) -> None:
    """Ends the loop early, to the end: only a second interruption cuts its hooks short. A first one is raised."""
    ending, before = asyncio.ensure_future(_end_early(course, reason, message)), interruptions
    while not ending.done():
        try:
            await asyncio.wait((ending,))
        except asyncio.CancelledError:
            interruptions += 1
            if interruptions > 1:
                ending.cancel()
    if ending.cancelled():
        course.state = course.state.at("over")
    else:
        ending.result()
    if interruptions > before:
        raise asyncio.CancelledError


async def _end_early(course: Course, reason: Reason, message: str) -> None:
    """Ends the loop whatever befell it: nobody is waited for, and what cannot be recorded stops nothing."""
    course.points.hurry()
    course.record.let_go()
    match course.told_end:
        case None if course.state.stage != "over":
            course.state = course.state.ending(reason, message)
        case "pre":
            course.state = course.state.at("ending", "post")
        case _:
            course.state = course.state.at("over")
    try:
        while course.state.stage == "ending":
            await end(course)
    except (JournalError, TenterError, OSError) as error:
        course.parts.note(f"the end of the loop could not be told to its hooks: {error}")
        course.state = course.state.at("over")
