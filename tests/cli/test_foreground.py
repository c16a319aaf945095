"""What `tenter run` and `tenter resume` have in common: how a run in this process is shown, and what it ends with."""

from pathlib import Path
from typing import get_args

import pytest
from tests.commandline import calls, on_terminal, tenter, write_project
from tests.waiting import ACT, waiting_project

from tenter.catalogue import Status
from tenter.cli.foreground import EXIT_CODES, Words

KEY = "not to be guessed 0123456789"


def words(*, steps: bool | None = None, as_json: bool = False) -> Words:
    return Words(config="tenter.yaml", workspace=None, steps=steps, as_json=as_json)


def test_every_status_has_its_exit_code() -> None:
    assert EXIT_CODES.keys() == set(get_args(Status))
    assert {status: code for status, code in EXIT_CODES.items() if code != 1} == {
        "completed": 0,
        "blocked": 3,
        "awaiting_approval": 4,
        "escalated": 5,
    }


def test_steps_are_shown_where_they_are_asked_for() -> None:
    assert words(steps=True, as_json=True).shows_steps
    assert not words(steps=False).shows_steps
    assert not words().shows_steps, "in a pipe, as tests are run"


@pytest.mark.promise(4)
def test_the_key_of_the_journal_is_masked_like_a_told_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENTER_JOURNAL_KEY", KEY)
    write_project(tmp_path, [calls("shell", command=f"echo {KEY}"), {"text": f"It is {KEY}"}])
    for arguments in (("--steps",), ("--json",)):
        done = tenter("run", "job", *arguments, cwd=tmp_path)
        assert done.code == 0
        assert KEY not in done.out + done.err
        assert "It is [redacted]" in done.out
    for arguments in (("runs", "show", run_id(tmp_path)), ("runs", "show", run_id(tmp_path), "--json")):
        done = tenter(*arguments, cwd=tmp_path)
        assert done.code == 0
        assert KEY not in done.out


def run_id(folder: Path) -> str:
    done = tenter("runs", "list", "--last", "1", cwd=folder)
    return done.out.split()[0]


def test_the_steps_after_a_question_are_shown_like_those_before_it(tmp_path: Path) -> None:
    waiting_project(tmp_path)
    with on_terminal("run", "job", cwd=tmp_path, piped_out=True, NO_COLOR="1") as terminal:
        before = terminal.wait_for("l(ater)?\n> ")
        terminal.type("a\n")
        terminal.wait_for("why? (Enter: no reason)\n> ")
        terminal.type("\n")
        done = terminal.end()
    assert (done.code, done.out) == (0, "done\n")
    after = done.err.removeprefix(before)
    assert f'tool     shell(command="{ACT}")' in before
    assert "  ok     exit code 0" in after
    assert "model    done" in after
    assert done.err.count("what the hooks did:") == 1
    assert done.err.count("completed in ") == 1
