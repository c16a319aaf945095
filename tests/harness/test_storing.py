"""Records that hooks may change or refuse: what is stored of a run's end and of what it waits for."""

import pytest
from tests.harness.test_local import END, WAITING, Choosy, engine
from tests.harness.world import journal, of_kind

from tenter.catalogue import ErrorInfo, PersistenceWriteEvent, RunEndEvent, RunErrorEvent, Usage
from tenter.harness.storing import path_of, result_of
from tenter.journal import JournalError, MemoryStore
from tenter.kernel import Block, hook


def test_a_kind_of_record_has_a_place_of_its_own() -> None:
    assert [path_of(kind) for kind in ("checkpoint", "result")] == ["0.persistence.write.0", "0.persistence.write.1"]


def test_what_is_stored_of_an_end_is_what_it_came_to() -> None:
    error = ErrorInfo(code="policy", message="no")
    end = END.replace(status="blocked", output=None, error=error, usage=Usage(input_tokens=3), cost_usd=0.5)
    assert result_of(end) == {
        "status": "blocked",
        "output": None,
        "error": error,
        "usage": Usage(input_tokens=3),
        "cost_usd": 0.5,
    }


async def test_a_hook_may_change_what_is_stored_but_not_the_status_that_it_says() -> None:
    store = MemoryStore()

    @hook("persistence.write.pre")
    def change(event: PersistenceWriteEvent) -> PersistenceWriteEvent:
        return event.replace(record={"output": "less", "status": "failed"})

    await engine(store, change).close(END)
    (result,) = of_kind(await journal(store, "run-1"), "result")
    assert result == {"key": "run-1", "output": "less", "status": "completed"}


async def test_a_hook_may_refuse_to_store() -> None:
    store = MemoryStore()

    @hook("persistence.write.pre", match={"kind": "result"})
    def refuse(event: PersistenceWriteEvent) -> Block:
        return Block("not here")

    await engine(store, refuse).close(END)
    assert of_kind(await journal(store, "run-1"), "result") == []


@pytest.mark.parametrize("changes", [{"kind": "run"}, {"key": "other"}])
async def test_a_hook_that_makes_a_record_another_one_fails_the_storing(changes: dict[str, str]) -> None:
    store, errors = MemoryStore(), list[tuple[str | None, str]]()

    @hook("persistence.write.pre")
    def change(event: PersistenceWriteEvent) -> PersistenceWriteEvent:
        return event.replace(**changes)

    @hook("run.error", observe=True)
    def look(event: RunErrorEvent) -> None:
        errors.append((event.operation, event.error.message))

    await engine(store, change, look).close(END)
    assert of_kind(await journal(store, "run-1"), "result") == []
    assert of_kind(await journal(store, "run-1"), "run") == []
    ((operation, message),) = errors
    assert operation == "persistence.write"
    assert "may change 'record' alone" in message


async def test_a_checkpoint_that_cannot_be_written_is_no_hooks_matter_but_the_journals() -> None:
    with pytest.raises(JournalError, match="no room"):
        await engine(Choosy("checkpoint")).suspend(WAITING)


async def test_a_result_that_cannot_be_written_changes_no_end_that_is_on_record() -> None:
    store, heard = Choosy("result"), list[str]()

    @hook("run.end", observe=True)
    def look(event: RunEndEvent) -> None:
        heard.append(event.status)

    await engine(store, look).close(END)
    assert heard == ["completed"]
    assert [one.entry.kind for one in await journal(store, "run-1")] == ["status"]
