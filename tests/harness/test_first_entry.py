"""What a run's first entry says, and what another process makes of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.world import (
    BOTH,
    acting,
    go_on,
    journal,
    of_kind,
    processes,
    project,
    whole,
)

from tenter.agent import LOOP_VERSION
from tenter.catalogue import (
    Limits,
)
from tenter.journal import MemoryStore, Stream
from tenter.kernel import TenterError
from tenter.testing import FakeClock, FakeRandom


@pytest.mark.parametrize("kind", BOTH)
async def test_the_first_entry_says_all_that_a_run_is_gone_on_with(tmp_path: Path, kind: str) -> None:
    async with processes(acting(tmp_path, "Done."), kind) as made:
        harness = made.harness(clock=FakeClock(), random=FakeRandom())
        result = await harness.run("work", "go", deadline=2e9, max_steps=7)
        (first,) = of_kind(await journal(made.store, result.run_id), "run")
        head = await made.store.head(Stream("run", result.run_id))
    assert (first["loop_version"], first["root"], first["depth"], first["began"]) == (
        LOOP_VERSION,
        "",
        1,
        result.started_at,
    )
    assert set(first["parts"]) == {"task", "models", "tools", "hooks", "policy"}
    assert {"process", "host", "seed", "spec", "envelope", "input"} <= set(first)
    assert (first["limits"]["deadline"], first["limits"]["max_steps"]) == (2e9, 7)
    assert first["limits"] == {"deadline": 2e9, "max_steps": 7, "budgets": first["limits"]["budgets"]}
    assert Limits().budgets.tokens is None
    assert result.journal_head == head.hash


@pytest.mark.parametrize("missing", ["seed", "envelope", "limits"])
async def test_a_run_of_an_earlier_version_says_that_it_cannot_be_gone_on_with(tmp_path: Path, missing: str) -> None:
    path = project(tmp_path)
    source, result = await whole(path)
    (first, *_) = await journal(source, result.run_id)
    content: Mapping[str, Any] = {key: value for key, value in first.entry.content.items() if key != missing}
    store = MemoryStore()
    await store.append(Stream("run", result.run_id), [msgspec.structs.replace(first.entry, content=content)])
    with pytest.raises(TenterError, match="this run cannot be gone on with: .*" + missing):
        await go_on(path, store, result.run_id)
