"""The end of a run as its entries tell."""

from collections.abc import Mapping

import pytest

from tenter.agent import Ended
from tenter.catalogue import ErrorInfo
from tenter.harness.ended import recorded_end
from tenter.journal import Entry, MemoryStore, Stream

STREAM = Stream("run", "r1")
ERROR = {"code": "policy", "message": "no", "details": {"code": "policy_denied"}}


async def end_of(*entries: tuple[str, Mapping[str, object]]) -> Ended:
    store = MemoryStore()
    await store.append(STREAM, [Entry(kind=kind, time=1, content=content) for kind, content in entries])
    return await recorded_end(store, STREAM)


async def test_a_stored_result_is_the_whole_end() -> None:
    result = {"status": "blocked", "output": "half", "error": ERROR, "usage": {"input_tokens": 3}, "cost_usd": 0.5}
    ended = await end_of(("run", {}), ("status", {"status": "blocked", "code": "policy"}), ("result", result))
    assert (ended.status, ended.output) == ("blocked", "half")
    assert ended.error == ErrorInfo(code="policy", message="no", details={"code": "policy_denied"})
    assert (ended.progress.usage.input_tokens, ended.progress.cost_usd, ended.progress.cost_known) == (3, 0.5, True)


@pytest.mark.parametrize("status", ["completed", "cancelled"])
async def test_without_a_result_the_status_is_all_there_is(status: str) -> None:
    waited = ("status", {"status": "awaiting_approval"})
    ended = await end_of(("run", {}), waited, ("status", {"status": status}), ("note", {"status": "failed"}))
    assert (ended.status, ended.output, ended.error) == (status, None, None)
    assert (ended.progress.cost_usd, ended.progress.cost_known) == (0.0, False)


async def test_a_run_that_cannot_tell_its_end_failed() -> None:
    assert (await end_of(("run", {}))).status == "failed"
