"""What was started by a run, a hook, a tool or a loop is known by its environment, and decides nothing for a person."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.commandline import TENTER, calls, tenter, write_project
from tests.journaled import begun, journal, result

from tenter.cli.inside import INSIDE, PROCESS, inside_of, marked, refuse_inside
from tenter.executors import this_process
from tenter.journal import Entry


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in INSIDE:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", INSIDE)
def test_each_of_the_variables_shows_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "one")
    assert inside_of() == name
    with pytest.raises(click.ClickException) as refused:
        refuse_inside("that is not for it; do it elsewhere")
    assert refused.value.exit_code == 1
    told = f"{name} is set: this was started by a run, a hook or a loop, and that is not for it; do it elsewhere"
    assert refused.value.message == told


def test_outside_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE[0], "")
    refuse_inside("never said")
    assert inside_of() is None


def test_what_this_process_starts_while_a_run_goes_on_in_it_is_inside_and_not_the_process_itself() -> None:
    ask = [sys.executable, "-c", "from tenter.cli.inside import inside_of; print(inside_of())"]

    def started() -> str:
        return subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stdout.strip()

    with marked():
        assert os.environ[PROCESS] == str(os.getpid())
        assert inside_of() is None
        assert started() == PROCESS
    assert PROCESS not in os.environ
    assert started() == "None"


def test_the_mark_of_the_outermost_process_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROCESS, "1")
    with marked():
        assert inside_of() == PROCESS
    assert os.environ[PROCESS] == "1"


@pytest.mark.promise(13)
@pytest.mark.parametrize(
    "verb", [("approvals", "approve"), ("approvals", "reject"), ("resume",), ("runs", "cancel"), ("runs", "prune")]
)
def test_an_agent_that_clears_its_environment_does_not_decide_for_a_person(
    verb: tuple[str, ...], tmp_path: Path
) -> None:
    words = " ".join((*verb, "--older-than 0" if verb[-1] == "prune" else "$TENTER_RUN_ID"))
    said = f"env -i PATH=$PATH HOME=$HOME TENTER_TRUST=$TENTER_TRUST {TENTER} {words}"
    write_project(tmp_path, [calls("shell", command=f"echo $({said} 2>&1) > said"), {"text": "done"}])
    done = tenter("run", "job", cwd=tmp_path)
    assert done.code == 0, done
    run_id = done.err.partition("run ")[2].partition(":")[0]
    assert f"this was started by the process of the run {run_id}, and " in (tmp_path / "said").read_text()
    assert "from a shell of your own" in (tmp_path / "said").read_text()


@pytest.mark.fault(48)
async def test_whoever_comes_from_a_process_that_has_no_run_of_the_journal_is_a_person(tmp_path: Path) -> None:
    me = this_process()
    dead = begun(process={"pid": me.pid, "started": "another start"}, host="x")
    released = Entry(kind="released", time=3, content={"status": "completed"})
    over = [begun(process={"pid": me.pid, "started": me.started}, host="x"), result("completed"), released]
    await journal(tmp_path, ("dead", [dead]), ("over", over))
    assert await asyncio.to_thread(refuse_inside, "never said", str(tmp_path / "tenter.yaml")) is None
    await journal(tmp_path, ("mine", over[:1]))
    with pytest.raises(click.ClickException, match="the run mine, and no"):
        await asyncio.to_thread(refuse_inside, "no", str(tmp_path / "tenter.yaml"))
