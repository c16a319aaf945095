from typing import Any

import pytest
from tests.journal.world import decision, request

from tenter.catalogue import ApprovalDecision, ApprovalRequest, DecisionKind
from tenter.journal.approvals import ApprovalRow, ApprovalState
from tenter.journal.deciding import DecisionRefused, Judgement, judged, no_such_request


def _row(asked: ApprovalRequest, state: ApprovalState = "open", decided: ApprovalDecision | None = None) -> ApprovalRow:
    return ApprovalRow(request=asked, state=state, decision=decided, cursor="1-1")


def _refusal(wanted: ApprovalDecision, row: ApprovalRow, status: str = "awaiting_approval") -> tuple[str, str]:
    with pytest.raises(DecisionRefused) as caught:
        judged(wanted, row, status)
    return caught.value.why, str(caught.value)


@pytest.mark.parametrize("kind", ["approve", "reject"])
def test_a_decision_about_an_open_request_counts_and_names_the_run_that_asked(kind: DecisionKind) -> None:
    wanted = decision("a", "root", kind, reason="because")
    assert judged(wanted, _row(request("a", "child")), "") == Judgement(
        recorded=decision("a", "child", kind, reason="because")
    )


@pytest.mark.promise(10)
@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("approved", "was approved already by 'ben' at 1970-01-01T00:00:09Z (sure)"),
        ("edited", "was edited already by 'ben' at 1970-01-01T00:00:09Z (sure)"),
        ("rejected", "was rejected already by 'ben' at 1970-01-01T00:00:09Z (sure)"),
    ],
)
def test_a_request_is_decided_once_and_whoever_comes_later_hears_by_whom_and_when(
    state: ApprovalState, said: str
) -> None:
    row = _row(request("a"), state, decision("a", by="ben", at=9.0, reason="sure"))
    assert _refusal(decision("a"), row) == ("decided", f"the request 'a' of run 'r1' {said}")


def test_of_a_decision_that_cannot_be_read_it_is_told_what_to_do() -> None:
    why, text = _refusal(decision("a"), _row(request("a"), "approved"))
    assert why == "decided"
    assert text.startswith("the request 'a' of run 'r1' is listed as approved, and no such decision can be read from ")
    assert text.endswith("; 'tenter runs verify r1' tells what is wrong")


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        (None, ("finished", "because its run is over (it is 'cancelled')")),
        (
            decision("b", kind="expire"),
            ("decided", "because the request 'b' of the same run expired at 1970-01-01T00:00:02Z"),
        ),
        (
            decision("b", kind="reject", by="ben"),
            ("decided", "because the request 'b' of the same run was rejected by 'ben' at 1970-01-01T00:00:02Z"),
        ),
    ],
)
def test_a_withdrawn_request_tells_why_it_was(decided: ApprovalDecision | None, expected: tuple[str, str]) -> None:
    why, text = _refusal(decision("a"), _row(request("a"), "withdrawn", decided), "cancelled")
    assert (why, text) == (expected[0], f"the request 'a' of run 'r1' was withdrawn, {expected[1]}")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("awaiting_approval", "because the run 'r0' around its run is over"),
        ("cancelled", "because its run is over (it is 'cancelled')"),
    ],
)
def test_a_request_that_was_withdrawn_with_the_root_tells_which_run_is_over(status: str, said: str) -> None:
    row = _row(request("a", root_run_id="r0"), "withdrawn")
    assert _refusal(decision("a"), row, status) == ("finished", f"the request 'a' of run 'r1' was withdrawn, {said}")


@pytest.mark.parametrize("kind", ["approve", "reject", "edit"])
@pytest.mark.parametrize("at", [4.0, 4.5, 1e18])
def test_an_answer_at_the_expiry_or_later_records_the_expiry_instead(kind: DecisionKind, at: float) -> None:
    asked = request("a", reasons=[{"expires_at": 9.0}, {"expires_at": 4.0}, {}])
    wanted = decision("a", kind=kind, at=at, reason="late", edits={"command": "ls"} if kind == "edit" else {})
    judgement = judged(wanted, _row(asked), "")
    assert judgement.recorded == decision("a", kind="expire", at=at)
    assert judgement.refused is not None
    assert judgement.refused.why == "expired"
    assert "expired at 1970-01-01T00:00:04Z; nothing can be decided of it any more" in str(judgement.refused)


def test_an_answer_before_the_expiry_counts() -> None:
    wanted = decision("a", at=3.999)
    assert judged(wanted, _row(request("a", reasons=[{"expires_at": 4.0}])), "") == Judgement(recorded=wanted)


def test_an_expiry_counts_once_it_is_time_and_not_before() -> None:
    row = _row(request("a", reasons=[{"expires_at": 4.0}]))
    expiry = decision("a", kind="expire", at=4.0)
    assert judged(expiry, row, "") == Judgement(recorded=expiry)
    early = decision("a", kind="expire", at=3.9)
    assert _refusal(early, row)[0] == "not_expired"
    assert "expires only at 1970-01-01T00:00:04Z; approve or reject it" in _refusal(early, row)[1]
    assert "never expires" in _refusal(early, _row(request("a")))[1]
    assert _refusal(expiry, _row(request("a", reasons=[{"expires_at": 4.0}]), "expired", expiry))[0] == "expired"


@pytest.mark.parametrize(
    ("reasons", "edits", "kind", "said"),
    [
        ([{"editable": ("command",)}], {"command": "ls"}, "edit", None),
        ([{"editable": ("*",)}], {"command": "ls", "cwd": "/"}, "edit", None),
        ([{"editable": ("*",)}, {"editable": ("command",)}], {"command": "ls"}, "edit", None),
        (
            [{"editable": ("*",)}, {"editable": ("command",)}],
            {"cwd": "/"},
            "edit",
            "'cwd' may not be edited; it may change 'command'",
        ),
        ([{"editable": ("command",)}, {}], {"command": "ls"}, "edit", "may not be edited; it may change nothing"),
        (
            [{"editable": ("a", "b")}],
            {"d": 1, "c": 1, "a": 1},
            "edit",
            "'c', 'd' may not be edited; it may change 'a', 'b'",
        ),
        ([{"editable": ("*",)}], {}, "edit", "an edit changes at least one field; it may change any argument"),
        ([{"editable": ("*",)}], {"command": "ls"}, "approve", "a decision 'approve' takes no edits; decide 'edit'"),
        ([{"editable": ("*",)}], {"command": "ls"}, "reject", "a decision 'reject' takes no edits; decide 'edit'"),
    ],
)
def test_an_edit_names_what_every_reason_lets_be_edited(
    reasons: list[dict[str, Any]], edits: dict[str, object], kind: DecisionKind, said: str | None
) -> None:
    wanted, row = decision("a", kind=kind, edits=edits), _row(request("a", reasons=reasons))
    if said is None:
        assert judged(wanted, row, "") == Judgement(recorded=wanted)
    else:
        why, text = _refusal(wanted, row)
        assert why == "not_editable"
        assert said in text


def test_a_time_that_no_calendar_has_is_told_in_seconds() -> None:
    row = _row(request("a"), "approved", decision("a", by="ben", at=1e300))
    assert "by 'ben' at 1e+300 s after 1970" in _refusal(decision("a"), row)[1]


def test_a_request_that_is_not_there_is_told_with_the_run_that_has_it() -> None:
    assert no_such_request(decision("a"), "").why == "unknown"
    assert "`tenter approvals list` prints those that wait" in str(no_such_request(decision("a"), ""))
    assert no_such_request(decision("a"), "r2").why == "foreign"
    assert "belongs to run 'r2' and not to 'r1'; decide it there" in str(no_such_request(decision("a"), "r2"))
