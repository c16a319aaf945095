"""Whether a loop could start here, check by check."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest

from tenter.config import PreflightCheck, trust_state, write_record
from tenter.harness import BUILTIN_TOOLS
from tenter.kernel import TenterError
from tenter.loop.preflight import CHECKS, Finding, PreflightFailed, check_start, run_preflight
from tenter.loop.request import LoopRequest

SOUND: Mapping[str, object] = {"backend": {"command": ["./agent.sh"]}}
HOOK: Mapping[str, object] = {"name": "note", "script": "true", "on_error": "warn"}


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("TENTER_TRUST", raising=False)


def project(tmp_path: Path, *, hooks: Sequence[object] = (), loop: Mapping[str, object] = SOUND, **more: object) -> str:
    """A project in a git repository with a commit; the path of its configuration."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agent.sh").write_text("#!/bin/sh\n")
    (folder / "agent.sh").chmod(0o755)
    events = {"pre.loop.start": list(hooks)} if hooks else {}
    path = folder / "tenter.yaml"
    path.write_text(json.dumps({"version": 1, "loop": loop, "hooks": {"events": events}, **more}))
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "All")
    return str(path)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], timeout=30, check=True)


def trusted(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in CI: the digest of what is there now is given."""
    (finding,) = run_preflight(LoopRequest(config=config), only="trust")
    digest = finding.hint.partition("TENTER_TRUST=")[2].split()[0]
    monkeypatch.setenv("TENTER_TRUST", digest)


def levels(findings: Sequence[Finding]) -> Mapping[str, str]:
    return {one.check: one.level for one in findings}


def test_every_check_that_a_file_may_skip_is_in_the_table() -> None:
    assert tuple(CHECKS) == get_args(PreflightCheck)


def test_a_sound_project_passes_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = project(tmp_path, hooks=[HOOK])
    trusted(config, monkeypatch)
    before = sorted(Path(config).parent.rglob("*"))
    findings = check_start(LoopRequest(config=config))
    assert levels(findings) == dict.fromkeys(CHECKS, "ok")
    assert [one.message for one in findings][:2] == ["the file is right", "every hook can be run"]
    assert sorted(Path(config).parent.rglob("*")) == before


def test_problems_are_told_by_the_check_whose_they_are(tmp_path: Path) -> None:
    loop = {"backend": {"command": ["./absent"]}, "hats": {"a": {"triggers": ["x"], "backend": {"command": ["./no"]}}}}
    hook = {**HOOK, "cwd": "nowhere"}
    found = run_preflight(LoopRequest(config=project(tmp_path, hooks=[hook], loop=loop, wrong=1)))
    failed = {one.check: one for one in found if one.level == "failed"}
    assert set(failed) >= {"config", "hooks", "backend"}
    assert "'wrong'" in failed["config"].message
    assert "'nowhere'" in failed["hooks"].message
    assert "at hooks.events.pre.loop.start[0].cwd" in failed["hooks"].message
    assert failed["hooks"].hint == "a path starts at the workspace"
    assert [one.message.count("./absent") + one.message.count("./no") for one in found if one.check == "backend"] == [
        1,
        1,
    ]


def test_a_file_that_cannot_be_read_is_a_failure_of_its_own(tmp_path: Path) -> None:
    found = run_preflight(LoopRequest(config=str(tmp_path / "tenter.yaml")))
    assert levels(found)["config"] == "failed"
    assert levels(found)["trust"] == "warning"
    assert "there is no such file" in found[0].message


@pytest.mark.parametrize(
    ("settings", "skipped"),
    [
        ({"skip": ["hooks", "git"]}, {"hooks", "git"}),
        ({"enabled": False}, set(CHECKS) - {"trust"}),
        ({"skip": ["trust"]}, set[str]()),
    ],
)
def test_the_file_may_skip_checks_but_never_trust(
    tmp_path: Path, settings: Mapping[str, object], skipped: set[str]
) -> None:
    config = project(tmp_path, hooks=[{**HOOK, "cwd": "nowhere"}], loop={**SOUND, "preflight": settings})
    found = levels(run_preflight(LoopRequest(config=config)))
    assert {name for name, level in found.items() if level == "skipped"} == skipped
    assert found["trust"] == "failed"


def test_a_check_that_is_asked_for_is_not_skipped(tmp_path: Path) -> None:
    loop = {**SOUND, "preflight": {"skip": ["hooks"]}}
    config = project(tmp_path, hooks=[{**HOOK, "cwd": "nowhere"}], loop=loop)
    assert levels(run_preflight(LoopRequest(config=config), only="hooks")) == {"hooks": "failed"}


def test_a_check_that_does_not_exist_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(TenterError, match="there is no check 'hook'; did you mean 'hooks'"):
        run_preflight(LoopRequest(config=project(tmp_path)), only="hook")


def test_who_skips_the_preflight_is_told_nothing(tmp_path: Path) -> None:
    config = project(tmp_path, hooks=[{**HOOK, "cwd": "nowhere"}])
    assert check_start(LoopRequest(config=config, skip_preflight=True)) == ()


def test_a_failed_preflight_lists_every_failed_check_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = project(tmp_path, hooks=[{**HOOK, "cwd": "nowhere"}], loop={})
    trusted(config, monkeypatch)
    with pytest.raises(PreflightFailed) as refused:
        check_start(LoopRequest(config=config))
    first, *failed = str(refused.value).splitlines()
    assert first == "the preflight failed, and nothing was started:"
    assert [line.split(":")[0] for line in failed] == ["  hooks", "  backend"]
    assert failed[0].endswith("there is no folder 'nowhere'; a path starts at the workspace")
    assert "run with --task" in failed[1]
    assert len(refused.value.findings) == len(CHECKS)


def test_a_warning_fails_where_the_file_is_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for strict in (False, True):
        folder = tmp_path / str(strict)
        folder.mkdir()
        config = project(folder, loop={**SOUND, "max_cost_usd": 1, "preflight": {"strict": strict}})
        trusted(config, monkeypatch)
        found = levels(run_preflight(LoopRequest(config=config)))
        assert found["backend"] == ("failed" if strict else "warning")


def test_an_untrusted_project_is_told_what_to_do(tmp_path: Path) -> None:
    (finding,) = run_preflight(LoopRequest(config=project(tmp_path, hooks=[HOOK])), only="trust")
    assert finding.level == "failed"
    assert finding.message.endswith(
        "is not trusted, so nothing of it runs: it names code (1 hook, 1 backend) that you have not trusted"
    )
    assert finding.hint.startswith("'tenter hooks trust --config ")
    assert "; 'tenter hooks trust --config " in str(finding)
    assert "\n" not in str(finding)


def test_a_project_that_changed_is_told_by_the_first_change(tmp_path: Path) -> None:
    config = project(tmp_path, hooks=[HOOK])
    write_record(trust_state(config, builtin_tools=BUILTIN_TOOLS).now, 0)
    assert levels(run_preflight(LoopRequest(config=config), only="trust")) == {"trust": "ok"}
    (Path(config).parent / "agent.sh").write_text("#!/bin/sh\nexit 1\n")
    text = Path(config).read_text()
    Path(config).write_text(text.replace("note", "other"))
    (finding,) = run_preflight(LoopRequest(config=config), only="trust")
    assert "it changed since you trusted it: the file agent.sh: content " in finding.message
    assert finding.message.endswith(", and 1 more")
    assert "\n" not in str(finding)


@pytest.mark.parametrize(
    ("loop", "task", "level", "told"),
    [
        ({}, None, "failed", "no backend is configured"),
        ({}, "build", "ok", "the backend is there"),
        (SOUND, "bild", "failed", "there is no task 'bild'"),
        ({"backend": {"harness": "build"}, "max_cost_usd": 1}, None, "ok", "the backend is there"),
        ({**SOUND, "max_cost_usd": 1}, None, "warning", "max_cost_usd does not bound a command backend"),
    ],
)
def test_the_backend_has_to_be_there(
    tmp_path: Path, loop: Mapping[str, object], task: str | None, level: str, told: str
) -> None:
    build = {"version": 1, "model": "default", "instructions": "Build."}
    models = {"default": {"provider": "scripted", "file": "script.yaml"}}
    config = project(tmp_path, loop=loop, models=models, tasks={"build": build})
    (finding,) = run_preflight(LoopRequest(config=config, task=task), only="backend")
    assert (finding.level, told in finding.message) == (level, True)


def test_without_a_commit_a_second_loop_would_have_no_worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = project(tmp_path)
    (Path(config).parent / ".git").rename(tmp_path / "away")
    (finding,) = run_preflight(LoopRequest(config=config), only="git")
    assert (finding.level, "no git repository with a commit" in finding.message) == ("warning", True)
    git(Path(config).parent, "init", "--quiet")
    assert run_preflight(LoopRequest(config=config), only="git") == (finding,)
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = run_preflight(LoopRequest(config=config), only="git")
    assert (finding.level, "git is not installed" in finding.message) == ("warning", True)


def test_what_git_tracks_of_the_state_folder_is_warned_of(tmp_path: Path) -> None:
    config = project(tmp_path)
    folder = Path(config).parent
    (folder / ".tenter" / "loops").mkdir(parents=True)
    for name in ("loops.db", "loops/x"):
        (folder / ".tenter" / name).write_text("")
    assert levels(run_preflight(LoopRequest(config=config), only="git")) == {"git": "ok"}
    git(folder, "add", "--force", ".tenter")
    (finding,) = run_preflight(LoopRequest(config=config), only="git")
    assert finding.level == "warning"
    assert finding.message.startswith("git tracks '.tenter/loops.db' and 1 more, where loops keep")
    assert finding.hint == "run 'git rm -r --cached .tenter', and add '.tenter/' to .gitignore"


def test_no_variable_leads_git_to_another_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = project(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert levels(run_preflight(LoopRequest(config=config), only="git")) == {"git": "ok"}


def test_a_state_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    config = project(tmp_path)
    state = Path(config).parent / ".tenter"
    state.write_text("")
    (finding,) = run_preflight(LoopRequest(config=config), only="paths")
    assert finding.level == "failed"
    assert f"{os.path.realpath(state)!r} cannot be written (Not a directory)" in finding.message
    state.unlink()
    state.mkdir()
    assert levels(run_preflight(LoopRequest(config=config), only="paths")) == {"paths": "ok"}
