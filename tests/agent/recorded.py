"""An engine of the tests that keeps what came of everything, and gives it out again to whoever goes on from there.

Side by side, branches take turns in an order that is left to chance: every call of the engine is a turn.
"""

import dataclasses
import hashlib
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar, cast

import msgspec
from tests.agent.playbook import ENVELOPE, NOTHING, PLAN, START, finished, repeats
from tests.agent.playbook_work import Answer, Results, Stopped, approve, begins, digest_of, done

from tenter.agent import AgentLoop, Plan, Standing, Waiting
from tenter.agent.approval import Halted, request_for
from tenter.catalogue import (
    LLM_INVOKED,
    SUBTASK_SPAWNED,
    ApprovalDecision,
    ApprovalRequest,
    ModelRequestEvent,
    RunEndEvent,
    RunStartEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    Usage,
)
from tenter.kernel import Blocked, Done, Escalated, Event, Failed, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
T = TypeVar("T")

Ending = Done[Any] | Stopped | Waiting
Outcome = tuple[Results | Stopped, float]
"""How an operation ends, and how many seconds later."""

ABOUT_PEOPLE_OR_FAILURES = ("help.", "activity.")
"""The operations at which nobody can wait for a person."""


class Turn:
    def __await__(self) -> Generator[None, None, None]:
        yield


class Entry(msgspec.Struct, frozen=True):
    """What came of one pass: its input, how it ended and when, and the result of its work where that was withheld."""

    event: object
    ending: Ending
    at: float
    worked: Event | None = None


class Record:
    """What a run leaves behind: what came of each pass by `path#pass`, and people's decisions by their requests.

    `outcomes` are still to come, by operation; where there are no more, each does its own work.
    """

    def __init__(self, outcomes: Mapping[str, Sequence[Outcome]], answers: Sequence[Answer]) -> None:
        self.outcomes = {name: iter(ends) for name, ends in outcomes.items()}
        self.answers: Iterator[Answer] = iter(answers)
        self.entries: dict[str, Entry] = {}
        self.decisions: dict[tuple[str, ...], tuple[ApprovalDecision, ...]] = {}


class Recorded:
    """Meets `tenter.agent.Engine`. With `live=False` it does nothing that is not on record, and nobody answers."""

    def __init__(self, record: Record, seed: int, *, live: bool = True) -> None:
        self.record = record
        self.live = live
        self.asked: dict[str, object] = {}
        self._chance = Random(seed)
        self._beside = False
        self._passes: dict[str, int] = {}
        self._begun: dict[str, int] = {}
        self._repeats: dict[str, bool] = {}
        self._times: dict[str, float] = {}
        self._worked: dict[str, Event | None] = {}
        self._now = START
        self._clock = max([START, *(entry.at for entry in record.entries.values())])

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        def do(outcome: Results | Stopped) -> Ending:
            ending = fitting(operation, event, outcome)
            if isinstance(ending, Mapping):
                own = {name: ending[name] for name in (*operation.results, "policy") if name in ending}
                own = {name: value for name, value in own.items() if name in operation.after.__struct_fields__}
                return Done(done(operation, event, own))
            return ending

        self._repeats[path] = repeats(event)
        ending = await self._pass(path, operation.name, event, do)
        assert not isinstance(ending, Waiting)
        return cast("Done[A]", ending)

    async def spawn(
        self, path: str, event: SubtaskSpawnEvent
    ) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        def do(outcome: Results | Stopped) -> Ending:
            match outcome:
                case Blocked() | Failed():
                    return outcome
                case Suspended():
                    return inner_wait(event.task.id, outcome, self._passes[path])
                case _:
                    used = Usage(output_tokens=3)
                    result = SubtaskResult(run_id=event.task.id, task="look", status="completed", usage=used)
                    return Done(done(SUBTASK_SPAWNED, event, {"result": result}))

        return cast("Done[SubtaskSpawnedEvent]", await self._pass(path, "subtask.spawned", event, do))

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        results: dict[int, T] = {}
        left = dict(enumerate(branches))
        self._beside = True
        try:
            while left:
                index = self._chance.choice(sorted(left))
                try:
                    left[index].send(None)
                except StopIteration as stop:
                    results[index] = stop.value
                    del left[index]
        finally:
            self._beside = False
            for branch in left.values():
                branch.close()
        return [results[index] for index in range(len(branches))]

    async def wait(self, since: str, seconds: float, *, before: str) -> None:
        self._clock = max(self._clock, self._times[since] + seconds) if self.live else self._clock

    def worked(self, path: str) -> Event | None:
        return self._worked.get(path)

    def attempts(self, path: str) -> int:
        return self._begun.get(path, 0)

    def repeatable(self, path: str) -> bool:
        return self._repeats.get(path, True)

    def digest(self, event: Event) -> str:
        return digest_of(event)

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        def do(outcome: Results | Stopped) -> Ending:
            return outcome if isinstance(outcome, Blocked | Failed) else Done(event)

        return cast("Done[RunStartEvent]", await self._pass("open", "run", event, do))

    async def suspend(self, waiting: Waiting) -> None:
        self.asked["suspend " + " ".join(request.id for request in waiting.requests)] = waiting

    async def decisions(self, requests: tuple[ApprovalRequest, ...]) -> tuple[ApprovalDecision, ...] | None:
        ids = tuple(request.id for request in requests)
        if ids not in self.record.decisions:
            if not self.live:
                return None
            answer = next(self.record.answers, approve)
            decided = [decision for request in requests if (decision := answer(request)) is not None]
            if not decided:
                return None
            self._clock += 1_000.0
            ends = [index for index, one in enumerate(decided) if one.decision in ("reject", "expire")]
            self.record.decisions[ids] = tuple(decided[: ends[0] + 1] if ends else decided)
        return self.record.decisions[ids]

    async def end_subtasks(self) -> Sequence[SubtaskResult]:
        return ()  # each is gone on with until it has ended

    async def close(self, event: RunEndEvent) -> None:
        assert "close" not in self.asked, "a run is closed once"
        self.asked["close"] = event

    def now(self, path: str = "") -> float:
        return self._times.get(path, 0.0) if path else self._now

    def random(self, path: str) -> float:
        return hashlib.sha256(path.encode()).digest()[0] / 256

    async def _pass(self, path: str, name: str, event: Event, do: Any) -> Ending:
        number = self._passes[path] = self._passes.get(path, 0) + 1
        key = f"{path}#{number}"
        assert key not in self.asked
        self.asked[key] = event
        if self._beside:
            await Turn()
        entry = self.record.entries.get(key)
        if entry is None:
            assert self.live, f"{key} is not on record"
            outcome, seconds = next(self.record.outcomes.get(name, iter(())), (NOTHING, 0.0))
            self._clock += seconds
            ending = do(outcome)
            worked = used_before(event) if name == "llm.invoked" and isinstance(ending, Retry | Failed) else None
            entry = self.record.entries[key] = Entry(event, ending, self._clock, worked)
        assert entry.event == event, f"{key} was given something else before"
        if self._beside:
            await Turn()
        self._begun[path] = self._begun.get(path, 0) + begins(entry.ending)
        self._worked[path] = entry.ending.event if isinstance(entry.ending, Done) else entry.worked
        self._times[path] = entry.at
        self._now = max(self._now, entry.at)
        return entry.ending


def fitting(operation: Operation[B, A], event: B, outcome: Results | Stopped) -> Results | Stopped:
    """The outcome where the operation can end so; else it does its own work."""
    cannot_wait = operation.name.startswith(ABOUT_PEOPLE_OR_FAILURES)
    match outcome:
        case _ if operation.shape == "fact":
            return NOTHING
        case Retry() if operation.name not in ("llm.invoked", "task.complete"):
            return NOTHING
        case Suspended() | Unknown() if cannot_wait:
            return NOTHING
        case Suspended():
            return dataclasses.replace(outcome, event=event, digest=digest_of(event))
        case _:
            return outcome


def used_before(event: Event) -> Event:
    """What the model answered before that was withheld."""
    return done(LLM_INVOKED, cast("ModelRequestEvent", event), NOTHING)


def inner_wait(run_id: str, ending: Suspended, number: int) -> Waiting:
    """A sub-run that waits for a person."""
    envelope = msgspec.structs.replace(ENVELOPE, run_id=run_id)
    inner = msgspec.structs.replace(PLAN, envelope=envelope, root_run_id=ENVELOPE.run_id)
    path = f"{number}.tool.invoked.0"
    halted = Halted(operation="tool.invoked", path=path, index=0, event=ending.event, ending=ending)
    return Waiting(requests=(request_for(halted, inner, START),))


def ran(record: Record, plan: Plan, seed: int, *, live: bool = True) -> tuple[Recorded, Standing]:
    """The run in one process, going on from what is on record."""
    engine = Recorded(record, seed, live=live)
    return engine, finished(AgentLoop(engine, plan).run())
