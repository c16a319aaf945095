"""When a failed operation is tried again, and how long is waited before (D§11). Pure."""

from typing import Final

from tenter.catalogue import ErrorCode, ErrorInfo, RetryPolicy
from tenter.kernel import Failed

TRANSIENT: Final[frozenset[ErrorCode]] = frozenset({"provider_transient", "timeout"})
"""What may be gone the next time."""


def delay(policy: RetryPolicy, attempt: int) -> float:
    """Seconds between the failed `attempt` and the next: doubling up to the cap, of which jitter takes up to half."""
    doublings = min(max(attempt, 1) - 1, 64)
    try:
        whole = min(policy.cap_seconds, policy.first_seconds * policy.factor**doublings)
    except OverflowError:
        whole = policy.cap_seconds
    return whole * (0.5 + policy.jitter / 2)


def retryable(failed: Failed, before: ErrorInfo, after: ErrorInfo, *, repeatable: bool) -> bool:
    """Whether the operation may be tried again: `before` is its error as it came, `after` as hooks classified it.

    What cannot be repeated is not. A hook that gave it another code decided by that.
    """
    if not repeatable:
        return False
    if after.code != before.code:
        return after.code in TRANSIENT
    return failed.retryable or after.code in TRANSIENT or after.code == "tool"
