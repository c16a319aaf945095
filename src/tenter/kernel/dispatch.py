"""Dispatches one point: runs its chain, contains what its hooks do, folds their answers (D§5–7).

The loop over the links is the path that everything rests on: what a hook passes costs an await and its figures; what
it answers goes to `verdicts`, which decides without awaiting a hook.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Token
from dataclasses import replace
from time import perf_counter

from tenter.kernel.chain import Chain, Link
from tenter.kernel.clock import Clock
from tenter.kernel.decision import Decision
from tenter.kernel.errors import HookFailure
from tenter.kernel.event import Event
from tenter.kernel.fold import Fold
from tenter.kernel.frame import DEEPEST, FRAME, Frame, Told
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.outcome import Outcome
from tenter.kernel.redaction import Redactor
from tenter.kernel.trace import NOTHING, Detail, Trace
from tenter.kernel.verdicts import Failure, Judge, grant_of
from tenter.kernel.watch import Watch

STALL_SECONDS = 0.05

Deciding = Coroutine[object, object, Decision]


class Dispatcher:
    """Runs chains for one runtime, with what that runtime was given."""

    __slots__ = ("_now", "_timeout", "_watch", "digest", "judge", "redactor")

    def __init__(self, clock: Clock, redactor: Redactor, digest: Callable[[Event], str], timeout: float) -> None:
        self.redactor = redactor
        self.digest = digest
        self.judge = Judge(redactor, clock)
        self._now = clock.now
        self._timeout = timeout
        self._watch: Watch | None = None

    def fire(self, chain: Chain, event: Event, trace: Trace, told: Told | None = None) -> Deciding:
        """The whole of a point: its chain, then its observers. Adds to `told` whoever must hear how this ends."""
        if chain.empty:
            return _undecided(event)
        frame = Frame()
        frame.links = chain.links
        return self._run(frame, chain, event, trace, told)

    def fire_in(self, chain: Chain, event: Event, trace: Trace, told: Told, *, pre: Chain) -> Deciding:
        """The hooks of an `in` point, without its observers: those run after the work (`observe`).

        What a hook hands on is judged again by the guards of `pre` and of `chain` before anything else sees it.
        """
        frame = Frame()
        frame.links = chain.links
        frame.guards = (*pre.guards, *chain.guards)
        frame.stage = "last"
        return self._run(frame, chain, event, trace, told)

    def observe(self, chain: Chain, event: Event, trace: Trace, ended: Outcome | None) -> Deciding:
        """The observers of an `in` point, once the work is done or refused."""
        frame = Frame()
        frame.links = chain.observers
        frame.ended = ended
        frame.stage = "last"
        return self._run(frame, chain, event, trace, None)

    async def admit(self, event: Event, trace: Trace) -> Event:
        """The event as hooks may see it: redacted. A lookup for one that was seen before."""
        if self.redactor.known_clean(event):
            return event
        return await self.redactor.apply(event, note=lambda code: trace.note(self._now(), "redaction", code))

    async def _run(self, frame: Frame, chain: Chain, event: Event, trace: Trace, told: Told | None) -> Decision:
        """Runs `frame.links` in order on `event`, then what `_next` says; what was answered gathers in `frame`."""
        token = self._begin(frame, chain)
        links = frame.links
        try:
            while links:
                frame.links = links
                frame.rest = rest = iter(links)
                then = perf_counter()
                for link in rest:
                    try:
                        if link.picky and not _wanted(frame, link, event):
                            continue
                        answer = link.call(event)
                        if link.awaits:
                            answer = await answer  # pyright: ignore[reportGeneralTypeIssues]  # seen at registration
                        if frame.expired:
                            answer = self._late(frame, link)
                    except BaseException as error:
                        answer = self._caught(frame, link, error)
                    now = perf_counter()
                    took = now - then
                    then = now
                    link.calls += 1
                    link.seconds += took
                    if took > STALL_SECONDS:
                        link.slow(took)
                    if answer is not None:
                        frame.rest = None
                        event = await self._answered(frame, link, answer, event)
                        if frame.ends and not link.hook.observe:
                            break
                        frame.rest = rest
                        then = perf_counter()
                if frame.fold is None and not chain.observers:
                    return Decision(event)
                links = self._next(frame, chain, event)
            return self._decide(frame, event)
        finally:
            FRAME.reset(token)
            self._end(frame, chain, event, trace, told)

    def _begin(self, frame: Frame, chain: Chain) -> Token[Frame | None]:
        parent = FRAME.get()
        frame.chain = chain
        if parent is not None:
            frame.parent = parent
            frame.depth = parent.depth + 1
            if frame.depth > DEEPEST:
                what = f"{chain.label} was fired inside {DEEPEST} others"
                raise HookFailure(
                    "recursion", f"{what}: a hook must not fire the point it hangs on, in a circle or not"
                )
        if chain.watched:
            if (watch := self._watch) is None or not watch.enter(frame):
                watch = self._watch = Watch(self._timeout)
                watch.enter(frame)
            frame.leave = watch.leave
        return FRAME.set(frame)

    def _end(self, frame: Frame, chain: Chain, event: Event, trace: Trace, told: Told | None) -> None:
        frame.rest = None
        if (leave := frame.leave) is not None:
            leave(frame)
        if told is not None:
            told.extend(frame.told)
        op = "" if event.op is None else event.op.id  # pyright: ignore[reportAttributeAccessIssue,reportUnknownVariableType,reportUnknownMemberType]  # all that the kernel knows of an op
        code = "" if frame.fold is None else self.judge.code(frame.fold)
        if chain.nested:
            trace.count(self._now(), chain.label, code, op)
        else:
            details = NOTHING if frame.parent is None else _inside(frame.parent)
            trace.add((self._now(), "hook", chain.label, code, op, details))
        for record in frame.records:
            trace.add(self.judge.traced(record, op))

    def _next(self, frame: Frame, chain: Chain, event: Event) -> tuple[Link, ...]:
        """What runs after the links that just ran: guards that judge once more (D§5), then the observers."""
        fold = frame.fold
        if frame.stage == "links":
            frame.stage = "recheck"
            if fold is not None and fold.versions and not fold.ended:
                again = tuple(guard for guard in chain.guards if fold.let_through(guard.place) != event)
                if again:
                    frame.recheck = True
                    return again
        if frame.stage == "recheck":
            frame.stage = "last"
            frame.recheck = False
            frame.ended = self._decide(frame, event).outcome
            return chain.observers
        return ()

    async def _answered(self, frame: Frame, link: Link, answer: object, event: Event) -> Event:
        """Takes an answer into the fold; returns the event that the next hook is given."""
        if isinstance(answer, Event):
            answer = self.judge.replacement(frame, link, answer, event)
            if isinstance(answer, Event):
                answer = await self.redactor.apply(answer)
        fold = frame.fold if frame.fold is not None else Fold(frame.chain.point.phase, event, event)
        new = frame.fold = self.judge.take(frame, fold, link, answer)
        if new.event is not fold.event and frame.guards:
            await self._hand_on(frame, link, new)
        frame.ends = frame.fold.ended
        return frame.fold.event

    async def _hand_on(self, frame: Frame, link: Link, fold: Fold) -> None:
        """Lets the guards that let another event through judge what an `in` hook hands on, before the next sees it."""
        judging = Frame()
        judging.links = tuple(g for g in frame.guards if g.point is not link.point or g.place < link.place)
        judging.fold = fold
        judging.recheck = True
        judging.stage = "last"
        await self._run(judging, frame.chain, fold.event, Trace(), None)
        frame.records += judging.records
        said = judging.fold.answers
        if said != fold.answers:
            frame.fold = replace(fold, answers=said, ended=True)

    def _decide(self, frame: Frame, event: Event) -> Decision:
        fold = frame.fold
        if fold is None:
            return Decision(event)
        combined = fold.combined(grant_of(event), self.digest)
        if (answer := combined.answer) is None:
            return Decision(event, records=frame.records)
        return Decision(event, answer.outcome, answer.hook, answer.failed, combined.requirements, frame.records)

    def _late(self, frame: Frame, link: Link) -> Failure:
        """What a hook comes to whose deadline the shared timer saw pass. Raises where the caller cancelled as well."""
        frame.expired = False
        if frame.task is not None and frame.task.uncancel() > 0:
            raise asyncio.CancelledError
        return Failure("timeout", f"the hook {link.name!r} gave no answer within {link.timeout:g} s")

    def _caught(self, frame: Frame, link: Link, error: BaseException) -> Outcome | Failure:
        if isinstance(error, Outcome):
            return error
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            raise error
        if isinstance(error, asyncio.CancelledError):
            if frame.expired:
                return self._late(frame, link)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                frame.records += (self.judge.cancelled(frame, link),)
                raise error
        return self.judge.crash(link, error)


async def _undecided(event: Event) -> Decision:
    return Decision(event)


def _wanted(frame: Frame, link: Link, event: Event) -> bool:
    """Whether the hook is for this event; one that has an `abandon` is noted as told."""
    if link.matches is not None and not link.matches(event):
        return False
    if link.tells and not frame.recheck:
        frame.told += ((link, event),)
    return True


def _inside(parent: Frame) -> Mapping[str, Detail]:
    return FrozenDict({"inside": parent.chain.label, "depth": parent.depth})
