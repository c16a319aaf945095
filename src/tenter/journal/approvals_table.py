"""The table of requests for a person: kept up to date as entries are appended, and read by index.

It folds with `approvals.change` and decides nothing. A row names the entries that ask and decide; what they say is read
from these. Every function works within the caller's transaction and raises sqlite3.Error, and those that read raise
`CanonicalError` for an entry that is damaged.
"""

import sqlite3
from contextlib import closing
from itertools import islice
from typing import Final, assert_never

from tenter.catalogue import ApprovalDecision
from tenter.journal.approvals import (
    ApprovalRow,
    ApprovalState,
    Cursor,
    Opened,
    Over,
    Settled,
    Standing,
    change,
    decision_in,
    request_in,
)
from tenter.journal.deciding import no_such_request
from tenter.journal.entry import Entry, Stream
from tenter.journal.rows import content_of, row_id
from tenter.journal.streams_table import number_of

_ASK: Final = """
INSERT INTO approvals (asked, run, root, id, state, time) VALUES (?, ?, ?, ?, 'open', ?)
ON CONFLICT (id, run) DO UPDATE
SET asked = excluded.asked, root = excluded.root, state = 'open', time = excluded.time, decided = NULL
WHERE state <> 'open'
"""
_SETTLE: Final = "UPDATE approvals SET state = ?, decided = ? WHERE id = ? AND run = ? AND state = 'open'"
_WITHDRAW_SIBLINGS: Final = (
    "UPDATE approvals SET state = 'withdrawn', decided = ? WHERE run = ? AND +state = 'open'"  # by run, not by state
)
_WITHDRAW: Final = "UPDATE approvals SET state = 'withdrawn' WHERE (run = ? OR root = ?) AND +state = 'open'"
FIND: Final = """
SELECT asked, state, time, decided FROM approvals WHERE id = ? AND run = ?
UNION ALL SELECT asked, state, time, decided FROM approvals WHERE root = ? AND id = ? LIMIT 1
"""
FIND_ELSEWHERE: Final = "SELECT run FROM approvals WHERE id = ? AND run <> ? LIMIT 1"


def note(connection: sqlite3.Connection, stream: Stream, row: int, entry: Entry) -> None:
    """Fold an entry that stands in `row`, or will, into the table."""
    changed = change(stream, entry)
    match changed:
        case None:
            return
        case Opened():
            connection.execute(_ASK, (row, stream.id, changed.root, changed.id, entry.time))
        case Settled():
            settled = connection.execute(_SETTLE, (changed.state, row, changed.id, stream.id))
            if settled.rowcount and changed.withdraws:
                connection.execute(_WITHDRAW_SIBLINGS, (row, stream.id))
        case Over():
            connection.execute(_WITHDRAW, (stream.id, stream.id))
        case _:
            assert_never(changed)


def request(connection: sqlite3.Connection, run: str, request_id: str) -> ApprovalRow | None:
    """As `Store.request`."""
    found = connection.execute(FIND, (request_id, run, run, request_id)).fetchone()
    return None if found is None else _row(connection, found)


def standing(connection: sqlite3.Connection, run: str) -> list[Standing]:
    """As `Store.standing`. What stands elsewhere than in the run's stream has no sequence of it."""
    before = row_id(number_of(connection, Stream("run", run)) or 0, 0)
    statement = "SELECT id, root, state, time, asked, decided FROM approvals WHERE run = ? ORDER BY id"
    return [
        Standing(
            id=request_id,
            run=run,
            root=root,
            state=state,
            time=time,
            asked=asked_in - before,
            decided=None if decided_in is None else decided_in - before,
        )
        for request_id, root, state, time, asked_in, decided_in in connection.execute(statement, (run,))
    ]


def asked(connection: sqlite3.Connection, decision: ApprovalDecision) -> ApprovalRow:
    """The request that is decided, as `request` finds it. Raises DecisionRefused where there is none with that id."""
    run, request_id = decision.run_id, decision.request_id
    row = request(connection, run, request_id)
    if row is None:
        elsewhere = connection.execute(FIND_ELSEWHERE, (request_id, run)).fetchone()
        raise no_such_request(decision, elsewhere[0] if elsewhere else "")
    return row


def page(
    connection: sqlite3.Connection,
    *,
    run: str | None,
    state: ApprovalState | None,
    after: Cursor | None,
    limit: int,
) -> list[ApprovalRow]:
    """As `Store.approvals`."""
    statement, values = page_statement(run=run, state=state, after=after)
    with closing(connection.execute(statement, values)) as found:
        rows = (_row(connection, each) for each in found)
        return list(islice((row for row in rows if row is not None), max(limit, 0)))


def page_statement(
    *, run: str | None, state: ApprovalState | None, after: Cursor | None
) -> tuple[str, tuple[object, ...]]:
    """The statement of a page, and its values: a row after the other is read from an index, and no more than needed."""
    conditions: list[str] = []
    values: list[object] = []
    if run is not None:
        conditions.append("(run = ? OR root = ?)")
        values += (run, run)
    if state is not None:
        conditions.append(f"{'' if run is None else '+'}state = ?")  # a run has few, so its index is the better one
        values.append(state)
    if after is not None:
        conditions.append(f"({'' if run is None else '+'}time, asked) > (?, ?)")
        values += (after.time, after.row)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT asked, state, time, decided FROM approvals {where} ORDER BY time, asked", tuple(values)


def _row(connection: sqlite3.Connection, found: tuple[int, ApprovalState, int, int | None]) -> ApprovalRow | None:
    """A line of the listing; None where its entry holds nothing that is known."""
    asked_in, state, time, decided_in = found
    content = content_of(connection, asked_in)
    wanted = None if content is None else request_in(content)
    if wanted is None:
        return None
    answer = None if decided_in is None else content_of(connection, decided_in)
    decision = None if answer is None else decision_in(answer)
    return ApprovalRow(request=wanted, state=state, decision=decision, cursor=str(Cursor(time, asked_in)))
