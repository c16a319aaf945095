"""What was started by a run, a hook, a tool or a loop is known by its environment, and decides nothing for a person."""

import os
import subprocess
import sys

import click
import pytest

from tenter.cli.inside import INSIDE, PROCESS, inside_of, marked, refuse_inside


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
