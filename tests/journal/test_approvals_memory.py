from collections.abc import Mapping

import msgspec
import pytest
from tests.journal.world import asking, decision, entry, request, run_stream, status

from tenter.journal.approvals import Cursor, Standing, decision_entry
from tenter.journal.approvals_memory import ApprovalsMemory, Place
from tenter.journal.deciding import DecisionRefused
from tenter.journal.entry import Entry


class _Book:
    """The requests over a mapping of entries."""

    def __init__(self) -> None:
        self.entries: dict[Place, Entry] = {}
        self.requests = ApprovalsMemory(self._content)

    def _content(self, place: Place) -> Mapping[str, object] | None:
        found = self.entries.get(place)
        return None if found is None else found.content

    def note(self, run: str, *entries: Entry) -> None:
        for each in entries:
            place = (run_stream(run), len(self.entries))
            self.entries[place] = each
            self.requests.note(place, len(self.entries), each)

    def ids(self, **changes: object) -> list[str]:
        asked = {"run": None, "state": None, "after": None, "limit": 50} | changes
        return [row.request.id for row in self.requests.page(**asked)]  # pyright: ignore[reportArgumentType]  # each is of its own type


def test_requests_come_by_their_time_and_then_by_their_row() -> None:
    book = _Book()
    book.note("r1", asking(request("late", at=9.0)), asking(request("b", at=1.0)), asking(request("c", at=1.0)))
    assert book.ids() == ["b", "c", "late"]
    assert book.ids(after=Cursor(1_000_000, 2)) == ["c", "late"]
    assert book.ids(limit=1) == ["b"]
    assert book.ids(run="r2") == []


def test_what_is_settled_or_over_is_open_no_more() -> None:
    book = _Book()
    book.note("r1", asking(request("a")), asking(request("b")), asking(request("c")))
    book.note("r1", decision_entry(decision("a")), decision_entry(decision("a", kind="reject")))
    assert book.ids(state="open") == ["b", "c"]
    book.note("r1", decision_entry(decision("b", kind="reject")), entry("note"))
    assert (book.ids(state="open"), book.ids(state="withdrawn"), book.ids(state="approved")) == ([], ["c"], ["a"])
    book.note("r2", asking(request("d", "r2")), status("failed"))
    assert book.requests.asked(decision("d", "r2")).decision is None
    assert book.requests.asked(decision("c")).decision == decision("b", kind="reject")


def test_a_request_of_a_run_below_is_found_by_the_root_as_long_as_it_is_there() -> None:
    book = _Book()
    for run in ("one", "two"):
        book.note(run, asking(request("a", run, root_run_id="r1")), asking(request(run, run, root_run_id="r1")))
    for name, run in (("a", "one"), ("one", "one"), ("two", "two")):
        row = book.requests.request("r1", name)
        assert row is not None
        assert row.request.run_id == run
    book.note("r1", asking(request("two")))
    row = book.requests.request("r1", "two")
    assert row is not None
    assert row.request.run_id == "r1"
    book.requests.forget(run_stream("one"))
    row = book.requests.request("r1", "a")
    assert row is not None
    assert row.request.run_id == "two"
    assert book.requests.request("r1", "one") is None
    assert book.requests.request("one", "a") is None


def test_what_is_not_there_any_more_is_left_out() -> None:
    book = _Book()
    book.note("r1", asking(request("a")))
    book.note("r2", asking(request("b", "r2")))
    book.requests.forget(run_stream("r1"))
    assert book.ids() == ["b"]
    book.entries.clear()
    assert book.ids() == []
    for run, why in (("r2", "unknown"), ("r3", "foreign")):
        with pytest.raises(DecisionRefused) as caught:
            book.requests.asked(decision("b", run))
        assert caught.value.why == why


def test_what_is_kept_of_a_request_names_the_entries_that_ask_and_settle() -> None:
    book = _Book()
    book.note("r1", entry("note"), asking(request("b")), asking(request("a", root_run_id="r0", at=2.0)))
    book.note("r2", asking(request("a", "r2")))
    first = Standing(id="a", run="r1", root="r0", time=2_000_000, asked=2)
    second = Standing(id="b", run="r1", root="r1", time=1_000_000, asked=1)
    assert book.requests.standing("r1") == [first, second]
    book.note("r1", decision_entry(decision("b", kind="reject")))
    assert book.requests.standing("r1") == [
        msgspec.structs.replace(first, state="withdrawn", decided=4),
        msgspec.structs.replace(second, state="rejected", decided=4),
    ]
    assert book.requests.standing("r0") == []
