"""Writes projects that have a loop, whose agent is a shell script of the test, and looks at what became of the loop."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from tests.commandline import LONGEST, TENTER, Ended, hook_script, run_json, tenter

EMIT = f"'{TENTER}' emit"
"""How a script publishes."""


def loop_project(
    folder: Path,
    agent: str,
    *,
    hooks: Mapping[str, object] | None = None,
    loop: Mapping[str, object] | None = None,
    spec: Mapping[str, object] | None = None,
) -> Path:
    """A configuration with a loop whose agent is `agent`, a shell script that gets the prompt on its stdin.

    `hooks` are the hooks by point, `loop` and `spec` what else the configuration says.
    """
    backend = {"command": [hook_script(folder, "agent.sh", agent)]}
    document = {
        "version": 1,
        "loop": {"backend": backend, **(loop or {})},
        "hooks": {"events": hooks or {}},
        **(spec or {}),
    }
    (folder / "tenter.yaml").write_text(json.dumps(document, indent=1))
    return folder


def command_hook(folder: Path, name: str, text: str, **settings: object) -> Mapping[str, object]:
    """A hook that is a shell script; it blocks when it fails, unless `settings` say otherwise."""
    return {"name": name, "command": [hook_script(folder, f"{name}.sh", text)], "on_error": "block", **settings}


def suspends(folder: Path, name: str = "gate", reason: str = "look first", **settings: object) -> Mapping[str, object]:
    """A hook that suspends the loop."""
    return command_hook(folder, name, f"echo '{reason}' >&2; exit 1", on_error="suspend", **settings)


def run_loop(folder: Path, *arguments: str) -> Ended:
    """`tenter loop run` with a prompt."""
    return tenter("loop", "run", "--prompt", "do it", *arguments, cwd=folder)


def loops(folder: Path) -> list[Mapping[str, object]]:
    """What `tenter loop list --all` lists."""
    return cast("list[Mapping[str, object]]", run_json("loop", "list", "--all", cwd=folder)["loops"])


def wait_for(folder: Path, what: str | Callable[[Mapping[str, object]], bool]) -> Mapping[str, object]:
    """The one loop that runs, once it has this status, or once `what` holds of it."""
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        for row in loops(folder):
            if row["ended_at"] is None and (row["status"] == what if isinstance(what, str) else what(row)):
                return row
    raise AssertionError(f"no loop came to that: {loops(folder)}")
