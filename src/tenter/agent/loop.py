"""The agent loop: a deterministic coroutine that touches the world only through its engine (D§4.3, D§11).

It decides what comes next from outcomes and nothing else, so that run again on recorded outcomes it comes to the same
point. It knows no store, no model and no tool.
"""

from typing import TypeVar

import msgspec

from tenter.agent.engine import Engine
from tenter.agent.plan import Ended, Plan, Progress, Standing, Waiting, reason_of, specified, status_of, tightened
from tenter.agent.refusal import blocked, error_of, run_ends, stand_in
from tenter.catalogue import (
    ACTIVITY_FAILED,
    LLM_INVOKED,
    REQUEST_RECEIVED,
    TASK_COMPLETE,
    TASK_CREATED,
    TASK_STATE_CHANGED,
    TOOL_CALLS_EXTRACTED,
    TOOL_INVOKED,
    ActivityFailedEvent,
    ErrorInfo,
    InputEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    Op,
    OutputEvent,
    RunEndEvent,
    RunStartEvent,
    Status,
    TaskCompletedEvent,
    TaskCreateEvent,
    TaskStateChangedEvent,
    ToolCall,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResult,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, FrozenDict, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)

LOOP_VERSION = 1
"""Changes whenever the same outcomes would lead the loop elsewhere."""

BLANK = Op(id="")
"""The op of an event that an engine has not seen yet."""

Stopping = Blocked | Suspended | Escalated | Retry | Failed | Unknown


class _Stop(Exception):
    """Leaves the steps of a run: where it stands now."""

    def __init__(self, standing: Standing) -> None:
        super().__init__()
        self.standing = standing


class AgentLoop:
    """One run. `plan` is what it is to do, `progress` how far it has come: both are replaced as it goes on."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.engine = engine
        self.plan = plan
        self.progress = Progress()
        self.status: Status = "pending"
        self.step = 0
        self._task = plan.envelope.task
        self._tools = tuple(specified(tool) for tool in plan.tools)
        self._changes = 0
        self._failures = 0
        self._ended: Ended | None = None

    async def run(self) -> Standing:
        """Runs to a terminal state or a suspension, and settles there. Raises cancellation and what the engine does."""
        try:
            await self._start()
            standing = await self._converse()
        except _Stop as stop:
            standing = stop.standing
        return await self.settle(standing)

    async def settle(self, standing: Standing) -> Standing:
        """Tells of the status that the run comes to, and closes it where that is terminal; gives what it came to.

        The first terminal standing counts: a run that was cancelled while it ended is brought to the end that it had.
        """
        if self._ended is None and isinstance(standing, Ended):
            self._ended = standing
        standing = self._ended or standing
        if isinstance(standing, Waiting):
            await self.engine.suspend(standing)
        if self.status != status_of(standing):
            await self._change(status_of(standing), reason_of(standing))
        if isinstance(standing, Ended):
            await self.engine.close(self._end(standing))
        return standing

    def _end(self, ended: Ended) -> RunEndEvent:
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
        event = RunStartEvent(
            envelope=plan.envelope,
            op=BLANK,
            task=self._task,
            input=plan.input,
            limits=plan.limits,
            idempotency_key=plan.idempotency_key,
        )
        opened = await self.engine.open(event)
        if not isinstance(opened, Done):
            raise await self._stopped(opened, "run", "0.run.0", event)
        start = opened.event
        self._task = start.task
        self.plan = msgspec.structs.replace(
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
        while True:
            self.step += 1
            if self.step > self.plan.limits.max_steps:
                text = f"no end after {self.plan.limits.max_steps} steps; allow more: max_steps, or 'run --max-steps'"
                error = ErrorInfo(code="budget", message=text, details=FrozenDict({"code": "max_steps"}))
                return await self._failed(error, None)
            response = await self._ask()
            calls = await self._extract(response)
            self._say(
                Message(role="assistant", content=response.text, tool_calls=calls, extensions=response.extensions)
            )
            for index, call in enumerate(calls):
                self._say(tool_message(call, await self._invoke(index, call)))
            if not calls and (ended := await self._complete(response)) is not None:
                return ended

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
            self._count_use(asked)
            match asked:
                case Done():
                    return asked.event.response
                case Retry():
                    self._repair(asked)
                case _:
                    raise await self._stopped(asked, LLM_INVOKED.name, self._path(LLM_INVOKED.name), event)

    def _count_use(self, asked: Done[ModelResponseEvent] | Stopping) -> None:
        """Counts what a response used, also of one that hooks withheld or want anew."""
        worked = asked.event if isinstance(asked, Done) else self.engine.worked(self._path(LLM_INVOKED.name))
        if isinstance(worked, ModelResponseEvent):
            self.progress = self.progress.spent(worked.response.usage, worked.response.cost_usd)

    async def _extract(self, response: ModelResponse) -> tuple[ToolCall, ...]:
        event = ToolCallsEvent(envelope=self.plan.envelope, op=BLANK, response=response)
        return (await self._need(TOOL_CALLS_EXTRACTED, event)).calls

    async def _invoke(self, index: int, call: ToolCall) -> ToolResult:
        tool = next((tool for tool in self.plan.tools if tool.name == call.name), None)
        event = ToolCallEvent(envelope=self.plan.envelope, op=BLANK, call=call, tool=tool)
        invoked = await self._do(TOOL_INVOKED, event, index)
        match invoked:
            case Done():
                return invoked.event.result
            case Blocked(stop=False):
                return stand_in(invoked)
            case Failed():
                error = await self._classify(error_of(invoked, TOOL_INVOKED.name), TOOL_INVOKED.name)
                if invoked.code == "timeout" and self._is_late():  # the run's own deadline ended it: one failure
                    raise _Stop(Ended(status="failed", progress=self.progress, error=error))
                return stand_in(invoked)
            case _:
                raise await self._stopped(invoked, TOOL_INVOKED.name, self._path(TOOL_INVOKED.name, index), event)

    async def _complete(self, response: ModelResponse) -> Ended | None:
        """The terminal state that the candidate brings, or None where the model has to go on."""
        output = response.output if response.output is not None else response.text
        event = OutputEvent(envelope=self.plan.envelope, op=BLANK, output=output, attempt=self.progress.attempt)
        completed = await self._do(TASK_COMPLETE, event)
        match completed:
            case Done():
                return await self._judged(completed.event)
            case Retry():
                self._repair(completed)
                self.progress = msgspec.structs.replace(self.progress, attempt=self.progress.attempt + 1)
                return None
            case _:
                raise await self._stopped(completed, TASK_COMPLETE.name, self._path(TASK_COMPLETE.name), event)

    async def _judged(self, event: TaskCompletedEvent) -> Ended:
        match event.verdict:
            case "complete":
                return Ended(status="completed", progress=self.progress, output=event.output)
            case "fail":
                text = event.reason or "the output was judged a failure"
            case "wait":
                text = "the verdict 'wait' needs a session to wait in, which a run does not have yet"
        return await self._failed(ErrorInfo(code="validation", message=text), TASK_COMPLETE.name)

    async def _need(self, operation: Operation[B, A], event: B) -> A:
        """The output of an operation that the run cannot go on without."""
        ending = await self._do(operation, event)
        if isinstance(ending, Done):
            return ending.event
        raise await self._stopped(ending, operation.name, self._path(operation.name), event)

    async def _do(self, operation: Operation[B, A], event: B, index: int = 0) -> Done[A] | Stopping:
        """An operation of this step, unless the run's deadline has passed."""
        if self._is_late():
            error = ErrorInfo(code="timeout", message="the run's deadline has passed")
            raise _Stop(await self._failed(error, None))
        return await self.engine.run(self._path(operation.name, index), operation, event)

    async def _stopped(self, stopped: Stopping, operation: str, path: str, event: Event) -> _Stop:
        if isinstance(stopped, Failed):
            return _Stop(await self._failed(error_of(stopped, operation), operation))
        return _Stop(run_ends(stopped, self.progress, operation=operation, path=path, event=event))

    async def _failed(self, error: ErrorInfo, operation: str | None) -> Ended:
        """The run that a failure ends; `operation` is None where the loop itself decided that."""
        error = await self._classify(error, operation)
        return Ended(status="failed", progress=self.progress, error=error)

    async def _classify(self, error: ErrorInfo, operation: str | None) -> ErrorInfo:
        """Fires `activity.failed`, once a failure and never for its own; the error as hooks classified it."""
        event = ActivityFailedEvent(
            envelope=self.plan.envelope,
            op=BLANK,
            error=error,
            step=self.step,
            operation=operation,
            attempt=None if operation is None else 1,
        )
        path = self._path(ACTIVITY_FAILED.name, self._failures)
        self._failures += 1
        classified = await self.engine.run(path, ACTIVITY_FAILED, event)
        match classified:
            case Done():
                return classified.event.error
            case Suspended() | Escalated() | Blocked(stop=True):
                raise await self._stopped(classified, ACTIVITY_FAILED.name, path, event)
            case Blocked() | Failed() | Retry() | Unknown():
                return error

    def _repair(self, retry: Retry) -> None:
        """Counts a Retry and says its feedback; blocks the run that had its share of them."""
        if self.progress.repairs >= self.plan.max_repairs:
            reason = f"asked to try again more than {self.plan.max_repairs} times, last: {retry.reason}"
            raise _Stop(blocked(Blocked(reason=reason, code="repairs_exhausted", hook=""), self.progress))
        self.progress = msgspec.structs.replace(self.progress, repairs=self.progress.repairs + 1)
        if retry.feedback is not None:
            self._say(Message(role="user", content=retry.feedback))

    async def _change(self, after: Status, reason: str) -> None:
        event = TaskStateChangedEvent(
            envelope=self.plan.envelope, op=BLANK, before=self.status, after=after, reason=reason
        )
        path = self._path(TASK_STATE_CHANGED.name, self._changes)
        self._changes += 1
        self.status = after  # before anybody is told: who cancels the telling changes the status from here
        await self.engine.run(path, TASK_STATE_CHANGED, event)

    def _is_late(self) -> bool:
        deadline = self.plan.limits.deadline
        return deadline is not None and self.engine.now() >= deadline

    def _path(self, operation: str, index: int = 0) -> str:
        return f"{self.step}.{operation}.{index}"

    def _say(self, *messages: Message) -> None:
        self.progress = self.progress.said(*messages)


def tool_message(call: ToolCall, result: ToolResult) -> Message:
    """The result of a call as the conversation has it."""
    return Message(role="tool", content=result.output, tool_call_id=call.id, name=call.name, is_error=result.is_error)
