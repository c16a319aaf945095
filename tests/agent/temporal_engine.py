"""The agent loop as a Temporal workflow, for the test that holds D§11 to its word: one loop, run anywhere.

An operation is one activity: its type is the operation's name, its id says path, pass and the digest of the input, so
that Temporal's own replay holds all of these against what the loop asks for. The work and its hooks are done by a
worker (`temporal_worker`); nothing in here touches the world. It loads in Temporal's workflow sandbox, with nothing of
tenter passed through. What it does not have: sub-runs, and approvals that expire.
"""

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutError as Lost

from tenter.agent import AgentLoop, Plan, Waiting
from tenter.catalogue import (
    ApprovalDecision,
    ApprovalRequest,
    Op,
    RunEndEvent,
    RunStartEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    ToolCallEvent,
)
from tenter.kernel import (
    Blocked,
    Done,
    Escalated,
    Event,
    Failed,
    Operation,
    Requirement,
    Retry,
    Suspended,
    Unknown,
)
from tenter.wire import digest

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)
E = TypeVar("E", bound=Event)
T = TypeVar("T")

Ending = Done[Any] | Blocked | Suspended | Escalated | Retry | Failed | Unknown

WORKFLOW: Final = "agent-run"
OPEN: Final = "run.pre"
CLOSE: Final = "run.post"

LONGEST: Final = timedelta(seconds=30)
SILENT: Final = timedelta(seconds=3)
"""After so long without a sign of life an activity counts as lost."""

AGAIN: Final = RetryPolicy(initial_interval=timedelta(milliseconds=50), backoff_coefficient=1.0, maximum_attempts=5)
ONCE: Final = RetryPolicy(maximum_attempts=1)

_OTHERS: Final = {"blocked": Blocked, "escalated": Escalated, "failed": Failed, "retry": Retry}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How an activity ended, and how far its work came, as it goes over the wire."""

    outcome: str
    value: msgspec.Raw
    begun: bool = False
    acted: msgspec.Raw | None = None
    """The after-event before its post chain, where that is not what the operation ended with."""


class _Suspended(msgspec.Struct, frozen=True, kw_only=True):
    requirements: tuple[Requirement, ...]
    event: msgspec.Raw
    digest: str


def encoded(value: object) -> msgspec.Raw:
    """A frozen value as it stands in an answer."""
    return msgspec.Raw(msgspec.json.encode(value))


def answer_of(ending: Ending, *, begun: bool = False, acted: Event | None = None) -> bytes:
    """What the workflow is told of an ending."""
    match ending:
        case Done():
            answer = Answer(outcome="done", value=encoded(ending.event), begun=begun)
        case Suspended():
            asked = _Suspended(requirements=ending.requirements, event=encoded(ending.event), digest=ending.digest)
            answer = Answer(outcome="suspended", value=encoded(asked), begun=begun)
        case _:
            withheld = None if acted is None else encoded(acted)
            name = type(ending).__name__.lower()
            answer = Answer(outcome=name, value=encoded(ending), begun=begun, acted=withheld)
    return msgspec.json.encode(answer)


def ending_of(answer: Answer, before: type[Event], after: type[Event]) -> Ending:
    """The ending that an answer tells of."""
    match answer.outcome:
        case "done":
            return Done(msgspec.json.decode(answer.value, type=after))
        case "suspended":
            asked = msgspec.json.decode(answer.value, type=_Suspended)
            event = msgspec.json.decode(asked.event, type=before)
            return Suspended(requirements=asked.requirements, event=event, digest=asked.digest)
        case other:
            return msgspec.json.decode(answer.value, type=_OTHERS[other])


def repeats(event: Event) -> bool:
    """Whether the work may be done again: all but that of a tool that is not idempotent."""
    return not isinstance(event, ToolCallEvent) or (event.tool is not None and event.tool.idempotent)


class TemporalEngine:
    """Meets `tenter.agent.Engine` inside a workflow. `decided` is told what people decide, by signals."""

    def __init__(self, plan: Plan) -> None:
        """To be made when the workflow begins."""
        self.requests: tuple[ApprovalRequest, ...] = ()
        self.decided: dict[str, ApprovalDecision] = {}
        self._run_id = plan.envelope.run_id
        self._passes: dict[str, int] = {}
        self._begun: dict[str, int] = {}
        self._repeats: dict[str, bool] = {}
        self._worked: dict[str, Event | None] = {}
        self._ended: dict[str, float] = {}
        self._now = workflow.now().timestamp()

    async def run(
        self, path: str, operation: Operation[B, A], event: B
    ) -> Done[A] | Blocked | Suspended | Escalated | Retry | Failed | Unknown:
        event = self._placed(path, event)
        self._repeats[path] = repeats(event)
        once = not repeats(event)
        try:
            answer = await self._ask(operation.name, event, once=once)
        except ActivityError as error:
            if not (once and isinstance(error.cause, Lost)):
                raise
            self._settle(path, begun=True)
            reason = f"whoever did {operation.name} was lost in the middle of it"
            return Unknown(reason=reason, event=event, digest=self.digest(event))
        ending = ending_of(answer, operation.before, operation.after)
        acted = None if answer.acted is None else msgspec.json.decode(answer.acted, type=operation.after)
        self._worked[path] = ending.event if isinstance(ending, Done) else acted
        self._settle(path, begun=answer.begun)
        return ending

    async def spawn(
        self, path: str, event: SubtaskSpawnEvent
    ) -> Done[SubtaskSpawnedEvent] | Waiting | Blocked | Failed:
        raise NotImplementedError(f"no sub-runs here, and {path} asked for {event.task.name!r}")

    async def together(self, branches: Sequence[Coroutine[object, object, T]]) -> Sequence[T]:
        return await asyncio.gather(*branches)

    async def wait(self, since: str, seconds: float, *, before: str) -> None:
        await workflow.sleep(seconds, summary=since)

    def worked(self, path: str) -> Event | None:
        return self._worked.get(path)

    def attempts(self, path: str) -> int:
        return self._begun.get(path, 0)

    def repeatable(self, path: str) -> bool:
        return self._repeats.get(path, True)

    def digest(self, event: Event) -> str:
        return digest({name: value for name, value in event.own_fields().items() if name != "approval"})

    async def open(self, event: RunStartEvent) -> Done[RunStartEvent] | Blocked | Failed:
        answer = await self._ask(OPEN, self._placed("0.run.0", event))
        self._settle("0.run.0")
        return cast("Done[RunStartEvent] | Blocked | Failed", ending_of(answer, RunStartEvent, RunStartEvent))

    async def suspend(self, waiting: Waiting) -> None:
        self.requests = waiting.requests

    async def decisions(self, requests: tuple[ApprovalRequest, ...]) -> tuple[ApprovalDecision, ...] | None:
        def taken() -> list[ApprovalDecision]:
            return [self.decided[request.id] for request in requests if request.id in self.decided]

        await workflow.wait_condition(
            lambda: len(taken()) == len(requests) or any(one.decision == "reject" for one in taken())
        )
        self.requests = ()
        self._now = workflow.now().timestamp()
        return tuple(taken())

    async def end_subtasks(self) -> Sequence[SubtaskResult]:
        return ()  # each is gone on with until it has ended

    async def close(self, event: RunEndEvent) -> None:
        await self._ask(CLOSE, self._placed("0.run.0", event, number=1))

    def now(self, path: str = "") -> float:
        return self._ended.get(path, 0.0) if path else self._now

    def random(self, path: str) -> float:
        drawn = hashlib.sha256(f"{self._run_id}/{path}".encode()).digest()
        return int.from_bytes(drawn[:8]) / 2**64

    async def _ask(self, name: str, event: Event, *, once: bool = False) -> Answer:
        op = cast("Op", event.op)
        answer = await workflow.execute_activity(
            name,
            msgspec.json.encode(event),
            activity_id=f"{op.path}#{op.pass_} {digest(event.own_fields())}",
            result_type=bytes,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=SILENT,
            retry_policy=ONCE if once else AGAIN,
        )
        return msgspec.json.decode(cast("bytes", answer), type=Answer)

    def _placed(self, path: str, event: E, *, number: int | None = None) -> E:
        """The event with its place in the run; both ends of the run's span have the same."""
        if number is None:
            number = self._passes[path] = self._passes.get(path, 0) + 1
        op = msgspec.structs.replace(
            cast("Op", event.op),
            id=f"{self._run_id}/{path}#{number}",
            path=path,
            pass_=number,
            attempt=self.attempts(path) + 1,
        )
        return msgspec.structs.replace(event, op=op)

    def _settle(self, path: str, *, begun: bool = False) -> None:
        self._now = self._ended[path] = workflow.now().timestamp()
        self._begun[path] = self._begun.get(path, 0) + begun


class Run:
    """What every workflow of such a run has: its loop, and people who ask what it waits for, and decide."""

    @workflow.init
    def __init__(self, plan: bytes) -> None:
        self.plan = msgspec.json.decode(plan, type=Plan)
        self.engine = TemporalEngine(self.plan)

    @workflow.query
    def asked(self) -> bytes:
        """The open requests."""
        return msgspec.json.encode(self.engine.requests)

    @workflow.signal
    def decide(self, decision: bytes) -> None:
        """The first decision on a request is the one that counts."""
        decided = msgspec.json.decode(decision, type=ApprovalDecision)
        self.engine.decided.setdefault(decided.request_id, decided)

    async def loop(self) -> bytes:
        """Where the run comes to."""
        return msgspec.json.encode(await AgentLoop(self.engine, self.plan).run())


@workflow.defn(name=WORKFLOW)
class AgentRun(Run):
    """A run as it is meant: takes a Plan, gives the Standing that it comes to."""

    @workflow.run
    async def run(self, plan: bytes) -> bytes:
        return await self.loop()
