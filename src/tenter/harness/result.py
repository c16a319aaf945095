"""What a run comes to (seed 003, "Run statuses"): the value that the caller gets."""

import msgspec

from tenter.catalogue import ApprovalRequest, ErrorInfo, Status, Usage
from tenter.kernel import TraceEvent


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands when its part in this process is over. Times are seconds since the epoch.

    `approval` is what the run waits for, and None where it does not wait. `cost_known` is False where a model did not
    tell what it cost; `cost_usd` is then the sum of what is known.
    """

    run_id: str
    task: str
    task_version: int
    status: Status
    output: object = None
    error: ErrorInfo | None = None
    approval: ApprovalRequest | None = None
    usage: Usage = Usage()
    cost_usd: float = 0.0
    cost_known: bool = True
    trace: tuple[TraceEvent, ...] = ()
    started_at: float
    ended_at: float

    @property
    def approvals(self) -> tuple[ApprovalRequest, ...]:
        """All that the run waits for: one request at a time, with every reason in it."""
        return () if self.approval is None else (self.approval,)
