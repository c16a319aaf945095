"""Puts the end of a loop on record, leaves its summary and clears its state, however it ended.

Each step is contained: what cannot be written is told, and the rest is done all the same.
"""

from collections.abc import Callable

import msgspec

from tenter.journal import JournalError
from tenter.kernel import SYSTEM_CLOCK, TenterError
from tenter.loop.claim import place_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Listener, Parts, Told
from tenter.loop.place import SIGNAL_FILES, Place
from tenter.loop.reason import Reason, standing_after
from tenter.loop.record import LoopRecord
from tenter.loop.registry import Registry
from tenter.loop.request import LoopResult
from tenter.loop.signal_file import set_aside_of
from tenter.loop.state import LoopState
from tenter.loop.summary import summary_lines, summary_of, write_summary
from tenter.loop.suspension import clear_state


async def finish(parts: Parts, state: LoopState, record: LoopRecord) -> LoopResult:
    """The result of a loop in its last state, after it was put wherever one looks for it."""
    result = result_of(parts, state)
    record.let_go()
    await record.ended({"status": result.status, **msgspec.structs.asdict(result)})
    settle(parts, state, result)
    return result


def settle(parts: Parts, state: LoopState, result: LoopResult) -> None:
    """What follows when the end is in the journal. Whoever continues a loop that died meanwhile does it once more."""
    summary = parts.setup.redactor.redact(summary_of(result, state), fuzzy=True)
    _contained(parts.note, lambda: write_summary(parts.place, summary))
    is_known = _contained(
        parts.note,
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
        _contained(parts.note, lambda: clear_state(parts.place))
        _contained(parts.note, lambda: _clear_signals(parts.place))
    parts.tell("ended", "\n".join(summary_lines(summary)))


def finish_lost(registry: Registry, row: LoopRow, *, reason: Reason, message: str, tell: Listener) -> LoopResult:
    """The result of a loop whose process is gone and whose hooks cannot be run; `message` is masked and says why.

    Its worktree and what else it left stay. Raises TenterError where that cannot be put on record.
    """

    def note(text: str) -> None:
        tell(Told(kind="note", loop_id=row.loop_id, text=text))

    place, now = place_of(row), SYSTEM_CLOCK.now()
    result = LoopResult(
        loop_id=row.loop_id,
        status=standing_after(reason),
        reason=reason,
        message=message,
        iterations=row.iteration,
        cost_usd=0.0,
        started_at=row.started_at,
        ended_at=now,
        summary=str(place.summary),
        workspace=row.workspace,
    )
    summary = summary_of(result, LoopState(iteration=row.iteration, started_at=row.started_at))
    _contained(note, lambda: write_summary(place, summary))
    registry.update(
        row.loop_id,
        status=standing_after(reason),
        reason=reason,
        message=message,
        ended_at=now,
        suspension=None,
        question=None,
    )
    _contained(note, lambda: clear_state(place))
    _contained(note, lambda: _clear_signals(place))
    tell(Told(kind="ended", loop_id=row.loop_id, text="\n".join(summary_lines(summary))))
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


def _clear_signals(place: Place) -> None:
    """What the loop was asked and did not come to hear, what was set aside, and what a process that died left of it.

    Answers may be among that, as they were typed. Nobody else works in its workspace.
    """
    for kind in SIGNAL_FILES:
        path = place.signal(kind)
        beside = (set_aside_of(path), *path.parent.glob(f".{path.name}-*.tmp"))
        for one in (path, *beside):
            if one.is_symlink() or not one.is_dir():  # a folder is not ours
                one.unlink(missing_ok=True)


def _contained(note: Callable[[str], object], step: Callable[[], object]) -> bool:
    """Whether it was done; why it was not is told."""
    try:
        step()
    except (TenterError, JournalError, OSError) as error:
        note(str(error))
        return False
    return True
