"""The runs of one harness that go on in this process: each is begun, or gone on with, and driven to where it stands.

What a run does next is the agent loop's, how it is recorded and told the engine's, and who may go on with it `held`'s.
"""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, cast

import msgspec

from tenter.agent import AgentLoop, Ended, Plan, Standing, Subtask, Waiting, status_of
from tenter.catalogue import Envelope, ErrorInfo, Limits, SubtaskResult, SubtaskSpawnEvent
from tenter.controls import Account
from tenter.harness.bodies import Bodies
from tenter.harness.context import ToolContext
from tenter.harness.deciding import still_open
from tenter.harness.drive import drive, drive_on, end_waiting
from tenter.harness.ended import recorded_end
from tenter.harness.first_entry import first_entry, recalled
from tenter.harness.going import Going
from tenter.harness.held import RunHeld, begun_here, claim, claimed, is_here, release
from tenter.harness.ledger import RunExists
from tenter.harness.leftovers import RUN_VARIABLE
from tenter.harness.local import LocalEngine
from tenter.harness.parts import Begun, Run
from tenter.harness.recording import Recording
from tenter.harness.replay import Incomplete
from tenter.harness.result import RunResult
from tenter.harness.setup import Setup
from tenter.harness.shielded import uncut
from tenter.harness.watching import Watch, asked_to_end
from tenter.journal import JournalError, Stream
from tenter.kernel import FrozenDict, Trace

WITH_ITS_PARENT: Final = Ended(
    status="cancelled", error=ErrorInfo(code="cancelled", message="the run around it came to its end")
)
CANCELLED: Final = ErrorInfo(code="cancelled", message="the run was cancelled")
"""By its caller, while it let go to wait."""


class Runs:
    """Begins runs and goes on with them, with the parts of one harness."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._going: dict[str, Going] = {}
        self._watch = Watch(setup.store, self._going)

    def going(self, run_id: str) -> Going | None:
        """The run, where it goes on here."""
        return self._going.get(run_id)

    async def begin(self, plan: Plan, begun: Begun) -> RunResult:
        """A new run, to where it stands. Raises RunExists, and then nothing was done."""
        going = self._make(plan, begun, None)
        if is_here(self._setup.store, going.run.stream):
            raise RunExists(going.run.stream)
        async with begun_here(self._setup.store, going.run.stream, clock=self._setup.clock):
            return await self._result(going, await self._drive(going, first_entry(self._setup, plan, begun)))

    async def go_on(self, plan: Plan, begun: Begun, recording: Recording, *, end: Ended | None = None) -> RunResult:
        """A run that is on record and was claimed, to where it stands; with `end`, to that end and not further."""
        return await self._result(*await self._gone_on(plan, begun, recording, end))

    async def stop(self, going: Going, error: ErrorInfo) -> RunResult | None:
        """Ends a run that goes on here: what came of it; None where another process has gone on with it meanwhile."""
        going.stop(error)
        await going.ended.wait()
        return None if going.agent.ended is None else await self._result(going, going.agent.ended)

    def plan(self, envelope: Envelope, text: str, limits: Limits, *, root: str = "", depth: int = 1) -> Plan:
        """What a task says of a run of it. Raises TenterError for a task that the configuration does not have."""
        equipped = self._setup.task(envelope.task.name)
        spec = equipped.spec
        return Plan(
            envelope=envelope,
            input=text,
            sender=envelope.principal,
            instructions=spec.instructions,
            model_alias=spec.model,
            model=spec.model,
            tools=tuple(equipped.infos.values()),
            subtasks=tuple(Subtask(name=name, version=self._setup.task(name).spec.version) for name in spec.subtasks),
            parallel_tools=spec.parallel_tools,
            limits=limits,
            root_run_id=root,
            depth=depth,
        )

    def _make(self, plan: Plan, begun: Begun, recording: Recording | None) -> Going:
        setup, envelope = self._setup, plan.envelope
        equipped = setup.task(envelope.task.name)
        environment = FrozenDict({**setup.tool_environment, **begun.environment, RUN_VARIABLE: envelope.run_id})
        context = ToolContext(
            workspace=setup.workspace, clock=setup.clock, environment=environment, mask=setup.redactor.mask_text
        )
        stream, account = Stream("run", envelope.run_id), Account(plan.limits.budgets, begun.account)

        async def spawn(event: SubtaskSpawnEvent) -> Waiting | SubtaskResult:
            return await self._spawn(going, begun, event)

        async def end_subtask(event: SubtaskSpawnEvent) -> SubtaskResult:
            came = await self._spawn(going, begun, event, end=WITH_ITS_PARENT)
            assert isinstance(came, SubtaskResult), "it was brought to its end"
            return came

        run = Run(
            envelope=envelope,
            runtime=setup.runtime,
            redactor=setup.redactor,
            store=setup.store,
            trace=Trace(),
            clock=setup.clock,
            pause=setup.pause,
            seed=begun.seed,
            began=begun.began,
            bodies=Bodies(equipped.model, equipped.tools, context, equipped.prices, equipped.secrets).table(),
            account=account,
            spawn=spawn,
            end_subtask=end_subtask,
            lenient=begun.lenient,
            tools=equipped.infos,
            loop=begun.loop,
            watcher=begun.watcher,
            parent_op=begun.parent_op,
            trouble=lambda: setup.sink.trouble(envelope.run_id),
            remember=lambda metadata: setup.sink.remember(stream, metadata),
        )
        engine = LocalEngine(run, recording)
        going = Going(engine, AgentLoop(engine, plan), run, begun.began)
        return going

    async def _drive(self, going: Going, first: Mapping[str, object] | None, *, end: Ended | None = None) -> Standing:
        """Drives a run, which is known here meanwhile.

        A cancellation of the caller is raised, also where somebody else ended the run at the same moment; one that let
        go to wait ends so.
        """
        caller = cast("asyncio.Task[object]", asyncio.current_task())
        cancelled = caller.cancelling()
        engine, agent = going.engine, going.agent
        if end is not None and end.error is not None:
            engine.stop(end.error)
        with self._known(going):
            try:
                standing = await asyncio.ensure_future(
                    going.kept(
                        lambda: drive(engine, agent, first) if end is None else drive_on(engine, agent, end),
                        is_ending=end is not None,
                    )
                )
                if isinstance(standing, KeyboardInterrupt):
                    raise standing
                if isinstance(standing, Waiting):
                    standing = await self._still_waiting(going, standing)
                if caller.cancelling() > cancelled:
                    raise asyncio.CancelledError
                if isinstance(standing, Waiting):
                    engine.left(standing)
                return standing
            except asyncio.CancelledError:
                if going.waits:
                    await self._end_waiting(going, CANCELLED)
                raise

    @contextmanager
    def _known(self, going: Going) -> Generator[None]:
        """The run is known here meanwhile: to its checks, and to whoever wants to end it."""
        setup, run_id = self._setup, going.run.envelope.run_id
        setup.desk.attend(run_id, going.run.account, going.run.trace)
        self._going[run_id] = going
        self._watch.look_from_now_on()
        try:
            yield
        finally:
            del self._going[run_id]
            setup.desk.leave(run_id)
            setup.sink.forget(run_id)
            going.ended.set()

    async def _still_waiting(self, going: Going, waiting: Waiting) -> Standing:
        """Where a run stands that let go to wait: at its end, where somebody asked for that just before."""
        store, stream = self._setup.store, going.run.stream
        summary = await store.summary(stream)
        error = going.engine.stopped
        if error is None and summary is not None and summary.cancelling:
            error = await asked_to_end(store, stream.id)
        ended = None if error is None else await self._end_waiting(going, error)
        return ended or waiting

    async def _end_waiting(self, going: Going, error: ErrorInfo) -> Ended | None:
        """Ends a run that let go to wait, whoever cancels meanwhile; None where somebody else has it, or ended it."""
        return going.agent.ended or await uncut(self._ended_waiting(going, error))

    async def _ended_waiting(self, going: Going, error: ErrorInfo) -> Ended | None:
        store, stream, now = self._setup.store, going.run.stream, self._setup.clock.now()
        try:
            before = await claim(store, stream, by="", now=now)
        except RunHeld:  # another process was quicker, and is asked in its turn
            return None
        if before.is_over:  # or has brought it to its end
            await release(store, stream, now=now)
            return None
        going.engine.stop(error)
        return await end_waiting(going.engine, going.agent, error)

    async def _gone_on(
        self, plan: Plan, begun: Begun, recording: Recording, end: Ended | None = None
    ) -> tuple[Going, Standing]:
        """Where a run that is on record comes to. One that is over is told of as its record has it."""
        going = self._make(plan, begun, recording)
        try:
            return going, await self._drive(going, None, end=end)
        except Incomplete:
            store, stream = self._setup.store, going.run.stream
            ended, recording = await recorded_end(store, stream), await Recording.begin(store, stream)
            told = await recording.next("0.run.0", 1, "post")
            await recording.rest()
            gone_through, going = going.run, self._make(plan, begun, recording)
            going.run = replace(going.run, account=gone_through.account)  # what it used is told of it
            if told is None or told.finished is None:
                going.engine.leave_record()
                await going.engine.close(going.agent.end(ended))
            return going, ended

    async def _spawn(
        self, parent: Going, begun: Begun, event: SubtaskSpawnEvent, *, end: Ended | None = None
    ) -> Waiting | SubtaskResult:
        """The sub-run of an event that was let through: begun, or gone on with where it is on record; or to its end."""
        store, stream, clock = self._setup.store, Stream("run", event.task.id), self._setup.clock
        inner, of_child = self._child(parent, begun, event)
        if await store.summary(stream) is None:
            if end is not None:
                return SubtaskResult(run_id=event.task.id, task=event.task.name, status="cancelled", error=end.error)
            async with begun_here(store, stream, clock=clock):
                going = self._make(inner, of_child, None)
                standing = await self._drive(going, first_entry(self._setup, inner, of_child))
        else:
            async with claimed(store, stream, by=begun.by, clock=clock, vouched=begun.vouched) as before:
                recording = await Recording.begin(store, stream)
                going, standing = await self._gone_on(
                    *recalled(recording, inner, of_child), recording, None if before.is_over else end
                )
        return standing if isinstance(standing, Waiting) else _came(going, standing)

    def _child(self, parent: Going, begun: Begun, event: SubtaskSpawnEvent) -> tuple[Plan, Begun]:
        """What a sub-run is to do, and what it is begun with."""
        plan, outer, clock = parent.agent.plan, parent.run.envelope, self._setup.clock
        envelope = msgspec.structs.replace(outer, run_id=event.task.id, task=event.task, parent_run_id=outer.run_id)
        budgets, deadline = self._setup.task(event.task.name).spec.budgets, plan.limits.deadline
        if event.op.deadline is not None and event.op.deadline != deadline:  # the budget of time of the run around it
            rest = max(event.op.deadline - clock.now(), 0.001)
            budgets = msgspec.structs.replace(budgets, wall_seconds=min(rest, budgets.wall_seconds or rest))
        limits = Limits(deadline=deadline, budgets=budgets)
        root = plan.root_run_id or outer.run_id
        inner = self.plan(envelope, event.input, limits, root=root, depth=plan.depth + 1)
        of_child = replace(
            begun,
            seed=f"{begun.seed}/{event.task.id}",
            began=round(clock.now(), 6),
            account=parent.run.account,
            parent_op=event.op.id,
        )
        return inner, of_child

    async def _result(self, going: Going, standing: Standing) -> RunResult:
        """What came of a run, which this process lets go of. One that waits ends where its caller is cancelled here."""
        if isinstance(standing, Ended):
            await release(self._setup.store, going.run.stream, now=self._setup.clock.now())
        try:
            return await self._told(going, standing)
        except asyncio.CancelledError:
            if going.waits:
                with self._known(going):
                    await self._end_waiting(going, CANCELLED)
            raise

    async def _told(self, going: Going, standing: Standing) -> RunResult:
        run, progress, task = going.run, standing.progress, going.run.envelope.task
        ended = standing if isinstance(standing, Ended) else None
        head = await self._head(run.stream)
        asked = await still_open(self._setup.store, standing.requests) if isinstance(standing, Waiting) else ()
        result = RunResult(
            run_id=run.envelope.run_id,
            task=task.name,
            task_version=task.version,
            status=status_of(standing),
            output=None if ended is None else ended.output,
            error=None if ended is None else await run.redactor.apply(ended.error, fuzzy=True),
            approval=asked[0] if asked else None,
            approvals=asked,
            usage=progress.usage,
            cost_usd=progress.cost_usd,
            cost_known=progress.cost_known,
            journal_head=head,
            started_at=going.began,
            ended_at=run.clock.now(),
        )
        # A name that a hook made, as that of an exception's class, is put into the trace as it is.
        trace = await run.redactor.apply(run.trace.events())
        return msgspec.structs.replace(await run.redactor.apply(result), trace=trace)

    async def _head(self, stream: Stream) -> str:
        """Where the run's stream ends; empty where the journal does not tell any more."""
        try:
            return (await self._setup.store.head(stream)).hash
        except JournalError:
            return ""


def _came(going: Going, ended: Ended) -> SubtaskResult:
    """What a sub-run came to."""
    task, progress, used = going.run.envelope.task, ended.progress, going.run.account.used
    return SubtaskResult(
        run_id=going.run.envelope.run_id,
        task=task.name,
        status=ended.status,
        output=ended.output,
        error=ended.error,
        usage=progress.usage,
        cost_usd=progress.cost_usd if progress.cost_known else None,
        model_calls=used.model_calls,
        tool_calls=used.tool_calls,
    )
