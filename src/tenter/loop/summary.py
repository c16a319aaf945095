"""What is left of a loop that is over, for programs and for people: one document, and the same in a few lines.

It counts and decides nothing. Texts are written as they are given: whoever knows secrets masks them first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from tenter.kernel import FrozenStruct, TenterError
from tenter.loop.place import Place
from tenter.loop.published import Malformed
from tenter.loop.reason import Reason, Standing
from tenter.loop.request import LoopResult
from tenter.loop.state import LoopState, Published
from tenter.loop.whole_file import put

SUMMARY_VERSION: Final = 1
MOST_TOPICS: Final = 200
"""So many topics are named; `published` counts all events."""


class Topics(FrozenStruct, frozen=True, kw_only=True):
    """What was published: how many events, and how often each topic, the first topics first."""

    published: int
    topics: Mapping[str, int]


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


def topics_of(events: Iterable[Published | Malformed]) -> Topics:
    """What `events` come to; malformed lines are no events."""
    counted = Counter(one.topic for one in events if isinstance(one, Published))
    return Topics(published=counted.total(), topics=dict(list(counted.items())[:MOST_TOPICS]))


def summary_of(result: LoopResult, state: LoopState, topics: Topics) -> LoopSummary:
    """The summary of a loop that ended with `result`, in `state`, having published `topics`."""
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
        published=topics.published,
        topics=topics.topics,
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
    waited = f", {summary.waited_seconds:.1f} s of it waiting" if summary.waited_seconds else ""
    times = "1 iteration" if summary.iterations == 1 else f"{summary.iterations} iterations"
    lines = [f"{summary.reason} after {times} in {took:.1f} s{waited}: {summary.message}"]
    if summary.cost_usd:
        lines.append(f"cost: {summary.cost_usd:.4f} US dollars")
    if summary.published:
        named = ", ".join(f"{topic} {count}x" for topic, count in summary.topics.items())
        more = "" if sum(summary.topics.values()) == summary.published else ", and others"
        lines.append(f"published: {named}{more}")
    if summary.hook_metadata:
        lines.append(f"metadata of hooks: {', '.join(summary.hook_metadata)}")
    return tuple(lines)
