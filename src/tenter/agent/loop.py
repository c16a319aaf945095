"""The agent loop: a deterministic coroutine that touches the world only through its engine (D§4.3, D§11).

It decides what comes next from outcomes and nothing else, so that run again on recorded outcomes it comes to the same
point. It knows no store, no model and no tool.
"""

from collections.abc import Coroutine, Sequence
from typing import Protocol, TypeVar

import msgspec

from tenter.agent.approval import Halted
from tenter.agent.attempts import Attempts, Fault, Stop
from tenter.agent.calls import Calls, rounds
from tenter.agent.engine import BLANK, Engine
from tenter.agent.people import People, Wait
from tenter.agent.plan import (
    Ended,
    Plan,
    Progress,
    Standing,
    reason_of,
    specified,
    status_of,
    tightened,
)
from tenter.agent.refusal import ended_by, error_of, refused
from tenter.agent.subtasks import offered
from tenter.catalogue import (
    LLM_INVOKED,
    REQUEST_RECEIVED,
    TASK_COMPLETE,
    TASK_CREATED,
    TASK_STATE_CHANGED,
    TOOL_CALLS_EXTRACTED,
    ErrorInfo,
    InputEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    OutputEvent,
    RunEndEvent,
    RunStartEvent,
    Status,
    SubtaskResult,
    TaskCompletedEvent,
    TaskCreateEvent,
    TaskStateChangedEvent,
    ToolCallsEvent,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, FrozenDict, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")

LOOP_VERSION = 3
"""Changes whenever the same outcomes would lead the loop elsewhere."""


class Contained(Protocol):
    """Awaits a telling: its result, or None where it failed."""

    async def __call__(self, telling: Coroutine[object, object, T], /) -> T | None: ...


class AgentLoop:
    """One run. `plan` is what it is to do, `progress` how far it has come: both are replaced as it goes on."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.engine = engine
        self.plan = plan
        self.progress = Progress()
        self.status: Status = "pending"
        self._attempts = Attempts(engine, plan, self._count_use)
        self._people = People(self._attempts, self._change)
        self._calls = Calls(self._attempts, self._people, self._count_subtask)
        self._task = plan.envelope.task
        self._tools = (*(specified(tool) for tool in plan.tools), *offered(plan))
        self._changes = 0
        self.ended: Ended | None = None
        """The terminal state that it came to; the first counts, unless the run failed at it."""

    @property
    def step(self) -> int:
        """Model calls so far, repairs and retries apart."""
        return self._attempts.step

    async def run(self) -> Standing:
        """Runs to a terminal state or to where it waits for people, and settles there.

        Raises cancellation and what the engine does.
        """
        try:
            await self._start()
            ended = await self._converse()
        except Stop as stop:
            ended = stop.ended
        except Wait as wait:
            return msgspec.structs.replace(wait.waiting, progress=self.progress)
        return await self.settle(ended)

    async def settle(self, ended: Ended) -> Ended:
        """Tells of the terminal status that the run comes to, and closes it; gives what it came to.

        The first one counts: a run that was cancelled while it ended is brought to the end that it had.
        """
        if self.ended is None:
            self.ended = msgspec.structs.replace(ended, progress=self.progress)
        ended = self.ended
        if self.status != status_of(ended):
            await self._change(status_of(ended), reason_of(ended))
        ended = self.ended = self._with(ended, await self.engine.end_subtasks())
        await self.engine.close(self.end(ended))
        return ended

    async def fail(self, error: ErrorInfo, contained: Contained) -> Ended:
        """Ends the run failed, in place of any end that it was coming to; gives what it came to.

        `contained` awaits one telling and gives None where it fails, so that the others are made all the same.
        """
        heard = await contained(self._classified(error))
        self.ended = Ended(status="failed", progress=self.progress, error=heard or error)
        if self.status != "failed":
            await contained(self._change("failed", reason_of(self.ended)))
        self.ended = self._with(self.ended, await contained(self.engine.end_subtasks()) or ())
        await contained(self.engine.close(self.end(self.ended)))
        return self.ended

    def end(self, ended: Ended) -> RunEndEvent:
        """What is told of this end."""
        plan, progress = self.plan, ended.progress
        return RunEndEvent(
            envelope=plan.envelope,
            op=BLANK,
            task=self._task,
            input=plan.input,
            limits=plan.limits,
            idempotency_key=plan.idempotency_key,
            status=ended.status,
            output=ended.output,
            error=ended.error,
            usage=progress.usage,
            cost_usd=progress.cost_usd if progress.cost_known else None,
        )

    async def _start(self) -> None:
        plan = self.plan
        self._attempts.began = self.engine.now()
        event = RunStartEvent(
            envelope=plan.envelope,
            op=self._attempts.blank(),
            task=self._task,
            input=plan.input,
            limits=plan.limits,
            idempotency_key=plan.idempotency_key,
        )
        opened = await self.engine.open(event)
        match opened:
            case Done():
                start = opened.event
            case Blocked():
                raise Stop(ended_by(opened))
            case Failed():
                raise Stop(await self._failed(error_of(opened, "run"), "run"))
        self._task = start.task
        self.plan = self._attempts.plan = msgspec.structs.replace(
            plan,
            input=start.input,
            limits=tightened(plan.limits, start.limits),
            idempotency_key=start.idempotency_key,
        )
        await self._change("running", "")
        created = await self._need(TASK_CREATED, TaskCreateEvent(envelope=plan.envelope, op=BLANK, task=self._task))
        self._task = created.task
        received = await self._need(
            REQUEST_RECEIVED, InputEvent(envelope=plan.envelope, op=BLANK, input=start.input, sender=plan.sender)
        )
        system = [Message(role="system", content=plan.instructions)] if plan.instructions else []
        self._say(*system, Message(role="user", content=received.input))

    async def _converse(self) -> Ended:
        most = self.plan.limits.max_steps
        while True:
            self._attempts.step += 1
            if self.step > most:
                text = f"no end after {most} steps; allow more: max_steps, or 'run --max-steps'"
                error = ErrorInfo(code="budget", message=text, details=FrozenDict({"code": "max_steps"}))
                return await self._failed(error, None)
            response = await self._ask()
            calls = (await self._need(TOOL_CALLS_EXTRACTED, self._extracting(response))).calls
            self._say(
                Message(role="assistant", content=response.text, tool_calls=calls, extensions=response.extensions)
            )
            if calls:
                for branches in rounds(calls, self.plan):
                    self._say(*await self._calls.made(branches, task=self._task))
            elif not response.text.strip() and response.output is None:
                await self._say_nothing()
            elif (ended := await self._complete(response)) is not None:
                return ended

    def _extracting(self, response: ModelResponse) -> ToolCallsEvent:
        return ToolCallsEvent(envelope=self.plan.envelope, op=BLANK, response=response)

    async def _ask(self) -> ModelResponse:
        while True:
            request = ModelRequest(
                alias=self.plan.model_alias,
                model=self.plan.model,
                messages=self.progress.messages,
                tools=self._tools,
            )
            event = ModelRequestEvent(envelope=self.plan.envelope, op=BLANK, request=request)
            asked = await self._do(LLM_INVOKED, event)
            if isinstance(asked, Done):
                return asked.event.response
            self._repair(asked)

    async def _say_nothing(self) -> None:
        """A model that gave neither text nor calls is told so, as often as a run may be repaired."""
        if self.progress.repairs >= self.plan.max_repairs:
            times = self.plan.max_repairs + 1
            text = f"the model answered {times} times with neither text nor a tool call"
            raise Stop(await self._failed(ErrorInfo(code="validation", message=text), None))
        feedback = "Your answer was empty. Answer with text, or call a tool."
        self._repair(Retry(reason="an empty answer", feedback=feedback))

    async def _complete(self, response: ModelResponse) -> Ended | None:
        """The terminal state that the candidate brings, or None where the model has to go on."""
        output = response.output if response.output is not None else response.text
        event = OutputEvent(envelope=self.plan.envelope, op=BLANK, output=output, attempt=self.progress.attempt)
        completed = await self._do(TASK_COMPLETE, event)
        if isinstance(completed, Done):
            return await self._judged(completed.event)
        self._repair(completed)
        self.progress = msgspec.structs.replace(self.progress, attempt=self.progress.attempt + 1)
        return None

    async def _judged(self, event: TaskCompletedEvent) -> Ended:
        match event.verdict:
            case "complete":
                return Ended(status="completed", output=event.output)
            case "fail":
                text = event.reason or "the output was judged a failure"
            case "wait":
                text = "the verdict 'wait' needs a session to wait in, which a run does not have yet"
        return await self._failed(ErrorInfo(code="validation", message=text), TASK_COMPLETE.name)

    async def _need(self, operation: Operation[B, A], event: B) -> A:
        """The output of an operation that the run cannot go on without, and that takes no Retry."""
        done = await self._do(operation, event)
        assert isinstance(done, Done), f"{operation.name} takes no Retry"
        return done.event

    async def _do(self, operation: Operation[B, A], event: B) -> Done[A] | Retry:
        """An operation that ends the run where it is refused or fails, once people have decided what is theirs."""
        asked = 0
        while True:
            ending = await self._attempts.attempt(operation, event)
            match ending:
                case Done() | Retry():
                    return ending
                case Suspended() | Unknown():
                    path = self._attempts.path(operation.name)
                    halted = Halted(
                        operation=operation.name, path=path, index=0, event=event, ending=ending, times=asked
                    )
                    (event,) = await self._people.decided([self._people.asked(halted)], [event])
                    asked += 1
                case Fault():
                    cut = self._attempts.cut(ending, operation.name)
                    raise Stop(cut or Ended(status="failed", error=ending.error))
                case Blocked() | Escalated():
                    raise Stop(ended_by(ending))

    async def _failed(self, error: ErrorInfo, operation: str | None) -> Ended:
        """The run that a failure ends; `operation` is None where the loop itself decided that."""
        return Ended(status="failed", error=await self._attempts.classify(error, operation))

    async def _classified(self, error: ErrorInfo) -> ErrorInfo:
        """The error as hooks classified it; what would end the run in another way changes nothing."""
        try:
            return await self._attempts.classify(error, None)
        except Stop:
            return error

    def _count_use(self, worked: Event) -> None:
        """Counts what a response used, also of one that hooks withheld, want anew, or failed at."""
        if isinstance(worked, ModelResponseEvent):
            self.progress = self.progress.spent(worked.response.usage, worked.response.cost_usd)

    def _with(self, ended: Ended, subtasks: Sequence[SubtaskResult]) -> Ended:
        """The end with what the sub-runs used that came to theirs with the run."""
        for one in subtasks:
            self._count_subtask(one)
        return msgspec.structs.replace(ended, progress=self.progress) if subtasks else ended

    def _count_subtask(self, ended: SubtaskResult) -> None:
        self.progress = self.progress.spent(ended.usage, ended.cost_usd)

    def _repair(self, retry: Retry) -> None:
        """Counts a Retry and says its feedback; blocks the run that had its share of them."""
        if self.progress.repairs >= self.plan.max_repairs:
            reason = f"asked to try again more than {self.plan.max_repairs} times, last: {retry.reason}"
            raise Stop(refused(reason, "repairs_exhausted"))
        self.progress = msgspec.structs.replace(self.progress, repairs=self.progress.repairs + 1)
        if retry.feedback is not None:
            self._say(Message(role="user", content=retry.feedback))

    async def _change(self, after: Status, reason: str) -> None:
        event = TaskStateChangedEvent(
            envelope=self.plan.envelope, op=BLANK, before=self.status, after=after, reason=reason
        )
        path = self._attempts.path(TASK_STATE_CHANGED.name, self._changes)
        self._changes += 1
        self.status = after  # before anybody is told: who cancels the telling changes the status from here
        await self.engine.run(path, TASK_STATE_CHANGED, event)

    def _say(self, *messages: Message) -> None:
        self.progress = self.progress.said(*messages)
