"""A file that was trusted anew counts while what was looked at earlier still runs, and no other file does."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tenter.config import trusted_since
from tenter.config.loading import load
from tenter.config.pins import Pins
from tenter.config.trust import require_trust, trust_state
from tenter.config.trust_record import write_record
from tenter.kernel import HookFailure

FILE = """\
version: 1
hooks: {events: {run.end: [{name: a, command: [./told.sh, rules], on_error: warn}]}}
loop: {backend: {command: [./agent.sh]}}
"""
PROGRAM = "#!/bin/sh\n"

pytestmark = [pytest.mark.promise(14), pytest.mark.fault(56)]


def given(folder: Path, **more: str) -> Mapping[str, str]:
    return {"XDG_STATE_HOME": str(folder.parent / f"{folder.name}-state"), "PATH": "/usr/bin:/bin", **more}


def trust(folder: Path) -> None:
    write_record(trust_state(folder / "tenter.yaml", environment=given(folder)).now, 0, given(folder))


def project(folder: Path) -> Pins:
    """What holds a runtime of the trusted project to what was looked at."""
    (folder / "tenter.yaml").write_text(FILE)
    for name in ("told.sh", "agent.sh"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    (folder / "rules").write_text("none")
    trust(folder)
    return require_trust(folder / "tenter.yaml", environment=given(folder)).pins


def passes(pins: Pins, folder: Path, workspace: Path | None = None) -> bool:
    """Whether the hook of the configuration in `folder` would be started."""
    place = str(workspace or folder)
    (hook,) = load(folder / "tenter.yaml").hooks.events["run.end"]
    try:
        for pin in pins.of_hook(hook, place):
            pin.check(place)
    except HookFailure:
        return False
    return True


@pytest.mark.parametrize("name", ["told.sh", "rules"])
def test_a_change_counts_once_it_is_trusted_and_not_before(name: str, tmp_path: Path) -> None:
    pins = project(tmp_path)
    (tmp_path / name).write_text(f"{PROGRAM}# better\n")
    assert not passes(pins, tmp_path)
    trust(tmp_path)
    assert passes(pins, tmp_path)
    (tmp_path / name).write_text(f"{PROGRAM}# better still\n")
    assert not passes(pins, tmp_path), "it was trusted as it was, not for ever"
    trust(tmp_path)
    assert passes(pins, tmp_path)


def test_what_was_trusted_before_counts_no_longer(tmp_path: Path) -> None:
    pins = project(tmp_path)
    (tmp_path / "told.sh").write_text(f"{PROGRAM}# the hole is mended\n")
    trust(tmp_path)
    assert passes(pins, tmp_path)
    (tmp_path / "told.sh").write_text(PROGRAM)
    assert not passes(pins, tmp_path)


def test_the_backend_is_taken_over_too(tmp_path: Path) -> None:
    pins = project(tmp_path)
    (agent,) = pins.of(("loop", "backend"), str(tmp_path))
    (tmp_path / "agent.sh").write_text(f"{PROGRAM}# better\n")
    told = (
        "agent.sh' changed since it was trusted; look at it, then 'tenter hooks trust': what still runs then takes it"
    )
    with pytest.raises(HookFailure, match=told):
        agent.check(str(tmp_path))
    trust(tmp_path)
    assert agent.check(str(tmp_path)) is None


def test_only_what_the_record_says_of_that_very_file_counts(tmp_path: Path) -> None:
    pins = project(tmp_path)
    (tmp_path / "agent.sh").write_text(f"{PROGRAM}# better\n")
    trust(tmp_path)
    (tmp_path / "told.sh").write_text((tmp_path / "agent.sh").read_text())
    assert not passes(pins, tmp_path)


def test_in_a_worktree_the_same_content_counts_for_its_copy(tmp_path: Path) -> None:
    pins, tree = project(tmp_path), tmp_path / ".worktrees" / "tree"
    tree.mkdir(parents=True)
    (tree / "rules").write_text("none")
    assert passes(pins, tmp_path, tree)
    (tmp_path / "rules").write_text("more")
    trust(tmp_path)
    assert passes(pins, tmp_path, tree), "its own copy did not change"
    (tree / "rules").write_text("all")
    assert not passes(pins, tmp_path, tree)
    (tree / "rules").write_text("more")
    assert passes(pins, tmp_path, tree)
    (tmp_path / "told.sh").write_text(f"{PROGRAM}# better\n")
    assert not passes(pins, tmp_path, tree), "a program is the project's own, wherever it runs"
    trust(tmp_path)
    assert passes(pins, tmp_path, tree)


def test_a_file_that_nobody_knew_counts_in_a_worktree_once_it_is_trusted(tmp_path: Path) -> None:
    pins, tree = project(tmp_path), tmp_path / "tree"
    (tmp_path / "rules").unlink()
    trust(tmp_path)
    pins = require_trust(tmp_path / "tenter.yaml", environment=given(tmp_path)).pins
    tree.mkdir()
    (tree / "rules").write_text("new")
    assert not passes(pins, tmp_path, tree)
    (tmp_path / "rules").write_text("new")
    trust(tmp_path)
    assert passes(pins, tmp_path, tree)


def test_a_record_that_counts_for_nothing_vouches_for_no_change(tmp_path: Path) -> None:
    pins = project(tmp_path)
    (tmp_path / "told.sh").write_text(f"{PROGRAM}# better\n")
    trust(tmp_path)
    (record,) = Path(given(tmp_path)["XDG_STATE_HOME"]).rglob("*.json")
    record.chmod(0o666)
    assert not passes(pins, tmp_path)
    record.unlink()
    assert not passes(pins, tmp_path)


def test_a_digest_vouches_for_one_state_alone(tmp_path: Path) -> None:
    project(tmp_path)
    path = tmp_path / "tenter.yaml"
    digest = trust_state(path, environment=given(tmp_path)).now.digest
    trusted = require_trust(path, environment=given(tmp_path, TENTER_TRUST=digest))
    (tmp_path / "told.sh").write_text(f"{PROGRAM}# better\n")
    trust(tmp_path)
    (pin, *_) = trusted.pins.of(("hooks", "events", "run.end", 0), str(tmp_path))
    with pytest.raises(HookFailure, match="look at it, then 'tenter hooks trust', and start again"):
        pin.check(str(tmp_path))


def test_the_record_is_read_only_where_something_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = project(tmp_path)
    (tmp_path / "told.sh").write_text(f"{PROGRAM}# better\n")
    trust(tmp_path)
    assert passes(pins, tmp_path)
    monkeypatch.delattr(trusted_since, "read_record")
    assert passes(pins, tmp_path)
