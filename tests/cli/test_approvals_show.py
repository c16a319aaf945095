"""`tenter approvals show`: all that a person needs to decide."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.commandline import tenter
from tests.journaled import LONG_AGO, begun, entry, journal, request, result, waiting

from tenter.catalogue import ApprovalReason

KEY = "ghp_" + "a1B2" * 9
HOSTILE = "no\nrun 1\x1b[31m\u202e\u2028end"
OVER = ApprovalReason(
    hook="ask", reason="it removes", code="risk", editable=("command", "new"), expires_at=LONG_AGO + 60
)


def shown(folder: Path, *arguments: str) -> list[Any]:
    done = tenter("approvals", "show", *arguments, "--json", cwd=folder)
    assert done.code == 0
    return json.loads(done.out)["approvals"]


async def test_a_request_is_shown_with_the_exact_call_and_how_to_answer(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", waiting(request("a1", reasons=[OVER]))))
    done = tenter("approvals", "show", "a", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "waiting for a person to decide on tool.invoked, request r1:",
        '  {"name":"shell","arguments":{"command":"rm x","cwd":"."}}',
        "  asked by 'ask' until 1970-01-01T00:17:40Z (then: block): it removes",
        "  may be edited: command, new (not given)",
        "  digest sha256:0",
        "  task job",
        "  asked for at 1970-01-01T00:16:40Z",
        "  time is until 1970-01-01T00:17:40Z and is over: whoever resumes or answers it ends the run",
        "'tenter resume a1' brings the run to its end",
    ]
    (row,) = shown(tmp_path, "a1")
    assert row["call"] == {"call": {"name": "shell", "arguments": {"command": "rm x", "cwd": "."}}, "tool": "shell"}
    assert (row["editable"], row["expired"]) == ({"command": "rm x", "new": None}, True)


async def test_of_several_requests_those_that_wait_are_shown_or_the_one_that_is_named(tmp_path: Path) -> None:
    decision = {"request_id": "x1", "run_id": "a1", "decision": "approve", "by": "ann", "decided_at": LONG_AGO + 2}
    requests = [request("a1", name, at=LONG_AGO + n) for n, name in enumerate(("x1", "y1", "y2"))]
    await journal(tmp_path, ("a1", [*waiting(*requests), entry("approval_decided", LONG_AGO + 2, **decision)]))
    assert [row["request_id"] for row in shown(tmp_path, "a1")] == ["y1", "y2"]
    assert [row["request_id"] for row in shown(tmp_path, "a1", "y2")] == ["y2"]
    one = tenter("approvals", "show", "a1", "x", cwd=tmp_path)
    assert one.code == 0
    assert one.out.splitlines()[0] == "request x1 of the run a1:"
    assert "  approved by ann at 1970-01-01T00:16:42Z" in one.out.splitlines()
    assert "tenter resume" not in one.out


async def test_of_a_run_that_waits_no_more_all_are_shown(tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", [*waiting(request("a1")), result("cancelled")]))
    assert [(row["request_id"], row["state"]) for row in shown(tmp_path, "a1")] == [("r1", "withdrawn")]


@pytest.mark.parametrize(
    ("named", "says"),
    [("z", "the run a1 has no request 'z'; it has r1, r2"), ("r", "'r' begins 2 requests (r1, r2); give more of it")],
)
async def test_an_unknown_or_ambiguous_request_is_a_mistake(named: str, says: str, tmp_path: Path) -> None:
    await journal(tmp_path, ("a1", waiting(request("a1", "r1"), request("a1", "r2", at=LONG_AGO + 1))))
    for verb in ("show", "approve"):
        done = tenter("approvals", verb, "a1", named, cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert says in done.err


async def test_a_sub_run_stands_for_the_run_to_resume(tmp_path: Path) -> None:
    await journal(
        tmp_path,
        ("a1", [begun()]),
        ("c1", [begun(parent="a1"), result("completed")]),
        ("c2", [begun(parent="a1"), *waiting(request("c2", root="a1"))[1:]]),
    )
    for name in ("a1", "c1", "c2"):
        assert [row["request_id"] for row in shown(tmp_path, name)] == ["r1"]
    assert "'tenter resume a1' goes on then" in tenter("approvals", "show", "c1", cwd=tmp_path).out


@pytest.mark.fault(43)
@pytest.mark.promise(4)
async def test_what_is_asked_for_is_escaped_and_masked(tmp_path: Path) -> None:
    call = {"name": "shell", "arguments": {"command": f"{HOSTILE} {KEY} opensesame"}}
    why = ApprovalReason(hook="ask", reason=f"{HOSTILE} opensesame", code="risk", editable=("command",))
    await journal(tmp_path, ("a1", waiting(request("a1", call=call, reasons=[why]))), secrets=["TOLD"])
    for arguments in ((), ("--json",)):
        done = tenter("approvals", "show", "a1", *arguments, cwd=tmp_path, TOLD="opensesame")
        assert done.code == 0
        assert all(line.isprintable() for line in done.out.splitlines())
        assert not [line for line in done.out.splitlines() if line.startswith("run 1")]
        assert KEY not in done.out
        assert "opensesame" not in done.out
