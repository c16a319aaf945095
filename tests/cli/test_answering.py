"""On a terminal a person is asked then and there for what a run waits for."""

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.commandline import Ended, Terminal, calls, on_terminal, tenter, write_project
from tests.waiting import ACT, acted, decisions, states, statuses, suspends, wait_for_expiry, waiting_project

from tenter.cli.answering import QUESTION, UNDERSTOOD, WITHOUT_EDIT
from tenter.cli.decisions import login_name

ASKED = f"{QUESTION}\n> "
WHY = "why? (Enter: no reason)\n> "
EDIT = "its new value, JSON or text? (Enter: as it is)\n> "


def answered(folder: Path, script: Sequence[tuple[str, str]], *arguments: str) -> Ended:
    """Runs the task on a terminal and types each answer when its question is there."""
    with on_terminal("run", "job", "--no-steps", *arguments, cwd=folder, piped_out=True) as terminal:
        for question, answer in script:
            terminal.wait_for(question)
            terminal.shown = terminal.shown.partition(question)[2]
            terminal.type(answer)
        return terminal.end()


def decision_of(folder: Path) -> Any:
    (row,) = decisions(folder)
    return row["decision"]


def test_what_is_approved_goes_on_at_once(tmp_path: Path) -> None:
    done = answered(waiting_project(tmp_path), [(ASKED, "a\n"), (WHY, "it is right\n")])
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert f"approved by {login_name()} at " in done.err
    decision = decision_of(tmp_path)
    assert (decision["decision"], decision["by"], decision["reason"]) == ("approve", login_name(), "it is right")
    assert (acted(tmp_path), statuses(tmp_path)) == (1, ["completed"])


def test_the_exact_call_and_every_reason_stand_above_the_question(tmp_path: Path) -> None:
    with on_terminal("run", "job", cwd=waiting_project(tmp_path)) as terminal:
        shown = terminal.wait_for(ASKED)
    assert f'"command":"{ACT}"' in shown
    assert "asked by 'ask': it acts\n" in shown
    assert states(tmp_path) == ["open"]


def test_what_is_rejected_ends_blocked(tmp_path: Path) -> None:
    done = answered(waiting_project(tmp_path), [(ASKED, "reject\n"), (WHY, "not today\n")])
    assert (done.code, done.out) == (3, "")
    assert (acted(tmp_path), states(tmp_path), statuses(tmp_path)) == (0, ["rejected"], ["blocked"])


def test_an_edit_asks_for_each_field_and_why(tmp_path: Path) -> None:
    waiting_project(tmp_path, calls("shell", command="rm -rf x"), {"text": "done"})
    script = [(ASKED, "e\n"), (f'command is "rm -rf x"; {EDIT}', f"{ACT}\n"), (WHY, "\n")]
    done = answered(tmp_path, script)
    assert (done.code, done.out) == (0, "done\n"), done.err
    assert decision_of(tmp_path)["edits"] == {"command": ACT}
    assert acted(tmp_path) == 1


def test_an_edit_of_nothing_asks_again(tmp_path: Path) -> None:
    done = answered(
        waiting_project(tmp_path), [(ASKED, "e\n"), (EDIT, "\n"), (WHY, "\n"), ("nothing was edited\n" + ASKED, "l\n")]
    )
    assert (done.code, states(tmp_path)) == (4, ["open"])


def test_what_may_not_be_edited_is_not_offered(tmp_path: Path) -> None:
    waiting_project(tmp_path, editable=[])
    done = answered(tmp_path, [(f"{WITHOUT_EDIT}\n> ", "a\n"), (WHY, "\n")])
    assert (done.code, acted(tmp_path)) == (0, 1)


@pytest.mark.parametrize("typed", ["l\n", "later\n", "\x04"])
def test_who_decides_later_leaves_the_request_open(typed: str, tmp_path: Path) -> None:
    done = answered(waiting_project(tmp_path), [(ASKED, typed)])
    assert (done.code, done.out) == (4, "")
    assert "tenter approvals approve " in done.err
    assert (acted(tmp_path), states(tmp_path), statuses(tmp_path)) == (0, ["open"], ["awaiting_approval"])


def test_who_closes_the_input_at_the_reason_decided_nothing(tmp_path: Path) -> None:
    done = answered(waiting_project(tmp_path), [(ASKED, "a\n"), (WHY, "\x04")])
    assert (done.code, states(tmp_path), acted(tmp_path)) == (4, ["open"], 0)


@pytest.mark.parametrize(
    ("number", "code", "says"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended by SIGTERM")]
)
def test_who_interrupts_the_question_leaves_the_request_open(
    number: signal.Signals, code: int, says: str, tmp_path: Path
) -> None:
    with on_terminal("run", "job", cwd=waiting_project(tmp_path)) as terminal:
        terminal.wait_for(ASKED)
        terminal.process.send_signal(number)
        done = terminal.end()
    assert done.code == code
    assert re.search(r"it waits; nothing more was decided; 'tenter resume [0-9a-f]{16}' asks again", done.err)
    assert says in done.err
    assert "cancelled" not in done.err
    assert "Traceback" not in done.err
    assert (states(tmp_path), statuses(tmp_path)) == (["open"], ["awaiting_approval"])


def test_a_word_that_means_nothing_is_asked_again(tmp_path: Path) -> None:
    again = f"{UNDERSTOOD}\n{ASKED}"
    words = [(ASKED, "h\n"), (again, "?\n"), (again, "\n"), (again, "approved\n"), (again, "APP\n"), (WHY, "\n")]
    done = answered(waiting_project(tmp_path), words)
    assert (done.code, acted(tmp_path)) == (0, 1)


@pytest.mark.parametrize(("word", "code", "acts"), [("y", 0, 1), ("YES", 0, 1), ("n", 3, 0), ("no", 3, 0)])
def test_yes_approves_and_no_rejects(word: str, code: int, acts: int, tmp_path: Path) -> None:
    done = answered(waiting_project(tmp_path), [(ASKED, f"{word}\n"), (WHY, "\n")])
    assert (done.code, acted(tmp_path)) == (code, acts)


def test_every_suspended_call_is_asked_for_in_turn(tmp_path: Path) -> None:
    turns = (calls("shell", command=ACT), calls("shell", command=f"{ACT}; true"), {"text": "done"})
    done = answered(waiting_project(tmp_path, *turns), [(ASKED, "a\n"), (WHY, "\n")] * 2)
    assert (done.code, done.out) == (0, "done\n")
    assert (acted(tmp_path), states(tmp_path)) == (2, ["approved", "approved"])


def test_what_was_decided_before_somebody_left_is_not_said_to_wait(tmp_path: Path) -> None:
    call = {"name": "shell", "arguments": {"command": ACT}}
    task = {"version": 1, "model": "default", "instructions": "x", "tools": ["shell"], "parallel_tools": True}
    turns = [{"tool_calls": [call, {**call, "arguments": {"command": f"{ACT}; true"}}]}, {"text": "done"}]
    write_project(tmp_path, turns, events={"tool.before": [suspends()]}, tasks={"job": task})
    done = answered(tmp_path, [(ASKED, "a\n"), (WHY, "\n"), (ASKED, "l\n")], "--json")
    told = json.loads(done.out)
    assert (done.code, sorted(map(str, states(tmp_path)))) == (4, ["approved", "open"])
    assert told["approvals"] == [row for row in decisions(tmp_path) if row["state"] == "open"]
    assert told["approval"] == told["approvals"][0]


def test_the_summary_counts_what_was_asked_and_what_was_approved_of_all_that_was_seen(tmp_path: Path) -> None:
    with on_terminal("run", "job", cwd=waiting_project(tmp_path)) as terminal:
        for question, answer in ((ASKED, "a\n"), (WHY, "\n")):
            terminal.wait_for(question)
            terminal.type(answer)
        done = terminal.end()
    assert f"ask  asked for a person 1x, wanted a person: approved by {login_name()} 1x  (" in done.err


def test_of_parallel_calls_one_is_rejected_and_the_others_are_not_asked_for(tmp_path: Path) -> None:
    call = {"name": "shell", "arguments": {"command": ACT}}
    task = {"version": 1, "model": "default", "instructions": "x", "tools": ["shell"], "parallel_tools": True}
    turns = [{"tool_calls": [call, {**call, "arguments": {"command": f"{ACT}; true"}}]}, {"text": "done"}]
    write_project(tmp_path, turns, events={"tool.before": [suspends()]}, tasks={"job": task})
    done = answered(tmp_path, [(ASKED, "r\n"), (WHY, "\n")])
    assert done.code == 3, done.err
    assert (acted(tmp_path), sorted(map(str, states(tmp_path)))) == (0, ["rejected", "withdrawn"])


def elsewhere(folder: Path, terminal: Terminal, verb: str) -> None:
    terminal.wait_for(ASKED)
    (row,) = decisions(folder)
    assert tenter("approvals", verb, str(row["run_id"]), "--by", "ann", cwd=folder).code == 0


@pytest.mark.fault(45)
def test_what_was_decided_elsewhere_meanwhile_counts_and_it_is_told_by_whom(tmp_path: Path) -> None:
    with on_terminal("run", "job", "--no-steps", cwd=waiting_project(tmp_path)) as terminal:
        elsewhere(tmp_path, terminal, "reject")
        terminal.type("a\n")
        terminal.wait_for(WHY)
        terminal.type("\n")
        done = terminal.end()
    assert "was rejected already by 'ann' at " in done.err
    assert (done.code, acted(tmp_path)) == (3, 0)


def test_a_run_that_somebody_brought_to_its_end_meanwhile_is_no_mistake_of_who_is_asked(tmp_path: Path) -> None:
    with on_terminal("run", "job", "--no-steps", cwd=waiting_project(tmp_path)) as terminal:
        elsewhere(tmp_path, terminal, "reject")
        assert tenter("resume", str(decisions(tmp_path)[0]["run_id"]), cwd=tmp_path).code == 3
        terminal.type("a\n")
        terminal.wait_for(WHY)
        terminal.type("\n")
        done = terminal.end()
    assert "is over: it ended blocked" in done.err
    assert (done.code, acted(tmp_path)) == (1, 0)


def test_an_answer_that_comes_too_late_is_none(tmp_path: Path) -> None:
    with on_terminal("run", "job", cwd=waiting_project(tmp_path, expires_in=1.0)) as terminal:
        terminal.wait_for(ASKED)
        wait_for_expiry(tmp_path)
        terminal.type("a\n")
        terminal.wait_for(WHY)
        terminal.type("\n")
        done = terminal.end()
    assert " expired at " in done.err
    assert (done.code, acted(tmp_path), states(tmp_path)) == (3, 0, ["expired"])


@pytest.mark.promise(10)
def test_what_a_tool_started_asks_nobody_even_on_a_terminal(tmp_path: Path) -> None:
    with on_terminal("run", "job", cwd=waiting_project(tmp_path), TENTER_TOOL_CALL="1") as terminal:
        done = terminal.end()
    assert (done.code, acted(tmp_path), states(tmp_path)) == (4, 0, ["open"])
    assert QUESTION not in done.err


def test_in_a_pipe_nobody_is_asked(tmp_path: Path) -> None:
    done = tenter("run", "job", cwd=waiting_project(tmp_path), stdin=b"a\n\n")
    assert (done.code, acted(tmp_path)) == (4, 0)
    assert QUESTION not in done.err


def test_the_document_of_a_run_that_was_asked_for_is_on_standard_output_alone(tmp_path: Path) -> None:
    done = answered(waiting_project(tmp_path), [(ASKED, "a\n"), (WHY, "\n")], "--json")
    assert (done.code, json.loads(done.out)["status"]) == (0, "completed")


@pytest.mark.promise(4)
def test_a_secret_in_a_new_value_is_refused_and_asked_for_again(tmp_path: Path) -> None:
    waiting_project(tmp_path)
    key = "ghp_" + "a1B2" * 9
    refused = "holds a secret, which would stand on record"
    script = [(ASKED, "e\n"), (EDIT, f"echo {key}\n"), (WHY, "\n"), (refused, ""), (ASKED, "l\n")]
    done = answered(tmp_path, script)
    assert (done.code, states(tmp_path)) == (4, ["open"])
