"""`Harness`: runs the tasks of a configuration with its hooks, on the local engine (D§16).

It builds nothing itself: `setup` makes the parts from a file. What a run does next is the agent loop's.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tenter.agent import LOOP_VERSION, AgentLoop, Ended, Plan, Standing, status_of
from tenter.catalogue import (
    EMPTY,
    SHUTDOWN,
    Envelope,
    ErrorInfo,
    Limits,
    LoopFacts,
    Participant,
    ShutdownEvent,
    TaskRef,
)
from tenter.harness.bodies import Bodies, nothing
from tenter.harness.context import ToolContext
from tenter.harness.local import LocalEngine, Run, Watcher
from tenter.harness.result import RunResult
from tenter.harness.setup import Setup, set_up
from tenter.journal import JournalError, Store
from tenter.kernel import Clock, FrozenDict, Random, Runtime, TenterError, Trace, freeze


class Harness:
    """Runs tasks. Safe to use for several runs at once; `close` it, or use it as `async with`.

    Everything is checked when it is made: a mistake in the file or in a hook is raised then, not at the first run.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._closed = False

    @classmethod
    def from_file(
        cls,
        path: str | Path = "tenter.yaml",
        *,
        hooks: Iterable[object] = (),
        workspace: str | Path | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> Self:
        """The harness that the file describes.

        `hooks` are added in the band that each names. `workspace` is the folder that tools and command hooks work in;
        the file's own where it is None. `store` keeps the journal; `.tenter/journal.db` beside the file where it is
        None. `clock` and `random` are used for everything. Raises ConfigError with every problem of the file, and
        RegistrationError for a hook that cannot be attached.
        """
        return cls(set_up(Path(path), tuple(hooks), workspace=workspace, store=store, clock=clock, random=random))

    @property
    def runtime(self) -> Runtime:
        """The hooks as they run."""
        return self._setup.runtime

    def mask(self, text: str) -> str:
        """`text` as people and logs may see it: without secrets, and without what looks like one (D§3.4)."""
        return self._setup.redactor.mask_fuzzy(text)

    async def run(
        self,
        task: str,
        input: str = "",  # noqa: A002  # the name of the design (D§16)
        *,
        principal: str | None = None,
        session_id: str | None = None,
        correlation_id: str | None = None,
        participants: tuple[Participant, ...] = (),
        entities: tuple[str, ...] = (),
        metadata: Mapping[str, object] = EMPTY,
        deadline: float | None = None,
        loop: LoopFacts | None = None,
        watcher: Watcher | None = None,
    ) -> RunResult:
        """Runs `task` on `input` to its end, or to where it waits for a person.

        `deadline` is in seconds since the epoch, of the harness's clock; when it passes the run ends failed, with the
        code `timeout`. `watcher` is told of each operation as it begins and ends. Raises TenterError for a task that
        the configuration does not have; cancellation ends the run `cancelled` and is raised again.
        """
        spec = self._setup.task(task)
        run_id = f"{self._setup.random.getrandbits(64):016x}"
        envelope = Envelope(
            run_id=run_id,
            task=TaskRef(id=run_id, name=task, version=spec.version),
            correlation_id=correlation_id or run_id,
            session_id=session_id,
            principal=principal,
            participants=tuple(participants),
            entities=tuple(entities),
            metadata=freeze(metadata),
        )
        plan = self._plan(task, envelope, input, deadline)
        started = self._setup.clock.now()
        trace = Trace()
        engine = LocalEngine(self._run(task, envelope, trace, loop=loop, watcher=watcher), deadline)
        agent = AgentLoop(engine, plan)
        standing = await self._drive(engine, agent, trace)
        return self._result(engine, standing, trace, envelope=envelope, started=started)

    def run_sync(self, task: str, input: str = "", **arguments: object) -> RunResult:  # noqa: A002  # as `run`
        """`run`, for a program without an event loop. Raises TenterError inside a running one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(task, input, **arguments))  # type: ignore[arg-type]  # the parameters of `run`
        raise TenterError("run_sync was called inside a running event loop; write `await harness.run(…)` there")

    async def close(self, reason: str = "closed") -> None:
        """Fires `shutdown`, once, and lets go of the journal. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.runtime.run(SHUTDOWN, ShutdownEvent(reason=reason), nothing)
        finally:
            await self._setup.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close("closed" if kind is None else kind.__name__)

    def _plan(self, task: str, envelope: Envelope, text: str, deadline: float | None) -> Plan:
        spec = self._setup.task(task)
        return Plan(
            envelope=envelope,
            input=text,
            sender=envelope.principal,
            instructions=spec.instructions,
            model_alias=spec.model,
            model=spec.model,
            tools=tuple(tool.info for tool in self._setup.tools(task).values()),
            limits=Limits(deadline=deadline),
        )

    def _run(
        self, task: str, envelope: Envelope, trace: Trace, *, loop: LoopFacts | None, watcher: Watcher | None
    ) -> Run:
        setup = self._setup
        context = ToolContext(
            workspace=setup.workspace, clock=setup.clock, environment=setup.tool_environment
        )
        return Run(
            envelope=envelope,
            runtime=setup.runtime,
            redactor=setup.redactor,
            store=setup.store,
            trace=trace,
            clock=setup.clock,
            seed=f"{setup.random.getrandbits(128):032x}",
            bodies=Bodies(setup.model(task), setup.tools(task), context).table(),
            loop=loop,
            watcher=watcher,
        )

    async def _drive(self, engine: LocalEngine, agent: AgentLoop, trace: Trace) -> Standing:
        try:
            await engine.begin(self._first_entry(agent.plan))
            return await agent.run()
        except asyncio.CancelledError:
            error = ErrorInfo(code="cancelled", message="the run was cancelled")
            if not engine.closed:
                settling = agent.settle(Ended(status="cancelled", progress=agent.progress, error=error))
                await asyncio.shield(asyncio.ensure_future(settling))
            raise
        except JournalError as error:
            trace.note(self._setup.clock.now(), "journal", error.trouble)
            info = ErrorInfo(code="internal", message=str(error), details=FrozenDict({"code": "journal"}))
            return Ended(status="failed", progress=agent.progress, error=info)

    def _first_entry(self, plan: Plan) -> Mapping[str, object]:
        return {
            "task": plan.envelope.task.name,
            "version": plan.envelope.task.version,
            "envelope": plan.envelope,
            "input": plan.input,
            "limits": plan.limits,
            "spec": self._setup.digest,
            "loop_version": LOOP_VERSION,
        }

    def _result(
        self, engine: LocalEngine, standing: Standing, trace: Trace, *, envelope: Envelope, started: float
    ) -> RunResult:
        progress = standing.progress
        return RunResult(
            run_id=envelope.run_id,
            task=envelope.task.name,
            task_version=envelope.task.version,
            status=status_of(standing),
            output=standing.output if isinstance(standing, Ended) else None,
            error=standing.error if isinstance(standing, Ended) else None,
            approvals=() if engine.request is None else (engine.request,),
            usage=progress.usage,
            cost_usd=progress.cost_usd,
            cost_known=progress.cost_known,
            trace=trace.events(),
            started_at=started,
            ended_at=self._setup.clock.now(),
        )
