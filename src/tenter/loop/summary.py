"""What is left of a loop that is over, for programs and for people: one document, and the same in a few lines.

It counts and decides nothing. Texts are written as they are given: whoever knows secrets masks them first.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tenter.kernel import FrozenStruct, TenterError
from tenter.loop.place import Place
from tenter.loop.reason import Reason, Standing
from tenter.loop.request import LoopResult
from tenter.loop.state import LoopState
from tenter.loop.whole_file import put

SUMMARY_VERSION: Final = 1


class LoopSummary(FrozenStruct, frozen=True, kw_only=True):
    """The summary of version 1. Times are in seconds since the epoch, paths absolute."""

    schema_version: Literal[1] = SUMMARY_VERSION
    loop_id: str
    status: Standing
    reason: Reason
    message: str
    iterations: int
    started_at: float
    ended_at: float
    waited_seconds: float
    """Of the time in between, what was spent suspended or waiting for an answer."""
    cost_usd: float
    published: int
    topics: Mapping[str, int]
    hook_metadata: Mapping[str, object]
    """By hook, what hooks with `mutate.enabled` said."""
    workspace: str


def summary_of(result: LoopResult, state: LoopState) -> LoopSummary:
    """The summary of a loop that ended with `result`, in `state`."""
    return LoopSummary(
        loop_id=result.loop_id,
        status=result.status,
        reason=result.reason,
        message=result.message,
        iterations=result.iterations,
        started_at=result.started_at,
        ended_at=result.ended_at,
        waited_seconds=state.waited_seconds,
        cost_usd=result.cost_usd,
        published=state.published,
        topics=state.topics,
        hook_metadata=state.metadata,
        workspace=result.workspace,
    )


def write_summary(place: Place, summary: LoopSummary) -> None:
    """Puts the summary among what is kept of the loop, whole or not at all, for people too.

    Raises TenterError, naming the file, where it cannot be written.
    """
    try:
        put(place.summary, msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    except OSError as error:
        raise TenterError(f"the summary {str(place.summary)!r} cannot be written: {error.strerror}") from error


def summary_lines(summary: LoopSummary) -> tuple[str, ...]:
    """The summary for people; what hooks and agents said in it is not escaped yet."""
    took = max(summary.ended_at - summary.started_at, 0.0)
    waited = f", {min(summary.waited_seconds, took):.1f} s of it waiting" if summary.waited_seconds else ""
    lines = [f"{summary.reason} {_when(summary)} in {took:.1f} s{waited}: {summary.message}"]
    if summary.cost_usd:
        lines.append(f"cost: {summary.cost_usd:.4f} US dollars")
    if summary.published:
        named = ", ".join(f"{topic} {count}x" for topic, count in summary.topics.items())
        more = "" if sum(summary.topics.values()) == summary.published else ", and others"
        lines.append(f"published: {named}{more}")
    if summary.hook_metadata:
        lines.append(f"metadata of hooks: {', '.join(summary.hook_metadata)}")
    return tuple(lines)


def _when(summary: LoopSummary) -> str:
    """How far the loop came; an iteration that was cut short is none that it has done."""
    number = summary.iterations
    if number == 0:
        return "before the first iteration"
    if summary.reason in ("completed", "max_iterations"):
        return f"after {number} iteration{'s' if number > 1 else ''}"
    return f"at iteration {number}"
