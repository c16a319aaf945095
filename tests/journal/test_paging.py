"""A listing of requests is read to its end, whatever the size of a page."""

import pytest
from tests.journal.world import decision, request, suspended

from tenter.journal.memory import MemoryStore
from tenter.journal.paging import PAGE, every_request


@pytest.mark.parametrize("many", [0, 1, PAGE, 2 * PAGE + 1])
async def test_every_request_of_a_run_is_found_page_by_page(many: int) -> None:
    store = MemoryStore()
    await suspended(store, *(request(f"q{number}", run="r1", at=1.0 + number) for number in range(many)))
    await suspended(store, request("another", run="r2", at=0.5))
    own = [f"q{number}" for number in range(many)]
    assert [row.request.id for row in await every_request(store, "r1")] == own
    assert [row.request.id for row in await every_request(store)] == ["another", *own]


async def test_those_in_one_state_are_found_alone() -> None:
    store = MemoryStore()
    await suspended(store, request("a"), request("b"))
    await store.decide(decision("a"))
    assert [row.request.id for row in await every_request(store, state="open")] == ["b"]
    assert [row.request.id for row in await every_request(store, state="approved")] == ["a"]
