"""The local engine (D§11): runs the operations of one run in this process and journals how far each has come.

A live pass writes `started`, `acting`, `acted`, `finished`; of a fact, `started` and `finished`. Where the work is not
idempotent, `acting` is on disk before it begins. It decides nothing about the run: the agent loop does.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from tenter.agent import Waiting
from tenter.catalogue import (
    PERSISTENCE_WRITE,
    RUN,
    ApprovalRequest,
    Envelope,
    LoopFacts,
    Op,
    PersistenceWriteEvent,
    RunEndEvent,
    RunStartEvent,
    ToolCallEvent,
)
from tenter.harness.approval import request_for
from tenter.harness.bodies import Body, nothing, within
from tenter.harness.record import Ending, Recorder
from tenter.journal import Entry, Store, Stream, microseconds
from tenter.kernel import (
    Blocked,
    Clock,
    Done,
    Escalated,
    Event,
    Failed,
    Operation,
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
    loop: LoopFacts | None = None
    watcher: Watcher | None = None

    @property
    def stream(self) -> Stream:
        return Stream("run", self.envelope.run_id)


class LocalEngine:
    """Meets `tenter.agent.Engine` for one run."""

    def __init__(self, run: Run, deadline: float | None) -> None:
        self._run = run
        self._deadline = deadline
        self._recorder = Recorder()
        self._passes: dict[str, int] = {}
        self._executions: dict[str, int] = {}
        self._now = run.clock.now()
        self.closed = False
        """Whether the run's terminal state is on disk."""
        self.request: ApprovalRequest | None = None
        """What the run waits for."""

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        """A whole operation, journaled. Raises cancellation, and JournalError where it cannot be recorded."""
        op = self._op(path)
        event = cast(B, await self._run.redactor.apply(msgspec.structs.replace(event, op=op)))
        await self._append(self._recorder.started(_any(operation), op, event, self._time()))
        before = len(self._run.trace)
        self._tell(operation, op, event, None, before)
        steps = _Steps(self, op, operation) if operation.shape == "leaf" else None
        body = within(self._run.bodies.get(operation.name, nothing), op, self._run.clock, operation.name)
        ending = await self._run.runtime.run(operation, event, body, trace=self._run.trace, steps=steps)
        acted = None if steps is None else steps.result
        self._now = self._time()
        await self._append(self._recorder.finished(_any(operation), op, cast("Ending", ending), self._now, acted=acted))
        self._tell(operation, op, event, cast("Ending", ending), before)
        return ending

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        op = self._op("0.run.0")
        event = await self._run.redactor.apply(msgspec.structs.replace(event, op=op))
        await self._append(self._recorder.started(_any(RUN), op, event, self._time()))
        decision = await self._run.runtime.dispatch("run.pre", event, trace=self._run.trace)
        start = cast(RunStartEvent, decision.event)
        ending = self._run.runtime.stopped(decision) or Done(start)
        self._now = self._time()
        await self._append(self._recorder.finished(_any(RUN), op, cast("Ending", ending), self._now, acted=start))
        if start.limits.deadline is not None:
            self._deadline = min(start.limits.deadline, self._deadline or start.limits.deadline)
        return cast("Done[RunStartEvent] | Blocked | Failed", ending)

    async def close(self, event: RunEndEvent) -> None:
        op = self._op("0.run.1")
        event = await self._run.redactor.apply(msgspec.structs.replace(event, op=op))
        code = None if event.error is None else event.error.code
        await self._append(self._entry("status", {"status": event.status, "code": code}), durable=True)
        self.closed = True
        await self.store("result", event.envelope.run_id, _result(event))
        await self._append(self._recorder.started(_any(RUN), op, event, self._time()))
        decision = await self._run.runtime.dispatch("run.post", event, trace=self._run.trace)
        self._now = self._time()
        await self._append(
            self._recorder.finished(_any(RUN), op, Done(decision.event), self._now, acted=decision.event)
        )

    async def suspend(self, waiting: Waiting) -> None:
        request = request_for(waiting, self._run.envelope.run_id, self._time())
        self.request = request = await self._run.redactor.apply(request)
        content = cast("dict[str, object]", msgspec.to_builtins(request))
        await self._append(
            self._entry("approval_requested", content),
            self._entry("status", {"status": "awaiting_approval"}),
            durable=True,
        )
        await self.store("checkpoint", request.run_id, {"approval": request.id, "path": request.path})

    async def store(self, kind: str, key: str, record: Mapping[str, object]) -> None:
        """Stores a record through `persistence.write`: a hook may change or refuse it."""
        op = self._op(f"0.persistence.write.{kind}")
        event = PersistenceWriteEvent(envelope=self._run.envelope, op=op, kind=kind, key=key, record=record)

        async def write(event: PersistenceWriteEvent) -> object:
            await self._append(self._entry(event.kind, {"key": event.key, **event.record}), durable=True)
            return event.record

        await self._run.runtime.run(PERSISTENCE_WRITE, event, write, trace=self._run.trace)

    async def begin(self, content: Mapping[str, object]) -> None:
        """The first entry of the run: who it is and what it was built from."""
        await self._append(self._entry("run", await self._run.redactor.apply(dict(content))), durable=True)

    def now(self) -> float:
        return self._now

    def random(self, path: str) -> float:
        drawn = hashlib.sha256(f"{self._run.seed}/{path}".encode()).digest()
        return int.from_bytes(drawn[:8]) / 2**64

    async def acting(self, op: Op, event: Event) -> None:
        """The work of a pass is about to begin."""
        self._executions[op.path] = self._executions.get(op.path, 0) + 1
        once = isinstance(event, ToolCallEvent) and not (event.tool is not None and event.tool.idempotent)
        await self._append(self._recorder.acting(op, event, self._time()), durable=once)

    async def acted(self, op: Op, operation: Operation[Any, Any], event: Event) -> None:
        """The work of a pass is done."""
        await self._append(self._recorder.acted(operation, op, event, self._time()))

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

    def _time(self) -> float:
        return self._run.clock.now()

    def _entry(self, kind: str, content: Mapping[str, object]) -> Entry:
        return Entry(kind=kind, time=microseconds(self._time()), content=content)

    async def _append(self, *entries: Entry, durable: bool = False) -> None:
        await self._run.store.append(self._run.stream, entries, durable=durable)

    def _tell(self, operation: Operation[Any, Any], op: Op, event: Event, ending: Ending | None, before: int) -> None:
        if self._run.watcher is not None:
            trace = () if ending is None else self._run.trace.events(before)
            self._run.watcher(Step(operation=operation.name, op=op, event=event, ending=ending, trace=trace))


class _Steps:
    """Journals how far one pass has come."""

    def __init__(self, engine: LocalEngine, op: Op, operation: Operation[Any, Any]) -> None:
        self._engine = engine
        self._op = op
        self._operation = operation
        self.result: Event | None = None

    async def acting(self, event: Event) -> None:
        await self._engine.acting(self._op, event)

    async def acted(self, event: Event) -> None:
        self.result = event
        await self._engine.acted(self._op, self._operation, event)


def _any(operation: Operation[Any, Any]) -> Operation[Event, Event]:
    return cast("Operation[Event, Event]", operation)


def _result(event: RunEndEvent) -> Mapping[str, object]:
    return {name: getattr(event, name) for name in ("status", "output", "error", "usage", "cost_usd")}
