"""What `resume`, `stop`, `restart` and `answer` do to a loop from another process: ask it, and hear what it decided.

The loop alone decides, and puts what it decided into its row, where everybody reads it alike (FAULTS 45, 46). A loop
whose process is gone decides nothing: then the caller continues it. Nothing here changes a row.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Literal, assert_never

from tenter.executors import is_alive
from tenter.kernel import SYSTEM_CLOCK, FrozenStruct
from tenter.loop.claim import place_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.moment import moment
from tenter.loop.reason import ReleaseHow
from tenter.loop.registry import Registry
from tenter.loop.release import Release, by_this_process
from tenter.loop.signal_file import Answer, Signal, Written, take_answer, write_signal
from tenter.loop.suspension import StateUnreadable, read_state

LOOK_SECONDS: Final = 0.1
"""How often the row is looked at."""
PATIENCE_SECONDS: Final = 5.0
"""How long a loop that is suspended, or has asked, may take to decide: it looks ten times a second."""
END_SECONDS: Final = 30.0
"""How long a loop that is asked to end may take: its backend gets a grace, and its hooks are told."""

Result = Literal[
    "resumed",
    "already_requested",
    "not_suspended",
    "stopped",
    "restarted",
    "ended",
    "requested",
    "answered",
    "no_question",
    "continue",
]
"""`ended`: the loop is over, and not because it was asked to; `requested`: it has not decided yet; `continue`: its
process is gone, and nothing more comes of it until somebody continues it."""


class Steered(FrozenStruct, frozen=True, kw_only=True):
    """What came of asking a loop. The message is for people, and not escaped."""

    result: Result
    message: str
    done: bool = True
    """Whether what was asked for is done, needs not be done, or was asked for before."""


async def resume(registry: Registry, row: LoopRow, *, patience: float = PATIENCE_SECONDS) -> Steered:
    """Asks a suspended loop to go on, and waits `patience` seconds for what it decides.

    Raises StateUnreadable where its process is gone and nobody can tell what it waited for.
    """
    if _is_suspending(registry, row):
        row = await _seen(registry, row, patience, until=lambda now: now.suspension is not None)
    alive = is_alive(row.process)
    if row.ended_at is not None or (row.suspension is None and alive):
        told = f"{_name(row)} is not suspended: {_doing(row)}{_last_release(row)}"
        return Steered(result="not_suspended", message=told)
    if row.suspension is None:
        return Steered(result="continue", message=f"the process of {_name(row)} has ended; it goes on in this one")
    suspension_id = row.suspension.suspension_id
    release = registry.released(row.loop_id, suspension_id)
    if not alive:
        return _without_a_process(row, suspension_id, release)
    if release is not None:  # somebody was first since the row was read
        return _decided(_name(row), release, own=False)
    signal = _signal(row, "resume", suspension_id)
    written = write_signal(place_of(row), signal, lives=lambda other: _lives(registry, other))
    seen = await _seen(registry, row, patience, until=lambda now: _left(now, suspension_id))
    return _resumed(seen, registry.released(row.loop_id, suspension_id), signal, written)


async def stop(registry: Registry, row: LoopRow, *, patience: float = END_SECONDS) -> Steered:
    """Asks a loop to end, and waits `patience` seconds for its end."""
    return await _end(registry, row, "stop", patience)


async def restart(registry: Registry, row: LoopRow, *, patience: float = END_SECONDS) -> Steered:
    """Asks a loop to end for a restart, and waits `patience` seconds for its end."""
    return await _end(registry, row, "restart", patience)


async def answer(registry: Registry, row: LoopRow, text: str, *, patience: float = PATIENCE_SECONDS) -> Steered:
    """Answers the question of a loop, and waits `patience` seconds until it has taken the answer."""
    if row.ended_at is not None or row.question is None:
        return Steered(result="no_question", message=f"{_name(row)} asks nothing: {_doing(row)}", done=False)
    if not is_alive(row.process):
        gone = f"the process of {_name(row)} has ended; 'tenter loop resume {row.loop_id}' lets it go on, and ask again"
        return Steered(result="no_question", message=gone, done=False)
    question_id, place = row.question.question_id, place_of(row)
    given = Answer(loop_id=row.loop_id, question_id=question_id, text=text, at=_now(), by=by_this_process())
    if write_signal(place, given, lives=lambda other: _lives(registry, other)) == "already":
        told = f"{_name(row)} was given an answer before; the first one counts"
        return Steered(result="already_requested", message=told, done=False)

    def taken(now: LoopRow) -> bool:
        return not place.signal("answer").exists() or now.question is None or now.question.question_id != question_id

    seen = await _seen(registry, row, patience, until=taken)
    if seen.ended_at is not None and isinstance(
        take_answer(place, loop_id=row.loop_id, question_id=question_id), Answer
    ):  # else it would lie there, as it was typed
        return Steered(result="no_question", message=f"{_name(row)} has ended without the answer", done=False)
    if place.signal("answer").exists():
        told = f"{_name(row)} has not taken the answer; it may have ended, or heard another one before"
        return Steered(result="requested", message=told, done=False)
    return Steered(result="answered", message=f"{_name(row)} has the answer")


def _is_suspending(registry: Registry, row: LoopRow) -> bool:
    """Whether the loop has written its suspension, which its row does not have yet."""
    if row.ended_at is not None or row.suspension is not None or not is_alive(row.process):
        return False
    with contextlib.suppress(StateUnreadable):  # then it cannot be told, and the row stands
        state = read_state(place_of(row))
        if state is not None and state.loop_id == row.loop_id:
            return registry.released(row.loop_id, state.suspension_id) is None
    return False


def _without_a_process(row: LoopRow, suspension_id: str, release: Release | None) -> Steered:
    """A suspended loop that nobody runs: it goes on from its state file, unless its release is on record already."""
    gone = f"{_name(row)} is suspended and its process has ended; it goes on in this one"
    if release is not None:
        again = f"{gone}: for the second time, as it was {_WORDS[release.how]} by {release.who} at {release.at}"
        return Steered(result="continue", message=f"{again}, and ended before it did")
    state = read_state(place_of(row))
    if state is None or state.suspension_id != suspension_id:
        path = str(place_of(row).suspend_state)
        found = "is gone" if state is None else f"is that of another suspension ({state.suspension_id})"
        raise StateUnreadable(
            f"{_name(row)} is suspended and its process has ended, and its suspend state {path!r} {found}; "
            f"put it back, or end the loop with 'tenter loop stop {row.loop_id}'"
        )
    return Steered(result="continue", message=gone)


def _resumed(seen: LoopRow, release: Release | None, signal: Signal, written: Written) -> Steered:
    """What came of a request to go on, as the row tells it to all who asked."""
    name = _name(seen)
    if release is not None:
        return _decided(name, release, own=written == "written" and (release.by, release.at) == (signal.by, signal.at))
    if seen.ended_at is not None:
        return Steered(result="ended", message=f"{name} was not resumed: {_doing(seen)}", done=False)
    if not is_alive(seen.process):
        return Steered(result="continue", message=f"the process of {name} has ended; it goes on in this one")
    if written == "already":
        return Steered(result="already_requested", message=f"{name} was asked to go on before, and has not done so yet")
    told = f"{name} is asked to go on, and has not done so yet; the request stays"
    return Steered(result="requested", message=told, done=False)


def _decided(name: str, release: Release, *, own: bool) -> Steered:
    """What the loop decided, for one who asked it to go on: on his own request, or on another's."""
    by = f"by {release.who} at {release.at}"
    match release.how:
        case "resume" if own:
            return Steered(result="resumed", message=f"{name} goes on")
        case "resume":
            return Steered(
                result="already_requested", message=f"{name} was resumed before, {by}; nothing more was done"
            )
        case "stop":
            return Steered(result="stopped", message=f"{name} was not resumed: it was stopped {by}", done=False)
        case "restart":
            told = f"{name} was not resumed: it was asked to restart {by}"
            return Steered(result="restarted", message=told, done=False)
        case _:
            assert_never(release.how)


async def _end(registry: Registry, row: LoopRow, how: ReleaseHow, patience: float) -> Steered:
    if row.ended_at is not None:
        return Steered(result="ended", message=f"{_name(row)} is over: {_doing(row)}", done=how == "stop")
    if is_alive(row.process):  # else whoever takes the loop over asks it: others may work in its workspace now
        write_signal(place_of(row), _signal(row, how, None), lives=lambda other: _lives(registry, other))
    seen = await _seen(registry, row, patience, until=lambda now: now.ended_at is not None)
    name = _name(seen)
    if seen.ended_at is None and not is_alive(seen.process):
        return Steered(
            result="continue", message=f"the process of {name} has ended; it is brought to its end in this one"
        )
    if seen.ended_at is None:
        told = f"{name} is asked to {how}, and has not done so yet; the request stays"
        return Steered(result="requested", message=told, done=False)
    resumed = _resumed_meanwhile(registry, row)
    match seen.reason:
        case "stopped":
            told = f"{name} has ended: {seen.message}{resumed}"
            return Steered(result="stopped", message=told, done=how == "stop")
        case "restart_requested":
            told = f"{name} has ended, to be started again: {seen.message}{resumed}"
            return Steered(result="restarted", message=told, done=True)
        case _:
            told = f"{name} has ended, and not because it was asked to {how}: {_doing(seen)}"
            return Steered(result="ended", message=told, done=how == "stop")


def _lives(registry: Registry, loop_id: str) -> bool:
    """Whether another loop goes on, and hears what it was told."""
    row = registry.row(loop_id)
    return row is not None and row.ended_at is None and is_alive(row.process)


def _last_release(row: LoopRow) -> str:
    """Who ended its last suspension and when, for one who comes too late."""
    release = row.released
    if release is None or (release.how, row.reason) in (("stop", "stopped"), ("restart", "restart_requested")):
        return ""  # where it ended for that, how it ended tells it
    return f"; before that it was {_WORDS[release.how]} by {release.who} at {release.at}"


def _resumed_meanwhile(registry: Registry, row: LoopRow) -> str:
    """That the suspension in which the loop was asked to end was ended by somebody else."""
    release = None if row.suspension is None else registry.released(row.loop_id, row.suspension.suspension_id)
    if release is None or release.how != "resume":
        return ""
    return f" (before that it was resumed by {release.who} at {release.at})"


async def _seen(registry: Registry, row: LoopRow, patience: float, *, until: Callable[[LoopRow], bool]) -> LoopRow:
    """The row when `until` holds, when its process is gone, or when `patience` is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while True:
        alive = is_alive(row.process)  # asked before the row is read: what the process did last is in it
        row = registry.row(row.loop_id) or row
        if until(row) or not alive or loop.time() >= deadline:
            return row
        await asyncio.sleep(LOOK_SECONDS)


def _left(row: LoopRow, suspension_id: str) -> bool:
    """Whether the loop has decided to leave that suspension, or is in it no more."""
    decided = row.released is not None and row.released.suspension_id == suspension_id
    held = row.suspension is not None and row.suspension.suspension_id == suspension_id
    return row.ended_at is not None or decided or not held


def _signal(row: LoopRow, how: ReleaseHow, suspension_id: str | None) -> Signal:
    return Signal(kind=how, loop_id=row.loop_id, suspension_id=suspension_id, at=_now(), by=by_this_process())


_WORDS: Final = {"resume": "resumed", "stop": "stopped", "restart": "asked to restart"}


def _name(row: LoopRow) -> str:
    return f"the loop {row.loop_id}"


def _doing(row: LoopRow) -> str:
    """What the loop is doing, or how it ended."""
    if row.ended_at is not None:
        why = f" ({row.reason}: {row.message})" if row.reason not in (None, "completed", "cancelled") else ""
        return f"it {_ENDS[row.status]} at {moment(row.ended_at)}{why}"
    return f"it is running iteration {row.iteration}" if row.iteration else "it is starting"


_ENDS: Final = {
    "completed": "completed",
    "cancelled": "was cancelled",
    "failed": "ended",
    "running": "ended",
    "suspended": "ended",
}


def _now() -> str:
    return moment(SYSTEM_CLOCK.now())
