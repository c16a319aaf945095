"""What every kind of executor is given and gives (D§14): a place to run in, a sink for its records, a call to bind.

An executor reaches code that a kernel cannot call by itself. It hands a start and an end record to the sink before it
answers, for every execution, also one that could not start.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tenter.kernel import Clock, Disposition, Event, ExecutionResult, Random, Redactor


class HookStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A hook outside the process is about to run. `at` is in seconds since the epoch; `id` is of this execution.

    `attempt` counts the executions of one call, all with the same `key`: above 1 the hook is tried again in place.
    """

    id: str
    key: str
    hook: str
    point: str
    at: float
    attempt: int = 1


class HookEnded(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it (D§10, seed 001's telemetry record). Texts are redacted, then cut.

    `exit_code` is None when there was no exit of its own. Byte counts are of what the hook wrote, kept or not. The
    disposition `retry` stands where the hook was to be tried again in place.
    """

    id: str
    key: str
    hook: str
    point: str
    started_at: float
    ended_at: float
    duration_ms: float
    result: ExecutionResult
    disposition: Disposition
    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stderr_tail: str = ""
    ended_descendants: int = 0
    error: str = ""
    metadata: Mapping[str, object] | None = None
    attempt: int = 1


class Sink(Protocol):
    """Where the records of executions go: into the journal of the run that `event` belongs to, or of the process.

    What it raises stops the operation: a hook whose run is not on record did not run. A record that was handed over is
    kept or refused, also where the caller is cancelled while it waits, and records are kept in the order of the calls.
    """

    async def started(self, event: Event, record: HookStarted, /) -> None: ...

    async def ended(self, event: Event, record: HookEnded, /) -> None: ...

    def accumulated(self, event: Event, /) -> Mapping[str, object]:
        """The metadata that hooks of the same run have given so far (`metadata.accumulated` of the payload)."""
        ...


class NoSink:
    """Keeps nothing: for hooks that run outside any journal, such as in a hook's own test."""

    async def started(self, event: Event, record: HookStarted, /) -> None: ...

    async def ended(self, event: Event, record: HookEnded, /) -> None: ...

    def accumulated(self, event: Event, /) -> Mapping[str, object]:
        return {}


Pause = Callable[[float], Awaitable[bool]]
"""Waits so many seconds before something is tried again. False: it waited less, and a hook is not to be tried again,
since somebody asked for something else; an operation of a run is all the same, as its own loop has it."""


async def sleep_through(seconds: float) -> bool:
    """Waits so many seconds, whatever happens meanwhile."""
    await asyncio.sleep(seconds)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What executors of one runtime share."""

    workspace: str
    """Absolute; the default working folder."""
    project_dir: str
    """Absolute; the folder of `tenter.yaml`."""
    environment: Mapping[str, str]
    """The parent's environment, of which hooks get what they are allowed."""
    sink: Sink
    redactor: Redactor
    clock: Clock
    random: Random
    pause: Pause = sleep_through
    """How a hook waits before it is tried again."""
