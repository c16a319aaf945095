"""What one run is made of, and what whoever watches it is told."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from tenter.agent import Waiting
from tenter.catalogue import Envelope, LoopFacts, Op, SubtaskResult, SubtaskSpawnEvent, ToolInfo
from tenter.controls import Account
from tenter.executors import Pause
from tenter.harness.bodies import Body
from tenter.harness.record import Ending
from tenter.journal import JournalError, Store, Stream
from tenter.kernel import Clock, Event, FrozenDict, Redactor, Runtime, Trace, TraceEvent


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as it went, for whoever watches the run: what began, how it ended, what its hooks decided."""

    operation: str
    op: Op
    event: Event
    ending: Ending | None
    """None where it only begins."""
    trace: tuple[TraceEvent, ...] = ()
    reasons: Mapping[int, str] = FrozenDict()
    """Why a hook failed, by the number of its entry in `trace`, which never says it; masked, and for people alone."""


Watcher = Callable[[Step], object]

Spawn = Callable[[SubtaskSpawnEvent], Awaitable[Waiting | SubtaskResult]]
"""Runs a sub-run, or goes on with it: how it ended, or what it waits for."""


EndSubtask = Callable[[SubtaskSpawnEvent], Awaitable[SubtaskResult]]
"""Brings a sub-run that waits, or that its process left, to its end: how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run is made of, beside its plan."""

    envelope: Envelope
    runtime: Runtime
    redactor: Redactor
    store: Store
    trace: Trace
    clock: Clock
    pause: Pause
    """How seconds are waited."""
    seed: str
    """From which every random number of the run comes."""
    began: float
    """When it began, in seconds since the epoch."""
    bodies: Mapping[str, Body]
    account: Account
    """What it has used, and may use."""
    spawn: Spawn
    end_subtask: EndSubtask
    lenient: bool = False
    """Of a run that goes on: somebody accepted that it was begun with something else."""
    tools: Mapping[str, ToolInfo] = FrozenDict()
    """The tools that its task offers, by name."""
    loop: LoopFacts | None = None
    watcher: Watcher | None = None
    """Is told of each operation; one that raises is told no more."""
    parent_op: str | None = None
    """The op that spawned it, of a sub-run."""
    trouble: Callable[[], JournalError | None] = lambda: None
    """What kept a hook's record from the journal, if anything did: the run must not go on then."""
    remember: Callable[[Mapping[str, Mapping[str, object]]], None] = lambda _: None
    """Takes what hooks outside the process told in the part of the run that another process did."""

    @property
    def stream(self) -> Stream:
        return Stream("run", self.envelope.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a run is begun or gone on with, beside its plan: the caller's, or those of the run around it."""

    seed: str
    began: float
    loop: LoopFacts | None = None
    watcher: Watcher | None = None
    environment: Mapping[str, str] = FrozenDict()
    account: Account | None = None
    """Of the run around it."""
    parent_op: str | None = None
    by: str = ""
    """Who goes on with it."""
    vouched: bool = False
    """Somebody says that the process of another host that has it is gone."""
    lenient: bool = False
    """Somebody accepted that it was begun with something else."""
