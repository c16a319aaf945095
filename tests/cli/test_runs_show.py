"""`tenter runs show` tells what happened in a run, whatever became of it."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import cast

import msgspec
import pytest
from tests.commandline import LONGEST, calls, gate, heard, run_json, started, tenter, write_project
from tests.journaled import LONG_AGO, asked, begun, entry, journal, request, result, waiting

from tenter.catalogue import ApprovalDecision, ApprovalReason
from tenter.cli.runs_show import passes
from tenter.journal import Entry, Recorded, Stream

KEY = "ghp_" + "a1B2" * 9
HOSTILE = "no\nrun 1\x1b[31m\u202e\u2028end"


def recorded(*entries: Entry) -> list[Recorded]:
    return [
        Recorded(stream=Stream("run", "a"), sequence=n, hash="", digest="", entry=one)
        for n, one in enumerate(entries, 1)
    ]


def decided(request_id: str, by: str = "ann", **fields: object) -> Entry:
    decision = ApprovalDecision(request_id=request_id, run_id="a1", by=by, decided_at=LONG_AGO + 2, **fields)  # pyright: ignore[reportArgumentType]  # the fields of a decision
    return entry("approval_decided", LONG_AGO + 2, **msgspec.to_builtins(decision))


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
    assert stopped.startswith("  1.tool.invoked.0#1  shell  blocked by guard in ")
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
        "tool": "shell",
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
    assert (status, task) == ("stopped", "job")
    assert "no end is on record and no process has it" in listed.err
    shown = tenter("runs", "show", run_id, cwd=tmp_path)
    assert shown.code == 0
    assert "no end is on record" in shown.out
    assert "  1.llm.invoked.0#1  done" in shown.out
    assert "  1.tool.invoked.0#1  shell  acting, not finished (it may have acted)" in shown.out
    document = run_json("runs", "show", run_id, cwd=tmp_path)
    assert (document["status"], document["ended"], document["output"]) == ("stopped", None, None)


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
    for arguments in (("show", "a1"), ("show", "a1", "--json")):
        done = tenter("runs", *arguments, cwd=tmp_path)
        assert done.code == 0
        assert all(line.isprintable() for line in done.out.splitlines()), arguments
        assert KEY not in done.out
        assert "hunter2hunter2" not in done.out
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


async def test_a_run_that_waits_shows_what_it_waits_for_and_how_to_answer(tmp_path: Path) -> None:
    why = ApprovalReason(hook="ask", reason=f"costs {KEY}", code="x", expires_at=9.0, on_timeout="block")
    await journal(
        tmp_path,
        ("a1", waiting(request("a1", reasons=[why]))),
        ("b2", [begun(), asked(request("b2", "r2")), result("completed")]),
    )
    done = tenter("runs", "show", "a1", cwd=tmp_path)
    assert done.code == 0
    assert "waiting for a person to decide on tool.invoked, request r1:\n" in done.out
    assert '\n  {"name":"shell","arguments":{"command":"rm x","cwd":"."}}\n' in done.out
    assert "asked by 'ask' until 1970-01-01T00:00:09Z (then: block): costs [redacted]" in done.out
    assert "'tenter approvals approve a1 r1' (or reject) decides; 'tenter resume a1' goes on then" in done.out
    told = json.loads(tenter("runs", "show", "a1", "--json", cwd=tmp_path).out)
    assert (told["approval"]["request_id"], told["approval"]["reasons"][0]["reason"]) == ("r1", "costs [redacted]")
    over = json.loads(tenter("runs", "show", "b2", "--json", cwd=tmp_path).out)
    assert (over["approval"], over["approvals"][0]["state"]) == (None, "withdrawn")


@pytest.mark.promise(4)
async def test_what_was_decided_is_shown_with_who_and_why(tmp_path: Path) -> None:
    entries = [
        *waiting(request("a1", "r1"), request("a1", "r2")),
        decided("r1", decision="edit", reason=f"rather {KEY}", edits={"command": "ls"}),
        decided("r2", decision="reject", by="bob"),
        result("blocked"),
    ]
    await journal(tmp_path, ("a1", entries))
    out = tenter("runs", "show", "a1", cwd=tmp_path).out
    when = "1970-01-01T00:16:42Z"
    edited = f'approved with new values by ann at {when}, with {{"command":"ls"}}: rather [redacted]'
    assert f"request r1, tool.invoked: {edited}\n" in out
    assert f"request r2, tool.invoked: rejected by bob at {when}\n" in out
    assert "approvals approve" not in out
    first, second = json.loads(tenter("runs", "show", "a1", "--json", cwd=tmp_path).out)["approvals"]
    assert (first["state"], second["state"]) == ("edited", "rejected")
    assert first["decision"]["edits"] == {"command": "ls"}
    assert first["decision"]["decided_at"] == when
    assert (second["decision"]["by"], second["expired"]) == ("bob", False)


async def test_the_runs_that_it_spawned_are_named_and_what_they_ask_for(tmp_path: Path) -> None:
    await journal(
        tmp_path,
        ("a1", [begun(), entry("status", LONG_AGO + 1, status="awaiting_approval")]),
        ("c1", [begun("first", parent="a1"), result("completed")]),
        ("c2", [begun("second", parent="a1"), *waiting(request("c2", root="a1"))[1:]]),
        ("d1", [begun("another", parent="c1"), result("completed")]),
    )
    out = tenter("runs", "show", "a1", cwd=tmp_path).out
    assert "spawned:  c1  completed  first\nspawned:  c2  awaiting_approval  second\n" in out
    assert "d1" not in out
    assert "waiting for a person to decide on tool.invoked of its sub-run c2, request r1:\n" in out
    assert "\nparent_run_id: a1\n" in tenter("runs", "show", "c1", cwd=tmp_path).out
    told = json.loads(tenter("runs", "show", "a1", "--json", cwd=tmp_path).out)
    assert [child["run_id"] for child in told["children"]] == ["c1", "c2"]
    assert (told["approvals"][0]["run_id"], told["approvals"][0]["asking_run_id"]) == ("a1", "c2")


async def test_where_the_journal_of_a_run_ends_is_told(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun(), result("completed")]))
    head = json.loads(tenter("runs", "show", "a1", "--json", cwd=tmp_path).out)["journal_head"]
    assert head.startswith("sha256:")
    assert f"journal_head: {head}\n" in tenter("runs", "show", "a1", cwd=tmp_path).out


async def test_what_a_run_was_begun_with_and_what_it_used_is_told(tmp_path: Path) -> None:
    limits = {"max_steps": 7, "deadline": LONG_AGO + 60, "budgets": {"tool_calls": 2, "cost_usd": 0.5}}
    envelope = {"parent_run_id": None, "principal": f"kim {KEY}"}
    place = {"path": "1.llm.invoked.0", "pass": 1}
    response = {"model": "m1", "cost_usd": 0.25, "usage": {"input_tokens": 30, "output_tokens": 4}}
    entries = [
        entry("run", LONG_AGO, task="job", envelope=envelope, limits=limits, input=f"  first {KEY}\nsecond\nthird"),
        entry("started", LONG_AGO, **place),
        entry("acting", LONG_AGO, **place),
        entry("acted", LONG_AGO, result={"response": response}, **place),
    ]
    await journal(tmp_path, ("a1", entries))
    lines = tenter("runs", "show", "a1", cwd=tmp_path).out.splitlines()
    assert "principal: kim [redacted]" in lines
    assert "limits:   7 steps, $0.5, 2 tool calls, until 1970-01-01T00:17:40Z" in lines
    assert "used:     30 + 4 tokens, $0.2500; 1 model call of m1, 0 tool calls" in lines
    assert "input:    first [redacted] (3 lines)" in lines
    told = json.loads(tenter("runs", "show", "a1", "--json", cwd=tmp_path).out)
    assert "facts" not in told
    assert (told["principal"], told["input"]) == ("kim [redacted]", "  first [redacted]\nsecond\nthird")
    assert (told["limits"]["max_steps"], told["limits"]["budgets"]["tool_calls"]) == (7, 2)
    assert (told["usage"], told["cost_usd"], told["cost_known"]) == (response["usage"], 0.25, True)
    assert (told["models"], told["model_calls"], told["tool_calls"]) == (["m1"], 1, 0)


async def test_what_the_result_said_of_use_is_said_afterwards_too(tmp_path: Path) -> None:
    turn = {"usage": {"input_tokens": 10, "output_tokens": 2}, "cost_usd": 0.5}
    write_project(tmp_path, [{**calls("shell", command="true"), **turn}, {"text": "the result", **turn}])
    ended = run_json("run", "job", "work on it", "--principal", "kim", cwd=tmp_path)
    told = run_json("runs", "show", str(ended["run_id"]), cwd=tmp_path)
    for name in ("usage", "cost_usd", "cost_known"):
        assert told[name] == ended[name], name
    assert (told["usage"], told["cost_usd"]) == ({"input_tokens": 20, "output_tokens": 4}, 1.0)
    assert (told["principal"], told["input"], told["model_calls"], told["tool_calls"]) == ("kim", "work on it", 2, 1)


async def test_that_the_content_of_a_run_was_erased_is_told(tmp_path: Path) -> None:
    write_project(tmp_path, [{"text": "the result"}])
    run_id = str(run_json("run", "job", "secret work", cwd=tmp_path)["run_id"])
    assert tenter("runs", "prune", "--older-than", "0", "--erase", cwd=tmp_path).code == 0
    out = tenter("runs", "show", run_id, cwd=tmp_path).out
    told = run_json("runs", "show", run_id, cwd=tmp_path)
    assert f"the content of {told['erased']} of {told['entries']} entries was erased" in out
    assert f"'tenter runs verify {run_id}' checks what is left" in out
    assert "None" not in out
    assert "used:" not in out
    assert told["erased"] == cast("int", told["entries"]) - 1 > 0  # the last one says that it was erased
    assert (told["operations"], told["input"], told["usage"], told["cost_known"]) == ([], None, None, None)
    assert (told["status"], told["task"]) == ("completed", "job")


async def test_of_a_run_that_was_decided_on_it_is_said_what_goes_on_with_it(tmp_path: Path) -> None:
    await journal(
        tmp_path,
        ("a1", [*waiting(request("a1")), decided("r1", decision="approve")]),
        ("b1", waiting(request("b1"))),
    )
    told = "people have decided on it; 'tenter resume a1' goes on with it"
    assert told in tenter("runs", "show", "a1", cwd=tmp_path).out
    assert "people have decided" not in tenter("runs", "show", "b1", cwd=tmp_path).out
    assert run_json("runs", "show", "a1", cwd=tmp_path)["decided"] is True
    (tmp_path / "below").mkdir()
    elsewhere = tenter("runs", "show", "b1", "-c", "../tenter.yaml", cwd=tmp_path / "below").out
    assert "'tenter approvals approve b1 r1 -c ../tenter.yaml' (or reject" in elsewhere
