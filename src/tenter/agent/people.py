"""Where a run waits for people (D§6, D§11): what they are asked, what they decided, and what comes of it.

One request for each operation that was suspended, once all that ran beside it has ended. Of a sub-run that waits, its
own loop asks; the run around it waits along.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

import msgspec

from tenter.agent.approval import MOST_REQUESTS, Halted, approved, edited, request_for
from tenter.agent.attempts import Attempts, Fault, Stop
from tenter.agent.engine import BLANK
from tenter.agent.plan import Ended, Waiting, reason_of
from tenter.agent.refusal import decided_against, ended_by, refused
from tenter.catalogue import (
    HELP_DECIDED,
    HELP_REQUESTED,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResolvedEvent,
    HelpRequestEvent,
    Status,
)
from tenter.kernel import Blocked, Done, Escalated, Event, FrozenDict, Operation, Retry, Suspended, Unknown

B = TypeVar("B", bound=Event)
A = TypeVar("A", bound=Event)


class Wait(Exception):
    """Leaves the steps of a run that waits for people."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self.waiting = waiting


class People:
    """Asks on behalf of one run. `change` tells of a new status of it."""

    def __init__(self, attempts: Attempts, change: Callable[[Status, str], Awaitable[None]]) -> None:
        self._attempts = attempts
        self._change = change
        self._names = set[str]()
        """The ids of the requests that were made."""

    def asked(self, halted: Halted) -> Halted:
        """What people are asked for an operation. Raises Stop where they were asked for it often enough."""
        if halted.times >= MOST_REQUESTS:
            reason = f"{halted.operation} needed a person more than {MOST_REQUESTS} times"
            raise Stop(refused(reason, "approvals_exhausted"))
        ending = halted.ending
        if isinstance(ending, Unknown) and not ending.digest:
            digest = self._attempts.engine.digest(halted.event)
            return msgspec.structs.replace(halted, ending=dataclasses.replace(ending, digest=digest))
        return halted

    async def decided(self, asked: Sequence[Halted | Waiting], events: Sequence[B]) -> Sequence[B]:
        """The events of the next passes, once people have decided on all that they were asked.

        `events` are those of the passes before, and stay where nobody decided: a request that was withdrawn with that
        of a sub-run is made anew. Raises Wait where the run waits on, and Stop where a decision ends it.
        """
        if not asked:
            return ()
        engine, now = self._attempts.engine, self._attempts.engine.now()
        own = {index: self._request(one, now) for index, one in enumerate(asked) if isinstance(one, Halted)}
        requests = tuple(
            request
            for index, one in enumerate(asked)
            for request in (one.requests if isinstance(one, Waiting) else (own[index],))
        )
        waiting = Waiting(requests=requests)
        await engine.suspend(waiting)  # first, so that whoever is told finds it on record and can decide at once
        for index, request in own.items():
            await self._tell(cast("Halted", asked[index]), request)
        await self._change("awaiting_approval", reason_of(waiting))
        since = engine.now()
        decisions = await engine.decisions(requests)
        if decisions is None:
            raise Wait(waiting)
        self._attempts.paused = True
        followed = await self._followed(asked, events, own, decisions)
        self._attempts.paused = False
        self._attempts.waited += max(0.0, engine.now() - since)
        return followed

    def _request(self, halted: Halted, now: float) -> ApprovalRequest:
        """A new request each time: a model that is asked again may be asked the very same, which nobody approved."""
        while (request := request_for(halted, self._attempts.plan, now)).id in self._names:
            halted = msgspec.structs.replace(halted, times=halted.times + 1)
        self._names.add(request.id)
        return request

    async def _followed(
        self,
        asked: Sequence[Halted | Waiting],
        events: Sequence[B],
        own: dict[int, ApprovalRequest],
        decisions: Sequence[ApprovalDecision],
    ) -> Sequence[B]:
        given = {decision.request_id: decision for decision in decisions}
        followed: dict[int, ApprovalDecision] = {}
        for index, request in own.items():
            if (decision := given.get(request.id)) is not None:
                followed[index] = await self._resolved(cast("Halted", asked[index]), request, decision)
        for index, decision in followed.items():
            if (ended := decided_against(own[index], decision)) is not None:
                raise Stop(ended)
        await self._change("running", "")
        return [
            self._approved(cast("Halted", one), event, own[index], followed[index]) if index in followed else event
            for index, (one, event) in enumerate(zip(asked, events, strict=True))
        ]

    async def _tell(self, halted: Halted, request: ApprovalRequest) -> None:
        """Tells that a person is about to be asked."""
        event = HelpRequestEvent(envelope=self._attempts.plan.envelope, op=BLANK, request=request)
        await self._passed(HELP_REQUESTED, event, halted.index)

    async def _resolved(self, halted: Halted, request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecision:
        """The decision as the run follows it: a hook may reject what a person let pass, and nothing else.

        What else it made of it no person has seen. An expiry is nobody's answer.
        """
        if decision.decision == "expire":
            return decision
        event = ApprovalResolvedEvent(
            envelope=self._attempts.plan.envelope, op=BLANK, request=request, decision=decision
        )
        heard = (await self._passed(HELP_DECIDED, event, halted.index)).decision
        if decision.decision == "reject" or heard.decision != "reject":
            return decision
        return msgspec.structs.replace(decision, decision="reject", reason=heard.reason, edits=FrozenDict())

    async def _passed(self, operation: Operation[B, A], event: B, index: int) -> A:
        """The output of an operation about people. Raises Stop where it ends the run."""
        ending = await self._attempts.attempt(operation, event, index=index)
        match ending:
            case Done():
                return ending.event
            case Blocked() | Escalated():
                raise Stop(ended_by(ending))
            case Fault():
                raise Stop(Ended(status="failed", error=ending.error))
            case Suspended() | Retry() | Unknown():
                raise AssertionError(f"{operation.name} takes neither Suspend nor Retry")

    def _approved(self, halted: Halted, event: B, request: ApprovalRequest, decision: ApprovalDecision) -> B:
        """The event of the next pass. Raises Stop for an edit that does not fit."""
        if decision.decision != "edit":
            return approved(halted, decision, event=event, digest=halted.ending.digest)
        shown = cast("B", halted.ending.event if halted.ending.event is not None else event)
        try:
            changed = edited(shown, decision.edits, request.editable)
        except ValueError as error:
            raise Stop(refused(f"the edit by {decision.by} cannot be used: {error}", "invalid_edit")) from None
        return approved(halted, decision, event=changed, digest=self._attempts.engine.digest(changed))
