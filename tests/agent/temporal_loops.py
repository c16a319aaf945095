"""Runs that go another way than `temporal_engine.AgentRun`: each is held against the history of one that did not."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec
from temporalio import workflow
from tests.agent.temporal_engine import WORKFLOW, Run, TemporalEngine

from tenter.catalogue import ToolCallsEvent, ToolCallsExtractedEvent
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, FrozenDict, Operation, Retry, Suspended, Unknown

A = TypeVar("A", bound=Event)
B = TypeVar("B", bound=Event)
T = TypeVar("T")


class Hasty(TemporalEngine):
    """Asks nobody which calls a response has."""

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        if not isinstance(event, ToolCallsEvent):
            return await super().run(path, operation, event)
        response = event.response
        extracted = ToolCallsExtractedEvent(
            envelope=event.envelope, op=event.op, response=response, calls=response.tool_calls
        )
        return Done(cast("A", extracted))


class Backwards(TemporalEngine):
    """Begins the last of several branches first."""

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        return (await super().together(branches[::-1]))[::-1]


@workflow.defn(name=WORKFLOW)
class OneStepLess(Run):
    @workflow.run
    async def run(self, plan: bytes) -> bytes:
        self.engine = Hasty(self.plan)
        return await self.loop()


@workflow.defn(name=WORKFLOW)
class OtherOrder(Run):
    @workflow.run
    async def run(self, plan: bytes) -> bytes:
        self.engine = Backwards(self.plan)
        return await self.loop()


@workflow.defn(name=WORKFLOW)
class OtherWords(Run):
    @workflow.run
    async def run(self, plan: bytes) -> bytes:
        self.plan = msgspec.structs.replace(self.plan, instructions="Do it now.")
        return await self.loop()


CHANGED: Final[Mapping[type[Any], str]] = FrozenDict(
    {OneStepLess: "1.tool_calls.extracted.0#1", OtherOrder: "1.tool.invoked.0#1", OtherWords: "1.llm.invoked.0#1"}
)
"""Each with the first place where its way parts from the history's."""
