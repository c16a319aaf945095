"""`tenter approvals list`: what waits for a person, the longest waiting first, a page at a time."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.commandline import tenter
from tests.journaled import LONG_AGO, asked, begun, decided, entry, journal, request, result, waiting

from tenter.catalogue import ApprovalReason

KEY = "ghp_" + "a1B2" * 9
HOSTILE = "no\nrun 1\x1b[31m\u202e\u2028end"
OVER = ApprovalReason(hook="ask", reason="soon", code="risk", expires_at=LONG_AGO + 60, on_timeout="escalate")


def listed(folder: Path, *arguments: str) -> Any:
    done = tenter("approvals", "list", *arguments, "--json", cwd=folder)
    assert done.code == 0
    return json.loads(done.out)


def ids(folder: Path, *arguments: str) -> list[str]:
    return [row["request_id"] for row in listed(folder, *arguments)["approvals"]]


async def test_what_waits_is_listed_the_longest_waiting_first(tmp_path: Path) -> None:
    await journal(
        tmp_path,
        ("a1", waiting(request("a1", "r1", at=LONG_AGO + 5), request("a1", "r2", at=LONG_AGO + 6))),
        ("b2", waiting(request("b2", "r3", at=LONG_AGO + 1))),
        ("c3", [begun(), asked(request("c3", "r4")), result("cancelled")]),
    )
    done = tenter("approvals", "list", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[:6] for line in done.out.splitlines()[::2]] == [
        ["b2", "r3", "1970-01-01T00:16:41Z", "open", "job", "tool.invoked"],
        ["a1", "r1", "1970-01-01T00:16:45Z", "open", "job", "tool.invoked"],
        ["a1", "r2", "1970-01-01T00:16:46Z", "open", "job", "tool.invoked"],
    ]
    assert done.out.splitlines()[1::2] == ["    asked by 'ask': it removes"] * 3
    assert '{"name":"shell","arguments":{"command":"rm x","cwd":"."}}' in done.out
    assert ids(tmp_path) == ["r3", "r1", "r2"]


async def test_every_reason_stands_below_with_its_expiry_on_one_line(tmp_path: Path) -> None:
    why = ApprovalReason(hook="", reason=f"{HOSTILE} {'x' * 300}", code="risk")
    await journal(tmp_path, ("a1", waiting(request("a1", reasons=[OVER, why]))))
    _, first, second = tenter("approvals", "list", cwd=tmp_path).out.splitlines()
    assert first == "    asked by 'ask' until 1970-01-01T00:17:40Z (then: escalate): soon"
    assert second.startswith("    asked: no run 1\\x1b[31m\\u202e end xxx")
    assert (len(second), second[-1]) == (200, "…")


async def test_all_lists_what_became_of_the_others_too(tmp_path: Path) -> None:
    decision = {"request_id": "r2", "run_id": "b2", "decision": "approve", "by": "ann", "decided_at": LONG_AGO + 2}
    approved = entry("approval_decided", LONG_AGO + 2, **decision)
    await journal(
        tmp_path,
        ("a1", [begun(), asked(request("a1", "r1")), result("cancelled")]),
        ("b2", [*waiting(request("b2", "r2", at=LONG_AGO + 1)), approved]),
    )
    assert ids(tmp_path) == []
    first, second = tenter("approvals", "list", "--all", cwd=tmp_path).out.splitlines()
    assert "  withdrawn  " in first
    assert second.endswith("  approved by ann at 1970-01-01T00:16:42Z")
    assert [row["state"] for row in listed(tmp_path, "--all")["approvals"]] == ["withdrawn", "approved"]


async def test_what_expired_is_marked_although_nothing_is_on_record(tmp_path: Path) -> None:
    later = ApprovalReason(hook="ask", reason="soon", code="risk", expires_at=time.time() + 3600)
    await journal(
        tmp_path,
        ("a1", waiting(request("a1", "r1", reasons=[OVER]))),
        ("b2", waiting(request("b2", "r2", reasons=[later]))),
    )
    first, _, second, _ = tenter("approvals", "list", cwd=tmp_path).out.splitlines()
    assert "  expired    job  tool.invoked" in first
    assert "  open       job  tool.invoked" in second
    rows = listed(tmp_path)["approvals"]
    assert [(row["state"], row["expired"]) for row in rows] == [("open", True), ("open", False)]
    assert (rows[0]["expires_at"], rows[0]["on_timeout"]) == ("1970-01-01T00:17:40Z", "escalate")


async def test_a_page_says_how_the_next_one_is_had(tmp_path: Path) -> None:
    await journal(tmp_path, *((f"a{n}", waiting(request(f"a{n}", f"r{n}", at=LONG_AGO + n))) for n in range(5)))
    done = tenter("approvals", "list", "--limit", "2", cwd=tmp_path)
    assert len(done.out.splitlines()) == 4, "each with its reason"
    (cursor,) = [line.split("--after ")[1].rstrip("'") for line in done.err.splitlines()]
    assert listed(tmp_path, "--limit", "2")["next"] == cursor
    assert ids(tmp_path, "--limit", "2", "--after", cursor) == ["r2", "r3"]
    last = listed(tmp_path, "--limit", "3", "--after", cursor)
    assert ([row["request_id"] for row in last["approvals"]], last["next"]) == (["r2", "r3", "r4"], None)
    assert tenter("approvals", "list", "--limit", "3", "--after", cursor, cwd=tmp_path).err == ""


async def test_what_is_no_cursor_is_a_mistake(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", waiting(request("a1"))))
    done = tenter("approvals", "list", "--after", "soon", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "'soon' is no cursor" in done.err


async def test_a_request_of_a_sub_run_is_listed_under_the_run_to_resume(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [begun()]), ("c1", waiting(request("c1", "r1", root="a1"))))
    line, _ = tenter("approvals", "list", cwd=tmp_path).out.splitlines()
    assert line.split()[:2] == ["a1", "r1"]
    (row,) = listed(tmp_path)["approvals"]
    assert (row["run_id"], row["asking_run_id"], row["task"]) == ("a1", "c1", "job")


@pytest.mark.fault(43)
@pytest.mark.promise(4)
async def test_what_is_asked_for_is_escaped_and_masked(tmp_path: Path) -> None:
    call = {"name": "shell", "arguments": {"command": f"{HOSTILE} {KEY} opensesame"}}
    why = ApprovalReason(hook="ask", reason=f"{HOSTILE} {KEY} opensesame", code="risk")
    await journal(tmp_path, ("a1", waiting(request("a1", call=call, reasons=[why]))), secrets=["TOLD"])
    for arguments, lines in (((), 2), (("--json",), 1)):
        done = tenter("approvals", "list", *arguments, cwd=tmp_path, TOLD="opensesame")
        assert len(done.out.splitlines()) == lines
        assert all(line.isprintable() for line in done.out.splitlines())
        assert KEY not in done.out
        assert "opensesame" not in done.out


async def test_runs_that_were_decided_on_and_not_resumed_are_named_with_what_goes_on_with_them(tmp_path: Path) -> None:
    runs = [(f"a{n}", [*waiting(request(f"a{n}")), decided(f"a{n}", "r1")]) for n in range(2)]
    over = [*waiting(request("over")), decided("over", "r1"), result("completed")]
    await journal(tmp_path, *runs, ("over", over))
    for arguments in ((), ("--all",)):
        done = tenter("approvals", "list", *arguments, cwd=tmp_path)
        assert "decided: a1, a0; 'tenter resume RUN' goes on with each\n" in done.err
        assert listed(tmp_path, *arguments)["decided"] == ["a1", "a0"]
    assert "nothing waits for a person" in tenter("approvals", "list", cwd=tmp_path).err


async def test_a_run_that_waits_for_another_decision_is_not_named_so(tmp_path: Path) -> None:
    half = [*waiting(request("a1"), request("a1", "r2")), decided("a1", "r1")]
    below = [begun(parent="b1"), asked(request("b2", root="b1")), entry("status", LONG_AGO, status="awaiting_approval")]
    root = [begun(), entry("status", LONG_AGO, status="awaiting_approval")]
    await journal(tmp_path, ("a1", half), ("b1", root), ("b2", below))
    assert tenter("approvals", "list", cwd=tmp_path).err == ""
    assert listed(tmp_path)["decided"] == []
    assert "decided" not in tenter("approvals", "list", "--limit", "1", cwd=tmp_path).err


async def test_the_commands_name_the_project(tmp_path: Path) -> None:
    await journal(
        tmp_path,
        ("a1", waiting(request("a1"), request("a1", "r2"))),
        ("b1", [*waiting(request("b1")), decided("b1", "r1")]),
    )
    (tmp_path / "be low").mkdir()
    config = ("-c", "../tenter.yaml")
    told = tenter("approvals", "list", "--limit", "1", *config, cwd=tmp_path / "be low").err
    assert told.startswith("more: 'tenter approvals list --after ")
    assert told.endswith(" -c ../tenter.yaml'\n")
    told = tenter("approvals", "list", *config, cwd=tmp_path / "be low").err
    assert told == "decided: b1; 'tenter resume RUN -c ../tenter.yaml' goes on with each\n"
