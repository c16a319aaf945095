"""Goes on with a run that waits for people, or whose process is gone, in this process (D§11).

Nothing is done before it is sure that nobody else has the run and that it is still the same: the configuration that it
rests on and the version of the agent loop. What has changed is named, and accepted by that name or not at all.
"""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import msgspec

from tenter.agent import Ended, Plan
from tenter.catalogue import Envelope, ErrorInfo, Limits
from tenter.harness.changes import changes
from tenter.harness.first_entry import recalled
from tenter.harness.held import HOLDER, RunHeld, claimed, is_here, take_over
from tenter.harness.parts import Begun
from tenter.harness.recording import Recording
from tenter.harness.result import RunResult
from tenter.harness.runs import WITH_ITS_PARENT, Runs
from tenter.harness.setup import Setup
from tenter.harness.watching import asked_to_end
from tenter.journal import Entry, JournalError, Store, Stream, StreamSummary, microseconds
from tenter.kernel import Clock, FrozenDict, TenterError

MOMENT_SECONDS: Final = 0.01
"""How often it is looked whether a run of this process that lets go has done so."""

ON_RECORD: Final = "on_record"
"""In the details of a run's error: it was ended on record alone, and no hook heard of it."""


async def resume(setup: Setup, runs: Runs, run_id: str, begun: Begun, *, accept: Collection[str]) -> RunResult:
    """The run, to where it stands. Raises TenterError, RunHeld, SpecChanged, ReplayDiverged and JournalError."""
    stream = Stream("run", run_id)
    summary = await _outermost(setup.store, stream)
    recording = await Recording.begin(setup.store, stream)
    if summary.is_over:
        told = await recording.next("0.run.0", 1, "post")
        if told is not None and told.finished is not None:
            raise TenterError(f"the run {run_id} is over: it ended {summary.status}; there is nothing to go on with")
    changed = changes(setup, recording, run_id=run_id, accept=accept)
    begun = replace(begun, vouched=HOLDER in accept, lenient=bool(changed))
    async with claimed(setup.store, stream, by=begun.by, clock=setup.clock, vouched=begun.vouched):
        recording = await Recording.begin(setup.store, stream)
        plan, begun = recalled(recording, _plan(runs, recording), begun)
        end: Ended | None = None
        if summary.cancelling:  # somebody asked for its end, and its process died before it heard of that
            end = Ended(status="cancelled", error=await asked_to_end(setup.store, run_id))
        return await _with_those_below(setup, await runs.go_on(plan, begun, recording, end=end))


async def cancel(setup: Setup, runs: Runs, run_id: str, begun: Begun, *, error: ErrorInfo) -> RunResult | None:
    """Ends a run that nobody has; None where a living process has it, which is asked to. Raises as `resume`.

    A run that the configuration cannot go on with any more, or whose record is damaged, is ended on record alone, and
    no hook hears of it.
    """
    store, stream = setup.store, Stream("run", run_id)
    summary = await _outermost(store, stream)
    if summary.is_over:
        left = await end_left_below(store, stream, by=begun.by, clock=setup.clock, vouched=begun.vouched)
        told = "; what it had spawned had not, and ended now" if left else ""
        raise TenterError(f"the run {run_id} is over: it ended {summary.status}{told}")
    while True:
        try:
            async with claimed(store, stream, by=begun.by, clock=setup.clock, vouched=begun.vouched):
                return await _cancelled_here(setup, runs, summary, begun, error=error)
        except RunHeld:
            await ask_to_end(store, stream, await setup.redactor.apply(error.message), now=setup.clock.now())
        while not (summary := await _outermost(store, stream)).holder:
            if summary.is_over:
                return None
            if not is_here(store, stream):
                break  # who had it let go, and may have looked before it was asked
            await asyncio.sleep(MOMENT_SECONDS)
        else:
            return None  # who has it sees what was asked


async def _cancelled_here(
    setup: Setup, runs: Runs, summary: StreamSummary, begun: Begun, *, error: ErrorInfo
) -> RunResult:
    """Ends a run that this process has claimed. Raises JournalError."""
    version, followed = 0, False
    try:
        recording = await Recording.begin(setup.store, summary.stream)
        version = _envelope(recording).task.version
        plan, begun = recalled(recording, _plan(runs, recording), begun)
        followed = True
        result = await runs.go_on(plan, begun, recording, end=Ended(status="cancelled", error=error))
        return await _with_those_below(setup, result)
    except TenterError:
        if followed:
            raise
    except JournalError as trouble:
        if trouble.trouble != "damaged":
            raise
    told = await end_on_record(setup.store, summary.stream, error, now=setup.clock.now())
    return await _ended_on_record(setup, summary, version, told)


async def end_left_below(store: Store, stream: Stream, *, by: str, clock: Clock, vouched: bool = False) -> bool:
    """Ends on record what a run that is over had spawned, if its process died before that did; whether there was any.

    Raises as `claim`, and TenterError where something that was left running does not end.
    """
    if not await _without_end_below(store, stream):
        return False
    async with claimed(store, stream, by=by, clock=clock, vouched=vouched):
        return await _end_below(store, stream, now=clock.now())


async def _with_those_below(setup: Setup, result: RunResult) -> RunResult:
    """The result of a run that was gone on with here. What it had spawned has ended, if it has. Raises as `resume`."""
    if result.status in ("cancelled", "failed"):  # before it came to all that waits in it, perhaps
        await _end_below(setup.store, Stream("run", result.run_id), now=setup.clock.now())
    return result


def cancelled_by(by: str, reason: str) -> str:
    """What a cancelled run is told to have ended of."""
    whose, why = (f" by {by}" if by else ""), (f": {reason}" if reason else "")
    return f"the run was cancelled{whose}{why}"


async def ask_to_end(store: Store, stream: Stream, reason: str, *, now: float) -> None:
    """Asks whoever has the run to end it. Raises JournalError."""
    entry = Entry(kind="cancel_requested", time=microseconds(now), content={"reason": reason})
    await store.append(stream, [entry], durable=True)


async def end_on_record(store: Store, stream: Stream, error: ErrorInfo, *, now: float) -> ErrorInfo:
    """Records that a run which this process has claimed was cancelled, with all that it spawned, and tells nobody.

    What these left running ends first. The error as it is on record. Raises TenterError where something does not end,
    and JournalError.
    """
    await _end_below(store, stream, now=now)
    error = _alone(error)
    await store.append(stream, _end_of(error, now), durable=True)
    return error


async def _end_below(store: Store, stream: Stream, *, now: float) -> bool:
    """Records the end of the runs that this one spawned and that have none; whether there were any. Raises as above."""
    below = await _without_end_below(store, stream)
    for one in below:
        await take_over(one)
    assert WITH_ITS_PARENT.error is not None, "it says why"
    for one in below:
        await store.append(one.stream, _end_of(_alone(WITH_ITS_PARENT.error), now), durable=True)
    return bool(below)


def _alone(error: ErrorInfo) -> ErrorInfo:
    return msgspec.structs.replace(error, details=FrozenDict({**error.details, ON_RECORD: True}))


def _end_of(error: ErrorInfo, now: float) -> list[Entry]:
    """The last entries of a run that is cancelled on record alone."""
    told: dict[str, object] = {
        "status": "cancelled",
        "output": None,
        "error": msgspec.to_builtins(error),
        "usage": {},
        "cost_usd": None,
    }
    return [
        Entry(kind="status", time=microseconds(now), content={"status": "cancelled", "code": "cancelled"}),
        Entry(kind="result", time=microseconds(now), content=told),
        Entry(kind="released", time=microseconds(now), content={"status": "cancelled"}),
    ]


async def _without_end_below(store: Store, stream: Stream) -> list[StreamSummary]:
    """The runs that this one spawned, they and theirs, as far as they have no end; the innermost first."""
    spawned: dict[str, list[StreamSummary]] = {}
    for one in await store.streams("run"):
        spawned.setdefault(one.parent, []).append(one)
    found, parents = list[StreamSummary](), [stream.id]
    while parents:
        below = [one for parent in parents for one in spawned.pop(parent, ())]
        found += below
        parents = [one.stream.id for one in below]
    return [one for one in reversed(found) if not one.is_over]


async def _ended_on_record(setup: Setup, summary: StreamSummary, version: int, error: ErrorInfo) -> RunResult:
    """The result of a run that ended so; the `version` of its task is 0 where it cannot be read."""
    return RunResult(
        run_id=summary.stream.id,
        task=summary.name,
        task_version=version,
        status="cancelled",
        error=error,
        cost_known=False,
        journal_head=(await setup.store.head(summary.stream)).hash,
        started_at=summary.started / 1_000_000,
        ended_at=setup.clock.now(),
    )


async def _outermost(store: Store, stream: Stream) -> StreamSummary:
    """The summary of a run that stands in no other. Raises TenterError for any other, and where there is none."""
    summary = await store.summary(stream)
    if summary is None:
        raise TenterError(f"the journal holds no {stream}; 'tenter runs list' shows those that it holds")
    if summary.parent:
        raise TenterError(f"the run {stream.id} is a part of the run {summary.parent}: name that")
    return summary


def _plan(runs: Runs, recording: Recording) -> Plan:
    """What the task says now; `recalled` adds what is the run's own. Raises TenterError."""
    return runs.plan(_envelope(recording), "", Limits())


def _envelope(recording: Recording) -> Envelope:
    try:
        return msgspec.convert(recording.first["envelope"], Envelope)
    except (KeyError, msgspec.ValidationError) as error:
        raise TenterError(f"this run cannot be gone on with: who it is cannot be read ({error})") from None
