"""Brings one loop from where it stands to its end: start, iterations, what they publish, the end (seed 001).

What an iteration came to and what comes next is said by `judging`; here it is put together and awaited. However a loop
ends, `loop.complete` or `loop.error` is fired once.
"""

import asyncio
from typing import assert_never

from tenter.catalogue import (
    ITERATION_START,
    LOOP_START,
    IterationStartedEvent,
    IterationStartEvent,
    LoopStartedEvent,
    LoopStartEvent,
)
from tenter.journal import JournalError
from tenter.kernel import TenterError
from tenter.loop.attention import Attention
from tenter.loop.batches import collected
from tenter.loop.course import Course, asked_to_end
from tenter.loop.ending import end, end_in_any_case
from tenter.loop.facts import START_TOPIC, facts_of
from tenter.loop.judging import begun, initialised, limit, selecting
from tenter.loop.parts import Parts
from tenter.loop.points import Points
from tenter.loop.prompt import prompt_for
from tenter.loop.publishing import publish
from tenter.loop.record import LoopRecord
from tenter.loop.state import LoopState
from tenter.loop.work import Work, Worked


class Orchestrator:
    """One loop in this process."""

    def __init__(
        self, parts: Parts, state: LoopState, *, points: Points, record: LoopRecord, attention: Attention
    ) -> None:
        self._course = Course(parts, state, points=points, record=record, attention=attention)

    @property
    def state(self) -> LoopState:
        """Where the loop stands, always."""
        return self._course.state

    async def run(self) -> LoopState:
        """Brings the loop to its end. Raises cancellation, after the loop was ended for it."""
        course = self._course
        try:
            course.attention.look()
            course.attention.watch()
            await self._to_the_end()
        except (asyncio.CancelledError, KeyboardInterrupt):
            await end_in_any_case(course, "interrupted", "it was interrupted", interruptions=1)
            raise
        except (JournalError, TenterError, OSError) as error:
            await end_in_any_case(course, "failed", str(error))
        except Exception as error:
            await end_in_any_case(course, "failed", course.parts.setup.redactor.mask_exception_text(error))
            raise
        finally:
            await course.attention.rest()
        return course.state

    async def _to_the_end(self) -> None:
        course = self._course
        while course.state.stage != "over":
            if course.state.stage != "ending" and (asked := course.attention.asked) is not None:
                course.state = asked_to_end(course.state, asked)
            match course.state.stage:
                case "start":
                    await self._start()
                case "next":
                    course.state = self._begun(course.state)
                case "iteration":
                    await self._iterate()
                case "backend":
                    await self._work()
                case "publishing":
                    await publish(course)
                case "ending":
                    await end(course)
                case "over":
                    break
                case _:
                    assert_never(course.state.stage)

    async def _start(self) -> None:
        course, prompt = self._course, self._course.parts.prompt
        if course.state.side == "pre" and course.points.continued is None:
            spec = course.parts.setup.spec.digest
            await course.record.begin({"loop_id": course.parts.loop_id, "prompt": prompt, "spec": spec})

        async def initialise(state: LoopState) -> LoopState:
            return initialised(state, START_TOPIC, prompt)

        def event(state: LoopState) -> LoopStartEvent | LoopStartedEvent:
            made = LoopStartEvent if state.side == "pre" else LoopStartedEvent
            return made(op=course.op(LOOP_START.name, state=state), prompt=prompt, topic=START_TOPIC)

        held = await course.cross(LOOP_START, event, initialise)
        course.state = course.state.at("next") if held is None else course.ended_by(held, LOOP_START.name)

    def _begun(self, state: LoopState) -> LoopState:
        ending = limit(state, self._course.parts.spec, self._course.now())
        return begun(state).at("iteration") if ending is None else state.ending(*ending)

    async def _iterate(self) -> None:
        """The selection, between the two sides of `iteration.start`."""
        course = self._course

        async def select(state: LoopState) -> LoopState:
            return selecting(state, course.parts.spec, course.parts.task)

        def event(state: LoopState) -> IterationStartEvent | IterationStartedEvent:
            op, number = course.op(ITERATION_START.name, state=state), state.iteration
            if state.side == "pre":
                return IterationStartEvent(op=op, number=number)
            topics = tuple(dict.fromkeys(one.topic for one in state.taken))
            return IterationStartedEvent(
                op=op, number=number, hat=state.selected_hat, task=state.selected_task, topics=topics
            )

        held = await course.cross(ITERATION_START, event, select)
        course.state = course.state.at("backend") if held is None else course.ended_by(held, ITERATION_START.name)

    async def _work(self) -> None:
        """One run of the backend, cut short where the loop is asked to stop."""
        course, parts, state = self._course, self._course.parts, self._course.state
        await course.record.state(state)
        hat = f" ({state.selected_hat})" if state.selected_hat else ""
        parts.tell("iteration", f"iteration {state.iteration}{hat}")
        await parts.patiently(lambda: parts.registry.iteration(parts.loop_id, state.iteration))
        if course.attention.asked is not None:
            return
        backend = parts.backends.get(state.selected_hat) or parts.backends[None]
        running = asyncio.ensure_future(backend.run(self._order(state)))
        try:
            await course.attention.until_asked(running)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
        if not running.cancelled():
            course.state = await self._collected(running.result())
            await course.record.state(course.state)

    def _order(self, state: LoopState) -> Work:
        parts = self._course.parts
        left = parts.spec.max_runtime_seconds
        return Work(
            number=state.iteration,
            prompt=prompt_for(
                parts.prompt, state, parts.spec, loop_id=parts.loop_id, events_file=str(parts.place.events)
            ),
            hat=state.selected_hat,
            facts=facts_of(parts.identity, state),
            deadline=None if left is None else state.started_at + state.waited_seconds + left,
            environment={**parts.environment, "TENTER_ITERATION": str(state.iteration)},
        )

    async def _collected(self, worked: Worked) -> LoopState:
        parts, state = self._course.parts, self._course.state
        batch = await collected(parts.place.events, state.offset, worked, parts.spec.completion_promise)
        cost = state.cost_usd + worked.cost_usd
        return state.at("publishing", batch=batch, offset=batch.stop, cost_usd=cost, notes=())
