"""When a failed operation is tried again, and how long is waited before (D§11). Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tenter.catalogue import ErrorCode, ErrorInfo
from tenter.kernel import Failed, FrozenDict

TRANSIENT: Final[frozenset[ErrorCode]] = frozenset({"provider_transient", "timeout"})
"""What may be gone the next time."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how soon. Seconds; `attempts` counts the first one, too; `jitter` is the number drawn, 0 to 1."""

    first_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 60.0
    attempts: int = 5
    jitter: float = 1.0

    def told(self) -> Mapping[str, object]:
        """As events carry it."""
        return FrozenDict(msgspec.structs.asdict(self))

    def changed(self, told: Mapping[str, object] | None) -> "RetryPolicy":
        """The policy that a hook made of this one; this one where it made nothing that can be followed."""
        if told is None:
            return self
        try:
            return msgspec.convert({**msgspec.structs.asdict(self), **told}, RetryPolicy)
        except msgspec.ValidationError:
            return self


def delay(policy: RetryPolicy, attempt: int) -> float:
    """Seconds between the failed `attempt` and the next: doubling up to the cap, of which jitter takes up to half."""
    doublings = min(max(attempt, 1) - 1, 64)
    try:
        whole = min(policy.cap_seconds, policy.first_seconds * policy.factor**doublings)
    except OverflowError:
        whole = policy.cap_seconds
    return max(0.0, whole * (0.5 + min(max(policy.jitter, 0.0), 1.0) / 2))


def retryable(failed: Failed, before: ErrorInfo, after: ErrorInfo, *, repeatable: bool) -> bool:
    """Whether the operation may be tried again: `before` is its error as it came, `after` as hooks classified it.

    What cannot be repeated is not. A hook that gave it another code decided by that.
    """
    if not repeatable:
        return False
    if after.code != before.code:
        return after.code in TRANSIENT
    return failed.retryable or after.code in TRANSIENT or after.code == "tool"
