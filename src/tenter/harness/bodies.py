"""The default bodies: what each operation does where no `in` hook does it (D§4.1). One table, by operation.

A model is foreign code: it works in a task of its own, so that one that swallows cancellation holds nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from tenter.agent import delay
from tenter.catalogue import (
    ActivityFailedEvent,
    ActivityRetryEvent,
    ApprovalResolvedEvent,
    HelpRequestEvent,
    InputEvent,
    ModelRequestEvent,
    Op,
    OutputEvent,
    TaskCreateEvent,
    ToolCallEvent,
    ToolCallsEvent,
)
from tenter.controls import Prices, priced
from tenter.harness.calling import ToolFailure, call_tool
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool
from tenter.harness.model import Model
from tenter.kernel import Clock, Event, FrozenDict, OperationFailed

T = TypeVar("T")

Body = Callable[[Any], Awaitable[object]]

SETTLE_SECONDS = 0.05
"""How long a cancelled model is waited for."""

_left_behind: set[asyncio.Task[object]] = set()
"""Models that outlived their call, kept until they end."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """What one run works with: its model and the tools that its task offers."""

    model: Model
    tools: Mapping[str, Tool]
    context: ToolContext
    prices: Prices | None = None
    """Of the model; None: a response whose cost it does not tell has none that is known."""
    secrets: Mapping[str, Mapping[str, str]] = field(default=FrozenDict(), repr=False)
    """By tool: the values of those that it alone is given, by name."""

    def table(self) -> Mapping[str, Body]:
        """The body of each operation, by name; a fact has none."""
        return {
            "request.received": self.receive,
            "task.created": self.create,
            "llm.invoked": self.ask,
            "tool_calls.extracted": self.extract,
            "tool.invoked": self.invoke,
            "help.requested": self.request,
            "help.decided": self.decide,
            "task.complete": self.complete,
            "activity.failed": self.classify,
            "activity.retried": self.delay,
        }

    async def receive(self, event: InputEvent) -> object:
        return event.input

    async def create(self, event: TaskCreateEvent) -> object:
        return event.task

    async def ask(self, event: ModelRequestEvent) -> object:
        response = await apart(self.model.generate(event.request))
        return priced(response, self.prices)

    async def extract(self, event: ToolCallsEvent) -> object:
        return event.response.tool_calls

    async def invoke(self, event: ToolCallEvent) -> object:
        tool = self.tools.get(event.call.name)
        if tool is None:
            raise OperationFailed(f"the task offers no tool called {event.call.name[:100]!r}", code="tool")
        secrets = self.secrets.get(tool.name, FrozenDict[str, str]())
        context = replace(
            self.context,
            deadline=event.op.deadline,
            environment=FrozenDict({**self.context.environment, **secrets}),
            secrets=secrets,
            key=f"{event.envelope.run_id}/{event.op.path}",
        )
        result = await call_tool(tool, event.call.arguments, context)
        if isinstance(result, ToolFailure):
            raise OperationFailed(result.output, code=result.code)
        return result

    async def request(self, event: HelpRequestEvent) -> object:
        return event.request

    async def decide(self, event: ApprovalResolvedEvent) -> object:
        return event.decision

    async def complete(self, event: OutputEvent) -> object:
        return {"verdict": "complete", "output": event.output, "reason": ""}

    async def classify(self, event: ActivityFailedEvent) -> object:
        return event.error

    async def delay(self, event: ActivityRetryEvent) -> object:
        return delay(event.policy, event.attempt)


async def nothing(event: Event) -> object:
    """The body of a fact."""
    return None


def within(body: Body, op: Op, clock: Clock, operation: str) -> Body:
    """`body`, which lets itself be cancelled, ended at the deadline of `op` as the failure `timeout`."""
    if (deadline := op.deadline) is None:
        return body

    async def bounded(event: Event) -> object:
        limit = asyncio.timeout(max(0.0, deadline - clock.now()))
        try:
            async with limit:
                return await body(cast("Any", event))
        except TimeoutError:
            if not limit.expired():  # it is the body's own
                raise
            raise OperationFailed(f"the run's deadline passed during {operation}", code="timeout") from None

    return bounded


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, done in a task of its own; what it raises is raised. When the caller is cancelled, `work`
    is too, and left behind where it does not end soon."""
    task = asyncio.ensure_future(_contained(work))
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)
        task.cancel()
        await asyncio.wait((task,), timeout=SETTLE_SECONDS)
        raise
    if isinstance(result := task.result(), _Raised):
        raise result.error
    return cast("T", result)


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


async def _contained(work: Coroutine[Any, Any, object]) -> object:
    try:
        return await work
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit that leaves a task ends the event loop
        return _Raised(error)
