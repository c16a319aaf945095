"""`tenter runs verify` finds what was changed, and what was cut off where the head is known from elsewhere."""

import asyncio
import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from tests.commandline import calls, run_json, tenter, write_project
from tests.journal.world import opened
from tests.journaled import begun, journal, result
from tests.waiting import project_with_a_sub_run, wait, waiting_project

from tenter.cli import runs_verify
from tenter.cli.runs_verify import verify_verb
from tenter.journal import JournalError, SqliteStore, Store, Stream, Verified

SECRET = "not to be guessed 0123456789"


def changed(folder: Path, statement: str, *values: object) -> None:
    """Changes the journal behind its back."""
    with closing(sqlite3.connect(folder / ".tenter" / "journal.db")) as database, database:
        assert database.execute(statement, values).rowcount > 0


async def two_runs(folder: Path, key: bytes | None = None) -> Path:
    runs = (("a1", [begun(), result("completed")]), ("b2", [begun(), result("failed")]))
    return await journal(folder, *runs, key=key)


async def test_a_record_that_is_as_it_was_written_holds(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    done = tenter("runs", "verify", "a", cwd=tmp_path)
    head = run_json("runs", "show", "a1", cwd=tmp_path)["journal_head"]
    assert (done.code, done.err) == (0, "")
    assert done.out == f"run a1: holds, 2 entries, chained without a key, journal head {head}\n"
    assert tenter("runs", "verify", cwd=tmp_path).out == "2 runs, all of them hold\n"
    told = run_json("runs", "verify", cwd=tmp_path)
    assert told["holds"] is True
    assert [run["run_id"] for run in cast("list[dict[str, object]]", told["runs"])] == ["b2", "a1"]


async def test_a_changed_entry_is_named_and_ends_with_1(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    changed(
        tmp_path, "UPDATE entries SET time = time + 1 WHERE id = (SELECT min(id) FROM entries WHERE kind = 'result')"
    )
    done = tenter("runs", "verify", "a1", cwd=tmp_path)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("run a1: entry 2 does not hold: ")
    every = tenter("runs", "verify", cwd=tmp_path)
    assert every.code == 1
    assert every.out.splitlines()[1:] == ["2 runs, 1 of them does not hold"]
    told = json.loads(tenter("runs", "verify", "--json", cwd=tmp_path).out)
    assert (told["holds"], [run["holds"] for run in told["runs"]]) == (False, [True, False])
    assert tenter("runs", "verify", "b2", cwd=tmp_path).code == 0


@pytest.mark.fault(36)
def test_the_head_that_a_run_ended_with_is_where_its_record_ends(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="true"), {"text": "done"}])
    ended = run_json("run", "job", cwd=tmp_path)
    run_id, head = str(ended["run_id"]), str(ended["journal_head"])
    assert tenter("runs", "verify", run_id, "--expect", head, cwd=tmp_path).code == 0
    wrong = tenter("runs", "verify", run_id, "--expect", "sha256:" + "0" * 64, cwd=tmp_path)
    assert wrong.code == 1
    assert "the expected head " in wrong.out


def test_the_status_of_a_run_tells_its_head(tmp_path: Path) -> None:
    done = tenter("run", "job", cwd=write_project(tmp_path, [{"text": "done"}]))
    head = done.err.split("journal head ")[1].split()[0]
    assert tenter("runs", "verify", "--json", cwd=tmp_path).out.count(head) == 1


@pytest.mark.promise(4)
async def test_a_record_under_a_key_holds_only_with_that_key_and_none_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two_runs(tmp_path, key=SECRET.encode())
    done = tenter("runs", "verify", "a1", cwd=tmp_path, TENTER_JOURNAL_KEY=SECRET)
    assert done.code == 0
    assert "chained under the key" in done.out
    every = tenter("runs", "verify", cwd=tmp_path, TENTER_JOURNAL_KEY=SECRET)
    assert every.out == "2 runs, all of them hold; 2 chained under the key\n"
    for wrong in ("", SECRET + "!"):
        monkeypatch.setenv("TENTER_JOURNAL_KEY", wrong) if wrong else monkeypatch.delenv("TENTER_JOURNAL_KEY", False)
        done = tenter("runs", "verify", cwd=tmp_path)
        assert done.code == 1
        assert "TENTER_JOURNAL_KEY" in done.out
        assert "not hold" not in done.out
        assert done.out.splitlines()[-1] == "2 runs, 2 of them cannot be checked without the key"
        told = json.loads(tenter("runs", "verify", "--json", cwd=tmp_path).out)
        assert (told["holds"], [run["holds"] for run in told["runs"]]) == (False, [None, None])
        assert SECRET not in done.out + done.err
    short = tenter("runs", "list", cwd=tmp_path, TENTER_JOURNAL_KEY="short")
    assert (short.code, short.out) == (2, "")
    assert "at least 16" in short.err


async def test_a_run_that_went_on_since_a_head_holds_and_says_so(tmp_path: Path) -> None:
    entries = [begun(), result("completed")]
    await journal(tmp_path, ("a1", entries[:1]))
    head = str(run_json("runs", "show", "a1", cwd=tmp_path)["journal_head"])
    await journal(tmp_path, ("a1", entries[1:]))
    done = tenter("runs", "verify", "a1", "--expect", head, cwd=tmp_path)
    assert done.code == 0
    assert done.out.endswith("; it went on since that head, entry 1\n")


@pytest.mark.fault(36)
async def test_a_listing_that_differs_from_the_record_is_told(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    changed(tmp_path, "UPDATE streams SET status = 'completed' WHERE id = 'b2'")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    assert done.out.splitlines()[0] == "run b2: the listing has status 'completed', and the record 'failed'"
    changed(tmp_path, "DELETE FROM streams WHERE id = 'b2'")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    assert done.out == "the journal has the entries of 1 stream that no listing shows\n1 run, it holds\n"
    told = json.loads(tenter("runs", "verify", "--json", cwd=tmp_path).out)
    assert (told["holds"], told["strays"]) == (False, {"streams": 1, "requests": 0, "doomed": 0})
    changed(tmp_path, "INSERT INTO pruned SELECT number FROM streams WHERE id = 'a1'")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    assert done.out.splitlines()[1] == "the next pruning would delete 1 stream that nobody asked it to delete"


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("id = 'gone'", "is listed, and not on record"),
        ("run = 'gone'", "is on record, and not listed"),
        ("root = 'gone'", "is listed below the run 'gone', and is below "),
        ("time = time + 1", "is listed in another place than its time on record gives it"),
        ("state = 'approved'", "is listed as approved, and is open on record"),
        ("asked = asked - 1", "is listed with another content than it has on record"),
        ("decided = asked", "is listed with another decision than it has on record"),
    ],
)
def test_a_request_that_is_found_by_other_words_than_its_own_is_told(change: str, told: str, tmp_path: Path) -> None:
    run_id = wait(waiting_project(tmp_path))
    assert tenter("runs", "verify", run_id, cwd=tmp_path).code == 0
    changed(tmp_path, f"UPDATE approvals SET {change}")
    one, every = tenter("runs", "verify", run_id, cwd=tmp_path), tenter("runs", "verify", cwd=tmp_path)
    for done in (one, every):
        assert done.code == 1
        assert done.out.startswith(f"run {run_id}: the request ")
        assert told in done.out


@pytest.mark.fault(36)
async def test_a_run_that_is_listed_as_something_else_is_told(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    changed(tmp_path, "UPDATE streams SET kind = 'session' WHERE id = 'b2'")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    first, last = done.out.splitlines()
    assert first.startswith("session b2: entry 1 does not hold: its hash is not that of the chain")
    assert last == "1 run, it holds; 1 of 1 other record not found to hold"
    (other,) = json.loads(tenter("runs", "verify", "--json", cwd=tmp_path).out)["others"]
    assert (other["kind"], other["id"], other["holds"], other["entries"]) == ("session", "b2", False, 0)


@pytest.mark.fault(36)
async def test_what_is_on_record_beside_runs_is_checked_too(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    async with opened(SqliteStore(tmp_path / ".tenter" / "journal.db")) as store:
        await store.append(Stream("loop", "l1"), [begun(), result("failed")])
    assert tenter("runs", "verify", cwd=tmp_path).out == "2 runs, all of them hold\n"
    changed(tmp_path, "UPDATE streams SET status = 'completed' WHERE id = 'l1'")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    assert done.out.splitlines() == [
        "loop l1: the listing has status 'completed', and the record 'failed'",
        "2 runs, all of them hold; 1 of 1 other record not found to hold",
    ]


@pytest.mark.fault(36)
async def test_a_file_whose_tables_were_changed_is_told(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    with closing(sqlite3.connect(tmp_path / ".tenter" / "journal.db")) as database:
        database.execute("DROP INDEX approvals_by_run")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    told = "other tables, indexes or triggers than tenter makes: approvals_by_run"
    assert done.out.splitlines() == [
        f"the journal's file is damaged, or was changed: {told}",
        "2 runs, all of them hold",
    ]
    document = json.loads(tenter("runs", "verify", "--json", cwd=tmp_path).out)
    assert (document["holds"], document["unsound"]) == (False, told)


@pytest.mark.fault(36)
async def test_a_number_that_no_stream_was_given_is_told_and_is_no_crash(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    changed(tmp_path, "UPDATE streams SET number = 1 << 40 WHERE id = 'b2'")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert (done.code, done.err) == (1, "")
    assert "a number in its tables is none that was ever given" in done.out


@pytest.mark.fault(36)
async def test_content_that_was_taken_away_by_hand_is_told_from_what_was_erased(tmp_path: Path) -> None:
    await two_runs(tmp_path)
    assert tenter("runs", "prune", "--older-than", "1", "--erase", cwd=tmp_path).code == 0
    assert tenter("runs", "verify", cwd=tmp_path).out == (
        "2 runs, all of them hold; the content of 4 entries was erased\n"
    )
    await journal(tmp_path, ("c3", [begun(), result("failed")]))
    changed(tmp_path, "UPDATE entries SET content = NULL WHERE kind = 'result' AND content IS NOT NULL")
    done = tenter("runs", "verify", cwd=tmp_path)
    assert done.code == 1
    first, last = done.out.splitlines()
    assert first == "run c3: entry 2 has no content, and no entry after it says that it was erased"
    assert last.startswith("3 runs, 1 of them does not hold; ")


@pytest.mark.parametrize("head", ["", "abc", "0" * 64, "sha256:" + "g" * 64, "sha256:" + "0" * 63])
async def test_what_is_no_head_is_not_looked_for(head: str, tmp_path: Path) -> None:
    await two_runs(tmp_path)
    done = tenter("runs", "verify", "a1", "--expect", head, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "sha256: and 64 hexadecimal digits" in done.err


def test_a_run_that_waits_with_a_sub_run_and_goes_on_holds_at_every_step(tmp_path: Path) -> None:
    run_id = wait(project_with_a_sub_run(tmp_path))
    assert tenter("runs", "verify", cwd=tmp_path).out == "2 runs, all of them hold\n"
    assert tenter("approvals", "approve", run_id, cwd=tmp_path).code == 0
    assert tenter("runs", "verify", cwd=tmp_path).out == "2 runs, all of them hold\n"
    assert tenter("resume", run_id, cwd=tmp_path).code == 0
    assert tenter("runs", "verify", cwd=tmp_path).out == "2 runs, all of them hold\n"
    waiting = wait(tmp_path)
    assert tenter("runs", "cancel", waiting, cwd=tmp_path).code == 0
    assert tenter("runs", "verify", cwd=tmp_path).out == "4 runs, all of them hold\n"


@pytest.mark.parametrize(("run_id", "code", "says"), [("", 0, "1 run, it holds\n"), ("a1", 1, "pruned meanwhile\n")])
async def test_a_run_that_is_pruned_meanwhile_is_no_fault_of_the_journal(
    run_id: str,
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]), ("b2", [begun()]))
    looked = runs_verify.verified

    async def pruning(store: Store, stream: Stream, *, expect: str | None = None) -> Verified:
        if stream.id != "a1":
            return await looked(store, stream, expect=expect)
        await store.prune(before=2**62)
        raise JournalError("removed", "pruned meanwhile")

    monkeypatch.setattr(runs_verify, "verified", pruning)
    verb = partial(verify_verb, str(tmp_path / "tenter.yaml"), run_id, None, as_json=False)
    assert await asyncio.to_thread(verb) == code
    assert capsys.readouterr().out.endswith(says)
