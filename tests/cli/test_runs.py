"""`tenter runs`: what its verbs have in common."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.commandline import tenter, write_project
from tests.journaled import begun, journal

VERBS = [("list",), ("show", "abc"), ("cancel", "abc"), ("verify",), ("verify", "abc"), ("prune", "--older-than", "1")]
WITHOUT_A_RUN: Mapping[tuple[str, ...], str] = {
    ("list",): "no runs yet",
    ("verify",): "0 runs",
    ("prune", "--older-than", "1"): "0 runs",
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_project_where_nothing_ran_gets_no_journal(verb: tuple[str, ...], tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "x"}])
    before = sorted(tmp_path.rglob("*"))
    done = tenter("runs", *verb, cwd=tmp_path)
    assert done.code == (0 if verb in WITHOUT_A_RUN else 2)
    assert WITHOUT_A_RUN.get(verb, "there is no run 'abc'; 'tenter runs list' prints them") in done.out + done.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_is_no_project_ends_with_2(verb: tuple[str, ...], tmp_path: Path) -> None:
    done = tenter("runs", *verb, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "tenter.yaml" in done.err


async def test_an_ambiguous_or_unknown_run_ends_with_2(tmp_path: Path) -> None:
    await journal(tmp_path, ("ab1", [begun()]), ("ab2", [begun()]))
    for verb in ("show", "cancel", "verify"):
        done = tenter("runs", verb, "ab", cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert "'ab' begins 2 run ids (ab2, ab1); give more of it" in done.err
        done = tenter("runs", verb, "zz", cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert "there is no run 'zz'; 'tenter runs list' prints them" in done.err


@pytest.mark.parametrize("verb", [("list",), ("list", "--json"), ("show", "a"), ("verify",), ("verify", "a")])
def test_a_damaged_journal_ends_with_1_and_names_the_file_and_what_to_do(verb: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / ".tenter").mkdir()
    (tmp_path / ".tenter" / "journal.db").write_bytes(b"this is no database at all" * 400)
    done = tenter("runs", *verb, cwd=tmp_path)
    assert (done.code, [*json.loads(done.out or "{}")]) == (1, ["error"] if "--json" in verb else [])
    assert "journal.db" in done.err
    assert "move it away" in done.err
    assert "Traceback" not in done.err


def test_to_verify_against_a_head_takes_a_run(tmp_path: Path) -> None:
    done = tenter("runs", "verify", "--expect", "sha256:0", cwd=write_project(tmp_path, []))
    assert (done.code, done.out) == (2, "")
    assert "name the run, too" in done.err
