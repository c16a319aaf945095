"""From a request to a loop that runs, and from a loop whose process is gone to one that goes on.

Nothing is started before the preflight passed and the project is trusted (D§3.14). What a loop is made of is built by
`building`; what happens between its start and its end is the orchestrator's.
"""

import os
from collections.abc import Callable
from typing import cast

import msgspec

from tenter.config import load, load_user, require_trust
from tenter.harness import BUILTIN_TOOLS, redactor_for, uncut
from tenter.journal import Stream
from tenter.kernel import SYSTEM_CLOCK, SYSTEM_RANDOM, TenterError
from tenter.loop.building import Built, Checked, build
from tenter.loop.claim import claim, give_back, place_of, registry_of
from tenter.loop.finish import finish, finish_lost
from tenter.loop.loop_row import LoopRow
from tenter.loop.moment import moment
from tenter.loop.orchestrator import Orchestrator
from tenter.loop.parts import Asking, Listener, Told
from tenter.loop.place import Place
from tenter.loop.points import Points
from tenter.loop.preflight import PreflightFailed, check_start
from tenter.loop.process_id import is_alive, this_process
from tenter.loop.record import LoopRecord, last_state
from tenter.loop.registry import Registry, Taken
from tenter.loop.release import by_this_process
from tenter.loop.request import LoopRequest, LoopResult
from tenter.loop.signal_file import Signal, write_signal
from tenter.loop.state import LoopState
from tenter.loop.suspension import SuspendState, read_state


async def run_loop(request: LoopRequest, *, tell: Listener, asking: Asking | None = None) -> LoopResult:
    """Starts a loop and brings it to its end.

    `tell` hears of its progress, `asking` puts a question on the terminal. Raises ConfigError, Untrusted and
    PreflightFailed, each before anything was started, and cancellation, after the loop was ended for it.
    """
    checked = check(request)
    registry, loop_id = registry_of(checked.project), _new_id()

    def told(text: str) -> None:
        tell(Told(kind="note", loop_id=loop_id, text=text))

    row = _row(checked, loop_id)
    _tell_of_the_lost(registry, told)
    row = await claim(registry, row, exclusive=request.exclusive, told=told)
    try:
        place_of(row).make()
        built = build(checked, row, registry, tell=tell, asking=asking)
    except BaseException:
        give_back(registry, row)
        raise
    parts = built.parts
    parts.tell("began", f"loop {loop_id} in {row.workspace}")
    return await _run(built, LoopState(started_at=parts.setup.clock.now()), continued=None)


async def continue_loop(row: LoopRow, *, tell: Listener, asking: Asking | None = None) -> LoopResult:
    """Takes over a loop whose process is gone, and brings it to its end from where it stood.

    Of two that try, one wins: the other hears by whom and when, as TenterError. Raises as `run_loop`, and
    StateUnreadable where nobody can tell what it waited for.
    """
    request = msgspec.convert(row.request, LoopRequest)
    checked = check(msgspec.structs.replace(request, skip_preflight=True))
    registry, place = registry_of(checked.project), place_of(row)
    continued = row.suspension or _unregistered(place)
    taken = registry.take_over(row.loop_id, this_process())
    if isinstance(taken, Taken):
        raise TenterError(_taken(taken))
    if not place.workspace.is_dir():
        return finish_lost(registry, taken, SYSTEM_CLOCK.now())
    place.make()
    built = build(checked, taken, registry, tell=tell, asking=asking)
    setup = built.parts.setup
    state = await last_state(setup.store, Stream("loop", row.loop_id)) or LoopState(started_at=row.started_at)
    built.parts.tell("began", f"loop {row.loop_id} in {row.workspace}, continued at iteration {state.iteration}")
    if continued is not None:
        _resume(built, continued)
    return await _run(built, state, continued=continued)


def check(request: LoopRequest) -> Checked:
    """The configuration of a loop that may start. Raises ConfigError, Untrusted and PreflightFailed."""
    spec, user = load(request.config, builtin_tools=BUILTIN_TOOLS), load_user()
    try:
        check_start(request)
    except PreflightFailed as error:
        if {one.check for one in error.findings if one.level == "failed"} == {"trust"}:
            require_trust(request.config, builtin_tools=BUILTIN_TOOLS)
        raise
    trusted = require_trust(request.config, builtin_tools=BUILTIN_TOOLS)
    return Checked(request=request, spec=spec, user=user, pins=trusted.pins)


async def _run(built: Built, state: LoopState, *, continued: SuspendState | None) -> LoopResult:
    parts, setup, stream = built.parts, built.parts.setup, Stream("loop", built.parts.loop_id)
    record = LoopRecord(setup.store, stream, redactor=setup.redactor, clock=setup.clock)
    setup.sink.remember(stream, state.metadata)
    points = Points(parts, record, built.attention, continued=continued)
    orchestrator = Orchestrator(parts, state, points=points, record=record, attention=built.attention)
    async with built.harness:
        try:
            await orchestrator.run()
        finally:
            result = await uncut(finish(parts, orchestrator.state, record))
            built.close()
    return result


def _new_id() -> str:
    """`loop-` and two groups of four hex digits."""
    return f"loop-{SYSTEM_RANDOM.getrandbits(16):04x}-{SYSTEM_RANDOM.getrandbits(16):04x}"


def _row(checked: Checked, loop_id: str) -> LoopRow:
    process, project = this_process(), str(checked.project)
    mask = redactor_for(checked.spec, checked.user, os.environ).mask_text  # a registry tells for years what it is told
    prompt = None if checked.request.prompt is None else mask(checked.request.prompt)
    request = msgspec.structs.replace(checked.request, config=os.path.realpath(checked.request.config), prompt=prompt)
    return LoopRow(
        loop_id=loop_id,
        primary=True,
        project=project,
        workspace=project,
        config=request.config,
        pid=process.pid,
        started=process.started,
        prompt=mask(checked.prompt),
        started_at=SYSTEM_CLOCK.now(),
        backend=told_backend(checked),
        request=cast("dict[str, object]", msgspec.to_builtins(request)),
    )


def told_backend(checked: Checked) -> str:
    """The backend in a few words, for people."""
    backend = msgspec.to_builtins(checked.backend)
    return f"harness {backend['harness']}" if "harness" in backend else " ".join(backend["command"])


def _tell_of_the_lost(registry: Registry, told: Callable[[str], None]) -> None:
    """Loops whose process died while they were suspended are found at the next start."""
    for row in registry.rows():
        if row.suspension is not None and not is_alive(row.process):
            told(
                f"the loop {row.loop_id} is suspended at {row.suspension.phase_event} in {row.workspace}, and its "
                f"process is gone; 'tenter loop resume {row.loop_id}' continues it, 'tenter loop stop "
                f"{row.loop_id}' ends it"
            )


def _unregistered(place: Place) -> SuspendState | None:
    """The suspension of a loop that died after it had written it and before it was registered."""
    state = read_state(place)
    return state if state is not None and state.loop_id == place.loop_id else None


def _taken(taken: Taken) -> str:
    row = taken.holder
    return (
        f"the loop {row.loop_id} was taken over by the process {row.pid} at {moment(taken.at)}; "
        f"'tenter loop show {row.loop_id}' tells how it goes on"
    )


def _resume(built: Built, continued: SuspendState) -> None:
    """Whoever continues a loop asks it to go on; a stop that is there already comes first."""
    parts = built.parts
    write_signal(
        parts.place,
        Signal(
            kind="resume",
            loop_id=parts.loop_id,
            suspension_id=continued.suspension_id,
            at=moment(parts.setup.clock.now()),
            by=by_this_process(),
        ),
    )
