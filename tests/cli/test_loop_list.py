"""`tenter loop list` says which loops there are, and of those that wait for what, and what a person can do."""

import json
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from tests.commandline import LONGEST, gate, heard, run_json, started, tenter
from tests.looping import EMIT, command_hook, loop_project, loops, run_loop, suspends, wait_for

DONE = "echo LOOP_COMPLETE"
KEYS = {
    "loop_id",
    "status",
    "reason",
    "message",
    "primary",
    "workspace",
    "branch",
    "pid",
    "process_alive",
    "iteration",
    "prompt",
    "started_at",
    "ended_at",
    "suspension",
    "question",
}


def test_where_nothing_ran_nothing_is_listed_and_nothing_made(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE)
    before = sorted(tmp_path.rglob("*"))
    done = tenter("loop", "list", cwd=tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "no loop is running" in done.err
    assert json.loads(tenter("loop", "list", "--json", cwd=tmp_path).out) == {"loops": []}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_loop_that_has_ended_is_listed_with_all_and_not_without(tmp_path: Path) -> None:
    run_loop(loop_project(tmp_path, DONE))
    assert tenter("loop", "list", cwd=tmp_path).out == ""
    done = tenter("loop", "list", "--all", cwd=tmp_path)
    assert re.fullmatch(
        r"loop-\w{4}-\w{4}  completed  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  iteration 1    do it\n", done.out
    )


def test_a_suspended_loop_is_listed_with_since_when_where_by_which_hook_and_why(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE, hooks={"iteration.start.pre": [suspends(tmp_path)]})
    with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
        row = wait_for(tmp_path, "suspended")
        shown = tenter("loop", "list", cwd=tmp_path).out
        running.send_signal(signal.SIGKILL)
        running.wait(LONGEST)
    held = cast("Mapping[str, str]", row["suspension"])
    assert row.keys() == KEYS
    assert {name: held[name] for name in ("phase_event", "hook_name", "suspend_mode")} == {
        "phase_event": "pre.iteration.start",
        "hook_name": "gate",
        "suspend_mode": "wait_for_resume",
    }
    assert "look first" in held["reason"]
    assert held.keys() == {
        "suspension_id",
        "suspended_at",
        "phase_event",
        "hook_name",
        "reason",
        "suspend_mode",
        "suspensions",
    }
    assert (row["process_alive"], row["pid"], row["primary"]) == (True, running.pid, True)
    assert f"suspended since {held['suspended_at']} at pre.iteration.start by gate: " in shown
    assert f"'tenter loop resume {row['loop_id']}' continues it" in shown
    (tmp_path / "below").mkdir()
    elsewhere = tenter("loop", "list", "-c", "../tenter.yaml", cwd=tmp_path / "below").out
    assert f"'tenter loop resume {row['loop_id']} -c ../tenter.yaml' continues it" in elsewhere
    assert "is gone" not in shown
    (after,) = loops(tmp_path)
    assert (after["status"], after["process_alive"]) == ("suspended", False)
    assert "its process is gone" in tenter("loop", "list", cwd=tmp_path).out


def test_every_hook_that_suspended_it_is_listed_with_its_reason_as_far_as_there_is_room(tmp_path: Path) -> None:
    why = [f"look {number} " + "x" * 400 for number in range(12)]
    hooks = [suspends(tmp_path, f"gate-{number}", reason) for number, reason in enumerate(why)]
    loop_project(tmp_path, DONE, hooks={"iteration.start.pre": hooks})
    with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
        row = wait_for(tmp_path, "suspended")
        listed = tenter("loop", "list", cwd=tmp_path).out
        shown = tenter("loop", "show", str(row["loop_id"]), cwd=tmp_path).out
        document = run_json("loop", "show", str(row["loop_id"]), cwd=tmp_path)
        running.send_signal(signal.SIGKILL)
        running.wait(LONGEST)
    assert document["suspension"] == row["suspension"]
    held = cast("Mapping[str, object]", row["suspension"])
    several = cast("list[Mapping[str, str]]", held["suspensions"])
    assert [one["hook_name"] for one in several] == [f"gate-{number}" for number in range(12)]
    assert all(one.keys() == {"hook_name", "reason", "code", "suspend_mode"} for one in several)
    assert all(reason in one["reason"] for reason, one in zip(why, several, strict=True))
    assert {name: held[name] for name in ("hook_name", "reason", "suspend_mode")} == {
        name: several[0][name] for name in ("hook_name", "reason", "suspend_mode")
    }
    for text in (listed, shown):
        assert re.search(rf" by gate-0: .*look 0 x+…; 'tenter loop resume {row['loop_id']}' continues it\n", text)
        assert re.findall(r"^  and by gate-(\d+): .*look \1 x+…$", text, re.MULTILINE) == [str(n) for n in range(1, 10)]
        assert "\n  and by 2 more; --json names all\n" in text


@pytest.mark.promise(4)
def test_a_secret_where_a_reason_is_cut_is_not_told_in_halves(tmp_path: Path) -> None:
    secret = "-".join(f"opensesame{number}" for number in range(15))
    hooks = [suspends(tmp_path, name, "x" * 150 + secret + "y" * 200) for name in ("gate", "other")]
    loop_project(tmp_path, DONE, hooks={"iteration.start.pre": hooks})
    with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
        wait_for(tmp_path, "suspended")
        shown = tenter("loop", "list", cwd=tmp_path, MY_API_KEY=secret).out
        running.send_signal(signal.SIGKILL)
        running.wait(LONGEST)
    assert shown.count("xxx[redacted]yyy") == 2
    assert "sesame" not in shown


def test_every_time_of_the_document_is_utc_as_text(tmp_path: Path) -> None:
    loop_project(tmp_path, DONE, hooks={"iteration.start.pre": [suspends(tmp_path)]})
    with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
        row = wait_for(tmp_path, "suspended")
        held = cast("Mapping[str, str]", row["suspension"])
        running.terminate()
        running.wait(LONGEST)
    (over,) = loops(tmp_path)
    times = [str(one) for one in (row["started_at"], held["suspended_at"], over["ended_at"])]
    assert row["ended_at"] is None
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one) for one in times)
    assert times == sorted(times)


def test_a_loop_whose_process_was_killed_is_listed_as_crashed(tmp_path: Path) -> None:
    with gate(tmp_path / "began") as began:
        loop_project(tmp_path, f"echo now > '{tmp_path}/began'; exec sleep 5")
        with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
            heard(began)
            (row,) = loops(tmp_path)
            assert (row["status"], row["process_alive"], row["iteration"]) == ("running", True, 1)
            running.kill()
            running.wait(LONGEST)
    (row,) = loops(tmp_path)
    assert (row["status"], row["process_alive"]) == ("crashed", False)
    assert f"its process is gone; 'tenter loop resume {row['loop_id']}'" in tenter("loop", "list", cwd=tmp_path).out


def test_a_question_is_listed_with_how_to_answer_it(tmp_path: Path) -> None:
    ask = json.dumps({"question": "go\nahead?\x1b[31m", "options": ["yes", "no"]})
    loop_project(tmp_path, f"{EMIT} human.interact --json '{ask}'")
    with started("loop", "run", "--prompt", "do it", cwd=tmp_path) as running:
        row = wait_for(tmp_path, lambda row: row["question"] is not None)
        shown = tenter("loop", "list", cwd=tmp_path).out
        running.terminate()
        running.wait(LONGEST)
    question = cast("Mapping[str, object]", row["question"])
    assert (question["question"], question["options"]) == ("go\nahead?\x1b[31m", ["yes", "no"])
    assert f"  asks: go ahead?\\x1b[31m (yes / no); 'tenter loop answer {row['loop_id']} TEXT' answers it\n" in shown


def test_why_a_loop_failed_is_listed_on_one_line_and_obeyed_by_no_terminal(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "guard", r"printf 'no\nloop loop-0000-0000\033[31m' >&2; exit 1")
    run_loop(loop_project(tmp_path, DONE, hooks={"loop.start.pre": [hook]}))
    shown = tenter("loop", "list", "--all", cwd=tmp_path).out
    assert len(shown.splitlines()) == 2
    assert "  blocked: the hook 'guard' blocked it" in shown
    assert "\x1b" not in shown


def test_secrets_of_each_loop_are_masked(tmp_path: Path) -> None:
    hook = command_hook(tmp_path, "guard", "echo 'no opensesame here' >&2; exit 1")
    loop_project(tmp_path, DONE, hooks={"loop.start.pre": [hook]}, spec={"secrets": ["PLAIN_NAME"]})
    tenter("loop", "run", "--prompt", "open with opensesame", cwd=tmp_path)
    for words in (("list", "--all"), ("list", "--all", "--json")):
        shown = tenter("loop", *words, cwd=tmp_path, PLAIN_NAME="opensesame").out
        assert "open with [redacted]" in shown
        assert "opensesame" not in shown


def test_the_loops_of_another_repository_are_listed_by_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    run_loop(loop_project(tmp_path / "project", DONE))
    (tmp_path / "elsewhere").mkdir()
    words = ("loop", "list", "--all", "--config", "../project/tenter.yaml")
    assert "completed" in tenter(*words, cwd=tmp_path / "elsewhere").out
    done = tenter("loop", "list", "--config", "nowhere.yaml", cwd=tmp_path)
    assert done.code == 2
    assert "there is no configuration 'nowhere.yaml'" in done.err
