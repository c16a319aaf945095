"""`tenter runs list` tells what is on record, whatever became of the run."""

import json
import socket
from pathlib import Path

import pytest
from tests.commandline import tenter
from tests.journaled import LONG_AGO, asked, begun, decided, entry, journal, request, result, waiting

from tenter.executors import this_process
from tenter.journal import Entry

HOSTILE = "no\nrun 1\x1b[31m\u202e\u2028end"
START = "1970-01-01T00:16:40Z"


def held(pid: int, started: str, host: str | None = None) -> Entry:
    """The first entry of a run that this process has."""
    return begun(process={"pid": pid, "started": started}, host=socket.gethostname() if host is None else host)


def statuses(folder: Path) -> list[str]:
    return [row["status"] for row in json.loads(tenter("runs", "list", "--json", cwd=folder).out)]


async def test_runs_are_listed_the_last_first_with_how_they_ended(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]), ("b2", [begun("other"), result("blocked")]))
    done = tenter("runs", "list", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["b2", START, "blocked", "other"],
        ["a1", START, "completed", "job"],
    ]


async def test_only_as_many_are_listed_as_asked_for(tmp_path: Path) -> None:
    await journal(tmp_path, *((f"r{n}", [begun(), result("completed")]) for n in range(4)))
    assert [line.split()[0] for line in tenter("runs", "list", "--last", "2", cwd=tmp_path).out.splitlines()] == [
        "r3",
        "r2",
    ]


async def test_json_lists_the_same(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]), ("b2", [begun(parent="a1")]))
    done = tenter("runs", "list", "--json", cwd=tmp_path)
    assert len(done.out.splitlines()) == 1
    plain = {"task": "job", "started": START, "ended": None, "parent_run_id": None, "decided": False}
    assert json.loads(done.out) == [
        {**plain, "run_id": "b2", "status": "stopped", "parent_run_id": "a1"},
        {**plain, "run_id": "a1", "status": "completed", "ended": "1970-01-01T00:16:41Z"},
    ]


async def test_a_sub_run_names_the_run_that_spawned_it(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]), ("b2", [begun(parent="a1"), result("completed")]))
    first, second = tenter("runs", "list", cwd=tmp_path).out.splitlines()
    assert first.endswith("job  (of a1)")
    assert second.endswith("job")


@pytest.mark.fault(48)
async def test_a_run_whose_process_is_gone_has_stopped_and_not_one_whose_process_lives(tmp_path: Path) -> None:
    me = this_process()
    await journal(
        tmp_path,
        ("lives", [held(me.pid, me.started)]),
        ("reused", [held(me.pid, "another start")]),
        ("elsewhere", [held(me.pid, "another start", host="another machine")]),
        ("over", [held(me.pid, "another start"), result("completed")]),
        (
            "waits",
            [
                held(me.pid, "another start"),
                asked(request("waits")),
                entry("status", 1_001, status="awaiting_approval"),
            ],
        ),
        ("resumed", [held(me.pid, "x"), entry("resumed", 1_001, **held(me.pid, me.started).content)]),
    )
    assert statuses(tmp_path) == ["running", "awaiting_approval", "completed", "running", "stopped", "running"]
    told = tenter("runs", "list", cwd=tmp_path).err
    assert told == ("stopped: no end is on record and no process has it; 'tenter resume RUN' goes on with it\n")


async def test_a_run_that_no_process_has_has_stopped_unless_it_waits_or_has_ended(tmp_path: Path) -> None:
    released = entry("released", 1_001, status="running")
    me = this_process()
    await journal(
        tmp_path,
        ("untold", [begun()]),
        ("released", [held(me.pid, me.started), released]),
        ("waits", [begun(), entry("status", 1_001, status="awaiting_approval")]),
        ("over", [begun(), result("failed")]),
    )
    assert statuses(tmp_path) == ["failed", "awaiting_approval", "stopped", "stopped"]


@pytest.mark.fault(43)
async def test_a_task_is_escaped(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(HOSTILE), result(HOSTILE)]))
    for arguments in (("list",), ("list", "--json")):
        done = tenter("runs", *arguments, cwd=tmp_path)
        assert done.code == 0
        (line,) = done.out.splitlines()
        assert line.isprintable()


async def test_a_run_that_was_decided_on_and_not_resumed_is_told_with_what_goes_on_with_it(tmp_path: Path) -> None:
    await journal(
        tmp_path,
        ("open", waiting(request("open"), request("open", "r2"))),
        ("half", [*waiting(request("half"), request("half", "r2")), decided("half", "r1")]),
        ("approved", [*waiting(request("approved")), decided("approved", "r1")]),
        ("refused", [*waiting(request("refused"), request("refused", "r2")), decided("refused", "r1", "reject")]),
        ("resumed", [*waiting(request("resumed")), decided("resumed", "r1"), entry("resumed", 1_003)]),
    )
    done = tenter("runs", "list", cwd=tmp_path)
    marked = [line.split()[0] for line in done.out.splitlines() if line.endswith("  (decided)")]
    assert marked == ["refused", "approved"]
    assert "decided: people have decided on it; 'tenter resume RUN' goes on with it\n" in done.err
    told = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
    assert [row["run_id"] for row in told if row["decided"]] == ["refused", "approved"]


async def test_a_run_whose_sub_run_asks_is_decided_on_when_that_is(tmp_path: Path) -> None:
    waits = entry("status", LONG_AGO + 1, status="awaiting_approval")
    below = [begun(parent="b1"), asked(request("b2", root="b1")), waits]
    await journal(
        tmp_path,
        ("a1", [begun(), waits]),
        ("a2", [begun(parent="a1"), asked(request("a2", root="a1")), waits]),
        ("b1", [begun(), waits]),
        ("b2", [*below, decided("b2", "r1", "reject")]),
    )
    told = json.loads(tenter("runs", "list", "--json", cwd=tmp_path).out)
    assert [row["run_id"] for row in told if row["decided"]] == ["b1"]


async def test_the_commands_name_the_project(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun()]), ("b1", [*waiting(request("b1")), decided("b1", "r1")]))
    (tmp_path / "below").mkdir()
    told = tenter("runs", "list", "-c", "../tenter.yaml", cwd=tmp_path / "below").err
    assert told.count("'tenter resume RUN -c ../tenter.yaml' goes on with it") == 2
