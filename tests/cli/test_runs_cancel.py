"""`tenter runs cancel` ends a run wherever it is: in another process, while it waits, or where its process is gone."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.commandline import LONGEST, calls, gate, heard, run_json, started, tenter, write_project
from tests.journaled import begun, journal, request, result, waiting
from tests.outside import alive
from tests.waiting import acted, states, statuses, suspends, wait, waiting_project

from tenter.cli import runs_cancel
from tenter.cli.decisions import login_name


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


def test_hooks_hear_of_the_end_in_the_workspace_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    where = {"name": "where", "script": "cat > /dev/null; echo $TENTER_WORKSPACE > heard", "on_error": "warn"}
    events = {"tool.before": [suspends()], "run.end": [where]}
    write_project(tmp_path, [calls("shell", command="true"), {"text": "done"}], events=events)
    run_id = wait(tmp_path, "--workspace", "elsewhere")
    assert tenter("runs", "cancel", run_id, cwd=tmp_path).code == 0
    assert (tmp_path / "elsewhere" / "heard").read_text() == f"{tmp_path / 'elsewhere'}\n"


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
@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("untrusted", "the project is not trusted as it is now"),
        ("wrong", "its configuration cannot be used ('tenter hooks validate' tells why)"),
        ("no task", "the project cannot go on with it any more"),
        ("gone", "its configuration cannot be used ('tenter hooks validate' tells why)"),
    ],
)
def test_a_run_whose_project_cannot_be_used_ends_on_record_and_nothing_of_the_project_runs(
    trouble: str, why: str, tmp_path: Path
) -> None:
    run_id = wait(waiting_project(tmp_path))
    file = tmp_path / "tenter.yaml"
    match trouble:
        case "untrusted":
            file.write_text(file.read_text().replace("it acts", "an agent wrote this"))
        case "wrong":
            file.write_text("tasks: [")
        case "gone":
            file.unlink()
        case _:
            file.write_text(file.read_text().replace('"job"', '"other"'))
    words = ("runs", "cancel", run_id, "--reason", "enough")
    done = tenter(*words, cwd=tmp_path, TENTER_TRUST="") if trouble == "untrusted" else tenter(*words, cwd=tmp_path)
    alone = f"on record alone: no hook heard of it, since {why}"
    assert (done.code, done.out, done.err) == (0, f"the run {run_id} ended: cancelled, {alone}\n", "")
    told = tenter("runs", "show", run_id, cwd=tmp_path).out
    assert "status:   cancelled" in told
    assert f"the run was cancelled by {login_name()}: enough" in told
    assert "withdrawn" in told
    assert acted(tmp_path) == 0


@pytest.mark.fault(55)
def test_a_run_in_another_process_is_ended_without_trust(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}])
    with gate(tmp_path / "begun") as begins, started("run", "job", cwd=tmp_path) as process:
        tool = int(heard(begins))
        (row,) = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
        (tmp_path / "script.yaml").write_text("# an agent wrote this")
        words = ("runs", "cancel", row["run_id"], "--reason", "enough")
        done = tenter(*words, cwd=tmp_path, TENTER_TRUST="")
        process.communicate(timeout=LONGEST)
    assert (done.code, done.out) == (0, f"the run {row['run_id']} ended: cancelled\n")
    told = tenter("runs", "show", row["run_id"], cwd=tmp_path).out
    assert f"the run was cancelled by {login_name()}: enough" in told
    assert not alive(tool)


async def test_a_run_ended_on_record_takes_those_with_it_that_it_spawned(tmp_path: Path) -> None:
    asks = waiting(request("c1", root="a1"))
    children = [("c1", [begun(parent="a1"), *asks[1:]]), ("d1", [begun(parent="c1")])]
    over = ("e1", [begun(parent="a1"), result("completed")])
    await journal(tmp_path, ("a1", [begun()]), *children, over)
    (tmp_path / "tenter.yaml").write_text("tasks: [")
    assert tenter("runs", "cancel", "a1", cwd=tmp_path).code == 0
    assert statuses(tmp_path) == ["completed", "cancelled", "cancelled", "cancelled"]
    assert states(tmp_path) == ["withdrawn"]


@pytest.mark.fault(47)
async def test_what_a_run_that_is_over_had_spawned_ends_where_its_process_died_first(tmp_path: Path) -> None:
    asks = waiting(request("c1", root="a1"))
    await journal(tmp_path, ("a1", [begun(), result("failed")]), ("c1", [begun(parent="a1"), *asks[1:]]))
    done = tenter("runs", "cancel", "a1", cwd=tmp_path)
    assert (done.code, done.out) == (0, "the run a1 had ended: failed; what it had spawned had not, and ended now\n")
    assert (statuses(tmp_path), states(tmp_path)) == (["cancelled", "failed"], ["withdrawn"])
    assert tenter("runs", "cancel", "a1", cwd=tmp_path).out == "the run a1 had ended: failed\n"


@pytest.mark.fault(48)
async def test_a_holder_on_another_machine_is_asked_and_passed_over_where_it_is_known_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal(tmp_path, ("a1", [begun(process={"pid": 1, "started": "x"}, host="elsewhere")]))
    (tmp_path / "tenter.yaml").write_text("tasks: [")
    monkeypatch.setattr(runs_cancel, "WITHIN_SECONDS", 0.01)
    wanted = runs_cancel.Cancel(run_id="a1", reason="", config=str(tmp_path / "tenter.yaml"), workspace=None)
    told = await runs_cancel.cancelled(wanted, [])
    assert (told.status, told.has_ended) == ("running", False)
    assert "'--accept holder' ends the run all the same" in told.message
    done = tenter("runs", "cancel", "a1", "--accept", "holder", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert statuses(tmp_path) == ["cancelled"]


async def test_a_process_that_does_not_end_it_in_time_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal(tmp_path, ("a1", [begun(process={"pid": 1, "started": "x"}, host="elsewhere")]))
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
