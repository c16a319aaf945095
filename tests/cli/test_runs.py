"""`tenter runs` tells what is on record, whatever became of the run, and changes nothing."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import cast

import pytest
from tests.commandline import LONGEST, calls, gate, heard, run_json, started, tenter, write_project

from tenter.cli.runs import passes
from tenter.journal import Entry, Recorded, SqliteStore, Stream

KEY = "ghp_" + "a1B2" * 9
HOSTILE = "no\nrun 1\x1b[31m\u202e\u2028end"


async def journal(folder: Path, *streams: tuple[str, list[Entry]]) -> None:
    """A project whose journal holds these runs."""
    (folder / "tenter.yaml").write_text("version: 1\n")
    store = SqliteStore(folder / ".tenter" / "journal.db")
    for run_id, entries in streams:
        await store.append(Stream("run", run_id), entries)
    await store.close()


def entry(kind: str, at: float = 0.0, **content: object) -> Entry:
    return Entry(kind=kind, time=round(at * 1_000_000), content=content)


def begun(task: str = "job") -> Entry:
    return entry("run", 1_000.0, task=task)


def result(status: str, at: float = 1_001.5, **content: object) -> Entry:
    return entry("result", at, status=status, **content)


def recorded(*entries: Entry) -> list[Recorded]:
    return [
        Recorded(stream=Stream("run", "a"), sequence=n, hash="", digest="", entry=one)
        for n, one in enumerate(entries, 1)
    ]


async def test_runs_are_listed_the_last_first_with_how_they_ended(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]), ("b2", [begun("other"), result("blocked")]))
    done = tenter("runs", "list", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["b2", "1970-01-01T00:16:40Z", "blocked", "other"],
        ["a1", "1970-01-01T00:16:40Z", "completed", "job"],
    ]


async def test_only_as_many_are_listed_as_asked_for(tmp_path: Path) -> None:
    await journal(tmp_path, *((f"r{n}", [begun(), result("completed")]) for n in range(4)))
    assert [line.split()[0] for line in tenter("runs", "list", "--last", "2", cwd=tmp_path).out.splitlines()] == [
        "r3",
        "r2",
    ]


async def test_json_lists_the_same(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]), ("b2", [begun()]))
    done = tenter("runs", "list", "--json", cwd=tmp_path)
    assert len(done.out.splitlines()) == 1
    start = "1970-01-01T00:16:40Z"
    assert json.loads(done.out) == [
        {"run_id": "b2", "task": "job", "status": "running", "started": start, "ended": None},
        {"run_id": "a1", "task": "job", "status": "completed", "started": start, "ended": "1970-01-01T00:16:41Z"},
    ]


@pytest.mark.parametrize(("verb", "code"), [("list", 0), ("show", 2)])
def test_a_project_where_nothing_ran_gets_no_journal(verb: str, code: int, tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "x"}])
    before = sorted(tmp_path.rglob("*"))
    done = tenter("runs", verb, *(["abc"] if verb == "show" else []), cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert ("no runs yet" if code == 0 else "there is no run 'abc'") in done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_no_project_ends_with_2(tmp_path: Path) -> None:
    done = tenter("runs", "list", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "there is no configuration 'tenter.yaml'" in done.err


async def test_an_ambiguous_or_unknown_run_ends_with_2(tmp_path: Path) -> None:
    await journal(tmp_path, ("ab1", [begun()]), ("ab2", [begun()]))
    done = tenter("runs", "show", "ab", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "'ab' begins 2 run ids (ab2, ab1); give more of it" in done.err
    done = tenter("runs", "show", "zz", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "there is no run 'zz'; 'tenter runs list' prints them" in done.err


@pytest.mark.parametrize("verb", [("list",), ("list", "--json"), ("show", "a")])
def test_a_damaged_journal_ends_with_1_and_names_the_file_and_what_to_do(verb: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / ".tenter").mkdir()
    (tmp_path / ".tenter" / "journal.db").write_bytes(b"this is no database at all" * 400)
    done = tenter("runs", *verb, cwd=tmp_path)
    assert (done.code, [*json.loads(done.out or "{}")]) == (1, ["error"] if "--json" in verb else [])
    assert "journal.db" in done.err
    assert "move it away" in done.err
    assert "Traceback" not in done.err


def test_a_run_is_shown_with_what_happened_in_it(tmp_path: Path) -> None:
    hook = {"name": "guard", "match": {"tool": "shell"}, "script": "echo not that >&2; exit 1", "on_error": "block"}
    turns = [calls("shell", command="rm x"), {"text": "the result"}]
    write_project(tmp_path, turns, events={"tool.before": [hook]})
    run_id = str(run_json("run", "job", cwd=tmp_path)["run_id"])
    done = tenter("runs", "show", run_id[:6], cwd=tmp_path)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:3] == [f"run_id:   {run_id}", "task:     job", "status:   completed"]
    assert "output: the result" in lines
    (stopped,) = [line for line in lines if line.startswith("  1.tool.invoked.0#1  ")]
    assert stopped.startswith("  1.tool.invoked.0#1  blocked by guard in ")
    assert stopped.endswith(": not that")
    document = run_json("runs", "show", run_id, cwd=tmp_path)
    assert (document["run_id"], document["status"], document["output"]) == (run_id, "completed", "the result")
    operations = cast("list[dict[str, object]]", document["operations"])
    (tool,) = [one for one in operations if one["path"] == "1.tool.invoked.0"]
    del tool["seconds"]
    assert tool == {
        "path": "1.tool.invoked.0",
        "pass": 1,
        "reached": "finished",
        "outcome": "blocked",
        "hook": "guard",
        "reason": "not that",
    }


def test_a_run_that_was_killed_is_listed_with_what_is_on_record(tmp_path: Path) -> None:
    write_project(tmp_path, [calls("shell", command="echo $$ > begun; exec sleep 60"), {"text": "late"}])
    with gate(tmp_path / "begun") as reading, started("run", "job", cwd=tmp_path) as process:
        tool = int(heard(reading))
        process.kill()
        process.wait(LONGEST)
        with contextlib.suppress(ProcessLookupError):
            os.kill(tool, signal.SIGKILL)  # whoever is killed cannot end what it started
    listed = tenter("runs", "list", cwd=tmp_path)
    assert listed.code == 0
    run_id, _, status, task = listed.out.split()
    assert (status, task) == ("running", "job")
    assert "no end is on record" in listed.err
    shown = tenter("runs", "show", run_id, cwd=tmp_path)
    assert shown.code == 0
    assert "no end is on record" in shown.out
    assert "  1.llm.invoked.0#1  done" in shown.out
    assert "  1.tool.invoked.0#1  acting, not finished (it may have acted)" in shown.out
    document = run_json("runs", "show", run_id, cwd=tmp_path)
    assert (document["status"], document["ended"], document["output"]) == ("running", None, None)


@pytest.mark.fault(43)
@pytest.mark.promise(4)
async def test_what_is_on_record_is_escaped_and_masked(tmp_path: Path) -> None:
    entries = [
        begun(HOSTILE),
        entry("started", 1_000, path=HOSTILE, **{"pass": 1}),
        entry(
            "finished", 1_000, path=HOSTILE, outcome="blocked", hook=HOSTILE, reason=f"{HOSTILE} {KEY}", **{"pass": 1}
        ),
        result(HOSTILE, output=f"{HOSTILE} {KEY}", error={"message": "password: hunter2hunter2"}),
    ]
    await journal(tmp_path, ("a1", entries))
    for arguments in (("list",), ("show", "a1"), ("list", "--json"), ("show", "a1", "--json")):
        done = tenter("runs", *arguments, cwd=tmp_path)
        assert done.code == 0
        assert all(line.isprintable() for line in done.out.splitlines()), arguments
        assert KEY not in done.out
        assert "hunter2hunter2" not in done.out
    assert len(tenter("runs", "list", cwd=tmp_path).out.splitlines()) == 1
    assert not [
        line for line in tenter("runs", "show", "a1", cwd=tmp_path).out.splitlines() if line.startswith("run 1")
    ]


def test_a_pass_that_did_not_finish_says_how_far_it_came() -> None:
    place = {"path": "1.tool.invoked.0", "pass": 2}
    entries = [entry(kind, at, **place) for at, kind in enumerate(("started", "acting", "acted"))]
    for come in range(1, 4):
        (one,) = passes(recorded(*entries[:come]))
        assert (one.path, one.number, one.reached, one.outcome, one.seconds) == (
            "1.tool.invoked.0",
            2,
            entries[come - 1].kind,
            None,
            None,
        )


def test_each_pass_of_an_operation_is_told_apart_and_takes_from_its_start_to_its_end() -> None:
    first, second = {"path": "a", "pass": 1}, {"path": "a", "pass": 2}
    found = passes(
        recorded(
            begun(),
            entry("started", 1, **first),
            entry("hook_started", 1),
            entry("finished", 1.5, outcome="retry", reason="again", **first),
            entry("started", 2, **second),
            entry("finished", 4, outcome="done", **second),
        )
    )
    assert [(one.number, one.outcome, one.reason, one.seconds) for one in found] == [
        (1, "retry", "again", 0.5),
        (2, "done", None, 2.0),
    ]


async def test_a_run_that_waits_shows_what_it_waits_for(tmp_path: Path) -> None:
    reasons = [{"hook": "ask", "reason": f"costs {KEY}", "code": "x", "expires_at": 9.0, "on_timeout": "block"}]
    request = entry(
        "approval_requested",
        id="r1",
        run_id="a1",
        operation="tool.invoked",
        path="1.tool.invoked.0",
        call={"call": {"name": "shell"}},
        digest="sha256:0",
        reasons=reasons,
        requested_at=1.0,
    )
    waits = [begun(), request, entry("status", 1_001.0, status="awaiting_approval"), result("awaiting_approval")]
    await journal(tmp_path, ("a1", waits), ("b2", [begun(), request, result("completed")]))
    done = tenter("runs", "show", "a1", cwd=tmp_path)
    assert done.code == 0
    assert "waiting for a person to decide on tool.invoked, request r1:\n" in done.out
    assert '\n  {"name":"shell"}\n' in done.out
    assert "asked by 'ask' until 1970-01-01T00:00:09Z (then: block): costs [redacted]" in done.out
    assert "digest sha256:0\n" in done.out
    told = json.loads(tenter("runs", "show", "a1", "--json", cwd=tmp_path).out)
    assert (told["approval"]["id"], told["approval"]["reasons"][0]["reason"]) == ("r1", "costs [redacted]")
    assert json.loads(tenter("runs", "show", "b2", "--json", cwd=tmp_path).out)["approval"] is None
