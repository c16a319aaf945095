"""The default bodies: what each operation does where no `in` hook does it (D§4.1). One table, by operation."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from tenter.catalogue import (
    ActivityFailedEvent,
    InputEvent,
    ModelRequestEvent,
    Op,
    OutputEvent,
    TaskCreateEvent,
    ToolCallEvent,
    ToolCallsEvent,
)
from tenter.harness.calling import call_tool
from tenter.harness.context import ToolContext
from tenter.harness.definition import Tool
from tenter.harness.model import Model
from tenter.kernel import Clock, Event, OperationFailed

Body = Callable[[Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Bodies:
    """What one run works with: its model and the tools that its task offers."""

    model: Model
    tools: Mapping[str, Tool]
    context: ToolContext

    def table(self) -> Mapping[str, Body]:
        """The body of each operation, by name; a fact has none."""
        return {
            "request.received": self.receive,
            "task.created": self.create,
            "llm.invoked": self.ask,
            "tool_calls.extracted": self.extract,
            "tool.invoked": self.invoke,
            "task.complete": self.complete,
            "activity.failed": self.classify,
        }

    async def receive(self, event: InputEvent) -> object:
        return event.input

    async def create(self, event: TaskCreateEvent) -> object:
        return event.task

    async def ask(self, event: ModelRequestEvent) -> object:
        return await self.model.generate(event.request)

    async def extract(self, event: ToolCallsEvent) -> object:
        return event.response.tool_calls

    async def invoke(self, event: ToolCallEvent) -> object:
        tool = self.tools.get(event.call.name)
        if tool is None:
            raise OperationFailed(f"the task offers no tool called {event.call.name!r}", code="tool")
        context = replace(self.context, deadline=event.op.deadline)
        return await call_tool(tool, event.call.arguments, context)

    async def complete(self, event: OutputEvent) -> object:
        return {"verdict": "complete", "output": event.output, "reason": ""}

    async def classify(self, event: ActivityFailedEvent) -> object:
        return event.error


async def nothing(event: Event) -> object:
    """The body of a fact."""
    return None


def within(body: Body, op: Op, clock: Clock, operation: str) -> Body:
    """`body`, ended at the deadline of `op` as the failure `timeout`."""
    if (deadline := op.deadline) is None:
        return body

    async def bounded(event: Event) -> object:
        try:
            async with asyncio.timeout(max(0.0, deadline - clock.now())):
                return await body(cast("Any", event))
        except TimeoutError:
            raise OperationFailed(f"the run's deadline passed during {operation}", code="timeout") from None

    return bounded
