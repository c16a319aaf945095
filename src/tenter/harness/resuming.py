"""Goes on with a run that waits for people, or whose process is gone, in this process (D§11).

Nothing is done before it is sure that nobody else has the run and that it is still the same: the configuration that it
rests on and the version of the agent loop. What has changed is named, and accepted by that name or not at all.
"""

from collections.abc import Collection, Mapping
from typing import Final, cast

import msgspec

from tenter.agent import LOOP_VERSION, Ended, Plan
from tenter.catalogue import Envelope, ErrorInfo, Limits
from tenter.harness.held import HERE, TERMINAL, RunHeld, claimed
from tenter.harness.recording import Recording
from tenter.harness.result import RunResult
from tenter.harness.runs import Begun, Runs, recalled
from tenter.harness.setup import Setup
from tenter.journal import Entry, Store, Stream, StreamSummary, microseconds
from tenter.kernel import TenterError

LOOP: Final = "loop_version"
"""By this name a change of the agent loop is accepted, others by those of `Spec.parts`."""


class SpecChanged(TenterError):
    """The run was begun with something else. `changed` names what."""

    def __init__(self, run_id: str, changed: tuple[str, ...]) -> None:
        accepted = " ".join(f"--accept {name}" for name in changed)
        super().__init__(
            f"the run {run_id} was begun with other {', '.join(changed)}: bring these back, or accept what changed by "
            f"name ('tenter resume {run_id} {accepted}')"
        )
        self.changed = changed


async def resume(setup: Setup, runs: Runs, run_id: str, begun: Begun, *, accept: Collection[str]) -> RunResult:
    """The run, to where it stands. Raises TenterError, RunHeld, SpecChanged, ReplayDiverged and JournalError."""
    stream = Stream("run", run_id)
    summary = await _outermost(setup.store, stream)
    recording = await Recording.begin(setup.store, stream)
    if summary.status in TERMINAL:
        told = await recording.next("0.run.0", 1, "post")
        if told is not None and told.finished is not None:
            raise TenterError(f"the run {run_id} is over: it ended {summary.status}; there is nothing to go on with")
    _check_unchanged(setup, run_id, recording, accept)
    async with claimed(setup.store, stream, by=begun.by, clock=setup.clock):
        recording = await Recording.begin(setup.store, stream)
        plan, begun = recalled(recording, _plan(runs, recording), begun)
        return await runs.go_on(plan, begun, recording)


async def cancel(setup: Setup, runs: Runs, run_id: str, begun: Begun, *, error: ErrorInfo) -> RunResult | None:
    """Ends a run that nobody has; None where a living process has it, which is asked to. Raises as `resume`."""
    stream = Stream("run", run_id)
    summary = await _outermost(setup.store, stream)
    if summary.status in TERMINAL:
        raise TenterError(f"the run {run_id} is over: it ended {summary.status}")
    while True:
        try:
            async with claimed(setup.store, stream, by=begun.by, clock=setup.clock):
                recording = await Recording.begin(setup.store, stream)
                plan, begun = recalled(recording, _plan(runs, recording), begun)
                return await runs.go_on(plan, begun, recording, end=Ended(status="cancelled", error=error))
        except RunHeld:
            asked = await setup.redactor.apply({"by": begun.by, "reason": error.message})
            entry = Entry(kind="cancel_requested", time=microseconds(setup.clock.now()), content=asked)
            await setup.store.append(stream, [entry], durable=True)
        summary = await _outermost(setup.store, stream)
        if summary.holder or summary.status in TERMINAL or stream in HERE:
            return None  # who has it sees what was asked, also when it is about to let go


async def _outermost(store: Store, stream: Stream) -> StreamSummary:
    """The summary of a run that stands in no other. Raises TenterError for any other, and where there is none."""
    summary = await store.summary(stream)
    if summary is None:
        raise TenterError(f"the journal holds no {stream}; 'tenter runs list' shows those that it holds")
    if summary.parent:
        raise TenterError(f"the run {stream.id} is a part of the run {summary.parent}: name that")
    return summary


def _check_unchanged(setup: Setup, run_id: str, recording: Recording, accept: Collection[str]) -> None:
    """Raises SpecChanged, and TenterError for a task that the configuration does not have any more."""
    first = recording.first
    task = str(first.get("task"))
    setup.task(task)
    now = {**setup.spec.parts(task), LOOP: LOOP_VERSION}
    then = {**cast("Mapping[str, object]", first.get("parts") or {}), LOOP: first.get("loop_version")}
    if unknown := sorted(set(accept) - set(now)):
        raise TenterError(f"{unknown[0]!r} is no part that can change; there are {', '.join(now)}")
    changed = tuple(name for name in now if then.get(name) != now[name] and name not in accept)
    if changed:
        raise SpecChanged(run_id, changed)


def _plan(runs: Runs, recording: Recording) -> Plan:
    """What the task says now; `recalled` adds what is the run's own. Raises TenterError."""
    try:
        envelope = msgspec.convert(recording.first["envelope"], Envelope)
    except (KeyError, msgspec.ValidationError) as error:
        raise TenterError(f"this run cannot be gone on with: who it is cannot be read ({error})") from None
    return runs.plan(envelope, "", Limits())
