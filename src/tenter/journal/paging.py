"""Reads a listing of requests to its end, page by page; a caller that shows only a part asks the store itself."""

from typing import Final

from tenter.journal.approvals import ApprovalRow, ApprovalState
from tenter.journal.store import Store

PAGE: Final = 200
"""Requests that are asked for at once."""


async def every_request(
    store: Store, run: str | None = None, *, state: ApprovalState | None = None
) -> list[ApprovalRow]:
    """All that the run, and the runs below it, ever asked people for, or those in that state; the oldest first.

    Without a `run`, what all runs asked for. Raises JournalError.
    """
    rows: list[ApprovalRow] = []
    while True:
        page = await store.approvals(run=run, state=state, after=rows[-1].cursor if rows else None, limit=PAGE)
        rows += page
        if len(page) < PAGE:
            return rows
