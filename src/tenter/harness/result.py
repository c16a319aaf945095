"""What a run comes to (seed 003, "Run statuses"): the value that the caller gets."""

import msgspec

from tenter.catalogue import ApprovalRequest, ErrorInfo, Status, Usage
from tenter.kernel import TraceEvent


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands when its part in this process is over. Times are seconds since the epoch.

    `approvals` is all that the run waits for, one request a suspended call, and `approval` the first of these; empty
    and None where it does not wait. `journal_head` is the hash of the last entry of its stream, which `tenter runs
    verify --expect` takes; empty where the journal could not tell. `trace` is of the part of the run that this process
    did; its numbers go on with those of the part before. `cost_known` is False where a model did not tell what it cost;
    `cost_usd` is then the sum of what is known. What a sub-run used counts when that has ended.
    """

    run_id: str
    task: str
    task_version: int
    status: Status
    output: object = None
    error: ErrorInfo | None = None
    approval: ApprovalRequest | None = None
    approvals: tuple[ApprovalRequest, ...] = ()
    usage: Usage = Usage()
    cost_usd: float = 0.0
    cost_known: bool = True
    trace: tuple[TraceEvent, ...] = ()
    journal_head: str = ""
    started_at: float
    ended_at: float
