"""The requests for a person in memory: the twin of `approvals_table`.

It folds with `approvals.change` and decides nothing. What the entries say is asked for where it is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import msgspec

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

Place = tuple[Stream, int]
"""A stream and the sequence of an entry in it."""


class ApprovalsMemory:
    """`content` gives that of the entry at a place; None where there is none, or it was erased."""

    def __init__(self, content: Callable[[Place], Mapping[str, object] | None]) -> None:
        self._content = content
        self._standing: dict[tuple[str, str], Standing] = {}
        """By request id and run."""
        self._cursors: dict[tuple[str, str], Cursor] = {}
        """The place of each in a listing."""
        self._runs: dict[tuple[str, str], list[str]] = {}
        """The runs that asked, the first one first, by request id and root."""

    def note(self, place: Place, row: int, entry: Entry) -> None:
        """Fold the entry that stands at `place`; `row` orders those of the same time."""
        (stream, sequence), changed = place, change(place[0], entry)
        run = stream.id
        match changed:
            case None:
                return
            case Opened():
                known = self._standing.get((changed.id, run))
                if known is None or known.state != "open":
                    asked = Standing(id=changed.id, run=run, root=changed.root, time=entry.time, asked=sequence)
                    self._standing[changed.id, run] = asked
                    self._cursors[changed.id, run] = Cursor(entry.time, row)
                    self._index(asked)
            case Settled():
                known = self._standing.get((changed.id, run))
                if known is not None and known.state == "open":
                    self._standing[changed.id, run] = _settled(known, changed.state, sequence)
                    self._withdraw(lambda other: changed.withdraws and other.run == run, sequence)
            case Over():
                self._withdraw(lambda other: run in (other.run, other.root), None)
            case _:
                assert_never(changed)

    def request(self, run: str, request_id: str) -> ApprovalRow | None:
        """As `Store.request`."""
        below = self._runs.get((request_id, run), [run])
        standing = self._standing.get((request_id, run)) or self._standing.get((request_id, below[0]))
        return None if standing is None else self._row(standing)

    def standing(self, run: str) -> Sequence[Standing]:
        """As `Store.standing`."""
        return sorted((each for each in self._standing.values() if each.run == run), key=lambda each: each.id)

    def asked(self, decision: ApprovalDecision) -> ApprovalRow:
        """As `approvals_table.asked`."""
        request_id, run = decision.request_id, decision.run_id
        row = self.request(run, request_id)
        if row is None:
            named = [each.run for (name, _), each in self._standing.items() if name == request_id]
            raise no_such_request(decision, next((other for other in named if other != run), ""))
        return row

    def page(
        self, *, run: str | None, state: ApprovalState | None, after: Cursor | None, limit: int
    ) -> Sequence[ApprovalRow]:
        """As `Store.approvals`."""
        found = [
            standing
            for standing in sorted(self._standing.values(), key=self._cursor)
            if run in (None, standing.run, standing.root)
            and state in (None, standing.state)
            and (after is None or self._cursor(standing) > after)
        ]
        rows = (self._row(standing) for standing in found)
        return [row for row in rows if row is not None][: max(limit, 0)]

    def forget(self, stream: Stream) -> None:
        """The requests of a run that was pruned."""
        if stream.kind == "run":
            self._standing = {key: one for key, one in self._standing.items() if one.run != stream.id}
        self._runs = {}
        for standing in self._standing.values():
            self._index(standing)

    def _cursor(self, standing: Standing) -> Cursor:
        return self._cursors[standing.id, standing.run]

    def _index(self, standing: Standing) -> None:
        runs = self._runs.setdefault((standing.id, standing.root), [])
        if standing.run not in runs:
            runs.append(standing.run)

    def _withdraw(self, goes: Callable[[Standing], bool], decided: int | None) -> None:
        for key, standing in self._standing.items():
            if standing.state == "open" and goes(standing):
                self._standing[key] = _settled(standing, "withdrawn", decided)

    def _row(self, standing: Standing) -> ApprovalRow | None:
        stream = Stream("run", standing.run)
        content = self._content((stream, standing.asked))
        request = None if content is None else request_in(content)
        if request is None:
            return None
        answer = None if standing.decided is None else self._content((stream, standing.decided))
        decision = None if answer is None else decision_in(answer)
        return ApprovalRow(request=request, state=standing.state, decision=decision, cursor=str(self._cursor(standing)))


def _settled(standing: Standing, state: ApprovalState, decided: int | None) -> Standing:
    return msgspec.structs.replace(standing, state=state, decided=decided)
