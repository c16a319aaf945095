"""Dispatches one point: runs its chain, contains what its hooks do, folds their answers (D§5–7).

The loop over the links is the path that everything rests on: what a hook passes costs an await and its figures; what
it answers goes to `verdicts`, which decides without awaiting a hook.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TypeVar

from tenter.kernel.call import closes, forget_origin, too_late
from tenter.kernel.chain import Chain, Link
from tenter.kernel.clock import Clock
from tenter.kernel.decision import Decision
from tenter.kernel.errors import HookFailure
from tenter.kernel.event import Event
from tenter.kernel.fold import Fold
from tenter.kernel.frame import DEEPEST, FRAME, Frame, Told
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.outcome import Allow, Block, Outcome, Result, Suspend
from tenter.kernel.redaction import Redactor
from tenter.kernel.trace import NOTHING, Detail, Trace
from tenter.kernel.verdicts import Failure, Judge, Verdict, grant_of, same
from tenter.kernel.watch import Watch

E = TypeVar("E", bound=Event)

STALL_SECONDS = 0.05
"""A synchronous hook that stays longer held up the event loop, and is counted."""

Deciding = Coroutine[object, object, Decision]
Links = tuple[Link, ...]


class Dispatcher:
    """Runs chains for one runtime, with what that runtime was given."""

    __slots__ = ("_known_clean", "_long", "_now", "_timeout", "_watch", "digest", "judge", "redactor")

    def __init__(self, clock: Clock, redactor: Redactor, digest: Callable[[Event], str], timeout: float) -> None:
        self.redactor = redactor
        self.digest = digest
        self.judge = Judge(redactor, clock)
        self._known_clean = redactor.known_clean if redactor.has_rules else None
        self._now = clock.now
        self._timeout = timeout
        self._long = min(STALL_SECONDS, timeout / 2)
        self._watch: Watch | None = None

    def fire(self, chain: Chain, event: Event, trace: Trace, told: Told | None = None) -> Deciding:
        """The whole of a point: redaction, its chain, the recheck, its observers.

        Adds to `told` whoever must hear how the operation ends. Raises cancellation and the user's KeyboardInterrupt,
        and HookFailure into a hook that fires points in a circle.
        """
        if chain.empty:
            return self._undecided(event, trace)
        frame = Frame()
        frame.chain = chain
        if told is not None:
            frame.told = told
        return self._run(frame, event, trace)

    def fire_in(self, chain: Chain, event: Event, trace: Trace, told: Told, *, guards: Links) -> Deciding:
        """The hooks of an `in` point; its observers run after the work (`observe`), so `chain` has none.

        What a hook hands on is judged again by `guards`, those of the pre chain, before anything else sees it.
        """
        frame = Frame()
        frame.chain, frame.told, frame.guards = chain, told, guards
        return self._run(frame, event, trace)

    def observe(self, chain: Chain, event: Event, trace: Trace, ended: Outcome | None) -> Deciding:
        """The observers of an `in` point, all that `chain` has, once the work is done or refused."""
        frame = Frame()
        frame.chain, frame.ended = chain, ended
        return self._run(frame, event, trace)

    async def admit(self, event: E, trace: Trace) -> E:
        """The event as hooks and bodies may see it: redacted. A lookup for one that was seen before."""
        if self._known_clean is None or self._known_clean(event):
            return event
        return await self.redactor.apply(event, note=lambda code: trace.note(self._now(), "redaction", code))

    async def _undecided(self, event: Event, trace: Trace) -> Decision:
        if self._known_clean is not None and not self._known_clean(event):
            event = await self.admit(event, trace)
        return Decision(event)

    async def _run(self, frame: Frame, event: Event, trace: Trace) -> Decision:
        """Redaction, the links, the recheck, the observers. Every way out of it ends the watching and is traced."""
        if self._known_clean is not None and not self._known_clean(event):
            event = await self.admit(event, trace)
        chain = frame.chain
        frame.fold = None
        frame.op = "" if (op := event.op) is None else op.id  # pyright: ignore
        frame.parent = parent = FRAME.get()
        if parent is not None and frame.depth > DEEPEST:
            raise _recursion(chain)
        watch = None
        if chain.watched:
            watch = self._watch
            if watch is None or not watch.enter(frame):
                watch = self._watch_anew(frame)
        token = FRAME.set(frame)
        try:
            event = await self._pass(frame, chain.links, event)
            if frame.fold is not None or chain.observers:
                await self._afterwards(frame, event)
            if watch is not None and frame.task.cancelling() > frame.asked:
                raise asyncio.CancelledError  # a hook swallowed what its caller asked for
            return Decision(event) if frame.fold is None else self._decide(frame, frame.fold)
        finally:
            if FRAME.get() is frame:  # it is not where a coroutine that nobody finished is cleared away
                FRAME.reset(token)
            if watch is not None:
                watch.leave(frame)
            if frame.fold is None and parent is None and not chain.nested and not frame.records:
                trace.add((self._now(), "hook", chain.label, "", frame.op, NOTHING))
            else:
                self._trace(frame, trace)

    async def _pass(self, frame: Frame, links: Links, event: Event) -> Event:
        """Calls `links` in order, each with the event that the one before left; what is answered goes into the fold."""
        frame.links = links
        frame.rest = rest = iter(links)
        then = perf_counter()
        for link in rest:
            try:
                if link.picky and not _wanted(frame, link, event):
                    continue
                answer = link.call(event)
                if link.awaits:
                    answer = await answer
            except BaseException as error:
                answer = self._caught(frame, link, error)
            now = perf_counter()
            took = now - then
            then = now
            link.calls += 1
            link.seconds += took
            if took > self._long:
                answer = self._slow(frame, link, answer, took)
            if answer is not None:
                frame.rest, frame.seconds = None, took
                event = await self._answered(frame, link, answer, event)
                if frame.fold is not None and frame.fold.ended and not link.hook.observe:
                    break
                frame.links, frame.rest = links, rest
                then = perf_counter()
        frame.rest = None
        return event

    async def _afterwards(self, frame: Frame, event: Event) -> None:
        """Lets guards judge once more what was rewritten after they let it through (D§5), then lets observers see it."""
        chain, fold = frame.chain, frame.fold
        if fold is not None and fold.versions and not fold.ended and fold.phase != "in":
            again = tuple(guard for guard in chain.guards if not same(fold.let_through(guard.place), event))
            if again:
                frame.recheck = True
                await self._pass(frame, again, event)
                frame.recheck = False
        if chain.observers:
            if frame.fold is not None:
                frame.ended = self._decide(frame, frame.fold).outcome
            await self._pass(frame, chain.observers, event)

    async def _answered(self, frame: Frame, link: Link, answer: object, event: Event) -> Event:
        """Takes an answer into the fold; returns the event that the next hook is given."""
        fold = frame.fold if frame.fold is not None else Fold(frame.chain.point.phase, event, event)
        new = self.judge.take(frame, fold, link, await self._judged(link, answer, event))
        frame.fold = new
        if new.event is not fold.event and fold.phase == "in":
            await self._hand_on(frame, link, new)
        return new.event

    async def _judged(self, link: Link, answer: object, event: Event) -> Verdict:
        """What an answer counts as, with nothing secret in it."""
        if isinstance(answer, Failure):
            return answer
        try:
            verdict = self.judge.legal(link, answer, event)
            if isinstance(verdict, Event):
                return await self.redactor.apply(verdict)
            if isinstance(verdict, Result):
                return Result(await self.redactor.apply(verdict.value))
        except Exception as error:  # an answer that nobody can look into is the hook's failure
            return self.judge.crash(link, error)
        return verdict

    async def _hand_on(self, frame: Frame, link: Link, fold: Fold) -> None:
        """Lets the guards judge what an `in` hook hands on, before anything else sees it."""
        passed = tuple(guard for guard in frame.chain.guards if guard.place < link.place)
        frame.fold, frame.recheck = Fold("pre", fold.event, fold.event), True
        await self._pass(frame, frame.guards + passed, fold.event)
        frame.recheck = False
        said = tuple(answer for answer in frame.fold.answers if not isinstance(answer.outcome, Allow))
        frame.fold = replace(fold, answers=fold.answers + said, ended=True) if said else fold

    def _decide(self, frame: Frame, fold: Fold) -> Decision:
        event, records = fold.event, frame.records
        try:
            combined = fold.combined(grant_of(fold.original), self.digest)
            if (answer := combined.answer) is None:
                return Decision(event, records=records)
            digest = self.digest(event) if isinstance(answer.outcome, Suspend) else ""
        except Exception as error:  # only what has a digest can be approved
            why = f"the call has no digest that an approval can name: {self.redactor.mask_exception_text(error)}"
            asking = next((a.hook for a in fold.answers if isinstance(a.outcome, Suspend)), "")
            return Decision(event, Block(why, code="no_digest"), asking, failed=True, records=records)
        return Decision(
            event, answer.outcome, answer.hook, answer.failed, combined.requirements, records=records, digest=digest
        )

    def _watch_anew(self, frame: Frame) -> Watch:
        """The shared timer of the loop that runs here."""
        self._watch = watch = Watch(self._timeout)
        watch.enter(frame)
        return watch

    def _trace(self, frame: Frame, trace: Trace) -> None:
        chain = frame.chain
        code = "" if frame.fold is None else self.judge.code(frame.fold)
        if chain.nested:
            trace.count(self._now(), chain.label, code, frame.op)
        else:
            details = NOTHING if frame.parent is None else _inside(frame.parent)
            trace.add((self._now(), "hook", chain.label, code, frame.op, details))
        for record in frame.records:
            trace.add(self.judge.traced(record, frame.op))

    def _slow(self, frame: Frame, link: Link, answer: object, took: float) -> object:
        """Counts an execution that took long; one whose deadline the shared timer saw pass has failed."""
        link.slow(took)
        return self._late(frame, link) if frame.expired else answer

    def _late(self, frame: Frame, link: Link) -> Failure:
        frame.expired = False
        if frame.task.uncancel() > frame.asked:
            self.judge.cancelled(frame, link)
            raise asyncio.CancelledError  # the caller cancelled as well
        return self.judge.crash(link, too_late(link))

    def _caught(self, frame: Frame, link: Link, error: BaseException) -> object:
        """What a hook comes to that raised. Raises again what is not the hook's own."""
        if isinstance(error, Outcome):
            return forget_origin(error)
        if isinstance(error, KeyboardInterrupt) or closes(error):
            raise error
        if isinstance(error, asyncio.CancelledError):
            if frame.expired:
                return self._late(frame, link)
            if link.awaits and _asked_to_cancel(frame):
                self.judge.cancelled(frame, link)
                raise error
        return self.judge.crash(link, error)


def _recursion(chain: Chain) -> HookFailure:
    what = f"{chain.label} was fired inside {DEEPEST} others"
    return HookFailure("recursion", f"{what}: a hook must not fire the point it hangs on, in a circle or not")


def _wanted(frame: Frame, link: Link, event: Event) -> bool:
    """Whether the hook is for this event; one that has an `abandon` is noted as told, once."""
    if link.matches is not None and not link.matches(event):
        return False
    told, abandon = frame.told, link.hook.abandon
    if told is not None and abandon is not None and all(other.hook.abandon != abandon for other, _ in told):
        told.append((link, event))
    return True


def _asked_to_cancel(frame: Frame) -> bool:
    if frame.watched:
        return frame.task.cancelling() > frame.asked
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _inside(parent: Frame) -> Mapping[str, Detail]:
    return FrozenDict({"inside": parent.chain.label, "parent": parent.op, "depth": parent.depth})
