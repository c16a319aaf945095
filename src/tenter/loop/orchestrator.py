"""Brings one loop from where it stands to its end: boundary, body, boundary (seed 001, "Event Mapping").

What an iteration came to and what comes next is said by `judging`, whether hooks let it go on by `points`; here it is
put together and awaited. However a loop ends, `loop.complete` or `loop.error` is fired once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, assert_never

from tenter.catalogue import (
    HUMAN_INTERACT,
    ITERATION_START,
    LOOP_COMPLETE,
    LOOP_ERROR,
    LOOP_START,
    PLAN_CREATED,
    HumanInteractedEvent,
    HumanInteractEvent,
    IterationStartedEvent,
    IterationStartEvent,
    LoopEndedEvent,
    LoopEndEvent,
    LoopStartedEvent,
    LoopStartEvent,
    Op,
    PlanCreatedEvent,
    PlanEvent,
)
from tenter.journal import JournalError
from tenter.kernel import Blocked, Escalated, Operation, TenterError
from tenter.loop.attention import Attention
from tenter.loop.batches import collected, events_of
from tenter.loop.facts import START_TOPIC, facts_of, op_of
from tenter.loop.judging import begun, finished, initialised, limit, noted, selecting
from tenter.loop.parts import Parts
from tenter.loop.points import EventOf, Held, Points
from tenter.loop.prompt import prompt_for
from tenter.loop.published import Malformed
from tenter.loop.questions import ask, asked_by
from tenter.loop.reason import Reason
from tenter.loop.record import LoopRecord
from tenter.loop.state import LoopState, Published, Side
from tenter.loop.topic import ASK
from tenter.loop.waiting import Release
from tenter.loop.work import Work, Worked

Body = Callable[[LoopState], Awaitable[LoopState]]
"""The work of a boundary; a state that ends the loop skips what comes after it."""

PLANS: Final = "plan."
"""How the topics begin around which `plan.created` fires."""
RESPONSE: Final = "human.response"
"""The topic of the event that tells the agent what a person answered."""


class Orchestrator:
    """One loop in this process. `state` is where it stands, always."""

    def __init__(
        self, parts: Parts, state: LoopState, *, points: Points, record: LoopRecord, attention: Attention
    ) -> None:
        self.state = state
        self._parts = parts
        self._points = points
        self._record = record
        self._attention = attention
        is_told = points.continued is not None and state.stage == "ending" and state.reason != "completed"
        self._told_end: Side | None = state.side if is_told else None
        """The last side of `loop.error` whose hooks were told."""

    async def run(self) -> LoopState:
        """Brings the loop to its end. Raises cancellation, after the loop was ended for it."""
        self._attention.watch()
        try:
            await self._to_the_end()
        except (asyncio.CancelledError, KeyboardInterrupt):
            await self._end_in_any_case("interrupted", "it was interrupted", interruptions=1)
            raise
        except (JournalError, TenterError, OSError) as error:
            await self._end_in_any_case("failed", str(error))
        except Exception as error:
            await self._end_in_any_case("failed", self._parts.setup.redactor.mask_exception_text(error))
            raise
        finally:
            await self._attention.rest()
        return self.state

    async def _to_the_end(self) -> None:
        while self.state.stage != "over":
            if self.state.stage != "ending" and (asked := self._attention.asked) is not None:
                self.state = self._ended_by(asked)
            match self.state.stage:
                case "start":
                    await self._start()
                case "next":
                    self.state = self._begun(self.state)
                case "iteration":
                    await self._iterate()
                case "backend":
                    await self._work()
                case "publishing":
                    await self._publish()
                case "ending":
                    await self._end()
                case "over":
                    break
                case _:
                    assert_never(self.state.stage)

    async def _start(self) -> None:
        prompt, setup = self._parts.prompt, self._parts.setup
        if self.state.side == "pre" and self._points.continued is None:
            await self._record.begin({"loop_id": self._parts.loop_id, "prompt": prompt, "spec": setup.spec.digest})

        async def initialise(state: LoopState) -> LoopState:
            return initialised(state, START_TOPIC, prompt)

        def event(state: LoopState) -> LoopStartEvent | LoopStartedEvent:
            made = LoopStartEvent if state.side == "pre" else LoopStartedEvent
            return made(op=self._op(state, LOOP_START.name), prompt=prompt, topic=START_TOPIC)

        held = await self._cross(LOOP_START, event, initialise)
        self.state = self.state.at("next") if held is None else self._ended_by(held)

    def _begun(self, state: LoopState) -> LoopState:
        ending = limit(state, self._parts.spec, self._now())
        return begun(state).at("iteration") if ending is None else state.ending(*ending)

    async def _iterate(self) -> None:
        """The selection, between the two sides of `iteration.start`."""

        async def select(state: LoopState) -> LoopState:
            return selecting(state, self._parts.spec, self._parts.task)

        def event(state: LoopState) -> IterationStartEvent | IterationStartedEvent:
            op, number = self._op(state, ITERATION_START.name), state.iteration
            if state.side == "pre":
                return IterationStartEvent(op=op, number=number)
            topics = tuple(dict.fromkeys(one.topic for one in state.taken))
            return IterationStartedEvent(
                op=op, number=number, hat=state.selected_hat, task=state.selected_task, topics=topics
            )

        held = await self._cross(ITERATION_START, event, select)
        self.state = self.state.at("backend") if held is None else self._ended_by(held)

    async def _work(self) -> None:
        """One run of the backend, cut short where the loop is asked to stop."""
        parts, state = self._parts, self.state
        await self._record.state(state)
        hat = f" ({state.selected_hat})" if state.selected_hat else ""
        parts.tell("iteration", f"iteration {state.iteration}{hat}")
        parts.registry.iteration(parts.loop_id, state.iteration)
        backend = parts.backends.get(state.selected_hat) or parts.backends[None]
        running = asyncio.ensure_future(backend.run(self._order(state)))
        try:
            await self._attention.until_asked(running)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
        if self._attention.asked is None:
            self.state = self._collected(running.result())
            await self._record.state(self.state)

    def _order(self, state: LoopState) -> Work:
        parts = self._parts
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

    def _collected(self, worked: Worked) -> LoopState:
        parts, state = self._parts, self.state
        batch = collected(parts.place.events, state.offset, worked, parts.spec.completion_promise)
        cost = state.cost_usd + worked.cost_usd
        return state.at("publishing", batch=batch, offset=batch.stop, cost_usd=cost, notes=())

    async def _publish(self) -> None:
        """What the iteration left to be published, one event after another, and then what it came to."""
        parts, batch = self._parts, self.state.batch
        assert batch is not None, "something is published"
        events = await events_of(parts.place.events, batch, lines=self.state.lines, redactor=parts.setup.redactor)
        for index in range(batch.index, len(events)):
            event = events[index]
            if isinstance(event, Malformed) or not (event.topic.startswith(PLANS) or event.topic == ASK):
                continue
            if event.topic != ASK and not self._points.is_heard(PLAN_CREATED):  # an agent may publish very many
                continue
            if index != self._index():
                self.state = self._at_event(self.state, index)
            await (self._question(event) if event.topic == ASK else self._plan(event))
            if self.state.stage != "publishing" or self._attention.asked is not None:
                return
        assert self.state.batch is not None, "something was published"
        self.state = finished(self.state, parts.spec, events, self.state.batch)

    async def _plan(self, event: Published) -> None:
        index = self._index()

        async def publish(state: LoopState) -> LoopState:
            return state

        def made(state: LoopState) -> PlanEvent | PlanCreatedEvent:
            op = self._op(state, PLAN_CREATED.name, index)
            if state.side == "pre":
                return PlanEvent(op=op, topic=event.topic, payload=event.payload)
            return PlanCreatedEvent(op=op, topic=event.topic, payload=event.payload, plan=event.payload)

        held = await self._cross(PLAN_CREATED, made, publish)
        if isinstance(held, Blocked) and self.state.side == "pre":
            self.state = _refused(self.state, f"your event {event.topic!r} was not published: {held.reason}")
            self._parts.note(f"{event.topic!r} was not published: {held.hook}: {held.reason}")
        elif held is not None:
            self.state = self._ended_by(held)

    async def _question(self, event: Published) -> None:
        index, question = self._index(), asked_by(event, self._parts.spec.answer_timeout_seconds)

        async def put(state: LoopState) -> LoopState:
            return await self._ask(state, question_id=f"{state.iteration}.{index}")

        def made(state: LoopState) -> HumanInteractEvent | HumanInteractedEvent:
            op, asked = self._op(state, HUMAN_INTERACT.name, index), state.batch and state.batch.asked
            if state.side == "pre" or asked is None or asked.outcome is None:
                return HumanInteractEvent(op=op, question=question.question, options=question.options)
            return HumanInteractedEvent(
                op=op, question=asked.question, options=asked.options, outcome=asked.outcome, answer=asked.answer
            )

        if (batch := self.state.batch) is not None and batch.asked is None:
            self.state = self.state.but(batch=batch.but(asked=question))
        held = await self._cross(HUMAN_INTERACT, made, put)
        if isinstance(held, Blocked) and self.state.side == "pre":
            self.state = _refused(self.state, f"your question was not put to a person: {held.reason}")
            self._parts.note(f"a question was not put: {held.hook}: {held.reason}")
        elif held is not None:
            self.state = self._ended_by(held)

    async def _ask(self, state: LoopState, *, question_id: str) -> LoopState:
        """Puts the question; the answer goes to the agent as an event of its own."""
        batch = state.batch
        assert batch is not None, "a question was published"
        assert batch.asked is not None, "a question was published"
        since = self._now()
        answered = await ask(self._parts, self._attention, batch.asked, question_id=question_id)
        waited = max(self._now() - since, 0.0)
        state = state.but(waited_seconds=state.waited_seconds + waited)
        if isinstance(answered, Release):
            return self._ended_by(answered, state)
        payload = {"question": answered.question, "outcome": answered.outcome, "answer": answered.answer}
        response = Published(RESPONSE, payload)
        return state.but(batch=batch.but(asked=answered), pending=(*state.pending, response))

    async def _end(self) -> None:
        """Tells how the loop ended, for the reason that it ends with. What holds up a failed loop changes nothing."""
        operation = LOOP_COMPLETE if self.state.reason == "completed" else LOOP_ERROR

        async def nothing(state: LoopState) -> LoopState:
            return state

        def made(state: LoopState) -> LoopEndEvent | LoopEndedEvent:
            self._told_end = state.side if operation is LOOP_ERROR else None
            kind = LoopEndEvent if state.side == "pre" else LoopEndedEvent
            return kind(
                op=self._op(state, operation.name),
                reason=state.reason or "",
                message=state.message,
                iterations=state.iteration,
            )

        held = await self._cross(operation, made, nothing)
        self.state = self.state.at("over") if held is None else self._ended_by(held)

    async def _end_in_any_case(self, reason: Reason, message: str, *, interruptions: int = 0) -> None:
        """Ends the loop early, to the end: only a second interruption cuts its hooks short. A first one is raised."""
        ending, before = asyncio.ensure_future(self._end_early(reason, message)), interruptions
        while not ending.done():
            try:
                await asyncio.wait((ending,))
            except asyncio.CancelledError:
                interruptions += 1
                if interruptions > 1:
                    ending.cancel()
        if ending.cancelled():
            self.state = self.state.at("over")
        else:
            ending.result()
        if interruptions > before:
            raise asyncio.CancelledError

    async def _end_early(self, reason: Reason, message: str) -> None:
        """Ends the loop whatever befell it: nobody is waited for, and what cannot be recorded stops nothing."""
        self._points.hurry()
        self._record.let_go()
        match self._told_end:
            case None if self.state.stage != "over":
                self.state = self.state.ending(reason, message)
            case "pre":
                self.state = self.state.at("ending", "post")
            case _:
                self.state = self.state.at("over")
        try:
            while self.state.stage == "ending":
                await self._end()
        except (JournalError, TenterError, OSError) as error:
            self._parts.note(f"the end of the loop could not be told to its hooks: {error}")
            self.state = self.state.at("over")

    async def _cross(self, operation: Operation[Any, Any], event_of: EventOf, body: Body) -> Held | None:
        """One boundary with its body, from the side that the state is on; what holds the loop up there.

        Where the body ends the loop, the state says so and the other side is not asked.
        """
        crossing, stage = self._points.crossing(operation), str(self.state.stage)
        ending: object = None
        try:
            if self.state.side == "pre":
                self.state, held = await crossing.side(self.state, event_of)
                if (ending := held) is not None and operation is not LOOP_ERROR:
                    return held
                ending = self.state = await body(self.state)
                if self.state.stage != stage:
                    return None
                self.state = self.state.but(side="post", passes=1)
            self.state, held = await crossing.side(self.state, event_of)
            ending = held or ending
            return None if operation is LOOP_ERROR else held
        except BaseException as error:
            ending = error
            raise
        finally:
            crossing.leave(ending)

    def _ended_by(self, held: Held, state: LoopState | None = None) -> LoopState:
        state = state or self.state
        match held:
            case Blocked():
                return state.ending("blocked", f"the hook {held.hook!r} blocked it: {held.reason}")
            case Escalated():
                return state.ending(
                    "escalated", f"the hook {held.hook!r} escalated it to {held.queue!r}: {held.reason}"
                )
            case Release(how="restart"):
                return state.ending("restart_requested", f"a restart was asked for by {held.who}")
            case Release():
                return state.ending("stopped", f"it was stopped by {held.who}")
            case _:
                assert_never(held)

    def _at_event(self, state: LoopState, index: int) -> LoopState:
        assert state.batch is not None, "something is published"
        return state.at("publishing", batch=state.batch.but(index=index, asked=None))

    def _index(self) -> int:
        assert self.state.batch is not None, "something is published"
        return self.state.batch.index

    def _op(self, state: LoopState, operation: str, index: int = 0) -> Op:
        return op_of(self._parts.identity, state, operation, index)

    def _now(self) -> float:
        return self._parts.setup.clock.now()


def _refused(state: LoopState, note: str) -> LoopState:
    assert state.batch is not None, "something is published"
    return noted(state.but(batch=state.batch.refusing()), note)
