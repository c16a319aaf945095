"""`tenter runs cancel` ends a run wherever it is: in another process, while it waits, or where its process is gone."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.commandline import LONGEST, calls, gate, heard, run_json, started, tenter, write_project
from tests.journaled import begun, journal, result
from tests.outside import alive
from tests.waiting import acted, states, statuses, wait, waiting_project

from tenter.cli import runs_cancel


def test_a_run_in_another_process_ends_with_its_tools(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}])
    with gate(tmp_path / "begun") as begins, started("run", "job", cwd=tmp_path) as process:
        tool = int(heard(begins))
        (row,) = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
        done = tenter("runs", "cancel", row["run_id"][:6], "--reason", "enough", cwd=tmp_path)
        _, err = process.communicate(timeout=LONGEST)
    assert (done.code, done.out) == (0, f"the run {row['run_id']} ended: cancelled\n")
    assert (process.returncode, statuses(tmp_path)) == (1, ["cancelled"])
    assert "cancelled" in err
    assert not alive(tool)


def test_a_run_that_waits_ends_and_can_not_be_decided_on_any_more(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    told = run_json("runs", "cancel", run_id, cwd=tmp_path)
    assert told == {
        "run_id": run_id,
        "status": "cancelled",
        "has_ended": True,
        "message": f"the run {run_id} ended: cancelled",
    }
    assert (statuses(tmp_path), states(tmp_path)) == (["cancelled"], ["withdrawn"])
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 1
    assert tenter("resume", run_id, cwd=tmp_path).code == 2
    assert acted(tmp_path) == 0


def test_a_run_whose_process_was_killed_ends(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}])
    with gate(tmp_path / "begun") as begins, started("run", "job", cwd=tmp_path) as process:
        tool = int(heard(begins))
        process.kill()
        process.wait(LONGEST)
        os.kill(tool, signal.SIGKILL)  # whoever is killed cannot end what it started
    (row,) = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
    assert tenter("runs", "cancel", row["run_id"], cwd=tmp_path).code == 0
    assert statuses(tmp_path) == ["cancelled"]


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_a_run_that_is_over_stays_as_it_ended(status: str, tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "done"}] if status == "completed" else [])
    if status == "completed":
        run_id = str(run_json("run", "job", cwd=tmp_path)["run_id"])
    else:
        run_id = wait(waiting_project(tmp_path))
        assert tenter("runs", "cancel", run_id, cwd=tmp_path).code == 0
    done = tenter("runs", "cancel", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (0, f"the run {run_id} had ended: {status}\n")
    assert statuses(tmp_path) == [status]


async def test_a_sub_run_is_not_cancelled_alone(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun()]), ("c1", [begun(parent="a1"), result("completed")]))
    done = tenter("runs", "cancel", "c1", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "the run c1 is a part of the run a1; 'tenter runs cancel a1' ends both" in done.err


@pytest.mark.fault(55)
def test_a_project_that_is_not_trusted_runs_nothing_to_cancel_a_run(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("runs", "cancel", run_id, cwd=tmp_path, TENTER_TRUST="").code == 6
    assert statuses(tmp_path) == ["awaiting_approval"]


async def test_a_process_that_does_not_end_it_in_time_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal(tmp_path, ("a1", [begun()]))
    monkeypatch.setattr(runs_cancel, "WITHIN_SECONDS", 0.01)
    assert await runs_cancel.ended_elsewhere(str(tmp_path / "tenter.yaml"), "a1") is None
    told = runs_cancel.told("a1", None)
    assert (told.status, told.has_ended) == ("running", False)
    assert "was asked to end it, and has not within 0.01 s" in told.message


@pytest.mark.promise(4)
def test_the_reason_is_recorded_without_secrets(tmp_path: Path) -> None:
    waiting_project(tmp_path)
    key = "ghp_" + "a1B2" * 9
    run_id = wait(tmp_path)
    assert tenter("runs", "cancel", run_id, "--reason", f"since {key}", cwd=tmp_path).code == 0
    shown = tenter("runs", "show", run_id, cwd=tmp_path).out
    assert "since [redacted]" in shown
    assert key.encode() not in (tmp_path / ".tenter" / "journal.db").read_bytes()
