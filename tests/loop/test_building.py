"""What a loop is made of, from its configuration and the request for it."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tenter.config import CommandBackendSpec, HarnessBackendSpec, load
from tenter.executors.process_id import this_process
from tenter.harness import BUILTIN_TOOLS
from tenter.kernel import TenterError
from tenter.loop.building import Built, Checked, build
from tenter.loop.claim import place_of
from tenter.loop.command_backend import CommandBackend
from tenter.loop.harness_backend import HarnessBackend
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Told
from tenter.loop.registry import Registry
from tenter.loop.request import LoopRequest

SH: Mapping[str, object] = {"command": ["/bin/sh", "-c", "true"]}
TASKS: Mapping[str, object] = {
    "models": {"default": {"provider": "scripted", "file": "script.yaml"}},
    "tasks": {"fix": {"version": 1, "model": "default", "instructions": "fix it", "tools": []}},
}


def checked(folder: Path, config: Mapping[str, object], **request: object) -> Checked:
    (folder / "script.yaml").write_text(json.dumps({"version": 1, "turns": ["Done."]}))
    path = folder / "tenter.yaml"
    path.write_text(json.dumps({"version": 1, **config}))
    asked = LoopRequest(config=str(path), **request)  # pyright: ignore[reportArgumentType]  # fields of a request, by their names
    return Checked(request=asked, spec=load(path, builtin_tools=BUILTIN_TOOLS), user=None, pins=None)


def built(folder: Path, found: Checked) -> Built:
    process, place = this_process(), os.path.realpath(folder)
    row = LoopRow(
        loop_id="loop-12ab-34cd",
        primary=True,
        project=place,
        workspace=place,
        config=found.request.config,
        pid=process.pid,
        started=process.started,
        started_at=1.0,
    )
    place_of(row).make()
    told: list[Told] = []
    return build(found, row, Registry(folder / ".tenter" / "loops.db"), tell=told.append, asking=None)


def test_a_command_backend_is_given_the_prompt_or_the_instructions_of_a_task(tmp_path: Path) -> None:
    config = {"loop": {"backend": SH}, **TASKS}
    by_prompt = checked(tmp_path, config, prompt="mend it")
    by_task = checked(tmp_path, config, task="fix")
    assert isinstance(by_prompt.backend, CommandBackendSpec)
    assert (by_prompt.prompt, by_prompt.task) == ("mend it", None)
    assert isinstance(by_task.backend, CommandBackendSpec)
    assert (by_task.prompt, by_task.task) == ("fix it", "fix")


def test_a_harness_backend_runs_its_task_or_the_one_that_is_named(tmp_path: Path) -> None:
    own = checked(tmp_path, {"loop": {"backend": {"harness": "fix"}}, **TASKS})
    named = checked(tmp_path, TASKS, task="fix")
    for found in (own, named):
        assert found.backend == HarnessBackendSpec(harness="fix")
        assert (found.task, found.prompt) == ("fix", "")


def test_a_request_bounds_the_iterations_below_the_file(tmp_path: Path) -> None:
    config = {"loop": {"backend": SH, "max_iterations": 9}}
    assert checked(tmp_path, config, prompt="x").loop.max_iterations == 9
    assert checked(tmp_path, config, prompt="x", max_iterations=2).loop.max_iterations == 2


@pytest.mark.parametrize(
    ("config", "request_", "said"),
    [
        ({"loop": {"backend": SH}}, {}, "nothing to do: give --prompt"),
        ({"loop": {"backend": SH}, **TASKS}, {"task": "nix"}, "no task 'nix'; it has fix"),
        ({"loop": {"backend": SH}}, {"task": "nix"}, "no task 'nix'; it has none"),
        ({}, {"prompt": "x"}, "names no backend"),
    ],
)
def test_what_a_request_lacks_is_said_with_what_to_do(
    tmp_path: Path, config: Mapping[str, object], request_: Mapping[str, object], said: str
) -> None:
    found = checked(tmp_path, config, **request_)
    with pytest.raises(TenterError, match=said):
        _ = (found.prompt, found.backend)


def test_each_hat_with_a_backend_of_its_own_has_that(tmp_path: Path) -> None:
    hats = {
        "planner": {"triggers": ["task.*"], "backend": {"harness": "fix"}},
        "builder": {"triggers": ["build.*"]},
    }
    found = built(tmp_path, checked(tmp_path, {"loop": {"backend": SH, "hats": hats}, **TASKS}, prompt="x"))
    assert set(found.parts.backends) == {None, "planner"}
    assert isinstance(found.parts.backends[None], CommandBackend)
    assert isinstance(found.parts.backends["planner"], HarnessBackend)
    found.close()


def test_programs_are_told_their_loop_and_where_to_publish(tmp_path: Path) -> None:
    found = built(tmp_path, checked(tmp_path, {"loop": {"backend": SH}}, prompt="x"))
    place = os.path.realpath(tmp_path)
    told = {name: value for name, value in found.parts.environment.items() if name != "PATH"}
    assert told == {
        "TENTER_LOOP_ID": "loop-12ab-34cd",
        "TENTER_WORKSPACE": place,
        "TENTER_PROJECT_DIR": place,
        "TENTER_EVENTS_FILE": f"{place}/.tenter/loops/loop-12ab-34cd/events.jsonl",
    }
    assert found.parts.identity.repo_root == place
    found.close()


def test_tenter_is_found_by_an_agent_wherever_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "installed"
    home.mkdir()
    (home / "tenter").write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "argv", [str(home / "tenter")])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = built(tmp_path, checked(tmp_path, {"loop": {"backend": SH}}, prompt="x"))
    assert found.parts.environment["PATH"] == f"/usr/bin:/bin{os.pathsep}{home}"
    found.close()


@pytest.mark.promise(4)
def test_a_secret_in_the_prompt_does_not_reach_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_CODE", "swordfish-4711")
    config = {"secrets": ["DOOR_CODE"], "loop": {"backend": SH}}
    found = built(tmp_path, checked(tmp_path, config, prompt="it is swordfish-4711"))
    assert "swordfish" not in found.parts.prompt
    assert found.parts.prompt.startswith("it is ")
    found.close()


def test_modes_of_suspension_are_known_by_point_and_hook(tmp_path: Path) -> None:
    gate = {"name": "gate", "script": "false", "on_error": "suspend", "suspend_mode": "wait_then_retry"}
    config = {"loop": {"backend": SH}, "hooks": {"events": {"pre.iteration.start": [gate]}}}
    found = built(tmp_path, checked(tmp_path, config, prompt="x"))
    assert found.parts.modes == {("iteration.start.pre", "gate"): "wait_then_retry"}
    found.close()
