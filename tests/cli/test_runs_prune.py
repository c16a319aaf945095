"""`tenter runs prune` takes away what ended long ago, and nothing that anybody may still need."""

import json
import time
from pathlib import Path

import pytest
from tests.commandline import run_json, tenter
from tests.journaled import begun, journal, request, result, waiting

from tenter.cli.inside import INSIDE


async def project(folder: Path) -> Path:
    """Runs that ended in 1970, that ended now, that wait, and one without an end."""
    return await journal(
        folder,
        ("old", [begun(), result("completed")]),
        ("new", [begun(), result("completed", at=time.time())]),
        ("waits", waiting(request("waits"))),
        ("runs", [begun()]),
    )


def left(folder: Path) -> list[str]:
    return sorted(row["run_id"] for row in json.loads(tenter("runs", "list", "--json", cwd=folder).out))


async def test_what_ended_before_is_removed_and_nothing_else(tmp_path: Path) -> None:
    await project(tmp_path)
    done = tenter("runs", "prune", "--older-than", "1", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 run (2 entries, ")
    assert done.out.endswith(" bytes) removed\n")
    assert left(tmp_path) == ["new", "runs", "waits"]


async def test_a_dry_run_takes_nothing_away_and_anybody_may_do_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await project(tmp_path)
    monkeypatch.setenv(INSIDE[0], "1")
    done = tenter("runs", "prune", "--older-than", "1", "--dry-run", cwd=tmp_path)
    assert (done.code, done.out.split(" bytes")[1]) == (0, ") would be removed\n")
    assert left(tmp_path) == ["new", "old", "runs", "waits"]


async def test_what_is_erased_still_verifies(tmp_path: Path) -> None:
    await project(tmp_path)
    told = run_json("runs", "prune", "--older-than", "1", "--erase", cwd=tmp_path)
    assert (told["runs"], told["erased"], told["dry_run"]) == (1, True, False)
    assert left(tmp_path) == ["new", "old", "runs", "waits"]
    assert tenter("runs", "verify", "old", cwd=tmp_path).code == 0
    assert tenter("runs", "verify", cwd=tmp_path).out.endswith("hold; the content of 2 entries was erased\n")
    assert tenter("runs", "show", "old", cwd=tmp_path).code == 0


async def test_a_run_whose_key_was_not_given_is_not_erased_and_that_is_said(tmp_path: Path) -> None:
    key = "not to be guessed 0123456789"
    await journal(tmp_path, ("keyed", [begun(), result("completed")]), key=key.encode())
    for dry, would in (("--dry-run", "would be "), ("--erase", "")):
        done = tenter("runs", "prune", "--older-than", "1", "--erase", dry, cwd=tmp_path)
        assert done.code == 1
        assert done.out.startswith("0 runs (0 entries, 0 bytes)")
        assert done.err == (
            f"1 run {would}left, chained under a key that was not given; set TENTER_JOURNAL_KEY to it\n"
        )
    done = tenter("runs", "prune", "--older-than", "1", "--erase", "--json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)["left"], done.err) == (1, 1, "")
    given = tenter("runs", "prune", "--older-than", "1", "--erase", cwd=tmp_path, TENTER_JOURNAL_KEY=key)
    assert (given.code, given.err) == (0, "")
    assert tenter("runs", "verify", cwd=tmp_path, TENTER_JOURNAL_KEY=key).code == 0


@pytest.mark.parametrize("inside", INSIDE)
async def test_inside_a_run_or_a_loop_nothing_is_removed(
    inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await project(tmp_path)
    monkeypatch.setenv(inside, "1")
    done = tenter("runs", "prune", "--older-than", "0", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert f"{inside} is set" in done.err
    assert len(left(tmp_path)) == 4


@pytest.mark.parametrize("days", ["-1", "soon", "nan"])
async def test_a_number_of_days_is_needed(days: str, tmp_path: Path) -> None:
    await project(tmp_path)
    assert tenter("runs", "prune", "--older-than", days, cwd=tmp_path).code == 2
    assert tenter("runs", "prune", cwd=tmp_path).code == 2


@pytest.mark.parametrize("named", ["..", "inner", "."])
async def test_of_a_folder_nothing_is_removed(named: str, tmp_path: Path) -> None:
    (tmp_path / "here" / "inner").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "here", tmp_path / "here" / "inner"):
        await project(folder)
    done = tenter("runs", "prune", "--older-than", "0", "-c", named, cwd=tmp_path / "here")
    assert (done.code, done.out) == (2, "")
    assert f"'{named}' is not a regular file; name the project's file with --config" in done.err
    for folder in (tmp_path, tmp_path / "here", tmp_path / "here" / "inner"):
        assert left(folder) == ["new", "old", "runs", "waits"]


async def test_a_verb_that_reads_refuses_a_folder_too_and_says_so_in_json(tmp_path: Path) -> None:
    await project(tmp_path)
    (tmp_path / "inner").mkdir()
    for verb in (("runs", "list"), ("runs", "verify"), ("approvals", "list"), ("hooks", "log"), ("loop", "list")):
        done = tenter(*verb, "-c", "inner", "--json", cwd=tmp_path)
        assert done.code == 2, verb
        assert json.loads(done.out)["error"]["message"].startswith("'inner' is not a regular file"), verb
