"""Dispatches one point: runs its chain, contains what its hooks do, folds their answers (D§5–7).

The loop over the links is the path that everything rests on: what a hook passes costs an await and its figures; what
it answers goes to `verdicts`, which decides without awaiting a hook.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import get_ident
from time import perf_counter
from typing import Any, TypeVar, cast

from tenter.kernel.asking import outside, take_back
from tenter.kernel.call import closes, forget_origin, too_late
from tenter.kernel.chain import Chain, Link
from tenter.kernel.clock import Clock
from tenter.kernel.decision import Decision
from tenter.kernel.errors import HookFailure
from tenter.kernel.event import Event
from tenter.kernel.fold import Fold
from tenter.kernel.frame import DEEPEST, STACK, Frame, Links, Part, Stack, begin_stack
from tenter.kernel.frozen import FrozenDict
from tenter.kernel.outcome import Allow, Block, Outcome, Result, Suspend
from tenter.kernel.redaction import Redactor
from tenter.kernel.sameness import same
from tenter.kernel.trace import NOTHING, Detail, Trace
from tenter.kernel.verdicts import Failure, Judge, Verdict, grant_of
from tenter.kernel.watch import Watch, task_in, watch_of

E = TypeVar("E", bound=Event)

STALL_SECONDS = 0.05
"""A synchronous hook that stays longer held up the event loop, and is counted."""

LOOK_SECONDS = 3e-6
"""A hook that was back sooner never waited for anything: nobody can have cancelled it."""


class Dispatcher:
    """Runs chains for one runtime, with what that runtime was given."""

    __slots__ = ("_known_clean", "_now", "_timeout", "_watch", "digest", "judge", "redactor")

    def __init__(self, clock: Clock, redactor: Redactor, digest: Callable[[Event], str], timeout: float) -> None:
        self.redactor = redactor
        self.digest = digest
        self.judge = Judge(redactor, clock)
        self._known_clean = redactor.known_clean if redactor.has_rules else None
        self._now = clock.now
        self._timeout = timeout
        self._watch: Watch | None = None

    async def admit(self, event: E, trace: Trace) -> E:
        """The event as hooks and bodies may see it: redacted. A lookup for one that was seen before."""
        if self._known_clean is None or self._known_clean(event):
            return event
        return await self.redactor.apply(event, note=lambda code: trace.note(self._now(), "redaction", code))

    async def fire(  # noqa: C901, PLR0912, PLR0915  # the hot path: a call from here costs as much as a hook
        self, chain: Chain, event: Event, trace: Trace, part: Part | None = None
    ) -> Decision:
        """One point: redaction, its links, the recheck, its observers.

        Raises cancellation and the user's KeyboardInterrupt, and HookFailure into a hook that fires points in a circle.
        """
        if self._known_clean is not None and not self._known_clean(event):
            event = await self.admit(event, trace)
        if chain.empty:
            return Decision(event)
        watch = self._watch
        if watch is None or watch.thread != get_ident() or (task := task_in(watch.loop)) is None:
            watch, task = self._watch_here()
        if (stack := STACK.get()) is None or stack.task is not task:
            stack = _stack_here(stack, task, watch)
        frame = Frame()
        frame.chain, frame.part, frame.fold = chain, part, None
        op: Any = event.op  # the kernel knows no more of it than its id
        frame.op = "" if op is None else op.id
        frame.task, frame.asked = task, 0 if task is None else task.cancelling()
        frame.parent = parent = stack.top
        if parent is not None and parent.depth >= DEEPEST:
            raise _recursion(chain)
        stack.top = frame
        if chain.watched and watch is not None and watch.timer is None:
            watch.start()
        try:
            links = chain.links or self._next(frame, event)
            while links:
                then = perf_counter()
                for link in links:
                    frame.link = link
                    try:
                        if link.picky and not _wanted(frame, link, event):
                            continue
                        answer = await link.call(event) if link.awaits else link.call(event)
                    except BaseException as error:
                        answer = self._caught(frame, link, error)
                    now = perf_counter()
                    took = now - then
                    then = now
                    link.calls += 1
                    link.seconds += took
                    if took > LOOK_SECONDS or (not link.awaits and frame.cancelled):
                        answer = await self._looked_at(frame, link, answer, took)
                    if answer is not None:
                        event = await self._answered(frame, answer, event, took)
                        if frame.leaves:
                            break
                        then = perf_counter()
                links = self._next(frame, event) if frame.fold is not None or chain.observers else ()
            return Decision(event) if frame.fold is None else self._decide(frame, frame.fold)
        finally:
            stack.top = parent
            if parent is None and frame.fold is None and not frame.records and not chain.nested:
                trace.add((self._now(), "hook", chain.label, "", frame.op, NOTHING))
            else:
                self._trace(frame, trace)

    def _next(self, frame: Frame, event: Event) -> Links:
        """What runs after the links that just ran; nothing at the end."""
        frame.turn += 1
        frame.link, frame.leaves = None, False
        chain, fold = frame.chain, frame.fold
        if frame.handed is not None and (links := self._handed_on(frame, event)):
            return links
        if frame.stage == "links":
            frame.stage = "recheck"
            if fold is not None and fold.versions and not fold.ended and fold.phase != "in":
                again = tuple(guard for guard in chain.guards if not same(fold.let_through(guard.place), event))
                if again:
                    frame.recheck = True
                    return again
        if frame.stage == "recheck":
            frame.stage = "observers"
            frame.recheck = False
            if frame.part is not None:
                frame.ended = frame.part.ended
            if frame.fold is not None and chain.observers:
                frame.ended = self._decide(frame, frame.fold).outcome
            return chain.observers
        return ()

    def _handed_on(self, frame: Frame, event: Event) -> Links:
        """Lets the guards judge what an `in` hook hands on before anything else sees it, then goes on after it."""
        assert frame.handed is not None
        fold, link = frame.handed
        if not frame.recheck:
            outer = () if frame.part is None else frame.part.guards
            frame.fold, frame.recheck = Fold("pre", event, event), True
            guards = outer + tuple(guard for guard in frame.chain.guards if guard.place < link.place)
            if guards:
                return guards
        said = () if frame.fold is None else frame.fold.answers
        said = tuple(answer for answer in said if not isinstance(answer.outcome, Allow))
        frame.fold = replace(fold, answers=fold.answers + said, ended=True) if said else fold
        frame.handed, frame.recheck = None, False
        return () if said else tuple(after for after in frame.chain.links if after.place > link.place)

    async def _answered(self, frame: Frame, answer: object, event: Event, took: float) -> Event:
        """Takes an answer into the fold; returns the event that the next hook is given."""
        link, frame.link, frame.seconds = frame.link, None, took
        assert link is not None
        fold = frame.fold if frame.fold is not None else Fold(frame.chain.point.phase, event, event)
        new = frame.fold = self.judge.take(frame, fold, link, await self._judged(frame, link, answer, event))
        if new.event is not fold.event and fold.phase == "in":
            frame.handed = (new, link)
        frame.leaves = (frame.handed is not None and not frame.recheck) or (new.ended and not link.hook.observe)
        return new.event

    async def _judged(self, frame: Frame, link: Link, answer: object, event: Event) -> Verdict:
        """What an answer counts as, with nothing secret in it."""
        if type(answer) is Failure:
            return answer
        try:
            verdict = self.judge.legal(link, answer, event)
            if isinstance(verdict, Event):
                return await self.redactor.apply(verdict)
            if isinstance(verdict, Result):
                return Result(await self.redactor.apply(verdict.value))
            if isinstance(verdict, Outcome):
                return await self.judge.masked(verdict)
        except BaseException as error:  # an answer that nobody can look into is the hook's failure
            if issubclass(type(error), KeyboardInterrupt) or closes(error) or frame.cancelled:
                raise
            return self.judge.crash(link, error)
        return verdict

    def _decide(self, frame: Frame, fold: Fold) -> Decision:
        event = fold.event
        try:
            combined = fold.combined(grant_of(fold.original), self.digest)
            if combined.lifted:
                self.judge.lift(frame, combined.lifted)
            if (answer := combined.answer) is None:
                return Decision(event, records=frame.records)
            digest = self.digest(event) if isinstance(answer.outcome, Suspend) else ""
        except Exception as error:  # only what has a digest can be approved
            why = f"the call has no digest that an approval can name: {self.judge.told(error)}"
            asking = next((a.hook for a in fold.answers if isinstance(a.outcome, Suspend)), "")
            return Decision(event, Block(why, code="no_digest"), asking, failed=True, records=frame.records)
        return Decision(
            event,
            answer.outcome,
            answer.hook,
            answer.failed,
            combined.requirements,
            records=frame.records,
            digest=digest,
        )

    def _watch_here(self) -> "tuple[Watch | None, asyncio.Task[object] | None]":
        """The watch of the loop that runs here, and the task; neither where hooks run without a loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None, None
        watch = self._watch = watch_of(loop)
        watch.look_often(self._timeout)
        return watch, task_in(loop)

    def _trace(self, frame: Frame, trace: Trace) -> None:
        chain = frame.chain
        code = "" if frame.fold is None else self.judge.code(frame.fold, frame.lifted)
        if chain.nested:
            trace.count(self._now(), chain.label, code, frame.op)
        else:
            details = NOTHING if frame.parent is None else _inside(frame.parent)
            trace.add((self._now(), "hook", chain.label, code, frame.op, details))
        for record in frame.records:
            if not chain.nested or record.disposition != "pass":
                trace.add(self.judge.traced(record, frame.op))
                if trace.heard is not None and record.result not in ("ok", "denied"):
                    trace.heard(trace.last, record.reason)

    async def _looked_at(self, frame: Frame, link: Link, answer: object, took: float) -> object:
        """What the answer of a hook that took a while counts for. Raises what its caller asked for and it swallowed."""
        if took > STALL_SECONDS:
            link.slow(took)
        return await self._settled(frame, link, answer) if frame.expired or frame.cancelled else answer

    async def _settled(self, frame: Frame, link: Link, answer: object) -> object:
        """What an answer counts for in a task that was asked to cancel while its hook ran; by whom, decides (0011)."""
        late, frame.expired = frame.expired, False
        if outside(frame, link) > late:
            if late and frame.task is not None:
                frame.task.uncancel()
            self.judge.cancelled(frame, link)
            raise asyncio.CancelledError
        if await take_back(frame) and not late:
            own = HookFailure("crashed", f"the hook {link.name!r} cancelled the task that it runs in")
            return self.judge.crash(link, own)
        return self.judge.crash(link, too_late(link)) if late else answer

    def _caught(self, frame: Frame, link: Link, error: BaseException) -> object:
        """What a hook comes to that raised. Raises again what is not the hook's own."""
        cls = type(error)  # what `isinstance` asks besides is the hook author's code
        if issubclass(cls, Outcome):
            return forget_origin(cast(Outcome, error))
        if issubclass(cls, KeyboardInterrupt) or closes(error):
            raise error
        if issubclass(cls, asyncio.CancelledError) and not frame.expired and outside(frame, link):
            self.judge.cancelled(frame, link)
            raise error
        return self.judge.crash(link, error)


def _recursion(chain: Chain) -> HookFailure:
    what = f"{chain.label} was fired inside {DEEPEST} others"
    return HookFailure("recursion", f"{what}: a hook must not fire the point it hangs on, in a circle or not")


def _stack_here(inherited: Stack | None, task: "asyncio.Task[object] | None", watch: Watch | None) -> Stack:
    """A stack for a task that has none, on top of the dispatch that started the task."""
    stack = begin_stack(task, None if inherited is None else inherited.top)
    if watch is not None:
        watch.add(stack)
    return stack


def _wanted(frame: Frame, link: Link, event: Event) -> bool:
    """Whether the hook is for this event; one that has an `abandon` is noted as told, once."""
    if link.matches is not None and not link.matches(event):
        return False
    abandon = link.hook.abandon
    if frame.part is not None and abandon is not None:
        told = frame.part.told
        if all(other.hook.abandon != abandon for other, _ in told):
            told.append((link, event))
    return True


def _inside(parent: Frame) -> Mapping[str, Detail]:
    return FrozenDict({"inside": parent.chain.label, "parent": parent.op, "depth": parent.depth})
