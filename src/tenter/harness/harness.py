"""`Harness`: runs the tasks of a configuration with its hooks, on the local engine (D§16).

It builds nothing itself: `setup` makes the parts from a file. What a run does next is the agent loop's, and how it is
brought to its end `drive`'s.
"""

import asyncio
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self, Unpack

import msgspec

from tenter.catalogue import (
    EMPTY,
    SHUTDOWN,
    ApprovalDecision,
    ApprovalRequest,
    DecisionKind,
    ErrorInfo,
    Limits,
    LoopFacts,
    Participant,
    ShutdownEvent,
    TaskRef,
)
from tenter.config import Pins
from tenter.harness.answers import check_ids, decision_of, named, said_by, said_why
from tenter.harness.arguments import RunArguments, check_arguments, envelope_of, limits_of
from tenter.harness.bodies import nothing
from tenter.harness.deciding import only_open, open_requests
from tenter.harness.edits import check_edits, check_unmasked
from tenter.harness.held import vouched_for
from tenter.harness.ledger import RunExists
from tenter.harness.parts import Begun, Watcher
from tenter.harness.result import RunResult
from tenter.harness.resuming import cancel, cancelled_by, resume
from tenter.harness.runs import Runs
from tenter.harness.setup import Given, Setup, set_up
from tenter.journal import Store
from tenter.kernel import Clock, FrozenDict, Random, Runtime, TenterError

EMPTY_ENVIRONMENT: Mapping[str, str] = FrozenDict()

MOST_DRAWN: Final = 100
"""So many ids of runs that are there already say that a `random` makes no new ones."""

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
        self._runs = Runs(setup)
        self._cancelling: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[RunResult | None]] = {}
        """The runs that are being cancelled, and what comes of it."""

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
            limits = msgspec.structs.replace(limits_of(deadline, max_steps), budgets=setup.task(task).spec.budgets)
            for _ in range(MOST_DRAWN):
                run_id = f"{setup.random.getrandbits(64):016x}"
                envelope = envelope_of(TaskRef(id=run_id, name=task, version=setup.task(task).spec.version), given)
                # Once for the whole run, so that every event has the same envelope and tools.
                plan = await setup.redactor.apply(self._runs.plan(envelope, input, limits))
                with suppress(RunExists):  # a `random` seeded as that of another process says its ids again
                    return await self._runs.begin(plan, await self._begun(given))
            raise TenterError(f"the journal holds each of {MOST_DRAWN} runs whose ids `random` gave; give another one")

    async def resume(
        self,
        run_id: str,
        *,
        by: str = "",
        accept: Collection[str] = (),
        watcher: Watcher | None = None,
        environment: Mapping[str, str] = FrozenDict(),
    ) -> RunResult:
        """Goes on with a run that waits for people, or whose process is gone, to its end or to where it waits again.

        What is on record is not done again, and no hook hears of it again. A tool that may have acted when its process
        ended is not run again: a person is asked. `by` says who goes on with it. `accept` names what may have changed
        since it began (parts of the configuration, `workspace` or `loop_version`), and `holder` where the process that
        has it is one of another host and known to be gone. Raises SpecChanged where something else has changed, RunHeld
        where a living process has the run, ReplayDiverged where the run does not come to what is on record,
        JournalError for a record that cannot be read, and TenterError for a run that is over or not there. Each of
        these leaves the run as it was.
        """
        check_ids(run_id, None)
        with self._counted():
            begun = await self._begun(RunArguments(watcher=watcher, environment=environment), by=said_by(by))
            return await resume(self._setup, self._runs, run_id, begun, accept=named(accept))

    async def approve(
        self,
        run_id: str,
        approval_id: str | None = None,
        *,
        by: str,
        reason: str = "",
        edits: Mapping[str, object] | None = None,
    ) -> ApprovalDecision:
        """Records that a person lets the call of a request pass, with `edits` in place of its own fields if given.

        Without `approval_id` it is the only open request of the run. `resume` goes on with the run. Raises
        DecisionRefused where the request is not there, is decided, has expired, or may not be edited so: also where the
        edited call does not fit its tool's JSON Schema, or holds a secret; then the request stays open. JournalError.
        """
        word: DecisionKind = "approve" if edits is None else "edit"
        decision = decision_of(word, by=by, reason=reason, edits=edits)
        return await self._decide(run_id, approval_id, decision)

    async def reject(
        self, run_id: str, approval_id: str | None = None, *, by: str, reason: str = ""
    ) -> ApprovalDecision:
        """Records that a person refuses the call of a request; `resume` brings the run to its end.

        Raises as `approve`.
        """
        return await self._decide(run_id, approval_id, decision_of("reject", by=by, reason=reason))

    async def approvals(self, run_id: str | None = None) -> tuple[ApprovalRequest, ...]:
        """What waits for people in the journal, the oldest first: of all runs, or of one and its sub-runs.

        Raises TenterError for a harness that was closed, and JournalError.
        """
        if run_id is not None:
            check_ids(run_id, None)
        with self._counted():
            return await open_requests(self._setup.store, run_id)

    async def cancel(
        self, run_id: str, *, by: str = "", reason: str = "", accept: Collection[str] = ()
    ) -> RunResult | None:
        """Ends a run, whether it goes on here, waits for people, or was left by its process; its result.

        None where another living process has the run: it was asked to end it, and looks four times a second. What the
        run had started ends with it. `accept` may name `holder`, as for `resume`, and nothing else. Raises TenterError
        for another name, and for a run that is over, not there, or part of another.
        """
        check_ids(run_id, None)
        by, reason, vouched = said_by(by), said_why(reason), vouched_for(named(accept))
        error = ErrorInfo(code="cancelled", message=await self._setup.redactor.apply(cancelled_by(by, reason)))
        going = self._runs.going(run_id)
        with self._counted(is_ending=going is not None):
            here = asyncio.get_running_loop()
            is_here = going is not None and going.loop is here and going.run.envelope.parent_run_id is None
            if going is not None and is_here and (ended := await self._runs.stop(going, error)) is not None:
                return ended
            begun = replace(await self._begun(RunArguments(), by=by), vouched=vouched)
            return await self._cancelled(run_id, begun, error)

    def run_sync(self, task: str, input: str = "", **arguments: Unpack[RunArguments]) -> RunResult:
        """`run`, for a program without an event loop. Raises TenterError inside a running one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(task, input, **arguments))
        raise TenterError("run_sync was called inside a running event loop; write `await harness.run(…)` there")

    async def close(self, reason: str = "closed") -> None:
        """Takes no more runs, waits for those that are going on, fires `shutdown`, once, and lets go of the journal.

        `cancel` ends one that it waits for.

        Idempotent. Raises TenterError inside a run of the harness, which it would wait for.
        """
        if self in _INSIDE.get():
            raise TenterError("close was called inside a run of the harness, which it would wait for; call it outside")
        if self._closed:
            return
        self._closed = True
        try:
            here = asyncio.get_running_loop()
            while running := [run for run in self._running if run.get_loop() is here]:
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
    def _counted(self, *, is_ending: bool = False) -> Generator[None]:
        """One run is going on meanwhile. Raises TenterError for a harness that was closed, unless it ends that run."""
        if self._closed and not is_ending:
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

    async def _begun(self, given: RunArguments, *, by: str = "") -> Begun:
        setup = self._setup
        return Begun(
            seed=f"{setup.random.getrandbits(128):032x}",
            began=round(setup.clock.now(), 6),
            loop=await setup.redactor.apply(given.get("loop")),
            watcher=given.get("watcher"),
            environment=given.get("environment") or EMPTY_ENVIRONMENT,
            by=by,
        )

    async def _cancelled(self, run_id: str, begun: Begun, error: ErrorInfo) -> RunResult | None:
        """As `resuming.cancel`. Who asks while it is being done here hears what came of that."""
        here = asyncio.get_running_loop()
        while (other := self._cancelling.get((here, run_id))) is not None:
            if (came := await asyncio.shield(other)) is not None:
                return came
        done = self._cancelling[here, run_id] = here.create_future()
        result: RunResult | None = None
        try:
            result = await cancel(self._setup, self._runs, run_id, begun, error=error)
        finally:
            del self._cancelling[here, run_id]
            done.set_result(result)
        return result

    async def _decide(self, run_id: str, request_id: str | None, decision: ApprovalDecision) -> ApprovalDecision:
        check_ids(run_id, request_id)
        with self._counted():
            return await self._decided(run_id, request_id, decision)

    async def _decided(self, run_id: str, request_id: str | None, decision: ApprovalDecision) -> ApprovalDecision:
        store = self._setup.store
        decided = msgspec.structs.replace(
            decision,
            run_id=run_id,
            request_id=await only_open(store, run_id) if request_id is None else request_id,
            decided_at=round(self._setup.clock.now(), 6),
        )
        recorded = await self._setup.redactor.apply(decided)
        row = await store.request(run_id, decided.request_id)
        if row is not None and row.state == "open":  # of any other the store says why nothing can be decided
            check_unmasked(row.request, decided.edits, recorded.edits)
            check_edits(row.request, recorded.edits)
        return await store.decide(recorded)
