"""`tenter resume` goes on with a run where it stands, and does nothing twice."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.commandline import (
    LONGEST,
    TENTER,
    calls,
    environment,
    gate,
    heard,
    on_terminal,
    run_json,
    started,
    tenter,
    write_project,
)
from tests.outside import alive
from tests.waiting import (
    ACT,
    acted,
    project_with_a_sub_run,
    states,
    statuses,
    suspends,
    wait,
    wait_for_expiry,
    waiting_project,
)

from tenter.cli.inside import INSIDE
from tenter.harness import RunResult


def killed_at_a_hook(folder: Path) -> str:
    """The id of a run whose process was killed while a hook looked at its tool call, for the first time."""
    once = "cat > /dev/null; [ -e looked ] || { touch looked; echo $$ > begun; exec sleep 60; }"
    hook = {"name": "slow", "match": {"tool": "shell"}, "script": once, "on_error": "block"}
    write_project(folder, [calls("shell", command=ACT), {"text": "done"}], events={"tool.before": [hook]})
    with gate(folder / "begun") as reading, started("run", "job", cwd=folder) as process:
        looking = int(heard(reading))
        process.kill()
        process.wait(LONGEST)
        with contextlib.suppress(ProcessLookupError):
            os.kill(looking, signal.SIGKILL)  # whoever is killed cannot end what it started
    (row,) = json.loads(tenter("runs", "list", "--json", cwd=folder).out)
    assert row["status"] == "stopped"
    return row["run_id"]


@pytest.mark.promise(9)
def test_an_approved_run_goes_on_and_its_tool_acts_once(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert acted(tmp_path) == 0
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    assert acted(tmp_path) == 0, "deciding only records"
    done = tenter("resume", run_id[:6], cwd=tmp_path)
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert f"run {run_id}: completed in " in done.err
    assert acted(tmp_path) == 1
    again = tenter("resume", run_id, cwd=tmp_path)
    assert (again.code, acted(tmp_path)) == (2, 1)
    assert "is over: it ended completed" in again.err


def test_a_rejected_run_ends_blocked_and_says_who_rejected_it(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "reject", run_id, "--reason", "not today", "--by", "ann", cwd=tmp_path).code == 0
    done = tenter("resume", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (3, "")
    assert "not today" in done.err
    assert (acted(tmp_path), statuses(tmp_path)) == (0, ["blocked"])


@pytest.mark.promise(10)
def test_an_edited_call_is_made_as_edited_after_the_hooks_looked_at_it_again(tmp_path: Path) -> None:
    guard = {"name": "guard", "match": {"tool": "shell"}, "script": "cat >> seen", "on_error": "block"}
    write_project(
        tmp_path,
        [calls("shell", command="rm -rf x"), {"text": "done"}],
        events={"tool.before": [suspends(), guard]},
    )
    run_id = wait(tmp_path)
    assert tenter("approvals", "edit", run_id, "--set", f"command={ACT}", cwd=tmp_path).code == 0
    assert tenter("resume", run_id, cwd=tmp_path).code == 0
    assert acted(tmp_path) == 1
    assert ACT in (tmp_path / "seen").read_text()


def test_a_run_that_nobody_decided_on_still_waits(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    done = tenter("resume", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (4, "")
    assert "waiting for a person to decide on tool.invoked" in done.err
    assert (acted(tmp_path), states(tmp_path)) == (0, ["open"])


def test_a_run_goes_on_in_the_workspace_that_it_began_in(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    run_id = wait(waiting_project(tmp_path), "--workspace", "elsewhere")
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    refused = tenter("resume", run_id, "--workspace", ".", cwd=tmp_path)
    assert (refused.code, acted(tmp_path)) == (2, 0)
    assert f"begun with other workspace (it was {tmp_path / 'elsewhere'})" in refused.err
    assert tenter("resume", run_id, cwd=tmp_path).code == 0
    assert (acted(tmp_path / "elsewhere"), acted(tmp_path)) == (1, 0)


def test_what_a_killed_run_left_working_is_ended_before_the_run_goes_on(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}])
    with gate(tmp_path / "begun") as begins, started("run", "job", cwd=tmp_path) as process:
        tool = int(heard(begins))
        process.kill()
        process.wait(LONGEST)
    assert alive(tool)
    (row,) = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
    assert tenter("resume", row["run_id"], cwd=tmp_path).code == 4, "whether the tool acted is a person's to say"
    assert not alive(tool)


@pytest.mark.promise(9)
def test_a_run_whose_process_was_killed_goes_on_in_another(tmp_path: Path) -> None:
    run_id = killed_at_a_hook(tmp_path)
    done = tenter("resume", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert (acted(tmp_path), statuses(tmp_path)) == (1, ["completed"])


def test_json_is_the_whole_result_as_of_a_run(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    told = run_json("resume", run_id, cwd=tmp_path)
    assert set(told) == set(RunResult.__struct_fields__)
    assert (told["run_id"], told["status"], told["output"]) == (run_id, "completed", "done")


def test_after_an_approval_the_steps_say_who_gave_it_and_nobody_is_said_to_be_asked(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, "--by", "ann", cwd=tmp_path).code == 0
    done = tenter("resume", run_id, "--steps", cwd=tmp_path)
    assert "\n  hook   ask wanted a person: approved by ann\n" in done.err
    assert "ask  wanted a person: approved by ann 1x  (" in done.err
    assert "asked for a person" not in done.err


def test_the_steps_are_shown_where_they_are_asked_for(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    assert f'tool     shell(command="{ACT}")' in tenter("resume", run_id, "--steps", cwd=tmp_path).err


@pytest.mark.fault(45)
def test_a_run_that_another_process_has_is_not_resumed_and_it_is_told_who_has_it(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; cat go"), {"text": "done"}])
    os.mkfifo(tmp_path / "go")
    with gate(tmp_path / "begun") as begins, started("run", "job", cwd=tmp_path) as process:
        heard(begins)
        (row,) = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
        done = tenter("resume", row["run_id"], cwd=tmp_path)
        (tmp_path / "go").write_text("went\n")
        assert process.wait(LONGEST) == 0
    assert (done.code, done.out) == (1, "")
    assert str(process.pid) in done.err
    assert statuses(tmp_path) == ["completed"]


@pytest.mark.fault(45)
def test_of_several_who_resume_at_once_one_does(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path, calls("shell", command=f"{ACT}; sleep 1"), {"text": "done"}))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    asking = [
        subprocess.Popen(
            [TENTER, "resume", run_id],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    told = [one.communicate(timeout=LONGEST) for one in asking]
    codes = [one.returncode for one in asking]
    assert 0 in codes, told
    assert set(codes) <= {0, 1, 2}, told
    assert (acted(tmp_path), statuses(tmp_path)) == (1, ["completed"])


def test_what_changed_since_is_refused_unless_it_is_accepted_by_name(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    spec = (tmp_path / "tenter.yaml").read_text()
    (tmp_path / "tenter.yaml").write_text(spec.replace("it acts", "it does something"))
    done = tenter("resume", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"'tenter resume {run_id} --accept hooks'" in done.err
    assert tenter("resume", run_id, "--accept", "task", cwd=tmp_path).code == 2
    assert acted(tmp_path) == 0
    assert tenter("resume", run_id, "--accept", "task", "--accept", "hooks", cwd=tmp_path).code == 0
    assert acted(tmp_path) == 1


def test_a_run_whose_changed_task_was_accepted_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    spec = (tmp_path / "tenter.yaml").read_text()
    (tmp_path / "tenter.yaml").write_text(spec.replace("Do it.", "Do it otherwise."))
    done = tenter("resume", run_id, "--accept", "task", cwd=tmp_path)
    assert (done.code, done.out) == (0, "done\n")
    assert (acted(tmp_path), statuses(tmp_path)) == (1, ["completed"])


@pytest.mark.parametrize(
    ("number", "code", "says"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")]
)
def test_an_interrupted_run_ends_its_tools_and_is_cancelled_on_record(
    number: signal.Signals, code: int, says: str, tmp_path: Path
) -> None:
    run_id = wait(waiting_project(tmp_path, calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    with gate(tmp_path / "begun") as begins, started("resume", run_id, cwd=tmp_path) as process:
        tool = int(heard(begins))
        process.send_signal(number)
        out, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, out) == (code, "")
    assert not alive(tool)
    assert says in err
    assert f"run {run_id}: cancelled" in err
    assert "Traceback" not in err
    assert statuses(tmp_path) == ["cancelled"]


@pytest.mark.parametrize("inside", INSIDE)
def test_inside_a_run_a_hook_a_tool_or_a_loop_nothing_is_resumed(
    inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    monkeypatch.setenv(inside, "1")
    done = tenter("resume", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert f"{inside} is set: " in done.err
    assert acted(tmp_path) == 0


@pytest.mark.fault(55)
def test_a_project_that_is_not_trusted_goes_on_with_nothing(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0, "deciding runs nothing of the project"
    done = tenter("resume", run_id, cwd=tmp_path, TENTER_TRUST="")
    assert (done.code, done.out) == (6, "")
    assert acted(tmp_path) == 0


def test_an_unknown_or_ambiguous_run_is_a_mistake(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    done = tenter("resume", "zz", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "there is no run 'zz'; 'tenter runs list' prints them" in done.err
    assert tenter("resume", "", cwd=tmp_path).code == 2
    told = json.loads(tenter("resume", "zz", "--json", cwd=tmp_path).out)
    assert told["error"]["exit_code"] == 2
    assert states(tmp_path) == ["open"], run_id


@pytest.mark.parametrize(("on_timeout", "code"), [("block", 3), ("escalate", 5)])
def test_a_decision_that_comes_too_late_brings_the_run_to_its_end(on_timeout: str, code: int, tmp_path: Path) -> None:
    waiting_project(tmp_path, expires_in=1.0, on_timeout=on_timeout)
    run_id = wait(tmp_path)
    wait_for_expiry(tmp_path)
    untrusted = tenter("approvals", "approve", run_id, cwd=tmp_path, TENTER_TRUST="")
    assert (untrusted.code, untrusted.out) == (6, "")
    assert f"the run {run_id} is brought to its end, which takes trust in the project" in untrusted.err
    assert states(tmp_path) == ["expired"]
    done = tenter("approvals", "approve", run_id, cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert " expired at " in done.err
    assert (acted(tmp_path), states(tmp_path)) == (0, ["expired"])
    assert statuses(tmp_path) == ["blocked" if code == 3 else "escalated"]
    late = tenter("approvals", "reject", run_id, cwd=tmp_path)
    assert (late.code, late.out) == (1, "")


def test_a_resumed_run_asks_on_a_terminal(tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    with on_terminal("resume", run_id, cwd=tmp_path) as terminal:
        terminal.wait_for("(ater)?\n> ")
        terminal.type("a\n")
        terminal.wait_for("why? (Enter: no reason)\n> ")
        terminal.type("\n")
        done = terminal.end()
    assert done.code == 0, done.err
    assert acted(tmp_path) == 1


def test_a_sub_run_goes_on_with_the_run_around_it(tmp_path: Path) -> None:
    root = wait(project_with_a_sub_run(tmp_path))
    (child,) = [
        row["run_id"]
        for row in json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
        if row["parent_run_id"] == root
    ]
    assert f"spawned:  {child}  awaiting_approval  look\n" in tenter("runs", "show", root, cwd=tmp_path).out
    approved = tenter("approvals", "approve", child, cwd=tmp_path)
    assert (approved.code, approved.out.splitlines()[1]) == (0, f"'tenter resume {root}' goes on with the run")
    done = tenter("resume", child, cwd=tmp_path)
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert f"the run {child} is a part of the run {root}, which goes on\n" in done.err
    assert (acted(tmp_path), statuses(tmp_path)) == (1, ["completed", "completed"])
