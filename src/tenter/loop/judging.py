"""What an iteration came to, and whether another one follows (issue "The loop"). Pure.

States go in and come out. It fires no point, and reads no file and no clock.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tenter.config import LoopSpec
from tenter.loop.hats import select
from tenter.loop.published import Malformed
from tenter.loop.reason import Reason
from tenter.loop.state import MOST_TOPICS, Batch, LoopState, Published
from tenter.loop.topic import ASK, CANCEL

STALE: Final = 3
"""The same event so many times running ends a loop."""
MOST_MALFORMED: Final = 3
"""So many lines that are no events end a loop."""

MOST_NOTES: Final = 20
LONGEST_NOTE: Final = 2_000
"""In characters."""
LONGEST_QUOTE: Final = 300
_UNSAID: Final = "it did not say why"
_LEFT_OUT: Final = "there were more notes, which are left out"


def initialised(state: LoopState, topic: str, prompt: str) -> LoopState:
    """After the body of `loop.start`: the start topic waits for the first iteration."""
    return state.but(pending=(Published(topic, prompt),))


def limit(state: LoopState, spec: LoopSpec, now: float) -> tuple[Reason, str] | None:
    """Why no further iteration may begin, `now` in seconds since the epoch; None where one may."""
    if state.iteration >= spec.max_iterations:
        return "max_iterations", f"the limit of iterations is reached: {spec.max_iterations}"
    longest = spec.max_runtime_seconds
    if longest is not None and now - state.started_at - state.waited_seconds >= longest:
        return "max_runtime", f"the limit of runtime is reached: {longest:g} s"
    return None


def begun(state: LoopState) -> LoopState:
    """At the boundary of the next iteration, which has taken on nothing yet."""
    return state.but(iteration=state.iteration + 1, selected_hat=None, selected_task=None)


def selecting(state: LoopState, spec: LoopSpec, task: str | None) -> LoopState:
    """After the body of `iteration.start`: the hat that is worn, what it takes on, and the task that is worked on."""
    selection = select(spec.hats, state.pending)
    return state.but(
        selected_hat=selection.hat,
        active_hat=selection.hat,
        selected_task=task,
        taken=selection.events,
        pending=selection.left,
    )


def noted(state: LoopState, *notes: str) -> LoopState:
    """The state with something more to tell the next iteration: at most 20 lines of at most 2,000 characters."""
    return state.but(notes=_bounded((*state.notes, *notes)))


def finished(
    state: LoopState, spec: LoopSpec, batch_events: Sequence[Published | Malformed], batch: Batch
) -> LoopState:
    """After everything of an iteration's `batch` was published or refused: before the next iteration, or at the end.

    `batch_events` is all of the batch, refused events and malformed lines too. The notes of `state` are those of the
    publishing: what the iteration was told itself is gone by then. An iteration that failed and published nothing gives
    back what it took on. `state.cost_usd` and `state.offset` count the iteration already.
    """
    refused = batch.refuses()
    events = [one for index, one in enumerate(batch_events) if isinstance(one, Published) and index not in refused]
    malformed = [one for one in batch_events if isinstance(one, Malformed)]
    state = _counted(state, spec, events, batch).but(malformed=state.malformed + len(malformed))
    claimed = _claims_completion(spec, events, batch)
    missing = [topic for topic in spec.required_events if topic not in state.seen]
    state = _told(state, batch, malformed, _refused_completion(spec, events, claimed=claimed, missing=missing))
    ending = _early(events, completed=claimed and not missing) or _trouble(state, spec, batch, malformed)
    return state.at("next") if ending is None else state.ending(*ending)


def _counted(state: LoopState, spec: LoopSpec, events: Sequence[Published], batch: Batch) -> LoopState:
    """What is counted from one iteration to the next, and what waits for the next."""
    last, repeated = _repeats(state, events)
    new = {event.topic for event in events}.intersection(spec.required_events).difference(state.seen)
    spent = {spec.completion_promise, CANCEL, ASK}
    waiting = tuple(event for event in events if event.topic not in spent)
    given_back = state.taken if batch.failed and not waiting else ()
    return state.but(
        batch=None,
        taken=(),
        pending=(*given_back, *state.pending, *waiting),
        lines=state.lines + batch.lines,
        published=state.published + len(events),
        topics=_topics(state, events),
        seen=(*state.seen, *sorted(new)),
        last=last,
        repeated=repeated,
        failures=state.failures + 1 if batch.failed else 0,
    )


def _topics(state: LoopState, events: Sequence[Published]) -> Mapping[str, int]:
    counted = dict(state.topics)
    for topic, count in Counter(event.topic for event in events).items():
        if topic in counted or len(counted) < MOST_TOPICS:
            counted[topic] = counted.get(topic, 0) + count
    return counted


def _repeats(state: LoopState, events: Sequence[Published]) -> tuple[Published | None, int]:
    """The event that was published last and how many times running; the first that makes a loop stale stays."""
    last, repeated = state.last, state.repeated
    for event in events:
        repeated = repeated + 1 if event == last else 1
        last = event
        if repeated >= STALE:
            break
    return last, repeated


def _claims_completion(spec: LoopSpec, events: Sequence[Published], batch: Batch) -> bool:
    as_event = bool(events) and events[-1].topic == spec.completion_promise
    return as_event or (batch.promised and not batch.failed)


def _refused_completion(
    spec: LoopSpec, events: Sequence[Published], *, claimed: bool, missing: Sequence[str]
) -> str | None:
    """Why the promise of completion did not count, if it was given and did not."""
    promise = spec.completion_promise
    if claimed and missing:
        return f"{promise!r} did not end the loop, since these events were never published: {', '.join(missing)}"
    if not claimed and any(event.topic == promise for event in events):
        return f"{promise!r} did not end the loop, since it was not the last event that was published"
    return None


def _told(state: LoopState, batch: Batch, malformed: Sequence[Malformed], refused: str | None) -> LoopState:
    notes = [f"the iteration failed: {batch.error or _UNSAID}"] if batch.failed else []
    notes += [one for one in (refused, batch.cut) if one]
    notes += [f"line {one.line} of the events file was no event: {one.why}" for one in malformed[:MOST_MALFORMED]]
    return state.but(notes=_bounded((*notes, *state.notes)))


def _early(events: Sequence[Published], *, completed: bool) -> tuple[Reason, str] | None:
    """The ends that an agent asks for."""
    cancelled = next((event for event in events if event.topic == CANCEL), None)
    if cancelled is not None:
        said = f": {_line(cancelled.payload, LONGEST_QUOTE)}" if isinstance(cancelled.payload, str) else ""
        return "cancelled", f"the event {CANCEL!r} was published{said}"
    return ("completed", "the work is done") if completed else None


def _trouble(
    state: LoopState, spec: LoopSpec, batch: Batch, malformed: Sequence[Malformed]
) -> tuple[Reason, str] | None:
    """The ends that befall a loop, in the order in which one goes before another."""
    if batch.escalated is not None:
        return "escalated", f"a run of the backend was escalated to {batch.escalated!r}"
    if malformed and state.malformed >= MOST_MALFORMED:
        first = malformed[0]
        count = f"{state.malformed} lines of the events file were no events"
        return "validation_failure", f"{count}; line {first.line}: {_line(first.why, LONGEST_QUOTE)}"
    if state.last is not None and state.repeated >= STALE:
        return (
            "loop_stale",
            f"the event {state.last.topic!r} was published {STALE} times running, with the same payload",
        )
    if batch.failed and state.failures >= spec.max_consecutive_failures:
        return "consecutive_failures", f"{state.failures} iterations running failed; the last: {_quoted(batch.error)}"
    if spec.max_cost_usd is not None and state.cost_usd >= spec.max_cost_usd:
        return "max_cost", f"the limit of cost is reached: {state.cost_usd:g} of {spec.max_cost_usd:g} US dollars"
    return None


def _quoted(error: str) -> str:
    return _line(error, LONGEST_QUOTE) or _UNSAID


def _bounded(notes: Sequence[str]) -> tuple[str, ...]:
    kept = notes if len(notes) <= MOST_NOTES else (*notes[: MOST_NOTES - 1], _LEFT_OUT)
    return tuple(_line(note, LONGEST_NOTE) for note in kept)


def _line(text: str, longest: int) -> str:
    """`text` on one line of at most so many characters."""
    line = " ".join(text[: 2 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
