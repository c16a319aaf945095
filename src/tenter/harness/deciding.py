"""What people decided on the requests of a run, and what became of those that nobody decided in time (D§6)."""

from collections.abc import Sequence
from contextlib import suppress

from tenter.catalogue import ApprovalDecision, ApprovalRequest
from tenter.journal import ApprovalRow, DecisionRefused, Store, every_request
from tenter.kernel import TenterError


async def decisions_on(
    store: Store, requests: Sequence[ApprovalRequest], run_id: str, now: float
) -> tuple[ApprovalDecision, ...] | None:
    """The decisions on these requests, all of them or up to one that ends the run; None where the run waits on.

    Those of sub-runs are among them, which their own loops follow. A request that has expired at `now` is decided here.
    Raises JournalError.
    """
    decided: list[ApprovalDecision] = []
    is_open = ends = False
    for request in requests:
        row = await _settled(store, request, now)
        if row is None or row.state == "open":
            is_open = True
        elif row.state != "withdrawn" and row.decision is not None:
            decided.append(row.decision)
            ends = ends or (request.run_id == run_id and row.state in ("rejected", "expired"))
    return tuple(decided) if ends or not is_open else None


async def still_open(store: Store, requests: Sequence[ApprovalRequest]) -> tuple[ApprovalRequest, ...]:
    """Those of the requests that nobody has decided. Raises JournalError."""
    rows = [await store.request(request.run_id, request.id) for request in requests]
    return tuple(one for one, row in zip(requests, rows, strict=True) if row is not None and row.state == "open")


async def open_requests(store: Store, run_id: str | None) -> tuple[ApprovalRequest, ...]:
    """The open requests of all runs, or of one and its sub-runs, the oldest first. Raises JournalError."""
    return tuple(row.request for row in await every_request(store, run_id, state="open"))


async def _settled(store: Store, request: ApprovalRequest, now: float) -> ApprovalRow | None:
    """The request as it stands, once its time was looked at."""
    row = await store.request(request.run_id, request.id)
    expires = None if row is None else row.request.expires_at
    if row is None or row.state != "open" or expires is None or now < expires:
        return row
    expiry = ApprovalDecision(
        request_id=request.id, run_id=request.run_id, decision="expire", by="tenter", decided_at=now
    )
    with suppress(DecisionRefused):  # somebody decided at the same moment
        await store.decide(expiry)
    return await store.request(request.run_id, request.id)


async def only_open(store: Store, run_id: str) -> str:
    """The id of the one open request of a run; where none is open, of its last one, of which a store tells why not.

    Raises DecisionRefused where the run never asked for anything, TenterError where several are open, and JournalError.
    """
    rows = await store.approvals(run=run_id, limit=2)
    if len(rows) > 1:
        raise TenterError(f"the run {run_id} has several open requests: name one; 'tenter approvals list' shows them")
    if rows:
        return rows[0].request.id
    if not (settled := await every_request(store, run_id)):
        text = f"the run {run_id} has no open request, and never had one; 'tenter approvals list' shows what waits"
        raise DecisionRefused("unknown", text)
    return settled[-1].request.id
