"""`tenter approvals`: what its verbs have in common."""

from pathlib import Path

import pytest
from tests.commandline import tenter, write_project
from tests.journaled import begun, journal

VERBS = [("list",), ("show", "abc"), ("approve", "abc"), ("reject", "abc"), ("edit", "abc", "--set", "a=1")]
ABOUT_A_RUN = VERBS[1:]


@pytest.mark.parametrize("verb", VERBS)
def test_a_project_where_nothing_ran_gets_no_journal(verb: tuple[str, ...], tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "x"}])
    before = sorted(tmp_path.rglob("*"))
    done = tenter("approvals", *verb, cwd=tmp_path)
    assert (done.code, done.out) == (0 if verb == ("list",) else 2, "")
    assert ("nothing waits for a person" if verb == ("list",) else "there is no run 'abc'") in done.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_is_no_project_ends_with_2(verb: tuple[str, ...], tmp_path: Path) -> None:
    done = tenter("approvals", *verb, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "there is no configuration 'tenter.yaml'" in done.err


@pytest.mark.parametrize("verb", ABOUT_A_RUN)
async def test_a_run_that_asks_for_nothing_is_a_mistake(verb: tuple[str, ...], tmp_path: Path) -> None:
    await journal(tmp_path, ("abc", [begun()]))
    done = tenter("approvals", *verb, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "the run abc asks for nothing; 'tenter approvals list' prints what waits for a person" in done.err


@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_journal_ends_with_1_and_names_the_file(verb: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / ".tenter").mkdir()
    (tmp_path / ".tenter" / "journal.db").write_bytes(b"this is no database at all" * 400)
    done = tenter("approvals", *verb, cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "journal.db" in done.err
    assert "Traceback" not in done.err


def test_an_edit_takes_a_new_value(tmp_path: Path) -> None:
    done = tenter("approvals", "edit", "abc", cwd=write_project(tmp_path, []))
    assert (done.code, done.out) == (2, "")
    assert "--set" in done.err
