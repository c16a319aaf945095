"""A request and what was decided on it, as verbs tell it."""

import msgspec
import pytest
from tests.journaled import LONG_AGO, request

from tenter.catalogue import ApprovalDecision, ApprovalReason, DecisionKind
from tenter.cli.approvals_rows import DONE, done, has_expired, outcome, request_row
from tenter.journal import ApprovalRow, ApprovalState

LATER = ApprovalReason(hook="late", reason="soon", code="risk", editable=("*",), expires_at=LONG_AGO + 60)


def plain(text: str) -> str:
    return text


def decision(kind: DecisionKind = "approve", **fields: object) -> ApprovalDecision:
    plain: dict[str, object] = {"request_id": "r1", "run_id": "a1", "by": "ann", "decided_at": LONG_AGO}
    return ApprovalDecision(**{**plain, **fields, "decision": kind})  # pyright: ignore[reportArgumentType]  # the fields of a decision


def test_a_request_is_listed_with_all_that_is_known_of_it() -> None:
    row = ApprovalRow(request=request("c1", reasons=[LATER], root="a1"), state="open", cursor="1-1")
    told = msgspec.to_builtins(request_row(row, LONG_AGO))
    reason = told["reasons"].pop()
    assert (reason["hook"], reason["expires_at"]) == ("late", "1970-01-01T00:17:40Z")
    assert told == {
        "request_id": "r1",
        "run_id": "a1",
        "asking_run_id": "c1",
        "task": "job",
        "operation": "tool.invoked",
        "path": "1.tool.invoked.0",
        "call": row.request.call,
        "digest": "sha256:0",
        "reasons": [],
        "editable": {"command": "rm x", "cwd": "."},
        "requested_at": "1970-01-01T00:16:40Z",
        "expires_at": "1970-01-01T00:17:40Z",
        "on_timeout": "block",
        "state": "open",
        "expired": False,
        "decision": None,
    }


@pytest.mark.parametrize(
    ("state", "now", "expired"),
    [
        ("open", LONG_AGO + 59, False),
        ("open", LONG_AGO + 60, True),
        ("open", None, False),
        ("approved", LONG_AGO + 60, False),
        ("expired", None, True),
    ],
)
def test_a_request_has_expired_when_its_time_is_up_and_nobody_decided(
    state: ApprovalState, now: float | None, expired: bool
) -> None:
    row = ApprovalRow(request=request("a1", reasons=[LATER]), state=state, cursor="1-1")
    assert has_expired(row, now) is expired


def test_every_decision_is_told_with_who_when_what_and_why() -> None:
    when = "1970-01-01T00:16:40Z"
    assert done(decision(), plain) == f"approved by ann at {when}"
    assert done(decision("reject", reason="no"), plain) == f"rejected by ann at {when}: no"
    assert done(decision("edit", edits={"a": 1}), plain) == f'approved with new values by ann at {when}, with {{"a":1}}'
    assert done(decision("expire", by="ann"), plain) == f"expired at {when}"
    assert DONE.keys() == set(DecisionKind.__args__)


def test_what_is_told_of_a_decision_is_one_line_and_masked() -> None:
    said = done(decision(reason="no\nrun 1: \x1b[31mopensesame"), lambda text: text.replace("opensesame", "*"))
    assert said.endswith(": no run 1: \\x1b[31m*")


def test_what_was_withdrawn_without_a_decision_says_so() -> None:
    row = ApprovalRow(request=request("a1"), state="withdrawn", cursor="1-1")
    assert outcome(row, plain) == "withdrawn"
