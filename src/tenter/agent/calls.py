"""Makes the tool calls of a response, one by one or side by side, and the sub-runs that stand in their place (D§4.3).

A call that needs a person waits until those beside it have ended; then people are asked for all of them at once. What a
result means for the run, and what the model is told next, is the loop's.
"""

from collections.abc import Callable, Sequence

import msgspec

from tenter.agent.approval import Halted
from tenter.agent.attempts import Attempts, Fault, Stop
from tenter.agent.engine import BLANK
from tenter.agent.people import People
from tenter.agent.plan import Ended, Plan, Waiting, child_of
from tenter.agent.refusal import ended_by, error_of, stand_in, told_of
from tenter.agent.subtasks import child_run_id, is_spawn, wanted
from tenter.catalogue import (
    SUBTASK_SPAWNED,
    TOOL_INVOKED,
    Message,
    SubtaskResult,
    SubtaskSpawnEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolResult,
)
from tenter.kernel import Blocked, Done, Escalated, Failed, Retry, Suspended, Unknown


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a response on its way: the event of its next pass, and how often a person was asked."""

    index: int
    call: ToolCall
    event: ToolCallEvent
    asked: int = 0


def rounds(calls: Sequence[ToolCall], plan: Plan) -> list[list[Branch]]:
    """The calls of a response in the rounds in which they are made: all at once where the task says so. Pure."""
    branches = [_branch(index, call, plan) for index, call in enumerate(calls)]
    return [branches] if plan.parallel_tools else [[branch] for branch in branches]


def _branch(index: int, call: ToolCall, plan: Plan) -> Branch:
    tool = next((tool for tool in plan.tools if tool.name == call.name), None)
    event = ToolCallEvent(envelope=plan.envelope, op=BLANK, call=call, tool=tool)
    return Branch(index=index, call=call, event=event)


def tool_message(call: ToolCall, result: ToolResult) -> Message:
    """The result of a call as the conversation has it."""
    return Message(role="tool", content=result.output, tool_call_id=call.id, name=call.name, is_error=result.is_error)


class Calls:
    """The tool calls of one run. `count` is told of every sub-run that ended, also beside a call that ends the run."""

    def __init__(self, attempts: Attempts, people: People, count: Callable[[SubtaskResult], None]) -> None:
        self._attempts = attempts
        self._people = people
        self._count = count

    async def made(self, branches: Sequence[Branch], *, task: TaskRef) -> list[Message]:
        """What the model is told of the calls of one round, in their order; `task` is the run's own.

        Raises Stop where one of them ends the run, once those beside it have ended, and Wait where the run waits.
        """
        results: dict[int, ToolResult] = {}
        left = branches
        while left:
            ends = await self._ends(left, task)
            asking: list[tuple[Branch, Halted | Waiting]] = []
            for branch, end in zip(left, ends, strict=True):
                match end:
                    case Halted() | Waiting():
                        asking.append((branch, end))
                    case ToolResult():
                        results[branch.index] = end
                    case Ended():
                        raise Stop(end)
                    case SubtaskResult():
                        results[branch.index] = told_of(end)
            left = await self._decided(asking)
        return [tool_message(branch.call, results[branch.index]) for branch in branches]

    async def _ends(
        self, branches: Sequence[Branch], task: TaskRef
    ) -> Sequence[ToolResult | SubtaskResult | Halted | Waiting | Ended]:
        """What each branch comes to, once all of them have ended."""
        engine = self._attempts.engine
        since = engine.now()
        await self._attempts.in_time(since, branches[0].index)
        began = [self._walk(branch, task, since) for branch in branches]
        ends = [await began[0]] if len(began) == 1 else await engine.together(began)
        for end in ends:
            if isinstance(end, SubtaskResult):
                self._count(end)
        return ends

    async def _decided(self, asking: Sequence[tuple[Branch, Halted | Waiting]]) -> list[Branch]:
        """The branches that go on, once people have decided."""
        events = await self._people.decided([end for _, end in asking], [branch.event for branch, _ in asking])
        return [
            msgspec.structs.replace(branch, event=event, asked=branch.asked + 1)
            for (branch, _), event in zip(asking, events, strict=True)
        ]

    async def _walk(
        self, branch: Branch, task: TaskRef, since: float
    ) -> ToolResult | SubtaskResult | Halted | Waiting | Ended:
        """What a branch comes to by its own outcomes alone."""
        try:
            if is_spawn(self._attempts.plan, branch.call):
                return await self._spawn(branch, task)
            return await self._invoke(branch, since)
        except Stop as stop:
            return stop.ended

    async def _invoke(self, branch: Branch, since: float) -> ToolResult | Halted | Ended:
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
                halted = Halted(
                    operation=TOOL_INVOKED.name,
                    path=path,
                    index=branch.index,
                    event=branch.event,
                    ending=ending,
                    times=branch.asked,
                )
                return self._people.asked(halted)
            case Blocked() | Escalated():
                return ended_by(ending)
            case Retry():
                raise AssertionError("a tool takes no Retry")

    async def _spawn(self, branch: Branch, task: TaskRef) -> ToolResult | SubtaskResult | Waiting | Ended:
        """A sub-run in place of a tool."""
        plan = self._attempts.plan
        found = wanted(plan, branch.call)
        if isinstance(found, str):
            return ToolResult(output=found, is_error=True)
        subtask, text = found
        path = self._attempts.path(SUBTASK_SPAWNED.name, branch.index)
        event = SubtaskSpawnEvent(
            envelope=plan.envelope,
            op=self._attempts.blank(),
            parent=task,
            task=child_of(task, subtask, child_run_id(plan.envelope.run_id, path)),
            input=text,
        )
        ending = await self._attempts.engine.spawn(path, event)
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
