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
    change,
    decision_in,
    request_in,
)
from tenter.journal.deciding import no_such_request
from tenter.journal.entry import Entry, Stream

Place = tuple[Stream, int]
"""A stream and the sequence of an entry in it."""


class _Standing(msgspec.Struct, frozen=True, kw_only=True):
    asked: Place
    cursor: Cursor
    root: str
    state: ApprovalState = "open"
    decided: Place | None = None

    @property
    def run(self) -> str:
        return self.asked[0].id


class ApprovalsMemory:
    """`content` gives that of the entry at a place; None where there is none, or it was erased."""

    def __init__(self, content: Callable[[Place], Mapping[str, object] | None]) -> None:
        self._content = content
        self._standing: dict[tuple[str, str], _Standing] = {}
        """By request id and run."""
        self._runs: dict[tuple[str, str], list[str]] = {}
        """The runs that asked, the first one first, by request id and root."""

    def note(self, place: Place, row: int, entry: Entry) -> None:
        """Fold the entry that stands at `place`; `row` orders those of the same time."""
        run, changed = place[0].id, change(place[0], entry)
        match changed:
            case None:
                return
            case Opened():
                known = self._standing.get((changed.id, run))
                if known is None or known.state != "open":
                    asked = _Standing(asked=place, cursor=Cursor(entry.time, row), root=changed.root)
                    self._standing[changed.id, run] = asked
                    self._index(changed.id, asked)
            case Settled():
                known = self._standing.get((changed.id, run))
                if known is not None and known.state == "open":
                    self._standing[changed.id, run] = _settled(known, changed.state, place)
                    self._withdraw(lambda other: changed.withdraws and other.run == run, place)
            case Over():
                self._withdraw(lambda other: run in (other.run, other.root), None)
            case _:
                assert_never(changed)

    def request(self, run: str, request_id: str) -> ApprovalRow | None:
        """As `Store.request`."""
        below = self._runs.get((request_id, run), [run])
        standing = self._standing.get((request_id, run)) or self._standing.get((request_id, below[0]))
        return None if standing is None else self._row(standing)

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
            for standing in sorted(self._standing.values(), key=lambda standing: standing.cursor)
            if run in (None, standing.run, standing.root)
            and state in (None, standing.state)
            and (after is None or standing.cursor > after)
        ]
        rows = (self._row(standing) for standing in found)
        return [row for row in rows if row is not None][: max(limit, 0)]

    def forget(self, stream: Stream) -> None:
        """The requests of a run that was pruned."""
        self._standing = {key: standing for key, standing in self._standing.items() if standing.asked[0] != stream}
        self._runs = {}
        for (request_id, _), standing in self._standing.items():
            self._index(request_id, standing)

    def _index(self, request_id: str, standing: _Standing) -> None:
        runs = self._runs.setdefault((request_id, standing.root), [])
        if standing.run not in runs:
            runs.append(standing.run)

    def _withdraw(self, goes: Callable[[_Standing], bool], place: Place | None) -> None:
        for key, standing in self._standing.items():
            if standing.state == "open" and goes(standing):
                self._standing[key] = _settled(standing, "withdrawn", place)

    def _row(self, standing: _Standing) -> ApprovalRow | None:
        content = self._content(standing.asked)
        request = None if content is None else request_in(content)
        if request is None:
            return None
        answer = None if standing.decided is None else self._content(standing.decided)
        decision = None if answer is None else decision_in(answer)
        return ApprovalRow(request=request, state=standing.state, decision=decision, cursor=str(standing.cursor))


def _settled(standing: _Standing, state: ApprovalState, place: Place | None) -> _Standing:
    return msgspec.structs.replace(standing, state=state, decided=place)
