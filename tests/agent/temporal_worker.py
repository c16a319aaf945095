"""A worker that does the operations of a run for a workflow (D§11): python -m tests.agent.temporal_worker ADDRESS FILE

The body of each activity is the runner, with the hooks, the model and the tools that the configuration FILE describes.
It keeps nothing between two activities, so that another worker can go on at any moment.
"""

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar, cast

import msgspec
from temporalio import activity
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.worker import Worker
from tests.agent.temporal_engine import CLOSE, OPEN, AgentRun, Ending, answer_of

from tenter.catalogue import CATALOGUE, RUN, RunEndEvent, RunStartEvent
from tenter.harness.bodies import Bodies, nothing
from tenter.harness.context import ToolContext
from tenter.harness.setup import Given, Setup, set_up
from tenter.journal import MemoryStore
from tenter.kernel import Done, Event, Trace

T = TypeVar("T")

QUEUE: Final = "runs"
TASK: Final = "work"
BEAT: Final = 0.2
"""Seconds between two signs of life."""

LIFE: Final = 60.0
"""Seconds after which a worker ends that nobody ended."""


class Activities:
    """The activities of one configuration, all of them."""

    def __init__(self, setup: Setup) -> None:
        self._runtime = setup.runtime
        task = setup.task(TASK)
        self._bodies = Bodies(task.model, task.tools, ToolContext(workspace=setup.workspace)).table()

    @activity.defn(dynamic=True)
    async def operate(self, arguments: Sequence[RawValue]) -> bytes:
        """The operation, or the end of the run's span, that the activity is called after."""
        data: bytes = activity.payload_converter().from_payload(arguments[0].payload, bytes)
        return await beating(self._operate(activity.info().activity_type, data))

    async def _operate(self, name: str, data: bytes) -> bytes:
        if name == OPEN:
            opened = await self._runtime.span(RUN).open(msgspec.json.decode(data, type=RunStartEvent))
            return answer_of(cast("Ending", opened))
        if name == CLOSE:
            closed = await self._runtime.span(RUN).close(msgspec.json.decode(data, type=RunEndEvent))
            return answer_of(Done(closed))
        operation, steps = CATALOGUE.operations[name], Steps()
        event = msgspec.json.decode(data, type=operation.before)
        body = self._bodies.get(name, nothing)
        if operation.shape == "fact":
            return answer_of(await self._runtime.run(operation, event, body, trace=Trace()))
        ending = await self._runtime.run(operation, event, body, trace=Trace(), steps=steps)
        return answer_of(ending, begun=steps.begun, acted=steps.acted_event)


class Steps:
    """Remembers how far an operation came."""

    def __init__(self) -> None:
        self.begun = False
        self.acted_event: Event | None = None

    async def acting(self, event: Event) -> None:
        self.begun = True

    async def acted(self, event: Event) -> None:
        self.acted_event = event


async def beating(work: Coroutine[object, object, T]) -> T:
    """What `work` comes to; the server hears meanwhile that somebody is at it."""
    task = asyncio.ensure_future(work)
    while not task.done():
        activity.heartbeat()
        await asyncio.wait((task,), timeout=BEAT)
    return task.result()


async def main(address: str, config: str) -> None:
    activities = Activities(set_up(Path(config), (), Given(store=MemoryStore())))
    worker = Worker(
        await Client.connect(address),
        task_queue=QUEUE,
        workflows=[AgentRun],
        activities=[activities.operate],
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),  # then others go on in place of a dead one
        max_heartbeat_throttle_interval=timedelta(seconds=BEAT),
    )
    await asyncio.wait_for(worker.run(), LIFE)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
