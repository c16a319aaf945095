"""Times as they stand in a loop's documents (seed 001): UTC, whole seconds, `2026-02-28T15:31:00Z`."""

from datetime import UTC, datetime


def moment(at: float) -> str:
    """Seconds since the epoch as text."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """What `moment` was made of, without the fraction."""
    return datetime.fromisoformat(text).timestamp()
