"""A project whose runs wait for a person, driven through the real command line."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from tests.commandline import LONGEST, calls, tenter, write_project

ACT = "echo acted >> acted"
"""What the tool does that waits: a line for each time."""


def suspends(**verdict: object) -> Mapping[str, object]:
    """A hook that wants a person to look at every call of the shell."""
    said = json.dumps({"decision": "suspend", "reason": "it acts", "editable": ["call.arguments.command"], **verdict})
    script = f"cat > /dev/null; echo '{said}'"
    return {"name": "ask", "match": {"tool": "shell"}, "script": script, "verdict": "json", "on_error": "block"}


def waiting_project(folder: Path, *turns: object, **verdict: object) -> Path:
    """A project whose model calls the shell, for which a person is asked, and then says `done`."""
    turns = turns or (calls("shell", command=ACT), {"text": "done"})
    return write_project(folder, turns, events={"tool.before": [suspends(**verdict)]})


def wait(folder: Path, *options: str) -> str:
    """Runs the task until it waits; the run's id."""
    done = tenter("run", "job", "--json", *options, cwd=folder)
    assert done.code == 4, done
    return str(json.loads(done.out)["run_id"])


def acted(folder: Path) -> int:
    """How often the tool acted."""
    path = folder / "acted"
    return len(path.read_text().splitlines()) if path.exists() else 0


def decisions(folder: Path) -> Sequence[Mapping[str, object]]:
    """Every request on record, with its decision."""
    done = tenter("approvals", "list", "--all", "--json", cwd=folder)
    return cast("Sequence[Mapping[str, object]]", json.loads(done.out)["approvals"])


def wait_for_expiry(folder: Path) -> None:
    """Returns when time is up for all that is asked for."""
    until = time.monotonic() + LONGEST
    while not all(row["expired"] for row in decisions(folder)):
        assert time.monotonic() < until, "nothing expired"


def states(folder: Path) -> list[object]:
    """What became of each request."""
    return [row["state"] for row in decisions(folder)]


def statuses(folder: Path) -> list[str]:
    """The statuses of the runs on record, the last first."""
    return [row["status"] for row in json.loads(tenter("runs", "list", "--json", cwd=folder).out)]


def project_with_a_sub_run(folder: Path) -> Path:
    """A project whose task spawns another one, whose call of the shell waits for a person."""
    inner = (calls("shell", command=ACT), {"text": "looked"})
    outer = (calls("spawn_subtask", task="look", input="look"), {"text": "done"})
    task = {"version": 1, "model": "default", "instructions": "Do it."}
    models = {name: {"provider": "scripted", "file": f"{name}.yaml"} for name in ("default", "inner")}
    tasks = {"job": {**task, "subtasks": ["look"]}, "look": {**task, "model": "inner", "tools": ["shell"]}}
    write_project(folder, [], models=models, tasks=tasks, events={"tool.before": [suspends()]})
    for name, turns in (("default", outer), ("inner", inner)):
        (folder / f"{name}.yaml").write_text(json.dumps({"version": 1, "turns": turns}))
    return folder
