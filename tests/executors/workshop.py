"""A command hook at `tool.before`, what it is run with, and the bounds that every call keeps (FAULTS G1, G4)."""

import os
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.outside import leaves_nothing, one_of_three, steady_loop

from tenter.catalogue import CATALOGUE, TOOL_INVOKED, Envelope, Op, TaskRef, ToolCall, ToolCallEvent, ToolResult
from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS
from tenter.executors import CommandHook, HookEnded, HookStarted, Sink, Surroundings, command_hook
from tenter.kernel import RESULTS, SYSTEM_CLOCK, Event, FrozenDict, Link, Redactor, Runtime, freeze

TIMEOUT, GRACE = 2.0, 0.5
SECRET = "correct-horse-battery"
REDACTOR = Redactor(secrets=[SECRET], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
POINT = CATALOGUE["tool.before"]


@dataclass
class Kept:
    """A sink that keeps its records in memory, in order."""

    starts: list[HookStarted] = field(default_factory=list[HookStarted])
    ends: list[HookEnded] = field(default_factory=list[HookEnded])
    facts: Mapping[str, object] = field(default_factory=FrozenDict[str, object])

    async def started(self, event: Event, record: HookStarted, /) -> None:
        self.starts.append(record)

    async def ended(self, event: Event, record: HookEnded, /) -> None:
        self.ends.append(record)

    def accumulated(self, event: Event, /) -> Mapping[str, object]:
        return self.facts

    @property
    def end(self) -> HookEnded:
        """The one execution that there was, started and ended."""
        (start,), (end,) = self.starts, self.ends
        assert (start.id, start.key, start.hook, start.point) == (end.id, end.key, end.hook, end.point)
        assert start.at == end.started_at <= end.ended_at
        assert end.result in RESULTS
        return end


def surroundings(folder: Path, sink: Sink, environment: Mapping[str, str] | None = None) -> Surroundings:
    return Surroundings(
        workspace=str(folder),
        project_dir=str(folder),
        environment={"PATH": os.environ["PATH"]} if environment is None else environment,
        sink=sink,
        redactor=REDACTOR,
        clock=SYSTEM_CLOCK,
        random=random.Random(),
    )


def settings(script: str | None = None, **more: Any) -> CommandHook:
    """A hook called `guard` before a tool, with a mark in its environment by which its processes are found."""
    defaults: dict[str, Any] = {
        "name": "guard",
        "point": POINT,
        "script": script,
        "on_error": "block",
        "timeout_seconds": TIMEOUT,
        "grace_seconds": GRACE,
        "env": {"MARK": uuid4().hex},
    }
    return CommandHook(**(defaults | more))


def tool_call(arguments: Mapping[str, object] | None = None, **op: Any) -> ToolCallEvent:
    envelope = Envelope(run_id="run-1", task=TaskRef(id="t-1", name="fix"), correlation_id="c-1")
    call = ToolCall(id="call-1", name="shell", arguments=freeze(arguments or {}))
    return ToolCallEvent(envelope=envelope, op=Op(id="op-1", path="3.tool.invoked.0", **op), call=call)


async def body(event: ToolCallEvent) -> ToolResult:
    return ToolResult(output="the tool ran")


@dataclass
class Outcome:
    """What came of one operation with the hook at its point."""

    ending: object
    link: Link


async def run(
    hook: CommandHook, folder: Path, sink: Sink, event: ToolCallEvent | None = None, *, others: tuple[object, ...] = ()
) -> Outcome:
    runtime = Runtime(CATALOGUE, [command_hook(hook, surroundings(folder, sink)), *others], redactor=REDACTOR)
    ending = await runtime.run(TOOL_INVOKED, event or tool_call(), body)
    return Outcome(ending, next(link for link in runtime.links() if link.name == hook.name))


@asynccontextmanager
async def bounded(hook: CommandHook) -> AsyncGenerator[None]:
    """G1 and G4: in time, a steady loop, and nothing left."""
    async with leaves_nothing(hook.env["MARK"]):
        start = time.monotonic()
        async with steady_loop(0.05):
            yield
        elapsed = time.monotonic() - start
    limit = hook.timeout_seconds + hook.grace_seconds + 0.25
    assert elapsed <= limit, f"took {elapsed:.3f} s; at most {limit}"


async def run_bounded(
    hook: CommandHook, folder: Path, event: ToolCallEvent | None = None
) -> tuple[object, HookEnded, Link]:
    """One operation within the bounds of every case; one try of three must keep them."""
    found: list[tuple[object, HookEnded, Link]] = []

    async def attempt() -> None:
        sink = Kept()
        async with bounded(hook):
            outcome = await run(hook, folder, sink, event)
        found.append((outcome.ending, sink.end, outcome.link))

    await one_of_three(attempt)
    return found[-1]
