"""The runs of one harness that go on in this process: each is begun, or gone on with, and driven to where it stands.

What a run does next is the agent loop's, how it is recorded and told the engine's, and who may go on with it `held`'s.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import msgspec

from tenter.agent import LOOP_VERSION, AgentLoop, Ended, Plan, Standing, Subtask, Waiting, status_of
from tenter.catalogue import Envelope, ErrorInfo, Limits, LoopFacts, SubtaskResult, SubtaskSpawnEvent
from tenter.controls import Account
from tenter.harness.bodies import Bodies
from tenter.harness.changes import parts_of, workspace_of
from tenter.harness.context import ToolContext
from tenter.harness.deciding import still_open
from tenter.harness.drive import drive, drive_on, end_waiting
from tenter.harness.ended import recorded_end
from tenter.harness.held import RunHeld, claim, claim_of, claimed, kept_here, release
from tenter.harness.leftovers import RUN_VARIABLE
from tenter.harness.local import LocalEngine
from tenter.harness.parts import Run, Watcher
from tenter.harness.recording import Recording
from tenter.harness.replay import Incomplete
from tenter.harness.result import RunResult
from tenter.harness.setup import Setup
from tenter.harness.watching import Watch, asked_to_end
from tenter.journal import TERMINAL, JournalError, Stream
from tenter.kernel import FrozenDict, TenterError, Trace

WITH_ITS_PARENT: Final = Ended(
    status="cancelled", error=ErrorInfo(code="cancelled", message="the run around it came to its end")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a run is begun or gone on with, beside its plan: the caller's, or those of the run around it."""

    seed: str
    began: float
    loop: LoopFacts | None = None
    watcher: Watcher | None = None
    environment: Mapping[str, str] = FrozenDict()
    account: Account | None = None
    """Of the run around it."""
    parent_op: str | None = None
    by: str = ""
    """Who goes on with it."""
    vouched: bool = False
    """Somebody says that the process of another host that has it is gone."""
    lenient: bool = False
    """Somebody accepted that it was begun with something else."""


@dataclass(slots=True)
class Going:
    """A run on its way in this process."""

    engine: LocalEngine
    agent: AgentLoop
    run: Run
    began: float
    task: "asyncio.Task[Standing | KeyboardInterrupt] | None" = None
    """Once it does something: one that was cancelled before that could not end the run."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def stop(self, error: ErrorInfo) -> None:
        """Has the run come to its end, for the reason that is given first."""
        if self.engine.stopped is None:
            self.engine.stop(error)
            if self.task is not None:
                self.task.cancel()

    async def kept(
        self, driving: Coroutine[object, object, Standing], *, is_ending: bool
    ) -> Standing | KeyboardInterrupt:
        """What the run comes to. The user's interrupt is handed over: raised in a task, it would leave the event loop.

        One that somebody stopped before it did anything is cancelled at once; `is_ending` already, it goes on.
        """
        self.task = cast("asyncio.Task[Standing | KeyboardInterrupt]", asyncio.current_task())
        if self.engine.stopped is not None and not is_ending:
            self.task.cancel()
        try:
            standing = await driving
        except KeyboardInterrupt as interrupt:
            return interrupt
        if self.engine.stopped is not None:
            with suppress(asyncio.CancelledError):  # it may have come in the last step, which asyncio then forgets
                await asyncio.sleep(0)
        return standing


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
        """A new run, to where it stands."""
        going = self._make(plan, begun, None)
        with kept_here(self._setup.store, going.run.stream, self._setup.clock.now()):
            return await self._result(going, await self._drive(going, self._first(plan, begun)))

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
        """Drives a run, which is known here meanwhile: to its checks, and to whoever wants to end it."""
        setup, run_id = self._setup, going.run.envelope.run_id
        setup.desk.attend(run_id, going.run.account, going.run.trace)
        self._going[run_id] = going
        self._watch.look_from_now_on()
        driving = drive(going.engine, going.agent, first) if end is None else drive_on(going.engine, going.agent, end)
        if end is not None and end.error is not None:
            going.engine.stop(end.error)
        try:
            standing = await asyncio.ensure_future(going.kept(driving, is_ending=end is not None))
            if isinstance(standing, KeyboardInterrupt):
                raise standing
            if isinstance(standing, Waiting):
                standing = await self._still_waiting(going, standing)
            if isinstance(standing, Waiting):
                going.engine.left(standing)
            return standing
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
        if error is None:
            return waiting
        now = self._setup.clock.now()
        try:
            before = await claim(store, stream, by="", now=now)
        except RunHeld:  # another process was quicker, and is asked in its turn
            return waiting
        if before.status in TERMINAL:  # or has brought it to its end
            await release(store, stream, status=before.status, now=now)
            return waiting
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
            going = self._make(plan, begun, recording)
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
            with kept_here(store, stream, clock.now()):
                going = self._make(inner, of_child, None)
                standing = await self._drive(going, self._first(inner, of_child))
        else:
            async with claimed(store, stream, by=begun.by, clock=clock, vouched=begun.vouched) as before:
                recording = await Recording.begin(store, stream)
                over = before.status in TERMINAL
                going, standing = await self._gone_on(
                    *recalled(recording, inner, of_child), recording, None if over else end
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

    def _first(self, plan: Plan, begun: Begun) -> Mapping[str, object]:
        """The content of a run's first entry: with it, the run is gone on with."""
        spec, task = self._setup.spec, plan.envelope.task
        return {
            **claim_of(""),
            "task": task.name,
            "version": task.version,
            "envelope": plan.envelope,
            "input": plan.input,
            "limits": plan.limits,
            "root": plan.root_run_id,
            "depth": plan.depth,
            "began": begun.began,
            "spec": spec.digest,
            "parts": parts_of(self._setup, task.name),
            "workspace": workspace_of(self._setup),
            "instructions": plan.instructions,
            "loop_version": LOOP_VERSION,
        }

    async def _result(self, going: Going, standing: Standing) -> RunResult:
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


def recalled(recording: Recording, plan: Plan, begun: Begun) -> tuple[Plan, Begun]:
    """The plan of a run that is on record with what is its own, and what it was begun with. Raises TenterError."""
    first = recording.first
    try:
        recorded = msgspec.structs.replace(
            plan,
            envelope=msgspec.convert(first["envelope"], Envelope),
            input=msgspec.convert(first["input"], str),
            limits=msgspec.convert(first["limits"], Limits),
            root_run_id=msgspec.convert(first["root"], str),
            depth=msgspec.convert(first["depth"], int),
            instructions=msgspec.convert(first["instructions"], str),
        )
        loop = None if first["loop"] is None else msgspec.convert(first["loop"], LoopFacts)
        own: dict[str, Any] = {"seed": str(first["seed"]), "began": float(first["began"]), "loop": loop}
    except (KeyError, TypeError, ValueError) as error:
        raise TenterError(
            f"this run cannot be gone on with: an earlier version of tenter began it ({error} is not on record)"
        ) from None
    return recorded, replace(begun, **own)
