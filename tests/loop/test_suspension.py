"""The suspend state is there whole or not at all, and what is no state is told and never taken for one."""

import json
import os
import resource
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tenter.kernel import TenterError
from tenter.loop.document import well_formed
from tenter.loop.place import Place
from tenter.loop.suspension import (
    StateUnreadable,
    Suspender,
    SuspendState,
    clear_state,
    read_state,
    write_state,
)

ID = "loop-12ab-34cd"


def place_in(folder: Path) -> Place:
    place = Place(ID, folder, folder)
    place.make()
    return place


def suspended(reason: str = "somebody must look first", hook: str = "release-gate") -> SuspendState:
    return SuspendState(
        loop_id=ID,
        phase_event="pre.iteration.start",
        path="3.iteration.start.0",
        hook_name=hook,
        reason=reason,
        suspend_mode="wait_for_resume",
        suspended_at="2026-02-28T15:31:00Z",
        suspension_id="0123456789abcdef",
        suspensions=(
            Suspender(hook_name=hook, reason=reason, code="suspended", suspend_mode="wait_for_resume"),
            Suspender(hook_name="other", reason="", code="budget", suspend_mode="wait_then_retry"),
        ),
    )


@contextmanager
def unprivileged() -> Generator[Path]:
    """A folder, and a user that does not own it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def as_nobody() -> Generator[None]:
    """For root, whom no permission stops, another user's rights."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_the_state_has_exactly_the_keys_of_the_contract_and_three_more(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_state(place, suspended())
    document = json.loads(place.suspend_state.read_bytes())
    assert document.pop("suspension_id") == "0123456789abcdef"
    assert document.pop("path") == "3.iteration.start.0"
    first, second = document.pop("suspensions")
    assert first.items() >= {
        ("hook_name", "release-gate"),
        ("reason", "somebody must look first"),
        ("code", "suspended"),
        ("suspend_mode", "wait_for_resume"),
    }
    assert second["suspend_mode"] == "wait_then_retry"
    assert document == {
        "schema_version": 1,
        "state": "suspended",
        "loop_id": ID,
        "phase_event": "pre.iteration.start",
        "hook_name": "release-gate",
        "reason": "somebody must look first",
        "suspend_mode": "wait_for_resume",
        "suspended_at": "2026-02-28T15:31:00Z",
    }


@given(reason=st.text(st.characters()), hook=st.text())
@settings(deadline=None, max_examples=50)
def test_whatever_a_hook_says_comes_back(reason: str, hook: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = place_in(Path(folder))
        write_state(place, suspended(reason, hook))
        found = read_state(place)
    assert found == suspended(well_formed(reason), well_formed(hook))


def test_without_a_state_there_is_none_and_clearing_it_is_no_error(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    assert read_state(place) is None
    clear_state(place)
    write_state(place, suspended())
    clear_state(place)
    clear_state(place)
    assert read_state(place) is None
    clear_state(Place(ID, tmp_path, tmp_path / "gone"))


@pytest.mark.fault(47)
@pytest.mark.parametrize("size", [0, 1, 40, 300])
def test_a_state_that_is_cut_short_is_no_state(size: int, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_state(place, suspended())
    os.truncate(place.suspend_state, size)
    with pytest.raises(StateUnreadable, match=f"'{place.suspend_state}' cannot be read .*put it right"):
        read_state(place)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"schema_version": 2, "state": "asleep"}', "it is of version 2, .*upgrade tenter"),
        ('{"schema_version": 1, "state": "running"}', "put it right"),
        ("null", "Expected `object`"),
        ('{"schema_version": 1, "schema_version": 1}', "stands twice"),
    ],
)
def test_what_is_no_state_of_this_version_is_told(text: str, why: str, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.suspend_state.write_text(text)
    with pytest.raises(StateUnreadable, match=why):
        read_state(place)


@pytest.mark.parametrize("stands", ["a FIFO", "a folder", "a link"])
def test_what_is_no_regular_file_is_not_read(stands: str, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    match stands:
        case "a FIFO":
            os.mkfifo(place.suspend_state)
        case "a folder":
            place.suspend_state.mkdir()
        case _:
            (tmp_path / "other").write_text("{}")
            place.suspend_state.symlink_to(tmp_path / "other")
    with pytest.raises(StateUnreadable, match=r"it is (no regular file|a link)"):
        read_state(place)


def test_a_folder_that_is_not_ours_is_told() -> None:
    with unprivileged() as folder:
        place = place_in(folder)
        place.signals.chmod(0o555)
        write = pytest.raises(TenterError, match=rf"'{place.suspend_state}' cannot be written \(Permission denied\)")
        with as_nobody(), write:
            write_state(place, suspended())
        assert read_state(place) is None
        place.signals.chmod(0o755)
        write_state(place, suspended())
        place.suspend_state.chmod(0)
        place.signals.chmod(0o555)
        with as_nobody():
            with pytest.raises(StateUnreadable, match=r"cannot be read \(Permission denied\)"):
                read_state(place)
            with pytest.raises(TenterError, match=r"cannot be taken away \(Permission denied\)"):
                clear_state(place)


def test_a_full_disk_is_told_and_leaves_the_state_that_was(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_state(place, suspended())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(TenterError, match=f"'{place.suspend_state}' cannot be written .*the room on its disk"):
            write_state(place, suspended("x" * 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read_state(place) == suspended()


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / ".tenter").touch()
    place = Place(ID, tmp_path, tmp_path)
    with pytest.raises(TenterError, match="cannot be written"):
        write_state(place, suspended())
    with pytest.raises(StateUnreadable, match="Not a directory"):
        read_state(place)
