"""The local engine (D§11): runs the operations of one run in this process and journals how far each has come.

A live pass writes `started`, `acting`, `acted`, `finished`; of a fact and of either end of a span, `started` and
`finished`. Where the work is not idempotent, `acting` is on disk before it begins; an operation has ended when
`finished` is on disk. What cannot be recorded is raised as JournalError, before anything acts on it. Of a run that goes
on, what is on record is given out and not done again (`replay`). It decides nothing about the run: the agent loop does.
"""

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from tenter.agent import BLANK, Waiting, stand_in
from tenter.catalogue import (
    ACTIVITY_FAILED,
    PERSISTENCE_WRITE,
    RUN,
    ActivityFailedEvent,
    ApprovalDecision,
    ApprovalRequest,
    ErrorInfo,
    Op,
    RunEndEvent,
    RunStartEvent,
    Status,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from tenter.controls import call_digest, result_digest, used_by
from tenter.harness.bodies import nothing, within
from tenter.harness.deciding import decisions_on
from tenter.harness.ledger import Ledger
from tenter.harness.parts import Run, Step
from tenter.harness.places import Places
from tenter.harness.record import Ending, Pass, Recorder
from tenter.harness.recording import Recording
from tenter.harness.replay import Incomplete, Known, Replay
from tenter.harness.shielded import uncut
from tenter.harness.spanned import Subtasks
from tenter.harness.storing import path_of, result_of, store
from tenter.harness.together import together
from tenter.journal import JournalError
from tenter.kernel import (
    Blocked,
    Done,
    Escalated,
    Event,
    Failed,
    FrozenDict,
    Operation,
    Retry,
    Suspended,
    Unknown,
)

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")


class LocalEngine:
    """Meets `tenter.agent.Engine` for one run. With a recording it gives out what is on record and does the rest."""

    def __init__(self, run: Run, recording: Recording | None = None) -> None:
        self._run = run
        self._recorder = Recorder()
        self._replay: Replay | None = None
        if recording is not None:
            self._replay = Replay(
                recording, self._recorder, redactor=run.redactor, tools=run.tools, lenient=run.lenient
            )
        self._ends = run.runtime.span(RUN, trace=run.trace)
        self._tools_act = not run.runtime.chain("tool.invoked.in").links
        """Whether no hook may do other work than that of the tool that is called."""
        self._subtasks = Subtasks(run, self._part)
        self._places = Places()
        self._span: Op | None = None
        self._watcher = run.watcher
        self._ledger = Ledger(run.store, run.stream, clock=run.clock, trace=run.trace, trouble=run.trouble)
        self._now = run.began
        self._frozen = False
        self._fresh = recording is None
        self.stopped: ErrorInfo | None = None
        """Why somebody asked for the end of the run: its cancellation is that, and not its caller's."""
        self.closed = False
        """Whether the run's terminal state is on disk, or was told though it could not be recorded."""

    async def begin(self, content: Mapping[str, object]) -> None:
        """The first entry of the run: who it is and what it was built from."""
        content = await self._run.redactor.apply({**content, "loop": self._run.loop, "seed": self._run.seed})
        await self._ledger.append(lambda: self._ledger.entry("run", content, at=self._now), durable=True)

    def stop(self, error: ErrorInfo) -> None:
        """The run is about to be cancelled because somebody asked for its end."""
        self.stopped = error

    @property
    def replaying(self) -> bool:
        """Whether nothing was done here yet: all that the loop has heard is on record."""
        return not self._fresh

    def freeze(self) -> None:
        """Nothing is to be done: where the record ends, Incomplete is raised."""
        self._frozen = True

    def thaw(self) -> None:
        """The run may be brought to its end."""
        self._frozen = False

    def leave_record(self) -> None:
        """From now on what is on record is not asked for any more: the run comes to its end from where it is."""
        if self._replay is not None:
            self._replay.leave()

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        """A whole operation, journaled. Raises cancellation, ReplayDiverged and JournalError."""
        turn = Pass(operation, self._op(path, event))
        known = await self._known(turn, event)
        if self._replay is not None and (spared := self._replay.spared.get(path, 0)) >= turn.op.pass_:
            self._places.passes[path] = spared
            turn = Pass(operation, self._op(path, event))
        if known is not None and known.recorded.finished is not None:
            return cast("Done[A]", self._recalled(turn, known))
        event = await self._started(turn, event, known)
        before = len(self._run.trace)
        ending, worked = await self._work(turn, event, known)
        self._places.worked[path] = worked
        await self._finish(turn, cast("Ending", ending), known=worked)
        self._settle(turn, cast("Ending", ending), worked, event)
        self._show(turn, event, cast("Ending", ending), before)
        return ending

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        """The `pre` of the run. Raises as `run`."""
        self._span = self._op("0.run.0", event)
        ending = await self._part(Pass(RUN, self._span, "pre"), event, self._ends.open)
        if isinstance(ending, Done):
            self._run.account.tighten(cast("RunStartEvent", ending.event).limits.budgets)
        return cast("Done[RunStartEvent] | Blocked | Failed", ending)

    async def spawn(
        self, path: str, event: SubtaskSpawnEvent
    ) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        """A sub-run and the two ends of its span. Raises as `run`: who was told of its beginning hears of that, too."""
        return await self._subtasks.spawn(self._op(path, event), event)

    async def close(self, event: RunEndEvent) -> None:
        """Records the terminal state and then tells of it, each once, whoever cancels meanwhile.

        Raises JournalError where the state cannot be recorded and the engine was not told to let go; what cannot be
        recorded after it stops nothing any more.
        """
        if not self.closed:
            await uncut(self._close(event))

    async def suspend(self, waiting: Waiting) -> None:
        """Records what the run waits for, before anybody is told. Raises JournalError."""
        run = self._run
        own = [request for request in waiting.requests if request.run_id == run.envelope.run_id]
        if not self._fresh:
            own = [request for request in own if await run.store.request(request.run_id, request.id) is None]
        if not own:
            return
        now = self._ledger.time()
        contents = [cast("dict[str, object]", msgspec.to_builtins(await run.redactor.apply(one))) for one in own]
        entries = [partial(self._ledger.entry, "approval_requested", content, at=now) for content in contents]
        await self._ledger.append(*entries, durable=True)
        for request in own:
            await self._store("checkpoint", {"approval": request.id, "path": request.path})

    async def decisions(self, requests: tuple[ApprovalRequest, ...]) -> tuple[ApprovalDecision, ...] | None:
        """What is on record of decisions; an expiry that nobody has told yet is told here. Raises JournalError.

        Where the run waits on, it is let go of only now: until here nobody else can have gone on with it.
        """
        if self._frozen:
            raise Incomplete
        run_id, now = self._run.envelope.run_id, self._run.clock.now()
        decided = await decisions_on(self._run.store, requests, run_id, now)
        if decided is None:
            status = {"status": "awaiting_approval"}
            await self._ledger.append(lambda: self._ledger.entry("status", status), durable=True)
        return decided

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        if self._replay is None:
            return await together(branches)
        self._replay.beside += 1
        try:
            return await together(branches)
        finally:
            self._replay.beside -= 1

    async def wait(self, path: str, seconds: float) -> None:
        """Waits by the run's own clock, at most so long: one that was set back holds nobody up."""
        rest = min(seconds, self.now(path) + seconds - self._run.clock.now())
        if rest > 0:
            await self._run.pause(rest)

    def worked(self, path: str) -> Event | None:
        return self._places.worked.get(path)

    def attempts(self, path: str) -> int:
        return self._places.executions.get(path, 0)

    def repeatable(self, path: str) -> bool:
        return not self._places.once.get(path, False)

    def digest(self, event: Event) -> str:
        return self._run.runtime.digest(event)

    def now(self, path: str = "") -> float:
        return self._places.times.get(path, 0.0) if path else self._now

    def random(self, path: str) -> float:
        drawn = hashlib.sha256(f"{self._run.seed}/{path}".encode()).digest()
        return int.from_bytes(drawn[:8]) / 2**64

    def left(self, standing: Waiting) -> None:
        """The run waits on, and its part in this process is over: who was told of a beginning here hears of that."""
        self._subtasks.leave(standing)
        self._ends.leave(standing)

    def let_go(self) -> None:
        """From now on what cannot be recorded stops nothing: the run comes to its end."""
        self._ledger.let_go()

    async def mark(self, status: Status) -> None:
        """Records a terminal state and tells nobody."""
        self.closed = True
        self._ledger.let_go()
        await self._ledger.append(lambda: self._ledger.entry("status", {"status": status}), durable=True)

    def note(self, code: str) -> None:
        """Something that befell the run itself, for its trace."""
        self._run.trace.note(self._ledger.time(), "run", code)

    def masked(self, error: Exception) -> str:
        """What an exception says, as it may stand in a result."""
        if isinstance(error, JournalError):
            return self._run.redactor.mask_fuzzy(str(error))
        return self._run.redactor.mask_exception_text(error)

    async def acting(self, turn: Pass, event: Event) -> None:
        """The work of a pass is about to begin."""
        self._ledger.check()
        path = turn.op.path
        self._places.executions[path] = self._places.executions.get(path, 0) + 1
        once = self._places.once[path] = not self._repeats(event)
        await self._ledger.append(lambda: self._recorder.acting(turn, event, self._ledger.time()), durable=once)

    async def acted(self, turn: Pass, event: Event) -> None:
        """The work of a pass is done."""
        await self._ledger.append(lambda: self._recorder.acted(turn, event, self._ledger.time()))

    async def _known(self, turn: Pass, event: Event) -> Known | None:
        """What is on record of a pass. Raises Incomplete where a run that is over would have to go on."""
        if self._replay is None or self._replay.over:
            return None
        known = await self._replay.known(turn, event)
        over = self._frozen or (self._replay.recording.status is not None and turn != Pass(RUN, turn.op, "post"))
        if over and (known is None or known.recorded.finished is None):
            raise Incomplete
        return known

    async def _started(self, turn: Pass, event: B, known: Known | None) -> B:
        """The event of a pass that is done here, redacted; its beginning is on record."""
        await self._begin_here()
        event = await self._run.redactor.apply(msgspec.structs.replace(event, op=turn.op))
        if known is None:
            await self._ledger.append(lambda: self._recorder.started(turn, event, self._ledger.time()))
        self._show(turn, event, None, len(self._run.trace))
        return event

    async def _begin_here(self) -> None:
        """The run goes on beyond its record: its trace and what hooks told of it go on from there."""
        if not self._fresh and self._replay is not None:
            self._fresh = True
            await self._replay.recording.rest()  # what it gathers is of all that is on record
            self._run.trace.go_on(self._replay.recording.traced)
            self._run.remember(self._replay.recording.metadata)

    async def _work(
        self, turn: Pass, event: Event, known: Known | None
    ) -> tuple[Done[Any] | Blocked | Suspended | Escalated | Retry | Failed | Unknown, Event | None]:
        """How the pass ends from where it stands, and the result of its work."""
        run, operation = self._run, turn.operation
        steps = _Steps(self, turn) if operation.shape == "leaf" else None
        body = within(run.bodies.get(operation.name, nothing), turn.op, run.clock, operation.name)
        if known is None or self._replay is None or known.recorded.acting is None:
            ending = await run.runtime.run(operation, event, body, trace=run.trace, steps=steps)
            return ending, None if steps is None else steps.result
        executions = self._places.executions.get(turn.op.path, 0) + known.recorded.executions
        self._places.executions[turn.op.path] = executions
        if known.recorded.acted is not None:
            after = msgspec.structs.replace(self._replay.after(turn, known), op=turn.op)
            return await run.runtime.finish(operation, after, trace=run.trace), after
        op = msgspec.structs.replace(turn.op, attempt=executions + 1)
        before = msgspec.structs.replace(self._replay.before(turn, known), op=op)
        if self._repeats(before):
            ending = await run.runtime.work(operation, before, body, trace=run.trace, steps=steps)
            return ending, None if steps is None else steps.result
        reason = f"the process that did {operation.name} ended meanwhile: it may have been done, or not"
        return Unknown(reason=reason, event=before, digest=run.runtime.digest(before)), None

    def _recalled(self, turn: Pass, known: Known) -> Ending:
        """How a pass ended that is on record: nothing is fired."""
        assert self._replay is not None, "what is known was recorded"
        recorded, path = known.recorded, turn.op.path
        ending = self._replay.ending(turn, known)
        worked: Event | None = None
        if recorded.acted is not None:
            changed = "result" in (recorded.finished or {})
            worked = ending.event if isinstance(ending, Done) and not changed else self._replay.after(turn, known)
        self._places.executions[path] = self._places.executions.get(path, 0) + recorded.executions
        self._places.worked[path] = worked
        given = self._replay.before(turn, known) if isinstance(ending, Failed) else known.event
        self._places.once[path] = recorded.acting is not None and not self._repeats(given)
        self._settle(turn, ending, worked, given)
        self._pass(path, recorded.at)
        return ending

    async def _part(self, turn: Pass, event: Event, fire: Callable[[Any], Awaitable[Any]]) -> Ending:
        """One end of a span, or what is between the two: from the record, or fired and journaled."""
        known = await self._known(turn, event)
        if known is not None and self._replay is not None and known.recorded.finished is not None:
            self._pass(turn.op.path, known.recorded.at)
            recalled = self._replay.ending(turn, known)
            self._subtasks.settle(turn, recalled)
            return recalled
        event = await self._started(turn, event, known)
        before = len(self._run.trace)
        ending = cast("Ending", await fire(event))
        await self._finish(turn, ending, known=event)
        self._show(turn, event, ending, before)
        return ending

    async def _close(self, event: RunEndEvent) -> None:
        run = self._run
        span = self._span or self._op("0.run.0", event)
        error = event.error and await run.redactor.apply(event.error, fuzzy=True)
        event = await run.redactor.apply(msgspec.structs.replace(event, op=span, error=error))
        recording = None if self._replay is None else self._replay.recording
        await self._begin_here()
        await self._subtasks.end()
        if recording is None or recording.status is None:
            status = {"status": event.status, "code": None if event.error is None else event.error.code}
            await self._ledger.append(lambda: self._ledger.entry("status", status), durable=True)
        self.closed = True
        self._ledger.let_go()
        if recording is None or not recording.stored.get("result"):
            await self._store("result", result_of(event))
        await self._part(Pass(RUN, span, "post"), event, self._told_of_end)

    async def _told_of_end(self, event: RunEndEvent) -> Ending:
        return Done(await self._ends.close(event))

    async def _store(self, kind: str, record: Mapping[str, object]) -> None:
        """Stores a record, and tells of the failure of that, which no loop asked for."""
        await self._begin_here()
        op = self._op(path_of(kind), None)
        failed = await store(self._run, self._ledger, op=op, kind=kind, record=record)
        if failed is None:
            return
        operation = PERSISTENCE_WRITE.name
        details = {"operation": operation, "code": failed.code} | ({"hook": failed.hook} if failed.hook else {})
        error = ErrorInfo(code="internal", message=failed.message, details=FrozenDict(details))
        event = ActivityFailedEvent(
            envelope=self._run.envelope, op=BLANK, error=error, step=0, operation=operation, attempt=1
        )
        await self.run("0.activity.failed.1", ACTIVITY_FAILED, event)  # 0 is that of the loop's own failures there

    async def _finish(self, turn: Pass, ending: Ending, *, known: Event | None) -> None:
        """The pass has ended once that is on disk."""
        self._ledger.check()
        now, traced = self._ledger.time(), self._run.trace.last
        await self._ledger.append(
            lambda: self._recorder.finished(turn, ending, now, known=known, trace=traced), durable=True
        )
        self._pass(turn.op.path, now)

    def _pass(self, path: str, now: float) -> None:
        """Time goes on to the end of a pass: side by side, to that of the last one, whoever ended first."""
        self._places.times[path] = now
        self._now = max(self._now, now)

    def _settle(self, turn: Pass, ending: Ending, worked: Event | None, given: Event) -> None:
        """What a pass used is counted, whether it was done here or is on record; `given` is what its work was given."""
        account = self._run.account
        begun = self._places.executions.get(turn.op.path, 0) >= turn.op.attempt
        used, cost_known = used_by(turn.operation.name, worked, begun)
        account.settle(turn.op.id, used, cost_known=cost_known)
        match ending:
            case Done(event=ToolResultEvent() as event):
                account.called(call_digest(event.call), result_digest(event.result))
            case Failed() if isinstance(given, ToolCallEvent):
                account.called(call_digest(given.call), result_digest(stand_in(ending)))
            case Blocked(hook="duplicate") if worked is None:
                account.refused()
            case Blocked() if isinstance(given, ToolCallEvent):
                account.called(call_digest(given.call), result_digest(stand_in(ending)))
            case _:
                pass

    def _repeats(self, event: Event) -> bool:
        """Whether the work may be done twice: all but that of a tool that is not idempotent."""
        if not isinstance(event, ToolCallEvent):
            return True
        tool = self._run.tools.get(event.call.name)
        return self._tools_act and tool is not None and tool.idempotent

    def _op(self, path: str, event: Event | None) -> Op:
        """The op of the next pass, with what the loop alone knows of it."""
        told = event.op if event is not None and isinstance(event.op, Op) else BLANK
        number, run_id = self._places.next(path), self._run.envelope.run_id
        return Op(
            id=f"{run_id}/{path}#{number}",
            path=path,
            pass_=number,
            attempt=self._places.executions.get(path, 0) + 1,
            parent=self._run.parent_op,
            deadline=told.deadline,
            approval=told.approval,
            loop=self._run.loop,
        )

    def _show(self, turn: Pass, event: Event, ending: Ending | None, before: int) -> None:
        if self._watcher is None:
            return
        trace = () if ending is None else self._run.trace.events(before)
        try:
            self._watcher(Step(operation=turn.operation.name, op=turn.op, event=event, ending=ending, trace=trace))
        except Exception as error:
            self._watcher = None
            self._run.trace.note(self._ledger.time(), "watcher", "raised", exception=type(error).__name__)


class _Steps:
    """Journals how far one pass has come."""

    def __init__(self, engine: LocalEngine, turn: Pass) -> None:
        self._engine = engine
        self._turn = turn
        self.result: Event | None = None

    async def acting(self, event: Event) -> None:
        await self._engine.acting(self._turn, event)

    async def acted(self, event: Event) -> None:
        self.result = event
        await self._engine.acted(self._turn, event)
