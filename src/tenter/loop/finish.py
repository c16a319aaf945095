"""Puts the end of a loop on record, leaves its summary and clears its state, however it ended.

Each step is contained: what cannot be written is told, and the rest is done all the same.
"""

from collections.abc import Callable

import msgspec

from tenter.journal import JournalError
from tenter.kernel import TenterError
from tenter.loop.batches import LARGEST
from tenter.loop.claim import place_of
from tenter.loop.events_file import read_events
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Parts
from tenter.loop.place import SIGNAL_FILES, Place
from tenter.loop.published import parse_events
from tenter.loop.reason import standing_after
from tenter.loop.record import LoopRecord
from tenter.loop.registry import Registry
from tenter.loop.request import LoopResult
from tenter.loop.state import LoopState
from tenter.loop.summary import LoopSummary, summary_lines, summary_of, topics_of, write_summary
from tenter.loop.suspension import clear_state


async def finish(parts: Parts, state: LoopState, record: LoopRecord) -> LoopResult:
    """The result of a loop in its last state, after it was put wherever one looks for it."""
    result = result_of(parts, state)
    summary = parts.setup.redactor.redact(_summary(parts, result, state), fuzzy=True)
    record.let_go()
    await record.ended({"status": result.status, **msgspec.structs.asdict(result)})
    _contained(parts, lambda: write_summary(parts.place, summary))
    is_known = _contained(
        parts,
        lambda: parts.registry.update(
            parts.loop_id,
            status=standing_after(result.reason),
            reason=result.reason,
            message=result.message,
            iteration=result.iterations,
            ended_at=result.ended_at,
            suspension=None,
            question=None,
        ),
    )
    if is_known:  # else it is listed as suspended yet, and whoever continues it needs that state
        _contained(parts, lambda: clear_state(parts.place))
        _contained(parts, lambda: _clear_signals(parts.place))
    parts.tell("ended", "\n".join(summary_lines(summary)))
    return result


def finish_lost(registry: Registry, row: LoopRow, now: float) -> LoopResult:
    """The result of a loop whose process and workspace are both gone: there is nowhere to run its hooks any more.

    Raises TenterError where that cannot be put on record.
    """
    place, message = place_of(row), f"its workspace {row.workspace!r} is gone, and its process too"
    result = LoopResult(
        loop_id=row.loop_id,
        status=standing_after("failed"),
        reason="failed",
        message=message,
        iterations=row.iteration,
        cost_usd=0.0,
        started_at=row.started_at,
        ended_at=now,
        summary=str(place.summary),
        workspace=row.workspace,
    )
    state = LoopState(iteration=row.iteration, started_at=row.started_at)
    data, _ = read_events(place.events, 0, limit=LARGEST)
    write_summary(place, summary_of(result, state, topics_of(parse_events(data))))
    registry.update(
        row.loop_id,
        status="failed",
        reason="failed",
        message=message,
        ended_at=now,
        suspension=None,
        question=None,
    )
    return result


def result_of(parts: Parts, state: LoopState) -> LoopResult:
    """What came of the loop, masked."""
    assert state.reason is not None, "it ended"
    return LoopResult(
        loop_id=parts.loop_id,
        status=standing_after(state.reason),
        reason=state.reason,
        message=parts.setup.redactor.mask_fuzzy(state.message),
        iterations=state.iteration,
        cost_usd=state.cost_usd,
        started_at=state.started_at,
        ended_at=parts.setup.clock.now(),
        summary=str(parts.place.summary),
        workspace=str(parts.place.workspace),
    )


def _summary(parts: Parts, result: LoopResult, state: LoopState) -> LoopSummary:
    try:
        data, _ = read_events(parts.place.events, 0, limit=LARGEST)
    except TenterError as error:
        parts.note(str(error))
        data = b""
    return summary_of(result, state, topics_of(parse_events(data)))


def _clear_signals(place: Place) -> None:
    """What the loop was asked and did not come to hear: nobody else works in its workspace."""
    for kind in SIGNAL_FILES:
        place.signal(kind).unlink(missing_ok=True)


def _contained(parts: Parts, step: Callable[[], object]) -> bool:
    """Whether it was done; why it was not is told."""
    try:
        step()
    except (TenterError, JournalError, OSError) as error:
        parts.note(str(error))
        return False
    return True
