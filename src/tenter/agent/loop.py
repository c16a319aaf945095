"""The agent loop: a deterministic coroutine that touches the world only through its engine (D§4.3, D§11).

It decides what comes next from outcomes and nothing else, so that run again on recorded outcomes it comes to the same
point. It knows no store, no model and no tool.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tenter.agent.approval import Asked
from tenter.agent.attempts import Attempts, Fault, Stop
from tenter.agent.engine import Engine
from tenter.agent.people import People, Wait
from tenter.agent.plan import (
    Ended,
    Plan,
    Progress,
    Standing,
    Waiting,
    child_of,
    reason_of,
    specified,
    status_of,
    tightened,
)
from tenter.agent.refusal import ended_by, error_of, refused, stand_in, told_of
from tenter.agent.subtasks import child_run_id, is_spawn, offered, wanted
from tenter.catalogue import (
    LLM_INVOKED,
    REQUEST_RECEIVED,
    SUBTASK_SPAWNED,
    TASK_COMPLETE,
    TASK_CREATED,
    TASK_STATE_CHANGED,
    TOOL_CALLS_EXTRACTED,
    TOOL_INVOKED,
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
    SubtaskResult,
    SubtaskSpawnEvent,
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

LOOP_VERSION = 2
"""Changes whenever the same outcomes would lead the loop elsewhere."""

BLANK = Op(id="")
"""The op of an event that an engine has not seen yet."""


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a response on its way: the event of its next pass, and how often a person was asked."""

    index: int
    call: ToolCall
    event: ToolCallEvent
    asked: int = 0


class AgentLoop:
    """One run. `plan` is what it is to do, `progress` how far it has come: both are replaced as it goes on."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.engine = engine
        self.plan = plan
        self.progress = Progress()
        self.status: Status = "pending"
        self._attempts = Attempts(engine, plan, self._count_use)
        self._people = People(self._attempts, self._change)
        self._task = plan.envelope.task
        self._tools = (*(specified(tool) for tool in plan.tools), *offered(plan))
        self._changes = 0
        self.ended: Ended | None = None
        """The terminal state that it came to; the first counts."""

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
        await self.engine.close(self.end(ended))
        return ended

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
                await self._invoke_all(calls)
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

    async def _invoke_all(self, calls: Sequence[ToolCall]) -> None:
        """Makes the calls, side by side where the task says so, and tells the model of them in their order."""
        branches = [self._branch(index, call) for index, call in enumerate(calls)]
        rounds = [branches] if self.plan.parallel_tools else [[branch] for branch in branches]
        for one in rounds:
            results = await self._round(one)
            self._say(*(tool_message(branch.call, results[branch.index]) for branch in one))

    def _branch(self, index: int, call: ToolCall) -> Branch:
        tool = next((tool for tool in self.plan.tools if tool.name == call.name), None)
        return Branch(
            index=index, call=call, event=ToolCallEvent(envelope=self.plan.envelope, op=BLANK, call=call, tool=tool)
        )

    async def _round(self, branches: Sequence[Branch]) -> dict[int, ToolResult]:
        """The results of the calls, by index. Those that need a person wait until their siblings have ended."""
        results: dict[int, ToolResult] = {}
        while branches:
            since = self.engine.now()
            await self._attempts.in_time(since, branches[0].index)
            began = [self._walk(branch, since) for branch in branches]
            ends = [await began[0]] if len(began) == 1 else await self.engine.together(began)
            self._count_subtasks(ends)
            asking: list[tuple[Branch, Asked | Waiting]] = []
            for branch, end in zip(branches, ends, strict=True):
                match end:
                    case Asked() | Waiting():
                        asking.append((branch, end))
                    case ToolResult():
                        results[branch.index] = end
                    case Ended():
                        raise Stop(end)
                    case SubtaskResult():
                        results[branch.index] = told_of(end)
            events = await self._people.decided([end for _, end in asking], [branch.event for branch, _ in asking])
            branches = [
                msgspec.structs.replace(branch, event=event, asked=branch.asked + 1)
                for (branch, _), event in zip(asking, events, strict=True)
            ]
        return results

    async def _walk(self, branch: Branch, since: float) -> ToolResult | SubtaskResult | Asked | Waiting | Ended:
        """What a branch comes to by its own outcomes alone."""
        try:
            if is_spawn(self.plan, branch.call):
                return await self._spawn(branch)
            return await self._invoke(branch, since)
        except Stop as stop:
            return stop.ended

    async def _invoke(self, branch: Branch, since: float) -> ToolResult | Asked | Ended:
        ending = await self._attempts.attempt(TOOL_INVOKED, branch.event, index=branch.index, since=since)
        match ending:
            case Done():
                return ending.event.result
            case Blocked(stop=False):
                return stand_in(ending)
            case Fault():
                cut = self._attempts.cut(ending, TOOL_INVOKED.name, index=branch.index, since=since)
                return stand_in(ending.failed) if cut is None else cut
            case Suspended() | Unknown():
                path = self._attempts.path(TOOL_INVOKED.name, branch.index)
                place = Asked(
                    operation=TOOL_INVOKED.name,
                    path=path,
                    index=branch.index,
                    event=branch.event,
                    ending=ending,
                    times=branch.asked,
                )
                return self._people.asked(place)
            case Blocked() | Escalated():
                return ended_by(ending)
            case Retry():
                raise AssertionError("a tool takes no Retry")

    async def _spawn(self, branch: Branch) -> ToolResult | SubtaskResult | Waiting | Ended:
        """A sub-run in place of a tool."""
        found = wanted(self.plan, branch.call)
        if isinstance(found, str):
            return ToolResult(output=found, is_error=True)
        subtask, text = found
        path = self._attempts.path(SUBTASK_SPAWNED.name, branch.index)
        parent = self.plan.envelope
        event = SubtaskSpawnEvent(
            envelope=parent,
            op=self._attempts.blank(),
            parent=self._task,
            task=child_of(self._task, subtask, child_run_id(parent.run_id, path)),
            input=text,
        )
        ending = await self.engine.spawn(path, event)
        match ending:
            case Done():
                return ending.event.result
            case Waiting():
                return ending
            case Blocked(stop=True):
                return ended_by(ending)
            case Blocked():
                return stand_in(ending)
            case Failed():
                error = error_of(ending, SUBTASK_SPAWNED.name)
                await self._attempts.classify(error, SUBTASK_SPAWNED.name, index=branch.index)
                return stand_in(ending)

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
                    place = Asked(operation=operation.name, path=path, index=0, event=event, ending=ending, times=asked)
                    (event,) = await self._people.decided([self._people.asked(place)], [event])
                    asked += 1
                case Fault():
                    cut = self._attempts.cut(ending, operation.name)
                    raise Stop(cut or Ended(status="failed", error=ending.error))
                case Blocked() | Escalated():
                    raise Stop(ended_by(ending))

    async def _failed(self, error: ErrorInfo, operation: str | None) -> Ended:
        """The run that a failure ends; `operation` is None where the loop itself decided that."""
        return Ended(status="failed", error=await self._attempts.classify(error, operation))

    def _count_use(self, worked: Event) -> None:
        """Counts what a response used, also of one that hooks withheld, want anew, or failed at."""
        if isinstance(worked, ModelResponseEvent):
            self.progress = self.progress.spent(worked.response.usage, worked.response.cost_usd)

    def _count_subtasks(self, ends: Sequence[object]) -> None:
        """Counts what sub-runs used, also where a call beside them ends the run."""
        for end in ends:
            if isinstance(end, SubtaskResult):
                self.progress = self.progress.spent(end.usage, end.cost_usd)

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


def tool_message(call: ToolCall, result: ToolResult) -> Message:
    """The result of a call as the conversation has it."""
    return Message(role="tool", content=result.output, tool_call_id=call.id, name=call.name, is_error=result.is_error)
