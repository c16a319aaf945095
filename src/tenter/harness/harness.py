"""`Harness`: runs the tasks of a configuration with its hooks, on the local engine (D§16).

It builds nothing itself: `setup` makes the parts from a file. What a run does next is the agent loop's, and how it is
brought to its end `drive`'s.
"""

import asyncio
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import msgspec

from tenter.agent import LOOP_VERSION, AgentLoop, Ended, Plan, Standing, status_of
from tenter.catalogue import EMPTY, SHUTDOWN, Envelope, Limits, LoopFacts, Participant, ShutdownEvent, TaskRef
from tenter.config import Pins
from tenter.harness.arguments import RunArguments, check_arguments, envelope_of, limits_of
from tenter.harness.bodies import Bodies, nothing
from tenter.harness.context import ToolContext
from tenter.harness.drive import drive
from tenter.harness.local import LocalEngine, Run, Watcher
from tenter.harness.result import RunResult
from tenter.harness.setup import Given, Setup, TaskSetup, set_up
from tenter.journal import Store
from tenter.kernel import Clock, FrozenDict, Random, Runtime, TenterError, Trace

_INSIDE: ContextVar[tuple["Harness", ...]] = ContextVar("tenter_runs_of", default=())
"""The harnesses in whose runs the present code is."""


class Harness:
    """Runs tasks. Safe to use for several runs at once; `close` it, or use it as `async with`.

    What a hook leaves running after its end (a task that swallows its cancellation, a thread, work in the loop's
    executor) is not ended by `close`: `asyncio.run` and the interpreter wait for such leftovers, as for anybody's. The
    command line does not wait for them; a program that must not either ends its loop and process itself.

    Everything is checked when it is made: a mistake in the file or in a hook is raised then, not at the first run.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._closed = False
        self._running: set[asyncio.Future[None]] = set()

    @classmethod
    def from_file(  # noqa: PLR0913  # the parameters of the design (D§16)
        cls,
        path: str | Path = "tenter.yaml",
        *,
        hooks: Iterable[object] = (),
        workspace: str | Path | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        pins: Pins | None = None,
    ) -> Self:
        """The harness that the file describes.

        `hooks` are added in the band that each names. `workspace` is the folder that tools and command hooks work in;
        the file's own where it is None. `store` keeps the journal; `.tenter/journal.db` beside the file where it is
        None. `clock` and `random` are used for everything. Whoever calls this vouches for the file and what it names
        (D§3.14); `pins` hold it to what was looked at, and then other modules of the project cannot be imported in this
        process. Raises ConfigError with every problem of the file, RegistrationError for a hook that cannot be
        attached, and TenterError for what is not as the pins have it.
        """
        given = Given(workspace=workspace, store=store, clock=clock, random=random, pins=pins)
        return cls(set_up(Path(path), tuple(hooks), given))

    @property
    def runtime(self) -> Runtime:
        """The hooks as they run."""
        return self._setup.runtime

    def mask(self, text: str) -> str:
        """`text` as people and logs may see it: without secrets, and without what looks like one (D§3.4)."""
        return self._setup.redactor.mask_fuzzy(text)

    async def run(  # noqa: PLR0913  # the parameters of the design (D§16)
        self,
        task: str,
        input: str = "",
        *,
        principal: str | None = None,
        session_id: str | None = None,
        correlation_id: str | None = None,
        participants: tuple[Participant, ...] = (),
        entities: tuple[str, ...] = (),
        metadata: Mapping[str, object] = EMPTY,
        deadline: float | None = None,
        max_steps: int = Limits().max_steps,
        loop: LoopFacts | None = None,
        watcher: Watcher | None = None,
        environment: Mapping[str, str] = FrozenDict(),
    ) -> RunResult:
        """Runs `task` on `input` to its end, or to where it waits for a person.

        `deadline` is in seconds since the epoch, of the harness's clock; when it passes the run ends failed, with the
        code `timeout`; after `max_steps` model calls it ends failed, with the code `budget`. `watcher` is told of each
        operation as it begins and ends. `environment` holds variables that the programs of its tools get besides. A
        journal that cannot be written ends the run failed, too. Raises TenterError for a task that the configuration
        does not have and for arguments that cannot be used; cancellation ends the run `cancelled` and is raised again.
        """
        setup = self._setup
        with self._counted():
            given = RunArguments(
                principal=principal,
                session_id=session_id,
                correlation_id=correlation_id,
                participants=participants,
                entities=entities,
                metadata=metadata,
                loop=loop,
                watcher=watcher,
                environment=environment,
            )
            check_arguments(task, input, given)
            limits = limits_of(deadline, max_steps)
            equipped = setup.task(task)
            run_id = f"{setup.random.getrandbits(64):016x}"
            envelope = envelope_of(TaskRef(id=run_id, name=task, version=equipped.spec.version), given)
            # Once for the whole run, so that every event has the same envelope and tools.
            plan = await setup.redactor.apply(_plan(equipped, envelope, input, limits))
            loop = await setup.redactor.apply(loop)
            run = self._run(equipped, plan.envelope, loop=loop, given=given)
            engine, started = LocalEngine(run, limits.deadline), setup.clock.now()
            try:
                standing = await drive(engine, AgentLoop(engine, plan), self._first_entry(plan))
            finally:
                setup.sink.forget(run_id)
            return await self._result(engine, standing, run, started=started)

    def run_sync(self, task: str, input: str = "", **arguments: Unpack[RunArguments]) -> RunResult:
        """`run`, for a program without an event loop. Raises TenterError inside a running one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(task, input, **arguments))
        raise TenterError("run_sync was called inside a running event loop; write `await harness.run(…)` there")

    async def close(self, reason: str = "closed") -> None:
        """Takes no more runs, waits for those that are going on, fires `shutdown`, once, and lets go of the journal.

        Idempotent. Raises TenterError inside a run of the harness, which it would wait for.
        """
        if self in _INSIDE.get():
            raise TenterError("close was called inside a run of the harness, which it would wait for; call it outside")
        if self._closed:
            return
        self._closed = True
        try:
            here = asyncio.get_running_loop()
            if running := [run for run in self._running if run.get_loop() is here]:
                await asyncio.wait(running)
            await self.runtime.run(SHUTDOWN, ShutdownEvent(reason=reason), nothing)
        finally:
            await self._setup.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close("closed" if kind is None else kind.__name__)

    @contextmanager
    def _counted(self) -> Generator[None]:
        """One run is going on meanwhile. Raises TenterError for a harness that was closed."""
        if self._closed:
            raise TenterError("this harness was closed and takes no more runs; make another with Harness.from_file(…)")
        running = asyncio.get_running_loop().create_future()
        self._running.add(running)
        token = _INSIDE.set((*_INSIDE.get(), self))
        try:
            yield
        finally:
            _INSIDE.reset(token)
            self._running.discard(running)
            running.set_result(None)

    def _run(self, task: TaskSetup, envelope: Envelope, *, loop: LoopFacts | None, given: RunArguments) -> Run:
        setup = self._setup
        context = ToolContext(
            workspace=setup.workspace,
            clock=setup.clock,
            environment=FrozenDict({**setup.tool_environment, **given.get("environment", {})}),
            mask=setup.redactor.mask_text,
        )
        return Run(
            envelope=envelope,
            runtime=setup.runtime,
            redactor=setup.redactor,
            store=setup.store,
            trace=Trace(),
            clock=setup.clock,
            seed=f"{setup.random.getrandbits(128):032x}",
            bodies=Bodies(task.model, task.tools, context).table(),
            repeatable=frozenset(name for name, tool in task.tools.items() if tool.idempotent),
            loop=loop,
            watcher=given.get("watcher"),
            trouble=lambda: setup.sink.trouble(envelope.run_id),
        )

    def _first_entry(self, plan: Plan) -> Mapping[str, object]:
        return {
            "task": plan.envelope.task.name,
            "version": plan.envelope.task.version,
            "envelope": plan.envelope,
            "input": plan.input,
            "limits": plan.limits,
            "spec": self._setup.spec.digest,
            "loop_version": LOOP_VERSION,
        }

    async def _result(self, engine: LocalEngine, standing: Standing, run: Run, *, started: float) -> RunResult:
        progress, task = standing.progress, run.envelope.task
        ended = standing if isinstance(standing, Ended) else None
        result = RunResult(
            run_id=run.envelope.run_id,
            task=task.name,
            task_version=task.version,
            status=status_of(standing),
            output=None if ended is None else ended.output,
            error=None if ended is None else await run.redactor.apply(ended.error, fuzzy=True),
            approval=engine.request if ended is None else None,
            usage=progress.usage,
            cost_usd=progress.cost_usd,
            cost_known=progress.cost_known,
            started_at=started,
            ended_at=run.clock.now(),
        )
        # A name that a hook made, as that of an exception's class, is put into the trace as it is.
        trace = await run.redactor.apply(run.trace.events())
        return msgspec.structs.replace(await run.redactor.apply(result), trace=trace)


def _plan(task: TaskSetup, envelope: Envelope, text: str, limits: Limits) -> Plan:
    spec = task.spec
    return Plan(
        envelope=envelope,
        input=text,
        sender=envelope.principal,
        instructions=spec.instructions,
        model_alias=spec.model,
        model=spec.model,
        tools=tuple(task.infos.values()),
        limits=limits,
    )
