"""The local engine (D§11): runs the operations of one run in this process and journals how far each has come.

A live pass writes `started`, `acting`, `acted`, `finished`; of a fact and of either end of the run, `started` and
`finished`. Where the work is not idempotent, `acting` is on disk before it begins. What cannot be recorded is raised as
JournalError, before anything acts on it. It decides nothing about the run: the agent loop does.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import msgspec

from tenter.agent import BLANK, Waiting
from tenter.catalogue import (
    ACTIVITY_FAILED,
    PERSISTENCE_WRITE,
    RUN,
    ActivityFailedEvent,
    ApprovalRequest,
    Envelope,
    ErrorInfo,
    LoopFacts,
    Op,
    PersistenceWriteEvent,
    RunEndEvent,
    RunStartEvent,
    Status,
    ToolCallEvent,
)
from tenter.harness.approval import request_for
from tenter.harness.bodies import Body, nothing, within
from tenter.harness.ledger import Ledger
from tenter.harness.record import Ending, Pass, Recorder
from tenter.harness.shielded import uncut
from tenter.journal import JournalError, Store, Stream
from tenter.kernel import (
    Blocked,
    Clock,
    Done,
    Escalated,
    Event,
    Failed,
    FrozenDict,
    Operation,
    OperationFailed,
    Redactor,
    Retry,
    Runtime,
    Suspended,
    Trace,
    TraceEvent,
    Unknown,
)

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

STORED = ("checkpoint", "result")
"""What is stored through `persistence.write`; the place of a kind is the index in its path."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as it went, for whoever watches the run: what began, how it ended, what its hooks decided."""

    operation: str
    op: Op
    event: Event
    ending: Ending | None
    """None where it only begins."""
    trace: tuple[TraceEvent, ...] = ()


Watcher = Callable[[Step], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run is made of, beside its plan."""

    envelope: Envelope
    runtime: Runtime
    redactor: Redactor
    store: Store
    trace: Trace
    clock: Clock
    seed: str
    """From which every random number of the run comes."""
    bodies: Mapping[str, Body]
    repeatable: frozenset[str] = frozenset()
    """The tools that may do the same call twice."""
    loop: LoopFacts | None = None
    watcher: Watcher | None = None
    """Is told of each operation; one that raises is told no more."""
    trouble: Callable[[], JournalError | None] = lambda: None
    """What kept a hook's record from the journal, if anything did: the run must not go on then."""

    @property
    def stream(self) -> Stream:
        return Stream("run", self.envelope.run_id)


class LocalEngine:
    """Meets `tenter.agent.Engine` for one run."""

    def __init__(self, run: Run, deadline: float | None) -> None:
        self._run = run
        self._deadline = deadline
        self._recorder = Recorder()
        self._ends = run.runtime.span(RUN, trace=run.trace)
        self._passes: dict[str, int] = {}
        self._executions: dict[str, int] = {}
        self._span: Op | None = None
        self._watcher = run.watcher
        self._ledger = Ledger(run.store, run.stream, clock=run.clock, trace=run.trace, trouble=run.trouble)
        self._now = self._ledger.time()
        self._worked: tuple[str, Event | None] = ("", None)
        self.closed = False
        """Whether the run's terminal state is on disk, or was told though it could not be recorded."""
        self.request: ApprovalRequest | None = None
        """What the run waits for, once that is on disk."""

    async def begin(self, content: Mapping[str, object]) -> None:
        """The first entry of the run: who it is and what it was built from."""
        content = await self._run.redactor.apply({**content, "loop": self._run.loop, "seed": self._run.seed})
        self._now = self._ledger.time()
        await self._ledger.append(lambda: self._ledger.entry("run", content, at=self._now), durable=True)

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        """A whole operation, journaled. Raises cancellation, and JournalError where it cannot be recorded."""
        run, turn = self._run, Pass(operation, self._op(path))
        event = await run.redactor.apply(msgspec.structs.replace(event, op=turn.op))
        await self._ledger.append(lambda: self._recorder.started(turn, event, self._ledger.time()))
        before = len(run.trace)
        self._show(turn, event, None, before)
        steps = _Steps(self, turn) if operation.shape == "leaf" else None
        body = within(run.bodies.get(operation.name, nothing), turn.op, run.clock, operation.name)
        ending = await run.runtime.run(operation, event, body, trace=run.trace, steps=steps)
        self._worked = (path, None if steps is None else steps.result)
        await self._finish(turn, cast("Ending", ending), known=self._worked[1])
        self._show(turn, event, cast("Ending", ending), before)
        return ending

    def worked(self, path: str) -> Event | None:
        last, result = self._worked
        return result if last == path else None

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        """The `pre` of the run. Raises as `run`."""
        run, turn = self._run, Pass(RUN, self._op("0.run.0"), "pre")
        self._span = turn.op
        event = await run.redactor.apply(msgspec.structs.replace(event, op=turn.op))
        await self._ledger.append(lambda: self._recorder.started(turn, event, self._ledger.time()))
        before = len(run.trace)
        self._show(turn, event, None, before)
        ending = cast("Done[RunStartEvent] | Blocked | Failed", await self._ends.open(event))
        start = ending.event if isinstance(ending, Done) else event
        await self._finish(turn, cast("Ending", ending), known=event)
        self._show(turn, event, cast("Ending", ending), before)
        deadlines = [limit for limit in (self._deadline, start.limits.deadline) if limit is not None]
        self._deadline = min(deadlines, default=None)
        return ending

    async def close(self, event: RunEndEvent) -> None:
        """Records the terminal state and then tells of it, each once, whoever cancels meanwhile.

        Raises JournalError where the state cannot be recorded and the engine was not told to let go; what cannot be
        recorded after it stops nothing any more.
        """
        if not self.closed:
            await uncut(self._close(event))

    async def suspend(self, waiting: Waiting) -> None:
        """Records what the run waits for, before anybody is told. Raises JournalError."""
        now = self._ledger.time()
        request = await self._run.redactor.apply(request_for(waiting, self._run.envelope.run_id, now))
        content = cast("dict[str, object]", msgspec.to_builtins(request))
        await self._ledger.append(
            lambda: self._ledger.entry("approval_requested", content, at=now),
            lambda: self._ledger.entry("status", {"status": "awaiting_approval"}, at=now),
            durable=True,
        )
        self.request = request
        await self._store("checkpoint", request.run_id, {"approval": request.id, "path": request.path})

    def now(self) -> float:
        return self._now

    def random(self, path: str) -> float:
        drawn = hashlib.sha256(f"{self._run.seed}/{path}".encode()).digest()
        return int.from_bytes(drawn[:8]) / 2**64

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
        self._executions[path] = self._executions.get(path, 0) + 1
        once = isinstance(event, ToolCallEvent) and event.call.name not in self._run.repeatable
        await self._ledger.append(lambda: self._recorder.acting(turn, event, self._ledger.time()), durable=once)

    async def acted(self, turn: Pass, event: Event) -> None:
        """The work of a pass is done."""
        await self._ledger.append(lambda: self._recorder.acted(turn, event, self._ledger.time()))

    async def _close(self, event: RunEndEvent) -> None:
        run, turn = self._run, Pass(RUN, self._span or self._op("0.run.0"), "post")
        error = event.error and await run.redactor.apply(event.error, fuzzy=True)
        event = await run.redactor.apply(msgspec.structs.replace(event, op=turn.op, error=error))
        status = {"status": event.status, "code": None if event.error is None else event.error.code}
        await self._ledger.append(lambda: self._ledger.entry("status", status), durable=True)
        self.closed = True
        self._ledger.let_go()
        await self._store("result", run.envelope.run_id, _result(event))
        await self._ledger.append(lambda: self._recorder.started(turn, event, self._ledger.time()))
        before = len(run.trace)
        ended = Done(await self._ends.close(event))
        await self._finish(turn, cast("Ending", ended), known=event)
        self._show(turn, event, cast("Ending", ended), before)

    async def _store(self, kind: str, key: str, record: Mapping[str, object]) -> None:
        """Stores a record through `persistence.write`: a hook may change or refuse it, but not what it is."""
        run, op = self._run, self._op(f"0.persistence.write.{STORED.index(kind)}")
        pinned = {"key": key} | ({"status": record["status"]} if "status" in record else {})
        trouble: JournalError | None = None

        async def write(event: PersistenceWriteEvent) -> object:
            nonlocal trouble
            if (event.kind, event.key) != (kind, key):
                raise OperationFailed(f"a hook made the {kind} of {key!r} another record; it may change 'record' alone")
            try:
                content = {**event.record, **pinned}
                await self._ledger.append(lambda: self._ledger.entry(kind, content), durable=True)
            except JournalError as error:
                trouble = error
                raise
            return event.record

        event = PersistenceWriteEvent(envelope=run.envelope, op=op, kind=kind, key=key, record=record)
        ending = await run.runtime.run(PERSISTENCE_WRITE, event, write, trace=run.trace)
        self._ledger.check()
        if trouble is not None:
            raise trouble
        if isinstance(ending, Failed):
            await self._failed(ending, PERSISTENCE_WRITE.name)

    async def _failed(self, failed: Failed, operation: str) -> None:
        """Tells of the failure of an operation that no loop asked for."""
        details = {"operation": operation, "code": failed.code} | ({"hook": failed.hook} if failed.hook else {})
        error = ErrorInfo(code="internal", message=failed.message, details=FrozenDict(details))
        event = ActivityFailedEvent(
            envelope=self._run.envelope, op=BLANK, error=error, step=0, operation=operation, attempt=1
        )
        await self.run("0.activity.failed.0", ACTIVITY_FAILED, event)

    async def _finish(self, turn: Pass, ending: Ending, *, known: Event | None) -> None:
        self._ledger.check()
        now = self._ledger.time()
        await self._ledger.append(lambda: self._recorder.finished(turn, ending, now, known=known))
        self._now = now

    def _op(self, path: str) -> Op:
        number = self._passes[path] = self._passes.get(path, 0) + 1
        run_id = self._run.envelope.run_id
        return Op(
            id=f"{run_id}/{path}#{number}",
            path=path,
            pass_=number,
            attempt=self._executions.get(path, 0) + 1,
            deadline=self._deadline,
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


def _result(event: RunEndEvent) -> Mapping[str, object]:
    return {name: getattr(event, name) for name in ("status", "output", "error", "usage", "cost_usd")}
