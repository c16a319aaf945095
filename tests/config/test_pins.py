"""What was looked at is what runs."""

import sys
from pathlib import Path

import pytest

from tenter.config.footprint import footprint
from tenter.config.loading import load
from tenter.config.pins import Pins
from tenter.executors import PinnedFile, PinnedImports, file_digest
from tenter.kernel import HookFailure, TenterError

FILE = """\
version: 1
hooks: {events: {tool.before: [{name: a, command: [python3, check.py, extra.py], on_error: warn}]}}
"""
HOOK = ("hooks", "events", "tool.before", 0)


def project(folder: Path) -> Pins:
    (folder / "tenter.yaml").write_text(FILE)
    (folder / "check.py").write_text("one")
    return footprint(folder / "tenter.yaml").pins


@pytest.mark.promise(14)
@pytest.mark.fault(56)
def test_what_did_not_change_passes_and_a_change_is_told(tmp_path: Path) -> None:
    pins = project(tmp_path)
    spec = load(tmp_path / "tenter.yaml")
    pins.check(spec)
    (tmp_path / "check.py").write_text("two")
    with pytest.raises(TenterError, match=r"check\.py', which .* names, changed while it was being loaded"):
        pins.check(spec)
    (tmp_path / "check.py").unlink()
    with pytest.raises(TenterError, match="changed while it was being loaded"):
        pins.check(spec)


@pytest.mark.fault(56)
def test_another_configuration_is_not_the_one_that_was_looked_at(tmp_path: Path) -> None:
    pins = project(tmp_path)
    (tmp_path / "tenter.yaml").write_text(FILE.replace("name: a", "name: b"))
    with pytest.raises(TenterError, match=r"tenter\.yaml changed while"):
        pins.check(load(tmp_path / "tenter.yaml"))


def test_a_hook_in_the_project_has_the_files_that_it_names(tmp_path: Path) -> None:
    pins = project(tmp_path)
    (hook,) = load(tmp_path / "tenter.yaml").hooks.events["tool.before"]
    known = (PinnedFile("check.py", file_digest(tmp_path / "check.py")),)
    (tmp_path / "extra.py").write_text("came later")
    assert pins.of_hook(hook, str(tmp_path)) == pins.of(HOOK, str(tmp_path)) == known
    assert pins.of(("loop", "backend"), str(tmp_path)) == ()


@pytest.mark.fault(56)
def test_in_another_workspace_the_same_content_passes_and_a_file_that_nobody_trusted_does_not(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    pins = project(tmp_path)
    (hook,) = load(tmp_path / "tenter.yaml").hooks.events["tool.before"]
    (tree / "check.py").write_text("one")
    for pin in pins.of_hook(hook, str(tree)):
        pin.check(str(tree))
    (tree / "extra.py").write_text("nobody looked at it")
    extra = pins.of_hook(hook, str(tree))[-1]
    assert extra == PinnedFile("extra.py", "")
    with pytest.raises(HookFailure, match="was not there when the project was trusted"):
        extra.check(str(tree))


def test_imports_are_guarded_from_then_on(tmp_path: Path) -> None:
    before = list(sys.meta_path)  # whoever held a project to its pins in this process is still on guard
    project(tmp_path).guard_imports()
    (guard,) = [one for one in sys.meta_path if isinstance(one, PinnedImports) and one not in before]
    try:
        with pytest.raises(ImportError, match="changed since it was trusted"):
            guard.check(str(tmp_path / "check.py"), "sha256:1")
    finally:
        guard.remove()
