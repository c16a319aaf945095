"""From a loop whose process is gone to one that goes on, or that is brought to its end here.

Of two that try one wins, and nothing of a loop is touched before it was taken over. How a loop runs is told by
`starting`.
"""

from pathlib import Path

import msgspec

from tenter.executors import this_process
from tenter.journal import JournalError, Stream
from tenter.kernel import SYSTEM_CLOCK, Redactor, TenterError
from tenter.loop.building import Built, Checked, build
from tenter.loop.claim import place_of, registry_of
from tenter.loop.course import asked_to_end
from tenter.loop.finish import finish_lost, settle
from tenter.loop.loop_row import LoopRow
from tenter.loop.moment import moment
from tenter.loop.orphans import end_orphans, told_of_orphans
from tenter.loop.parts import Asking, Listener, Told
from tenter.loop.place import Place
from tenter.loop.reason import ReleaseHow
from tenter.loop.record import last_result, last_state
from tenter.loop.registry import Registry, Taken
from tenter.loop.release import Release, by_this_process
from tenter.loop.request import LoopRequest, LoopResult
from tenter.loop.signal_file import Signal, write_signal
from tenter.loop.starting import check, run_built
from tenter.loop.state import LoopState
from tenter.loop.suspension import StateUnreadable, SuspendState, read_state


class TakenOver(TenterError):
    """Another process has the loop: it goes on there, or came to its end there."""


async def continue_loop(
    row: LoopRow, *, tell: Listener, asking: Asking | None = None, asked: ReleaseHow = "resume"
) -> LoopResult:
    """Takes over a loop whose process is gone, and brings it to its end: from where it stood, or as it is `asked` to.

    Of two that try, one wins: the other hears by whom and when, as TakenOver. What the loop had left running is ended
    before anything else. A loop that is asked to end does so also where its project cannot be used any more; its hooks
    are not told then. One that is asked to go on raises as `run_loop` there, and StateUnreadable where nobody can tell
    what it waited for.
    """
    registry, checked = registry_of(_nearest(Path(row.project))), _checked(row, asked)
    row = _take(registry, row)
    if count := await end_orphans(row.loop_id):
        tell(Told(kind="note", loop_id=row.loop_id, text=told_of_orphans(row.loop_id, count)))
    if not place_of(row).workspace.is_dir():
        checked = TenterError(f"its workspace {row.workspace!r} is gone, and its process too")
    if isinstance(checked, TenterError):
        return _end_unheard(registry, row, asked, why=checked, tell=tell)
    try:
        place_of(row).make()
        built = build(checked, row, registry, tell=tell, asking=asking)
        state, ended, continued = await _stood(built, row, asked)
    except (TenterError, JournalError) as error:
        if asked == "resume":
            raise
        return _end_unheard(registry, row, asked, why=error, tell=tell)
    if ended is not None:  # it died when its hooks had been told, and before the registry knew
        async with built.harness:
            settle(built.parts, state, ended)
            built.close()
        return ended
    built.parts.tell("began", f"loop {row.loop_id} in {row.workspace}, continued at iteration {state.iteration}")
    return await run_built(built, state, continued=continued)


def _nearest(folder: Path) -> Path:
    """The folder, or where it is gone the one above it that is there."""
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def _checked(row: LoopRow, asked: ReleaseHow) -> Checked | TenterError:
    """As `check`; where a loop is asked to end, what is raised there is returned."""
    try:
        request = msgspec.convert(row.request, LoopRequest)
        checked = check(msgspec.structs.replace(request, config=row.config, skip_preflight=True))
        if str(checked.project) == row.project:
            return checked
        refused = TenterError(f"its configuration {row.config!r} is that of another project, {str(checked.project)!r}")
    except msgspec.ValidationError as error:
        refused = TenterError(f"nobody can tell any more what the loop {row.loop_id} was asked for: {error}")
    except TenterError as error:
        refused = error
    if asked == "resume":
        raise refused
    return refused


def _take(registry: Registry, row: LoopRow) -> LoopRow:
    """The row, in the hands of this process. Raises TakenOver, and TenterError where it has no place to go on."""
    taken = registry.take_over(row.loop_id, this_process())
    if not isinstance(taken, Taken):
        return taken
    holder, at = taken.holder, moment(taken.at)
    if holder.loop_id == row.loop_id:
        raise TakenOver(
            f"the loop {row.loop_id} was taken over by the process {holder.pid} at {at}; "
            f"'tenter loop show {row.loop_id}' tells how it goes on"
        )
    raise TenterError(
        f"the loop {row.loop_id} cannot go on: the loop {holder.loop_id} has its workspace {row.workspace!r} (process "
        f"{holder.pid}, since {at}); try again when it is over, or end it with 'tenter loop stop {holder.loop_id}'"
    )


async def _stood(
    built: Built, row: LoopRow, asked: ReleaseHow
) -> tuple[LoopState, LoopResult | None, SuspendState | None]:
    """Where the loop stood when its process died; how it had ended, if it had; what it waited for, if it did.

    It is asked for what it is to do then; a stop that is there already comes first.
    """
    parts, stream = built.parts, Stream("loop", row.loop_id)
    try:
        state = await last_state(parts.setup.store, stream) or LoopState(started_at=row.started_at)
        ended = await last_result(parts.setup.store, stream)
        continued = row.suspension or _unregistered(parts.registry, parts.place, asked)
        if ended is None and (continued is not None or asked != "resume"):
            suspension_id = None if continued is None else continued.suspension_id
            at, by = moment(parts.setup.clock.now()), by_this_process()
            asking = Signal(kind=asked, loop_id=row.loop_id, suspension_id=suspension_id, at=at, by=by)
            write_signal(parts.place, asking)
    except BaseException:
        async with built.harness:
            built.close()
        raise
    return state, ended, continued


def _unregistered(registry: Registry, place: Place, asked: ReleaseHow) -> SuspendState | None:
    """The suspension of a loop that died after it had written it and before it was registered."""
    try:
        state = read_state(place)
    except StateUnreadable:
        if asked == "resume":
            raise
        return None
    if state is None or state.loop_id != place.loop_id:
        return None
    return state if registry.released(place.loop_id, state.suspension_id) is None else None


def _end_unheard(registry: Registry, row: LoopRow, asked: ReleaseHow, *, why: Exception, tell: Listener) -> LoopResult:
    """Ends a loop that nobody can run any more, from outside."""
    reason, message = "failed", Redactor().mask_fuzzy(" ".join(str(why).split()))
    if asked != "resume":
        release = Release(how=asked, by=by_this_process(), at=moment(SYSTEM_CLOCK.now()))
        ended = asked_to_end(LoopState(started_at=row.started_at), release)
        reason, message = ended.reason or reason, f"{ended.message}; its hooks were not told of its end: {message}"
    return finish_lost(registry, row, reason=reason, message=message, tell=tell)
