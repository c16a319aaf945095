"""The table of kinds is what a configuration builds hooks from."""

import dataclasses
from pathlib import Path
from random import Random

from tenter.catalogue import CATALOGUE
from tenter.executors.command_settings import CommandHook
from tenter.executors.kind import NoSink, Surroundings
from tenter.executors.kinds import KINDS
from tenter.kernel import SYSTEM_CLOCK, Redactor, Runtime


def test_every_kind_makes_hooks_out_of_its_settings(tmp_path: Path) -> None:
    (tmp_path / "hooks.py").write_text("def check(event): ...\n")
    around = Surroundings(
        workspace=str(tmp_path),
        project_dir=str(tmp_path),
        environment={},
        sink=NoSink(),
        redactor=Redactor(),
        clock=SYSTEM_CLOCK,
        random=Random(),
    )
    said = {
        "command": {"argv": ("/bin/true",)},
        "script": {"script": "true"},
        "python": {"target": "hooks.py:check", "catalogue": CATALOGUE},
    }
    hooks = [
        kind.declare(kind.settings(name=name, point=CATALOGUE["tool.before"], **said[name]), around)
        for name, kind in KINDS.items()
    ]
    links = Runtime(CATALOGUE, hooks).links()
    assert [(link.name, link.hook.kind) for link in links] == [
        ("command", "command"),
        ("script", "command"),
        ("python", "function"),
    ]


def test_every_kind_takes_the_settings_that_all_hooks_have() -> None:
    common = {"name", "point", "match", "observe", "mode", "priority", "band", "on_error", "timeout_seconds"}
    for kind in KINDS.values():
        assert common <= {field.name for field in dataclasses.fields(kind.settings)}
    assert KINDS["command"].settings is CommandHook
