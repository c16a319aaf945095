"""Publishes what an iteration left: `plan.created` around each plan, `human.interact` around each question.

A Block before them refuses just that event, and the agent is told. What the iteration came to is said by `judging`.
"""

from collections.abc import Sequence
from typing import Final

from tenter.catalogue import (
    HUMAN_INTERACT,
    PLAN_CREATED,
    HumanInteractedEvent,
    HumanInteractEvent,
    PlanCreatedEvent,
    PlanEvent,
)
from tenter.kernel import Blocked
from tenter.loop.batches import events_of
from tenter.loop.course import Course, asked_to_end, nothing
from tenter.loop.judging import finished, noted
from tenter.loop.points import Held
from tenter.loop.published import Malformed
from tenter.loop.questions import ask, asked_by
from tenter.loop.release import Release
from tenter.loop.state import Batch, LoopState, Published
from tenter.loop.topic import ASK

PLANS: Final = "plan."
"""How the topics begin around which `plan.created` fires."""
RESPONSE: Final = "human.response"
"""The topic of the event that tells the agent what a person answered."""


async def publish(course: Course) -> None:
    """One event after another, from where the state stands. Leaves early where the loop ends or is asked to."""
    parts, batch = course.parts, _batch(course.state)
    events = await events_of(parts.place.events, batch, lines=course.state.lines, redactor=parts.setup.redactor)
    for index in range(batch.index, len(events)):
        event = events[index]
        if isinstance(event, Malformed) or not _has_boundary(course, event):
            continue
        if index != _batch(course.state).index:
            course.state = course.state.at("publishing", batch=_batch(course.state).but(index=index, asked=None))
        await (_question(course, event) if event.topic == ASK else _plan(course, event))
        if course.state.stage != "publishing" or course.attention.asked is not None:
            return
    _close(course, events)


def _has_boundary(course: Course, event: Published) -> bool:
    if event.topic == ASK:
        return True
    # An agent may publish very many plans: where nobody listens there is nothing to cross.
    return event.topic.startswith(PLANS) and course.points.is_heard(PLAN_CREATED)


def _close(course: Course, events: Sequence[Published | Malformed]) -> None:
    """What the iteration came to, which people are told as the agent will be."""
    batch = _batch(course.state)
    before = len(course.state.notes)
    course.state = finished(course.state, course.parts.spec, events, batch)
    for note in course.state.notes[: len(course.state.notes) - before]:
        course.parts.note(f"in iteration {course.state.iteration}: {note}")


async def _plan(course: Course, event: Published) -> None:
    index = _batch(course.state).index

    def made(state: LoopState) -> PlanEvent | PlanCreatedEvent:
        op = course.op(PLAN_CREATED.name, index, state=state)
        if state.side == "pre":
            return PlanEvent(op=op, topic=event.topic, payload=event.payload)
        return PlanCreatedEvent(op=op, topic=event.topic, payload=event.payload, plan=event.payload)

    held = await course.cross(PLAN_CREATED, made, nothing)
    _held_up(course, held, PLAN_CREATED.name, refused=f"the event {event.topic!r} was not published")


async def _question(course: Course, event: Published) -> None:
    index, question = _batch(course.state).index, asked_by(event, course.parts.spec.answer_timeout_seconds)

    async def put(state: LoopState) -> LoopState:
        return await _ask(course, state, question_id=f"{state.iteration}.{index}")

    def made(state: LoopState) -> HumanInteractEvent | HumanInteractedEvent:
        op, asked = course.op(HUMAN_INTERACT.name, index, state=state), _batch(state).asked
        if state.side == "pre" or asked is None or asked.outcome is None:
            return HumanInteractEvent(op=op, question=question.question, options=question.options)
        return HumanInteractedEvent(
            op=op, question=asked.question, options=asked.options, outcome=asked.outcome, answer=asked.answer
        )

    if _batch(course.state).asked is None:
        course.state = course.state.but(batch=_batch(course.state).but(asked=question))
    held = await course.cross(HUMAN_INTERACT, made, put)
    _held_up(course, held, HUMAN_INTERACT.name, refused="the question was not put to a person")


def _held_up(course: Course, held: Held | None, operation: str, *, refused: str) -> None:
    """A Block before the event refuses it; whatever else holds the loop up ends it."""
    if isinstance(held, Blocked) and course.state.side == "pre":
        state = course.state.but(batch=_batch(course.state).refusing())
        course.state = noted(state, f"{refused}: {held.reason}")
        course.parts.note(f"{refused}, as the hook {held.hook!r} blocked it: {held.reason}")
    elif held is not None:
        course.state = course.ended_by(held, operation)


async def _ask(course: Course, state: LoopState, *, question_id: str) -> LoopState:
    """Puts the question; the answer goes to the agent as an event of its own."""
    batch, since = _batch(state), course.now()
    assert batch.asked is not None, "a question was published"
    answered = await ask(course.parts, course.attention, batch.asked, question_id=question_id)
    state = state.but(waited_seconds=state.waited_seconds + max(course.now() - since, 0.0))
    if isinstance(answered, Release):
        return asked_to_end(state, answered)
    payload = {"question": answered.question, "outcome": answered.outcome, "answer": answered.answer}
    response = Published(RESPONSE, payload)
    return state.but(batch=batch.but(asked=answered), pending=(*state.pending, response))


def _batch(state: LoopState) -> Batch:
    assert state.batch is not None, "something is published"
    return state.batch
