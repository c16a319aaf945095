"""`tenter approvals`: what its verbs have in common."""

from pathlib import Path
from typing import Any

import pytest
from tests.commandline import run_json, tenter, write_project
from tests.journaled import begun, journal
from tests.waiting import project_with_a_sub_run

from tenter.cli.approvals_rows import RequestRow

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


def test_a_request_has_one_shape_in_the_json_of_every_verb(tmp_path: Path) -> None:
    project_with_a_sub_run(tmp_path)
    ran: Any = run_json("run", "job", cwd=tmp_path)
    run_id = ran["run_id"]
    told = {
        "run": ran["approvals"],
        "resume": json_of(tmp_path, "resume", run_id)["approvals"],
        "runs show": json_of(tmp_path, "runs", "show", run_id)["approvals"],
        "list": json_of(tmp_path, "approvals", "list")["approvals"],
        "show": json_of(tmp_path, "approvals", "show", run_id)["approvals"],
    }
    assert [ran["approval"], json_of(tmp_path, "runs", "show", run_id)["approval"]] == ran["approvals"] * 2
    ((request,), *others) = told.values()
    assert set(request) == set(RequestRow.__struct_fields__)
    assert (request["run_id"], request["state"], request["decision"]) == (run_id, "open", None)
    assert request["asking_run_id"] not in (run_id, "")
    assert request["editable"] == {"command": "echo acted >> acted"}
    assert others == [[request]] * 4, told
    decided = json_of(tmp_path, "approvals", "approve", run_id, "--by", "ann")["approval"]
    assert json_of(tmp_path, "approvals", "list", "--all")["approvals"] == [decided]
    same = {name: value for name, value in decided.items() if name not in ("state", "decision")}
    assert same.items() <= request.items()
    assert (decided["state"], decided["decision"]["by"]) == ("approved", "ann")


def json_of(folder: Path, *arguments: str) -> Any:
    return run_json(*arguments, cwd=folder)
