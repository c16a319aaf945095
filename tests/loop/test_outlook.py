"""A dry run: what a loop would do, told without starting it."""

import json
from pathlib import Path

import pytest

from tenter.config import Untrusted, trust_state
from tenter.loop import LoopRequest, PreflightFailed, dry_run

HOOK = {"name": "gate", "script": "true", "on_error": "block"}


def project(folder: Path, monkeypatch: pytest.MonkeyPatch, **loop: object) -> LoopRequest:
    """A trusted project whose backend is `/bin/true`."""
    spec = {
        "version": 1,
        "hooks": {"events": {"pre.iteration.start": [HOOK], "run.start": [HOOK]}},
        "loop": {"backend": {"command": ["/bin/true", "-p"]}, **loop},
    }
    path = folder / "tenter.yaml"
    path.write_text(json.dumps(spec))
    state = trust_state(path, environment={})
    assert isinstance(state, Untrusted)
    monkeypatch.setenv("TENTER_TRUST", state.now.digest)
    return LoopRequest(config=str(path), prompt="do it", max_iterations=3)


def test_it_tells_workspace_backend_limits_and_the_hooks_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = dry_run(project(tmp_path, monkeypatch, required_events=["tests.passed"]))
    assert (told.workspace, told.held_by) == (str(tmp_path.resolve()), None)
    assert (told.backend, told.prompt, told.task) == ("/bin/true -p", "do it", None)
    assert (told.max_iterations, told.max_runtime_seconds) == (3, None)
    assert (told.completion_promise, told.required_events) == ("LOOP_COMPLETE", ("tests.passed",))
    assert told.hooks == ("iteration.start.pre: gate (command)",)


def test_it_starts_nothing_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry_run(project(tmp_path, monkeypatch))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tenter.yaml"]


def test_what_could_not_start_is_told_as_it_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = project(tmp_path, monkeypatch, backend={"command": ["./missing"]})
    with pytest.raises(PreflightFailed, match=r"'\./missing' does not exist"):
        dry_run(request)


def test_an_untrusted_project_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = project(tmp_path, monkeypatch)
    monkeypatch.setenv("TENTER_TRUST", "sha256:0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(Untrusted, match="is not trusted"):
        dry_run(request)


@pytest.mark.fault(58)
def test_an_untrusted_project_is_told_so_whatever_else_the_preflight_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = project(tmp_path, monkeypatch, preflight={"strict": True})
    with pytest.raises(PreflightFailed, match="git"):
        dry_run(request)
    monkeypatch.setenv("TENTER_TRUST", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(Untrusted, match="is not trusted"):
        dry_run(request)
