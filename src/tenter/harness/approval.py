"""From a suspended operation to what a person is asked (D§6, D§3.10). Pure."""

import hashlib

import msgspec

from tenter.agent import Waiting
from tenter.catalogue import ApprovalReason, ApprovalRequest


def request_for(waiting: Waiting, run_id: str, now: float) -> ApprovalRequest:
    """One request for all that the hooks require; its id is the same whenever the same run comes to the same place."""
    suspended = waiting.suspended
    name = hashlib.sha256(f"{run_id}/{waiting.path}/{suspended.digest}".encode()).hexdigest()[:12]
    call = {field: value for field, value in suspended.event.own_fields().items() if field != "approval"}
    return ApprovalRequest(
        id=name,
        run_id=run_id,
        operation=waiting.operation,
        path=waiting.path,
        call=msgspec.to_builtins(call),
        digest=suspended.digest,
        reasons=tuple(
            ApprovalReason(
                hook=asked.hook,
                reason=asked.reason,
                code=asked.code,
                editable=asked.editable,
                expires_at=None if asked.expires_in is None else now + asked.expires_in,
                on_timeout=asked.on_timeout,
            )
            for asked in suspended.requirements
        ),
        requested_at=now,
    )
