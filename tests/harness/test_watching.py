"""The look at whether another process asked for the end of a run: for each event loop, as long as runs go on."""

import asyncio
import gc

import pytest
from tests.outside import comes_true

from tenter.catalogue import ErrorInfo
from tenter.harness import watching
from tenter.harness.watching import FEW, Watch, asked_to_end
from tenter.journal import Entry, JournalError, MemoryStore, Stream

STREAM = Stream("run", "r1")


class Stopped:
    """A run that remembers why it was stopped."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.errors: list[ErrorInfo] = []

    def stop(self, error: ErrorInfo) -> None:
        self.errors.append(error)


def asks(reason: object = "") -> Entry:
    return Entry(kind="cancel_requested", time=2, content={"reason": reason})


async def begun(run_id: str = "r1", *entries: Entry) -> MemoryStore:
    store = MemoryStore()
    await store.append(Stream("run", run_id), [Entry(kind="run", time=1, content={"task": "work"}), *entries])
    return store


async def test_those_whose_end_was_asked_for_are_stopped_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.005)
    store, asked, other = await begun("r1", asks("by ada: enough")), Stopped(), Stopped()
    Watch(store, {"r1": asked, "r2": other}).look_from_now_on()
    assert await comes_true(lambda: bool(asked.errors), within=5)
    assert (asked.errors[0].code, asked.errors[0].message) == ("cancelled", "by ada: enough")
    assert other.errors == []


async def test_it_looks_as_long_as_runs_go_on_here_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.005)
    looked: list[int] = []

    class Counting(MemoryStore):
        async def cancelling(self) -> frozenset[str]:
            looked.append(1)
            if len(looked) == 2:
                raise JournalError("locked", "not now")
            return frozenset()

    runs = {"r1": Stopped()}
    watch = Watch(Counting(), runs)
    watch.look_from_now_on()
    watch.look_from_now_on()
    assert await comes_true(lambda: len(looked) > 3, within=5)
    runs.clear()
    assert await comes_true(lambda: not watch._loops, within=5)  # pyright: ignore[reportPrivateUsage]  # it ended
    before = len(looked)
    runs["r2"] = Stopped()
    watch.look_from_now_on()
    assert await comes_true(lambda: len(looked) > before, within=5)


async def test_an_error_of_our_own_ends_one_look_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.005)
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    odd = RuntimeError("odd")

    class Odd(MemoryStore):
        async def cancelling(self) -> frozenset[str]:
            if not raised:
                raised.append(odd)
                raise odd
            return await super().cancelling()

    raised: list[RuntimeError] = []
    store, asked = Odd(), Stopped()
    await store.append(STREAM, [Entry(kind="run", time=1, content={"task": "work"}), asks("enough")])
    Watch(store, {"r1": asked}).look_from_now_on()
    assert await comes_true(lambda: bool(asked.errors), within=5)
    gc.collect()
    assert told == [odd]


async def test_a_run_of_another_event_loop_is_left_to_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.005)
    here, elsewhere = Stopped(), Stopped()
    elsewhere.loop = asyncio.new_event_loop()
    store = await begun("r1", asks())
    await store.append(Stream("run", "r2"), [Entry(kind="run", time=1, content={}), asks()])
    Watch(store, {"r1": here, "r2": elsewhere}).look_from_now_on()
    assert await comes_true(lambda: bool(here.errors), within=5)
    assert elsewhere.errors == []
    elsewhere.loop.close()


async def test_the_reason_is_the_last_that_was_given_and_a_text_of_our_own_where_there_is_none() -> None:
    assert (await asked_to_end(await begun("r1", asks("first"), asks("second")), "r1")).message == "second"
    for reason in ("", 7, None):
        told = await asked_to_end(await begun("r1", asks(reason)), "r1")
        assert told.message == "the run was cancelled from another process"
    notes = [Entry(kind="note", time=3, content={}) for _ in range(FEW)]
    assert (await asked_to_end(await begun("r1", asks("long ago"), *notes), "r1")).message.endswith("another process")
