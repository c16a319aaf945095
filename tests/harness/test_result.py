"""What the caller gets of a run, in process and as JSON."""

import msgspec

from tenter.catalogue import ApprovalRequest
from tenter.harness.result import RunResult

REQUEST = ApprovalRequest(
    id="a1", run_id="r", operation="tool.invoked", path="1", call={}, digest="d", reasons=(), requested_at=1.0
)


def test_it_has_the_fields_that_seed_003_names_and_two_more() -> None:
    assert RunResult.__struct_fields__ == (
        "run_id",
        "task",
        "task_version",
        "status",
        "output",
        "error",
        "approval",
        "approvals",
        "usage",
        "cost_usd",
        "cost_known",
        "trace",
        "journal_head",
        "started_at",
        "ended_at",
    )


def test_what_it_waits_for_is_all_requests_and_the_first_of_them() -> None:
    waits = RunResult(
        run_id="r",
        task="t",
        task_version=1,
        status="awaiting_approval",
        approval=REQUEST,
        approvals=(REQUEST,),
        started_at=1,
        ended_at=2,
    )
    ended = RunResult(run_id="r", task="t", task_version=1, status="completed", started_at=1, ended_at=2)
    told = msgspec.json.decode(msgspec.json.encode(waits))
    assert (told["approval"]["id"], [one["id"] for one in told["approvals"]]) == ("a1", ["a1"])
    assert (ended.approval, ended.approvals, ended.journal_head) == (None, (), "")
