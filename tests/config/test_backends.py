"""The programs of all backends are looked up at once, or each that cannot be run is told at its place."""

from pathlib import Path

import pytest

from tenter.config.backends import resolve_backends
from tenter.config.loading import parse_spec
from tenter.config.problem import ConfigError
from tenter.config.spec import Spec

LOOP = """\
version: 1
models: {m: {provider: scripted, file: f}}
tasks: {fix: {version: 1, model: m, instructions: x}}
loop:
  backend: {command: [./bin/agent, -p, ""]}
  hats:
    builder: {triggers: [a], backend: {command: [coder, "*"]}}
    planner: {triggers: [b], backend: {harness: fix}}
    tester: {triggers: [c]}
"""


def program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def spec(folder: Path, text: str = LOOP) -> Spec:
    return parse_spec(text.encode(), str(folder / "tenter.yaml"))


def test_each_command_is_found_as_a_hooks_is_and_keeps_its_arguments(tmp_path: Path) -> None:
    beside = program(tmp_path / "bin" / "agent")
    on_path = program(tmp_path / "path" / "coder")
    found = resolve_backends(spec(tmp_path), str(tmp_path / "path"))
    assert found == {None: (str(beside), "-p", ""), "builder": (str(on_path), "*")}


def test_a_program_is_seen_from_where_the_file_really_is(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "tenter.yaml").write_text("")
    beside = program(real / "agent")
    (tmp_path / "tenter.yaml").symlink_to(real / "tenter.yaml")
    text = "version: 1\nloop: {backend: {command: [./agent]}}"
    assert resolve_backends(spec(tmp_path, text), "")[None] == (str(beside),)


@pytest.mark.fault(10)
def test_every_program_that_cannot_be_run_is_told_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_backends(spec(tmp_path), "")
    assert [str(one).replace(str(tmp_path), "DIR") for one in caught.value.problems] == [
        (
            "DIR/tenter.yaml:5:23: at loop.backend.command[0]: the program './bin/agent' does not exist: "
            "there is no folder 'DIR/bin'; a path starts at this file"
        ),
        (
            "DIR/tenter.yaml:7:50: at loop.hats.builder.backend.command[0]: the program 'coder' is not on PATH; "
            "install it, or name its path, such as ./hooks/guard.sh"
        ),
    ]


def test_a_file_without_commands_has_no_programs() -> None:
    assert resolve_backends(Spec(file="f", digest="", version=1), "") == {}
