"""A run that SIGTERM ends in any of its phases, through the real command line.

The right status is on record, the process ends with 143, what was started is gone, and nothing is done or told twice.
"""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.commandline import LONGEST, calls, gate, heard, started, tenter, write_project
from tests.outside import alive
from tests.waiting import ACT, acted, statuses, wait, waiting_project

BLOCKS = "cat > /dev/null; echo $$ > begun; exec sleep 60"
WITH_A_CHILD = f"{ACT}; sleep 60 & echo $! > child; echo $$ > begun; wait"

FAILS = """\
from pathlib import Path

async def flaky() -> str:
    with Path("acted").open("a") as file:
        file.write("acted\\n")
    raise OSError("not now")
"""

STANDS = """\
import os
from pathlib import Path

Path("begun").write_text(f"{os.getpid()}\\n")
Path("go").read_text()

async def flaky() -> str:
    return ""
"""


def script(text: str, on_error: str = "block") -> dict[str, object]:
    return {"name": "slow", "script": text, "on_error": on_error}


def project(folder: Path, *turns: object, at: str = "", does: Mapping[str, object] | None = None) -> Path:
    """A project with the hook `does` at a point, that counts how often the end of its run was told."""
    told = {"name": "told", "script": "cat > /dev/null; echo told >> told", "on_error": "warn"}
    events: dict[str, list[object]] = {"run.post": [told]}
    if does is not None:
        events.setdefault(at, []).append(does)
    return write_project(folder, [*turns, {"text": "done"}], events=events)


def told(folder: Path) -> int:
    """How often the end of the run was told."""
    path = folder / "told"
    return len(path.read_text().split()) if path.exists() else 0


def ended_by_sigterm(folder: Path, *command: str) -> tuple[int, str]:
    """The process that stood somewhere in the run, and what standard error held when the run was ended there."""
    with gate(folder / "begun") as begun, started(*command, cwd=folder) as process:
        stood = int(heard(begun))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, out) == (143, ""), err
    assert "ended by SIGTERM" in err
    assert "Traceback" not in err
    return stood, err


def over(folder: Path, status: str) -> None:
    """The run is on record with that status, was told of it once, and is nothing to go on with."""
    (row,) = json.loads(tenter("runs", "list", "--json", cwd=folder).out)
    assert (row["status"], told(folder)) == (status, 1)
    again = tenter("resume", row["run_id"], cwd=folder)
    assert (again.code, again.out) == (2, "")
    assert f"is over: it ended {status}" in again.err


def with_tool(folder: Path, code: str) -> None:
    """Adds the tool `flaky` to the project, of a file that holds `code`."""
    (folder / "my_tools.py").write_text(code)
    path = folder / "tenter.yaml"
    spec = json.loads(path.read_text())
    spec["tools"] = {"flaky": {"python": "./my_tools.py:flaky", "idempotent": True}}
    spec["tasks"]["job"]["tools"] = ["flaky"]
    path.write_text(json.dumps(spec))


@pytest.mark.promise(9)
def test_before_the_run_nothing_is_done(tmp_path: Path) -> None:
    with_tool(project(tmp_path), STANDS)
    os.mkfifo(tmp_path / "go")
    with gate(tmp_path / "begun") as begun, started("run", "job", cwd=tmp_path) as process:
        heard(begun)
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").write_text("went\n")
        out, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, out) == (143, ""), err
    assert statuses(tmp_path) in ([], ["cancelled"]), "it may have come as far as its first entry"
    assert told(tmp_path) == len(statuses(tmp_path))
    assert acted(tmp_path) == 0


@pytest.mark.promise(9)
def test_in_a_model_call_the_run_is_cancelled(tmp_path: Path) -> None:
    stood, _ = ended_by_sigterm(project(tmp_path, at="llm.invoked.in", does=script(BLOCKS)), "run", "job")
    assert not alive(stood)
    over(tmp_path, "cancelled")


@pytest.mark.promise(9)
def test_in_a_tool_that_started_a_process_both_are_gone_and_it_acted_once(tmp_path: Path) -> None:
    stood, _ = ended_by_sigterm(project(tmp_path, calls("shell", command=WITH_A_CHILD)), "run", "job")
    child = int((tmp_path / "child").read_text())
    assert not alive(stood)
    assert not alive(child)
    over(tmp_path, "cancelled")
    assert acted(tmp_path) == 1


@pytest.mark.promise(9)
def test_in_a_hook_before_a_tool_the_tool_does_not_act(tmp_path: Path) -> None:
    project(tmp_path, calls("shell", command=ACT), at="tool.before", does=script(BLOCKS))
    stood, _ = ended_by_sigterm(tmp_path, "run", "job")
    assert not alive(stood)
    over(tmp_path, "cancelled")
    assert acted(tmp_path) == 0


@pytest.mark.promise(9)
def test_in_a_hook_after_a_tool_it_acted_once(tmp_path: Path) -> None:
    project(tmp_path, calls("shell", command=ACT), at="tool.after", does=script(BLOCKS))
    stood, _ = ended_by_sigterm(tmp_path, "run", "job")
    assert not alive(stood)
    over(tmp_path, "cancelled")
    assert acted(tmp_path) == 1


@pytest.mark.promise(9)
def test_while_it_waits_to_try_again_it_is_not_tried_again(tmp_path: Path) -> None:
    waits = script("cat > /dev/null; echo $$ > begun", "fail")
    with_tool(project(tmp_path, calls("flaky"), at="activity.retried.post", does=waits), FAILS)
    ended_by_sigterm(tmp_path, "run", "job")
    over(tmp_path, "cancelled")
    assert acted(tmp_path) == 1


@pytest.mark.promise(9)
def test_while_it_ends_it_ends_as_it_was_about_to_and_is_told_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    slow = script("cat > /dev/null; echo $$ > begun; cat go > /dev/null; echo heard >> heard", "warn")
    project(tmp_path, calls("shell", command=ACT), at="run.post", does=slow)
    with gate(tmp_path / "begun") as begun, started("run", "job", cwd=tmp_path) as process:
        heard(begun)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").write_text("went\n")
        out, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, out) == (143, ""), err
    over(tmp_path, "completed")
    assert (tmp_path / "heard").read_text() == "heard\n"
    assert acted(tmp_path) == 1


@pytest.mark.promise(9)
def test_a_run_that_was_gone_on_with_is_cancelled_as_well_and_acted_once(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path, calls("shell", command=WITH_A_CHILD), {"text": "done"}))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    stood, _ = ended_by_sigterm(tmp_path, "resume", run_id)
    assert not alive(stood)
    assert not alive(int((tmp_path / "child").read_text()))
    assert (statuses(tmp_path), acted(tmp_path)) == (["cancelled"], 1)
