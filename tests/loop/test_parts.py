"""What people are told of a loop."""

from pathlib import Path

import pytest
from tests.loop.world import LOOP, world

from tenter.loop.parts import Told


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
