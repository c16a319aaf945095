"""What people are told of a loop."""

from pathlib import Path

import pytest
from tests.loop.world import LOOP, world

from tenter.kernel import TenterError
from tenter.loop.parts import Told
from tenter.loop.registry_file import RegistryHeld


@pytest.mark.promise(4)
def test_people_are_told_nothing_that_is_secret_or_looks_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_CODE", "swordfish-4711")
    run = world(tmp_path, config={"secrets": ["DOOR_CODE"]})
    run.parts.note("it is swordfish-4711, and password: hunter2hunter2")
    (told,) = run.told
    assert told.kind == "note"
    assert told.loop_id == LOOP == run.parts.loop_id
    assert "swordfish" not in told.text
    assert "hunter2" not in told.text


def test_what_is_told_has_a_kind(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.parts.tell("began", "it begins")
    assert run.told == [Told(kind="began", loop_id=LOOP, text="it begins")]


async def test_a_loop_waits_as_long_as_another_process_holds_the_registry_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenter.loop.parts.HELD_SECONDS", 0.0)
    run, tries = world(tmp_path), iter([RegistryHeld("a backup holds it"), RegistryHeld("still"), None])

    def step() -> str:
        if (held := next(tries)) is not None:
            raise held
        return "done"

    assert await run.parts.patiently(step) == "done"
    assert run.texts("note") == ["a backup holds it; the loop waits for that"]


async def test_any_other_trouble_of_the_registry_is_the_loops(tmp_path: Path) -> None:
    run = world(tmp_path)
    run.parts.registry.path.unlink()
    with pytest.raises(TenterError, match=r"loops\.db"):
        await run.parts.patiently(lambda: run.parts.registry.iteration(LOOP, 2))
