"""What people decided on the requests of a run, and what became of those that nobody decided in time (D§6)."""

from collections.abc import Collection, Sequence
from typing import Final

from tenter.catalogue import ApprovalDecision, ApprovalRequest
from tenter.journal import ApprovalRow, DecisionRefused, Store
from tenter.kernel import TenterError

PAGE: Final = 200


async def decisions_on(
    store: Store, requests: Sequence[ApprovalRequest], now: float
) -> tuple[ApprovalDecision, ...] | None:
    """The decisions on these requests, all of them or up to one that ends the run; None where the run waits on.

    A request that has expired at `now` is decided here. Raises JournalError.
    """
    decided: list[ApprovalDecision] = []
    rows = await rows_of(store, requests)
    for request in requests:
        decision = await _decision_on(store, rows.get((request.run_id, request.id)), request, now)
        if decision is not None:
            decided.append(decision)
    ends = any(decision.decision in ("reject", "expire") for decision in decided)
    return tuple(decided) if ends or len(decided) == len(requests) else None


async def rows_of(store: Store, requests: Collection[ApprovalRequest]) -> dict[tuple[str, str], ApprovalRow]:
    """The rows of these requests, by run and id. Raises JournalError."""
    found: dict[tuple[str, str], ApprovalRow] = {}
    for root in {request.root_run_id or request.run_id for request in requests}:
        found |= {(row.request.run_id, row.request.id): row for row in await all_rows(store, root)}
    return found


async def all_rows(store: Store, run_id: str) -> Sequence[ApprovalRow]:
    """Every request of a run and of the runs in it, the first one first. Raises JournalError."""
    rows: list[ApprovalRow] = []
    after: str | None = None
    while True:
        page = await store.approvals(run=run_id, state=None, after=after, limit=PAGE)
        rows.extend(page)
        if len(page) < PAGE:
            return rows
        after = page[-1].cursor


async def only_open(store: Store, run_id: str) -> str:
    """The id of the one open request of a run. Raises TenterError where there is none, or more. Raises JournalError."""
    rows = await store.approvals(run=run_id, limit=2)
    if len(rows) == 1:
        return rows[0].request.id
    what = "has no open request" if not rows else "has several open requests: name one"
    raise TenterError(f"the run {run_id} {what}; 'tenter approvals list' shows them")


async def _decision_on(
    store: Store, row: ApprovalRow | None, request: ApprovalRequest, now: float
) -> ApprovalDecision | None:
    if row is None:
        return None
    if row.state != "open":
        return row.decision if row.state != "withdrawn" else None
    if request.expires_at is None or now < request.expires_at:
        return None
    expiry = ApprovalDecision(
        request_id=request.id, run_id=request.run_id, decision="expire", by="tenter", decided_at=now
    )
    try:
        return await store.decide(expiry)
    except DecisionRefused:  # somebody decided at the same moment
        rows = await rows_of(store, [request])
        again = rows.get((request.run_id, request.id))
        return None if again is None or again.state == "withdrawn" else again.decision
