"""The passes of one run (D§11): each is done and journaled as far as it has come, or given out as it is on record.

A live pass writes `started`, `acting`, `acted`, `finished`; of a fact and of either end of a span, `started` and
`finished`. Where the work is not idempotent, `acting` is on disk before it begins; a pass has ended when `finished` is
on disk. What cannot be recorded is raised as JournalError, before anything acts on it.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, cast

import msgspec

from tenter.agent import BLANK
from tenter.catalogue import RUN, Op, ToolCallEvent
from tenter.harness.bodies import nothing, within
from tenter.harness.counting import Worked, count, count_recalled, hold
from tenter.harness.ledger import Ledger
from tenter.harness.parts import Run
from tenter.harness.places import Places
from tenter.harness.record import Ending, Pass, Recorder
from tenter.harness.recording import Recording
from tenter.harness.replay import Incomplete, Known, Replay
from tenter.harness.showing import Showing
from tenter.harness.storing import path_of
from tenter.kernel import Done, Event, Failed, Unknown

Aside = tuple[int, int, Callable[[], None]]
"""The place of a call, its pass, and what counts it."""


class Passes:
    """Does the passes of one run. With a recording, those that are on record are given out until it ends."""

    def __init__(self, run: Run, ledger: Ledger, recording: Recording | None) -> None:
        self._run = run
        self._ledger = ledger
        self._recorder = Recorder()
        self._showing = Showing(run, ledger.time)
        self._tools_act = not run.runtime.chain("tool.invoked.in").links
        """Whether no hook may do other work than that of the tool that is called."""
        self.replay: Replay | None = None
        if recording is not None:
            self.replay = Replay(recording, self._recorder, redactor=run.redactor, tools=run.tools, lenient=run.lenient)
        self.places = Places()
        self._beside: list[Aside] | None = None
        """The calls of branches that go on side by side; None where none do."""
        self.now = run.began
        """When the last pass ended, in seconds since the epoch."""
        self.is_frozen = False
        """Nothing is to be done: where the record ends, Incomplete is raised."""
        self.is_fresh = recording is None
        """Whether something was done here."""

    @property
    def is_over(self) -> bool:
        """Whether the record that is gone through is that of a run which has ended."""
        return self.replay is not None and not self.replay.over and self.replay.recording.status is not None

    @contextmanager
    def side_by_side(self) -> Generator[None]:
        """Branches go on meanwhile. Their calls are counted in their order: the same whenever the run is replayed."""
        self._beside = beside = list[Aside]()
        if self.replay is not None:
            self.replay.beside += 1
        try:
            yield
        finally:
            self._beside = None
            if self.replay is not None:
                self.replay.beside -= 1
            for _, _, called in sorted(beside, key=itemgetter(0, 1)):
                called()

    async def leaf(self, path: str, operation: Any, event: Event) -> Ending:
        """A whole operation; how it ended."""
        turn = Pass(operation, self.op(path, event))
        known = await self._known(turn, event)
        if self.replay is not None and (spared := self.replay.spared.get(path, 0)) >= turn.op.pass_:
            self.places.passes[path] = spared
            turn = Pass(operation, self.op(path, event))
        if known is not None and known.recorded.finished is not None:
            return self._recalled(turn, known)
        if known is not None and known.recorded.acting is not None:
            hold(self._run.account, turn.op.id, operation.name)
        event = await self._started(turn, event, known)
        since = len(self._run.trace)
        worked = await self._work(turn, event, known)
        if worked.came_to_no_work:
            self.places.executions[path] = turn.op.attempt - 1
        self.places.worked[path] = worked.result
        await self._finish(turn, worked.ending, known=worked.result)
        self._count(turn, worked)
        self._showing.show(turn, event, worked.ending, since=since)
        return worked.ending

    async def part(self, turn: Pass, event: Event, fire: Callable[[Any], Awaitable[Any]]) -> Ending:
        """One end of a span, or what is between the two."""
        known = await self._known(turn, event)
        if known is not None and self.replay is not None and known.recorded.finished is not None:
            self._end(turn.op.path, known.recorded.at)
            recalled = self.replay.ending(turn, known)
            count_recalled(self._run.account, turn, recalled)
            return recalled
        event = await self._started(turn, event, known)
        since = len(self._run.trace)
        ending = cast("Ending", await fire(event))
        await self._finish(turn, ending, known=event)
        self._showing.show(turn, event, ending, since=since)
        return ending

    def op(self, path: str, event: Event | None) -> Op:
        """The op of the next pass, with what the loop alone knows of it."""
        told = event.op if event is not None and isinstance(event.op, Op) else BLANK
        number, run_id = self.places.next(path), self._run.envelope.run_id
        return Op(
            id=f"{run_id}/{path}#{number}",
            path=path,
            pass_=number,
            attempt=self.places.executions.get(path, 0) + 1,
            parent=self._run.parent_op,
            deadline=told.deadline,
            approval=told.approval,
            loop=self._run.loop,
        )

    async def comes_on_record(self, path: str) -> bool:
        """Whether the next pass at `path` is on record."""
        if self.replay is None or self.replay.over:
            return False
        return await self.replay.recording.holds(path, self.places.passes.get(path, 0) + 1)

    async def go_beyond(self) -> None:
        """The run goes on beyond its record: its trace, and what is counted of it, go on from there."""
        if self.is_fresh or self.replay is None:
            return
        self.is_fresh, recording = True, self.replay.recording
        rest = await recording.rest()  # what it gathers is of all that is on record
        for one in () if self.replay.over else rest:  # branches that go on beside the one that is the first to
            if one.acting is not None:
                hold(self._run.account, one.op, one.operation)
        self._run.trace.go_on(recording.traced)
        self._run.remember(recording.metadata)
        self.places.passes |= {path_of(kind): number for kind, number in recording.stored.items()}

    async def acting(self, turn: Pass, event: Event) -> None:
        """The work of a pass is about to begin."""
        self._ledger.check()
        path = turn.op.path
        self.places.executions[path] = self.places.executions.get(path, 0) + 1
        once = self.places.once[path] = not self._repeats(event)
        await self._ledger.append(lambda: self._recorder.acting(turn, event, self._ledger.time()), durable=once)

    async def acted(self, turn: Pass, event: Event) -> None:
        """The work of a pass is done."""
        await self._ledger.append(lambda: self._recorder.acted(turn, event, self._ledger.time()))

    async def _known(self, turn: Pass, event: Event) -> Known | None:
        """What is on record of a pass. Raises Incomplete where a run that is over would have to go on."""
        if self.replay is None or self.replay.over:
            return None
        known = await self.replay.known(turn, event)
        over = self.is_frozen or (self.replay.recording.status is not None and turn != Pass(RUN, turn.op, "post"))
        if over and (known is None or known.recorded.finished is None):
            raise Incomplete
        return known

    async def _started(self, turn: Pass, event: Event, known: Known | None) -> Event:
        """The event of a pass that is done here, redacted; its beginning is on record."""
        await self.go_beyond()
        event = await self._run.redactor.apply(msgspec.structs.replace(event, op=turn.op))
        if known is None:
            await self._ledger.append(lambda: self._recorder.started(turn, event, self._ledger.time()))
        self._showing.show(turn, event)
        return event

    async def _work(self, turn: Pass, event: Event, known: Known | None) -> Worked:
        """The pass from where it stands."""
        run, operation = self._run, turn.operation
        steps = _Steps(self, turn, event) if operation.shape == "leaf" else None
        body = within(run.bodies.get(operation.name, nothing), turn.op, run.clock, operation.name)
        if known is None or self.replay is None or known.recorded.acting is None:
            ending = await run.runtime.run(operation, event, body, trace=run.trace, steps=steps)
            return Worked(ending, None, event) if steps is None else Worked(ending, steps.result, steps.given)
        executions = self.places.executions.get(turn.op.path, 0) + known.recorded.executions
        self.places.executions[turn.op.path] = executions
        before = self.replay.before(turn, known)
        self.places.once[turn.op.path] = not self._repeats(before)
        if known.recorded.acted is not None:
            after = msgspec.structs.replace(self.replay.after(turn, known), op=turn.op)
            return Worked(await run.runtime.finish(operation, after, trace=run.trace), after, before)
        before = msgspec.structs.replace(before, op=msgspec.structs.replace(turn.op, attempt=executions + 1))
        if self._repeats(before):
            ending = await run.runtime.work(operation, before, body, trace=run.trace, steps=steps)
            return Worked(ending, None if steps is None else steps.result, before)
        reason = f"the process that did {operation.name} ended meanwhile: it may have been done, or not"
        return Worked(Unknown(reason=reason, event=before, digest=run.runtime.digest(before)), None, before)

    def _recalled(self, turn: Pass, known: Known) -> Ending:
        """How a pass ended that is on record: nothing is fired."""
        assert self.replay is not None, "what is known was recorded"
        recorded, path = known.recorded, turn.op.path
        ending = self.replay.ending(turn, known)
        result: Event | None = None
        if recorded.acted is not None:
            changed = "result" in (recorded.finished or {})
            result = ending.event if isinstance(ending, Done) and not changed else self.replay.after(turn, known)
        given = self.replay.before(turn, known) if isinstance(ending, Failed) else known.event
        worked = Worked(ending, result, given)
        if not worked.came_to_no_work:
            self.places.executions[path] = self.places.executions.get(path, 0) + recorded.executions
        self.places.worked[path] = result
        if recorded.acting is not None:
            self.places.once[path] = not self._repeats(given)
        self._count(turn, worked)
        self._end(path, recorded.at)
        return ending

    async def _finish(self, turn: Pass, ending: Ending, *, known: Event | None) -> None:
        """The pass has ended once that is on disk."""
        self._ledger.check()
        now, traced = self._ledger.time(), self._run.trace.last
        await self._ledger.append(
            lambda: self._recorder.finished(turn, ending, now, known=known, trace=traced), durable=True
        )
        self._end(turn.op.path, now)

    def _end(self, path: str, now: float) -> None:
        """Time goes on to the end of a pass: side by side, to that of the last one, whoever ended first."""
        self.places.times[path] = now
        self.now = max(self.now, now)

    def _count(self, turn: Pass, worked: Worked) -> None:
        begun = self.places.executions.get(turn.op.path, 0) >= turn.op.attempt
        if (called := count(self._run.account, turn, worked, begun=begun)) is None:
            return
        if self._beside is None:
            called()
        else:
            self._beside.append((int(turn.op.path.rpartition(".")[2]), turn.op.pass_, called))

    def _repeats(self, event: Event) -> bool:
        """Whether the work may be done twice: all but that of a tool that is not idempotent."""
        if not isinstance(event, ToolCallEvent):
            return True
        tool = self._run.tools.get(event.call.name)
        return self._tools_act and tool is not None and tool.idempotent


class _Steps:
    """Journals how far one pass has come."""

    def __init__(self, passes: Passes, turn: Pass, event: Event) -> None:
        self._passes = passes
        self._turn = turn
        self.given = event
        self.result: Event | None = None

    async def acting(self, event: Event) -> None:
        self.given = event
        await self._passes.acting(self._turn, event)

    async def acted(self, event: Event) -> None:
        self.result = event
        await self._passes.acted(self._turn, event)
