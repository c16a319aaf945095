"""From a request to a loop that runs, and that is brought to its end.

Nothing is started before the preflight passed and the project is trusted (D§3.14). What a loop is made of is built by
`building`; what happens between its start and its end is the orchestrator's.
"""

import os
from collections.abc import Callable
from typing import Final, cast

import msgspec

from tenter.config import ConfigError, Spec, load, load_user, require_trust, validate
from tenter.executors import is_alive, this_process
from tenter.harness import BUILTIN_TOOLS, load_script, redactor_for, uncut
from tenter.journal import Stream
from tenter.kernel import SYSTEM_CLOCK, SYSTEM_RANDOM, TenterError
from tenter.loop.building import Built, Checked, build
from tenter.loop.claim import claim, clear, give_back, place_of, registry_of
from tenter.loop.finish import finish
from tenter.loop.loop_row import LoopRow
from tenter.loop.orchestrator import Orchestrator
from tenter.loop.parts import Asking, Listener, Told
from tenter.loop.points import Points
from tenter.loop.preflight import PreflightFailed, check_start
from tenter.loop.record import LoopRecord
from tenter.loop.registry import Registry
from tenter.loop.request import LoopRequest, LoopResult
from tenter.loop.state import LoopState
from tenter.loop.suspension import SuspendState

LONGEST_PROMPT: Final = 2000
"""Characters of a prompt that are shown of a loop; the request keeps all of it."""
MOST_LOST: Final = 5
"""Loops whose process is gone that are told of at a start."""


async def run_loop(request: LoopRequest, *, tell: Listener, asking: Asking | None = None) -> LoopResult:
    """Starts a loop and brings it to its end.

    `tell` hears of its progress, `asking` puts a question on the terminal. Raises ConfigError, Untrusted and
    PreflightFailed, each before anything was started, and cancellation, after the loop was ended for it.
    """
    checked, loop_id = check(request), _new_id()

    def told(text: str) -> None:
        tell(Told(kind="note", loop_id=loop_id, text=text))

    registry = registry_of(checked.project, told)
    row = _row(checked, loop_id)
    _tell_of_the_lost(registry, told)
    row = await claim(registry, row, exclusive=request.exclusive, told=told)
    try:
        await clear(registry, row, told)
        place_of(row).make()
        built = build(checked, row, registry, tell=tell, asking=asking)
    except BaseException:
        try:
            give_back(registry, row)
        except TenterError as error:  # it is told beside why the loop could not begin
            told(str(error))
        raise
    parts = built.parts
    parts.tell("began", f"loop {loop_id} in {row.workspace}")
    return await run_built(built, LoopState(started_at=parts.setup.clock.now()), continued=None)


def check(request: LoopRequest) -> Checked:
    """The configuration of a loop that may start. Raises ConfigError, Untrusted and PreflightFailed."""
    spec, user = _loaded(request.config)
    try:
        check_start(request)
    except PreflightFailed as error:
        if any(one.check == "trust" for one in error.findings if one.level == "failed"):
            require_trust(request.config, builtin_tools=BUILTIN_TOOLS)
        raise
    trusted = require_trust(request.config, builtin_tools=BUILTIN_TOOLS)
    return Checked(request=request, spec=spec, user=user, pins=trusted.pins)


def _loaded(config: str) -> tuple[Spec, Spec | None]:
    """The project's file and the user's. Raises ConfigError with all that is wrong, as `hooks validate` has it."""
    try:
        return load(config, builtin_tools=BUILTIN_TOOLS), load_user()
    except ConfigError as error:
        every = validate(config, builtin_tools=BUILTIN_TOOLS, check_script=load_script)
        raise ConfigError(every or error.problems) from error  # none are left where it was mended meanwhile


async def run_built(built: Built, state: LoopState, *, continued: SuspendState | None) -> LoopResult:
    """Brings a loop to its end, from `state`; `continued` is the suspension that a former process of it was in."""
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
        prompt=_cut(mask(checked.prompt)),
        started_at=SYSTEM_CLOCK.now(),
        backend=told_backend(checked),
        request=cast("dict[str, object]", msgspec.to_builtins(request)),
    )


def _cut(prompt: str) -> str:
    if len(prompt) <= LONGEST_PROMPT:
        return prompt
    return f"{prompt[:LONGEST_PROMPT]}… ({len(prompt)} characters)"


def told_backend(checked: Checked) -> str:
    """The backend in a few words, for people."""
    backend = msgspec.to_builtins(checked.backend)
    return f"harness {backend['harness']}" if "harness" in backend else " ".join(backend["command"])


def _tell_of_the_lost(registry: Registry, told: Callable[[str], None]) -> None:
    """Loops whose process died are found at the next start, first those that were suspended: they hold their place."""
    lost = [row for row in registry.rows() if not is_alive(row.process)]
    lost.sort(key=lambda row: row.suspension is None)
    for row in lost[:MOST_LOST]:
        told(_lost(row))
    if len(lost) > MOST_LOST:
        told(f"the processes of {len(lost) - MOST_LOST} more loops are gone; 'tenter loop list' prints them")


def _lost(row: LoopRow) -> str:
    continues = f"'tenter loop resume {row.loop_id}' continues it"
    if row.suspension is not None:
        return (
            f"the loop {row.loop_id} is suspended at {row.suspension.phase_event} in {row.workspace}, and its process "
            f"is gone; {continues}, 'tenter loop stop {row.loop_id}' ends it"
        )
    where = f"in iteration {row.iteration}" if row.iteration else "before its first iteration"
    return (
        f"the loop {row.loop_id} crashed {where} in {row.workspace}; {continues}, 'tenter loop prune {row.loop_id}' "
        "forgets it"
    )
