"""Decisions on the requests of a run: all of them, or those up to one that ends it; what expired is decided here."""

from pathlib import Path

import msgspec
import pytest
from tests.harness.world import BOTH, STORES, act, processes, spawn, spawning
from tests.journaled import asked, begun, entry, request

from tenter.catalogue import ApprovalDecision, ApprovalReason, ApprovalRequest, DecisionKind
from tenter.harness.deciding import decisions_on, only_open, still_open
from tenter.journal import DecisionRefused, MemoryStore, Store, Stream
from tenter.kernel import TenterError

EXPIRES = ApprovalReason(hook="ask", reason="sure?", code="risk", expires_at=2_000.0)


async def waiting(store: Store, *requests: ApprovalRequest) -> tuple[ApprovalRequest, ...]:
    for one in requests:
        stream = Stream("run", one.run_id)
        if await store.summary(stream) is None:
            await store.append(stream, [begun()])
        await store.append(stream, [asked(one), entry("status", 1, status="awaiting_approval")])
    return requests


def decision(one: ApprovalRequest, word: DecisionKind = "approve", at: float = 1_500.0) -> ApprovalDecision:
    return ApprovalDecision(request_id=one.id, run_id=one.run_id, decision=word, by="ada", decided_at=at)


@pytest.mark.parametrize("kind", BOTH)
async def test_a_run_waits_on_until_everything_is_decided(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    one, other = requests = await waiting(store, request("r1", "q1"), request("r1", "q2"))
    assert await decisions_on(store, requests, "r1", 1_500.0) is None
    second = await store.decide(decision(other))
    assert await decisions_on(store, requests, "r1", 1_500.0) is None
    first = await store.decide(decision(one))
    assert await decisions_on(store, requests, "r1", 1_500.0) == (first, second)
    await store.close()


@pytest.mark.parametrize("kind", BOTH)
async def test_a_rejection_counts_with_what_was_decided_before_it_and_withdraws_the_rest(
    tmp_path: Path, kind: str
) -> None:
    store = STORES[kind](tmp_path)
    requests = await waiting(store, *(request("r1", name) for name in ("q1", "q2", "q3")))
    approved = await store.decide(decision(requests[2]))
    rejected = await store.decide(decision(requests[1], "reject"))
    assert await decisions_on(store, requests, "r1", 1_500.0) == (rejected, approved)
    await store.close()


@pytest.mark.parametrize("kind", BOTH)
async def test_what_has_expired_is_decided_by_whoever_looks_and_only_then(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    requests = await waiting(store, request("r1", "q1", reasons=[EXPIRES]), request("r1", "q2"))
    assert await decisions_on(store, requests, "r1", 1_999.9) is None
    assert [row.state for row in await store.approvals(run="r1", state=None)] == ["open", "open"]
    expired = await decisions_on(store, requests, "r1", 2_000.0)
    assert expired is not None
    assert [(one.request_id, one.decision, one.by, one.decided_at) for one in expired] == [
        ("q1", "expire", "tenter", 2_000.0)
    ]
    assert [row.state for row in await store.approvals(run="r1", state=None)] == ["expired", "withdrawn"]
    assert await decisions_on(store, requests, "r1", 3_000.0) == expired
    await store.close()


async def test_somebody_who_answers_as_it_expires_is_heard() -> None:
    class Late(MemoryStore):
        async def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
            if decision.decision == "expire":
                await super().decide(msgspec.structs.replace(decision, decision="approve", by="ada", decided_at=1.0))
            return await super().decide(decision)

    store = Late()
    requests = await waiting(store, request("r1", "q1", reasons=[EXPIRES]))
    decided = await decisions_on(store, requests, "r1", 2_000.0)
    assert decided is not None
    assert [(one.decision, one.by) for one in decided] == [("approve", "ada")]


async def test_requests_of_sub_runs_are_looked_for_by_the_outermost_run() -> None:
    store = MemoryStore()
    own, inner, deeper = await waiting(
        store, request("r1", "q1"), request("r2", "q1", root="r1"), request("r3", "q3", root="r1")
    )
    decided = [await store.decide(decision(one)) for one in (own, inner, deeper)]
    assert await decisions_on(store, (own, inner, deeper), "r1", 1_500.0) == tuple(decided)


async def test_a_request_that_is_not_on_record_is_not_decided() -> None:
    assert await decisions_on(MemoryStore(), (request("r1", "q1", reasons=[EXPIRES]),), "r1", 3_000.0) is None


@pytest.mark.parametrize("kind", BOTH)
async def test_a_rejection_in_a_sub_run_ends_that_and_not_the_waiting_of_the_run_around_it(
    tmp_path: Path, kind: str
) -> None:
    store = STORES[kind](tmp_path)
    own, inner = requests = await waiting(store, request("r1", "q1"), request("r2", "q2", root="r1"))
    rejected = await store.decide(decision(inner, "reject"))
    assert await decisions_on(store, [inner], "r2", 1_500.0) == (rejected,)
    state = (await store.approvals(run="r1", state=None))[0].state
    assert (state == "open") == (await decisions_on(store, requests, "r1", 1_500.0) is None)
    assert await still_open(store, requests) == ((own,) if state == "open" else ())
    await store.close()


@pytest.mark.parametrize("kind", BOTH)
async def test_what_nobody_has_decided_is_still_open(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    one, other = requests = await waiting(store, request("r1", "q1"), request("r1", "q2"))
    assert await still_open(store, requests) == (one, other)
    await store.decide(decision(one))
    assert await still_open(store, (*requests, request("r1", "q3"))) == (other,)
    await store.close()


@pytest.mark.parametrize("kind", BOTH)
async def test_a_request_need_not_be_named_where_it_is_the_only_one(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    with pytest.raises(DecisionRefused, match="the run r1 has no open request, and never had one") as refused:
        await only_open(store, "r1")
    assert refused.value.why == "unknown"
    one, _ = await waiting(store, request("r1", "q1"), request("r2", "q2", root="r1"))
    with pytest.raises(TenterError, match="the run r1 has several open requests: name one"):
        await only_open(store, "r1")
    assert await only_open(store, "r2") == "q2"
    await store.decide(decision(one))
    assert await only_open(store, "r1") == "q2"
    await store.decide(msgspec.structs.replace(decision(one), request_id="q2", run_id="r2"))
    assert [await only_open(store, run) for run in ("r1", "r2")] == ["q2", "q2"]
    await store.close()


@pytest.mark.parametrize("kind", BOTH)
async def test_what_waits_is_told_of_all_runs_or_of_one_and_its_sub_runs(tmp_path: Path, kind: str) -> None:
    path = spawning(tmp_path, [spawn("a"), "Done."], [act("a"), "Did it."], settings={"tool": {"risk": "high"}})
    async with processes(path, kind) as made:
        harness = made.harness()
        waiting = [await harness.run("work", "go") for _ in range(2)]
        every = [request.id for request in await harness.approvals()]
        assert every == [one.id for run in waiting for one in run.approvals]
        assert await harness.approvals(waiting[1].run_id) == waiting[1].approvals
        await harness.approve(waiting[0].run_id, by="ann")
        assert await made.harness().approvals() == waiting[1].approvals
