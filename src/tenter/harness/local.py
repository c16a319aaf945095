"""The local engine (D§11): runs the operations of one run in this process, and brings it to its end.

How each operation is journaled, or given out as it is on record, is told in `passes`. It decides nothing about the run:
the agent loop does.
"""

import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

import msgspec

from tenter.agent import BLANK, Waiting
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
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
)
from tenter.harness.deciding import decisions_on
from tenter.harness.ledger import Ledger
from tenter.harness.parts import Run
from tenter.harness.passes import Passes
from tenter.harness.record import Ending, Pass
from tenter.harness.recording import Recording
from tenter.harness.replay import Incomplete
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
        self._ledger = Ledger(run.store, run.stream, clock=run.clock, trace=run.trace, trouble=run.trouble)
        self._passes = Passes(run, self._ledger, recording)
        self._subtasks = Subtasks(run, self._passes.part)
        self._ends = run.runtime.span(RUN, trace=run.trace)
        self._span: Op | None = None
        self.stopped: ErrorInfo | None = None
        """Why somebody asked for the end of the run: its cancellation is that, and not its caller's."""
        self.closed = False
        """Whether the run's terminal state is on disk, or was told though it could not be recorded."""

    async def begin(self, content: Mapping[str, object]) -> None:
        """The first entry of the run: who it is and what it was built from. Raises RunExists, and JournalError."""
        content = await self._run.redactor.apply({**content, "loop": self._run.loop, "seed": self._run.seed})
        await self._ledger.begin(lambda: self._ledger.entry("run", content, at=self._passes.now))

    def stop(self, error: ErrorInfo) -> None:
        """The run is about to be cancelled because somebody asked for its end."""
        self.stopped = error

    @property
    def replaying(self) -> bool:
        """Whether nothing was done here yet: all that the loop has heard is on record."""
        return not self._passes.is_fresh

    def freeze(self) -> None:
        """Nothing is to be done: where the record ends, Incomplete is raised."""
        self._passes.is_frozen = True

    def thaw(self) -> None:
        """The run may be brought to its end."""
        self._passes.is_frozen = False

    def leave_record(self) -> None:
        """From now on what is on record is not asked for any more: the run comes to its end from where it is."""
        if self._passes.replay is not None:
            self._passes.replay.leave()

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        """A whole operation, journaled. Raises cancellation, ReplayDiverged and JournalError."""
        return cast("Done[A]", await self._passes.leaf(path, operation, event))

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        """The `pre` of the run. Raises as `run`."""
        self._span = self._passes.op("0.run.0", event)
        ending = await self._passes.part(Pass(RUN, self._span, "pre"), event, self._ends.open)
        if isinstance(ending, Done):
            self._run.account.tighten(cast("RunStartEvent", ending.event).limits.budgets)
        return cast("Done[RunStartEvent] | Blocked | Failed", ending)

    async def spawn(
        self, path: str, event: SubtaskSpawnEvent
    ) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        """A sub-run and the two ends of its span. Raises as `run`: who was told of its beginning hears of that, too."""
        return await self._subtasks.spawn(self._passes.op(path, event), event)

    async def end_subtasks(self) -> Sequence[SubtaskResult]:
        """Raises JournalError where one cannot be ended on record and the engine was not told to let go."""
        if self._subtasks.are_open:
            await self._passes.go_beyond()
            try:
                await self._subtasks.end()
            except JournalError as error:
                if not self._ledger.is_let_go:
                    raise
                self._subtasks.leave(error)
                self.note("subtask_left")
        return self._subtasks.take_ended()

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
        if not self._passes.is_fresh:
            own = [request for request in own if await run.store.request(request.run_id, request.id) is None]
        if not own:
            return
        if self._passes.is_frozen or self._passes.is_over:
            raise Incomplete
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
        if self._passes.is_frozen:
            raise Incomplete
        run_id, now = self._run.envelope.run_id, self._run.clock.now()
        decided = await decisions_on(self._run.store, requests, run_id, now)
        if decided is None:
            status = {"status": "awaiting_approval"}
            await self._ledger.append(lambda: self._ledger.entry("status", status), durable=True)
        return decided

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        with self._passes.side_by_side():
            return await together(branches)

    async def wait(self, since: str, seconds: float, *, before: str) -> None:
        """Waits by the run's own clock, at most so long: one that was set back holds nobody up."""
        if await self._passes.comes_on_record(before):
            return
        if self._passes.is_frozen:
            raise Incomplete
        rest = min(seconds, self.now(since) + seconds - self._run.clock.now())
        if rest > 0:
            await self._run.pause(rest)

    def worked(self, path: str) -> Event | None:
        return self._passes.places.worked.get(path)

    def attempts(self, path: str) -> int:
        return self._passes.places.executions.get(path, 0)

    def repeatable(self, path: str) -> bool:
        return not self._passes.places.once.get(path, False)

    def digest(self, event: Event) -> str:
        return self._run.runtime.digest(event)

    def now(self, path: str = "") -> float:
        return self._passes.places.times.get(path, 0.0) if path else self._passes.now

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

    async def _close(self, event: RunEndEvent) -> None:
        run = self._run
        span = self._span or self._passes.op("0.run.0", event)
        error = event.error and await run.redactor.apply(event.error, fuzzy=True)
        event = await run.redactor.apply(msgspec.structs.replace(event, op=span, error=error))
        recording = None if self._passes.replay is None else self._passes.replay.recording
        await self._passes.go_beyond()
        if recording is None or recording.status is None:
            status = {"status": event.status, "code": None if event.error is None else event.error.code}
            await self._ledger.append(lambda: self._ledger.entry("status", status), durable=True)
        self.closed = True
        self._ledger.let_go()
        if recording is None or not recording.stored.get("result"):
            await self._store("result", result_of(event))
        await self._passes.part(Pass(RUN, span, "post"), event, self._told_of_end)

    async def _told_of_end(self, event: RunEndEvent) -> Ending:
        return Done(await self._ends.close(event))

    async def _store(self, kind: str, record: Mapping[str, object]) -> None:
        """Stores a record, and tells of the failure of that, which no loop asked for."""
        await self._passes.go_beyond()
        op = self._passes.op(path_of(kind), None)
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
