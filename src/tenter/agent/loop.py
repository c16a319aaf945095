"""The agent loop: a deterministic coroutine that touches the world only through its engine (D§4.3, D§11).

It decides what comes next from outcomes and nothing else, so that run again on recorded outcomes it comes to the same
point. It knows no store, no model and no tool.
"""

from typing import NoReturn

import msgspec

from tenter.agent.engine import Engine
from tenter.agent.plan import Ended, Plan, Progress, Standing, Waiting, status_of
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
    Limits,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
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
    ToolInfo,
    ToolResult,
    ToolSpec,
)
from tenter.kernel import Blocked, Done, Escalated, Failed, FrozenDict, Retry, Suspended, Unknown

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
    """One run. `plan` is what it is to do; `progress` is how far it has come, replaced at every step."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.engine = engine
        self.plan = plan
        self.progress = Progress()
        self.status: Status = "pending"
        self.step = 0

    async def run(self) -> Standing:
        """Runs to a terminal state or a suspension, and closes the run where it ended. Raises only cancellation."""
        try:
            await self._start()
            standing = await self._converse()
        except _Stop as stop:
            standing = stop.standing
        await self.settle(standing)
        return standing

    async def settle(self, standing: Standing) -> None:
        """Tells of the status that the run comes to, and closes it where that is terminal."""
        if isinstance(standing, Waiting):
            await self.engine.suspend(standing)
        await self._change(status_of(standing), _reason(standing))
        if isinstance(standing, Ended):
            plan, progress = self.plan, standing.progress
            await self.engine.close(
                RunEndEvent(
                    envelope=plan.envelope,
                    op=BLANK,
                    task=plan.envelope.task,
                    input=plan.input,
                    limits=plan.limits,
                    idempotency_key=plan.idempotency_key,
                    status=standing.status,
                    output=standing.output,
                    error=standing.error,
                    usage=progress.usage,
                    cost_usd=progress.cost_usd if progress.cost_known else None,
                )
            )

    async def _start(self) -> None:
        plan = self.plan
        opened = await self.engine.open(
            RunStartEvent(
                envelope=plan.envelope,
                op=BLANK,
                task=plan.envelope.task,
                input=plan.input,
                limits=plan.limits,
                idempotency_key=plan.idempotency_key,
            )
        )
        if not isinstance(opened, Done):
            await self._stop_at(opened, "run", "0.run.0")
            return
        start = opened.event
        limits = tightened(plan.limits, start.limits)
        self.plan = msgspec.structs.replace(
            plan, input=start.input, limits=limits, idempotency_key=start.idempotency_key
        )
        await self._change("running", "")
        created = await self.engine.run(
            "0.task.created.0", TASK_CREATED, TaskCreateEvent(envelope=plan.envelope, op=BLANK, task=plan.envelope.task)
        )
        if not isinstance(created, Done):
            await self._stop_at(created, "task.created", "0.task.created.0")
        received = await self.engine.run(
            "0.request.received.0",
            REQUEST_RECEIVED,
            InputEvent(envelope=plan.envelope, op=BLANK, input=self.plan.input, sender=plan.sender),
        )
        if not isinstance(received, Done):
            await self._stop_at(received, "request.received", "0.request.received.0")
            return
        system = [Message(role="system", content=plan.instructions)] if plan.instructions else []
        self.progress = self.progress.said(*system, Message(role="user", content=received.event.input))

    async def _converse(self) -> Standing:
        while True:
            self.step += 1
            await self._check_limits()
            response = await self._ask()
            calls = await self._extract(response)
            self._say(
                Message(role="assistant", content=response.text, tool_calls=calls, extensions=response.extensions)
            )
            if calls:
                for index, call in enumerate(calls):
                    await self._check_deadline()
                    self._say(tool_message(call, await self._invoke(index, call)))
            elif (standing := await self._complete(response)) is not None:
                return standing

    async def _ask(self) -> ModelResponse:
        path = f"{self.step}.llm.invoked.0"
        while True:
            event = ModelRequestEvent(
                envelope=self.plan.envelope, op=BLANK, request=request_of(self.plan, self.progress)
            )
            asked = await self.engine.run(path, LLM_INVOKED, event)
            match asked:
                case Done():
                    self._count(asked.event.response)
                    return asked.event.response
                case Retry():
                    await self._repair(asked)
                    await self._check_deadline()
                case _:
                    await self._stop_at(asked, "llm.invoked", path)

    async def _extract(self, response: ModelResponse) -> tuple[ToolCall, ...]:
        path = f"{self.step}.tool_calls.extracted.0"
        event = ToolCallsEvent(envelope=self.plan.envelope, op=BLANK, response=response)
        extracted = await self.engine.run(path, TOOL_CALLS_EXTRACTED, event)
        if isinstance(extracted, Done):
            return extracted.event.calls
        return await self._stop_at(extracted, "tool_calls.extracted", path)

    async def _invoke(self, index: int, call: ToolCall) -> ToolResult:
        path = f"{self.step}.tool.invoked.{index}"
        event = ToolCallEvent(
            envelope=self.plan.envelope, op=BLANK, call=call, tool=tool_called(call.name, self.plan.tools)
        )
        invoked = await self.engine.run(path, TOOL_INVOKED, event)
        match invoked:
            case Done():
                return invoked.event.result
            case Blocked(stop=True):
                raise _Stop(blocked(invoked, self.progress))
            case Blocked():
                return stand_in(invoked)
            case Failed() | Unknown():
                await self._tell_failed(invoked, "tool.invoked")
                await self._check_deadline()
                return stand_in(invoked)
            case _:
                return await self._stop_at(invoked, "tool.invoked", path)

    async def _complete(self, response: ModelResponse) -> Standing | None:
        """The terminal state of the candidate, or None where the model has to go on."""
        path = f"{self.step}.task.complete.0"
        output = response.output if response.output is not None else response.text
        event = OutputEvent(envelope=self.plan.envelope, op=BLANK, output=output, attempt=self.progress.repairs)
        completed = await self.engine.run(path, TASK_COMPLETE, event)
        match completed:
            case Done():
                return await self._judged(completed.event)
            case Retry():
                await self._repair(completed)
                return None
            case _:
                return await self._stop_at(completed, "task.complete", path)

    async def _judged(self, event: TaskCompletedEvent) -> Standing:
        match event.verdict:
            case "complete":
                return Ended(status="completed", progress=self.progress, output=event.output)
            case "fail":
                error = ErrorInfo(code="validation", message=event.reason or "the output was judged a failure")
            case "wait":
                text = "the verdict 'wait' needs a session to wait in, which a run does not have yet"
                error = ErrorInfo(code="validation", message=text)
        return await self._fail(error, "task.complete")

    async def _repair(self, retry: Retry) -> None:
        """Counts a Retry and says its feedback; blocks the run that had its share of them."""
        if self.progress.repairs >= self.plan.max_repairs:
            reason = f"asked to try again more than {self.plan.max_repairs} times, last: {retry.reason}"
            raise _Stop(blocked(Blocked(reason=reason, code="repairs_exhausted", hook=""), self.progress))
        self.progress = msgspec.structs.replace(self.progress, repairs=self.progress.repairs + 1)
        if retry.feedback is not None:
            self._say(Message(role="user", content=retry.feedback))

    async def _check_limits(self) -> None:
        await self._check_deadline()
        if self.step > self.plan.limits.max_steps:
            text = f"the run took its {self.plan.limits.max_steps} steps without coming to an end"
            error = ErrorInfo(code="budget", message=text, details=FrozenDict({"code": "max_steps"}))
            raise _Stop(await self._fail(error, None))

    async def _check_deadline(self) -> None:
        deadline = self.plan.limits.deadline
        if deadline is not None and self.engine.now() >= deadline:
            error = ErrorInfo(code="timeout", message="the run's deadline has passed")
            raise _Stop(await self._fail(error, None))

    async def _fail(self, error: ErrorInfo, operation: str | None) -> Ended:
        """The run failed by a decision of the loop itself."""
        return Ended(status="failed", progress=self.progress, error=await self._classify(error, operation))

    async def _stop_at(self, stopped: Stopping, operation: str, path: str) -> NoReturn:
        standing = run_ends(stopped, self.progress, operation=operation, path=path)
        if isinstance(stopped, Failed | Unknown) and isinstance(standing, Ended) and standing.error is not None:
            standing = msgspec.structs.replace(standing, error=await self._classify(standing.error, operation))
        raise _Stop(standing)

    async def _tell_failed(self, failed: Failed | Unknown, operation: str) -> None:
        if isinstance(failed, Failed):
            await self._classify(error_of(failed, operation), operation)

    async def _classify(self, error: ErrorInfo, operation: str | None) -> ErrorInfo:
        """Fires `activity.failed`, once for a failure; the error as hooks classified it."""
        index = self.progress.failures
        self.progress = msgspec.structs.replace(self.progress, failures=index + 1)
        event = ActivityFailedEvent(
            envelope=self.plan.envelope, op=BLANK, error=error, step=self.step, operation=operation, attempt=1
        )
        classified = await self.engine.run(f"{self.step}.activity.failed.{index}", ACTIVITY_FAILED, event)
        return classified.event.error if isinstance(classified, Done) else error

    async def _change(self, after: Status, reason: str) -> None:
        event = TaskStateChangedEvent(
            envelope=self.plan.envelope, op=BLANK, before=self.status, after=after, reason=reason
        )
        await self.engine.run(f"{self.step}.task.state_changed.{after}", TASK_STATE_CHANGED, event)
        self.status = after

    def _say(self, *messages: Message) -> None:
        self.progress = self.progress.said(*messages)

    def _count(self, response: ModelResponse) -> None:
        progress = self.progress
        self.progress = msgspec.structs.replace(
            progress,
            usage=progress.usage + response.usage,
            cost_usd=progress.cost_usd + (response.cost_usd or 0.0),
            cost_known=progress.cost_known and response.cost_usd is not None,
        )


def request_of(plan: Plan, progress: Progress) -> ModelRequest:
    """The request that continues the conversation."""
    specs = tuple(ToolSpec(name=t.name, description=t.description, parameters=t.parameters) for t in plan.tools)
    return ModelRequest(alias=plan.model_alias, model=plan.model, messages=progress.messages, tools=specs)


def tightened(own: Limits, asked: Limits) -> Limits:
    """The limits of a run after its start: a hook may tighten them, and a looser value changes nothing."""
    deadlines = [limit for limit in (own.deadline, asked.deadline) if limit is not None]
    return Limits(deadline=min(deadlines, default=None), max_steps=min(own.max_steps, asked.max_steps))


def tool_called(name: str, tools: tuple[ToolInfo, ...]) -> ToolInfo | None:
    """The tool of that name among those that the task offers."""
    return next((tool for tool in tools if tool.name == name), None)


def tool_message(call: ToolCall, result: ToolResult) -> Message:
    return Message(role="tool", content=result.output, tool_call_id=call.id, name=call.name, is_error=result.is_error)


def _reason(standing: Standing) -> str:
    error = standing.error if isinstance(standing, Ended) else None
    return "" if error is None else str(error.details.get("code", error.code))
