"""`tenter runs cancel`: ends a run cancelled; where another process has it, that is asked and waited for.

A run that nobody has is ended by its own project, whose hooks hear of it. Where that cannot be used (it is not trusted,
or wrong, or has the task no more) it is ended on record alone: whoever wants to stop an agent need not run its code.
"""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.catalogue import ErrorInfo
from tenter.cli.command_line import completed
from tenter.cli.decisions import login_name
from tenter.cli.foreground import BY_SIGNAL, harness_of, trusted
from tenter.cli.inside import marked, refuse_inside
from tenter.cli.journals import find_run, journal_of, outermost
from tenter.cli.masking import Masking, mask_of, masked, told_mask_of
from tenter.cli.texts import json_text, one_line
from tenter.journal import JournalError, Stream
from tenter.kernel import SYSTEM_CLOCK, TenterError

WITHIN_SECONDS: Final = 10.0
"""How long another process may take to end the run."""
STEP_SECONDS: Final = 0.1
"""How often it is looked whether it has ended."""
LONGEST: Final = 1000
"""Characters of a line."""


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be cancelled, and why."""

    run_id: str
    reason: str
    config: str
    workspace: str | None
    accept: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        return Path(self.config)

    @property
    def why(self) -> str:
        """The reason as it goes on record. Raises TenterError for one that is too long."""
        from tenter.harness import said_why

        return told_mask_of(self.config)(said_why(self.reason))


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    run_id: str
    status: str
    """That of the run now."""
    has_ended: bool
    message: str


def cancel_verb(options: Mapping[str, object], masks: list[Masking], *, as_json: bool) -> int:
    """Cancels the run. The exit code is 1 where it has not ended."""
    from tenter.cli.stopping import CutShort, run_stoppable
    from tenter.cli.streams import output_kept

    wanted = msgspec.convert(options, Cancel)
    refuse_inside("what a run is ended for is not its own to say; cancel it from a shell of your own", wanted.config)
    try:
        with output_kept(), marked():
            came = run_stoppable(cancelled(wanted, masks))
    except CutShort as error:
        raise click.ClickException(f"the run was not cancelled: {error}") from None
    if isinstance(came, signal.Signals):
        click.echo(f"ended by {came.name}", err=True)
        return BY_SIGNAL + came
    came = msgspec.structs.replace(came, message=completed(came.message, wanted.config))
    masking = mask_of(wanted.config)
    if as_json:
        click.echo(json_text(masked(msgspec.to_builtins(came), masking)))
    else:
        click.echo(one_line(masking(came.message), LONGEST), err=not came.has_ended)
    return 0 if came.has_ended else 1


async def cancelled(wanted: Cancel, masks: list[Masking]) -> Cancelled:
    """Ends the run. Raises RunHeld where a process took it meanwhile, and TenterError for one that is not there."""
    run_id, before = await _standing(wanted)
    if before is not None:
        left = "; what it had spawned had not, and ended now" if await _end_left_below(wanted, run_id) else ""
        return Cancelled(
            run_id=run_id, status=before, has_ended=True, message=f"the run {run_id} had ended: {before}{left}"
        )
    if await _is_held(wanted, run_id):
        await _ask(wanted, run_id)
        ended = await ended_elsewhere(wanted.config, run_id)
        if ended is not None or await _is_held(wanted, run_id):
            return told(run_id, ended)
    try:
        return await _by_its_project(wanted, run_id, masks)
    except (TenterError, JournalError) as error:
        _, meanwhile = await _standing(wanted)
        if meanwhile is not None:
            return told(run_id, meanwhile)
        return await _on_record(wanted, run_id, _trouble(error))


def _trouble(error: Exception) -> str:
    """Why the project could not be used, in a few words."""
    from tenter.config import ConfigError, Untrusted

    match error:
        case Untrusted():
            return "the project is not trusted as it is now"
        case ConfigError():
            return "its configuration cannot be used ('tenter hooks validate' tells why)"
        case _:
            return str(error)


async def _is_held(wanted: Cancel, run_id: str) -> bool:
    """Whether another process that lives has the run."""
    from tenter.harness import HOLDER, RunHeld, check_free

    async with journal_of(wanted.place) as store:
        summary = None if store is None else await store.summary(Stream("run", run_id))
    try:
        if summary is not None:
            check_free(summary, vouched=HOLDER in wanted.accept)
    except RunHeld:
        return True
    return False


async def _ask(wanted: Cancel, run_id: str) -> None:
    """Asks the process that has the run to end it."""
    from tenter.harness import ask_to_end, cancelled_by

    async with journal_of(wanted.place) as store:
        assert store is not None, "a run was found"
        text = cancelled_by(login_name(), wanted.why)
        await ask_to_end(store, Stream("run", run_id), text, now=SYSTEM_CLOCK.now())


async def _by_its_project(wanted: Cancel, run_id: str, masks: list[Masking]) -> Cancelled:
    """Ends a run that nobody has as its project says. Raises TenterError and JournalError."""
    from tenter.harness import ON_RECORD

    workspace = wanted.workspace or await _begun_in(wanted, run_id)
    harness = harness_of(wanted.config, workspace, trusted(wanted.config))
    masks.append(harness.mask)
    async with harness:
        result = await harness.cancel(run_id, by=login_name(), reason=wanted.why, accept=wanted.accept)
    if result is None:
        return told(run_id, await ended_elsewhere(wanted.config, run_id))
    is_alone = result.error is not None and ON_RECORD in result.error.details
    return told(run_id, result.status, "the project cannot go on with it any more" if is_alone else "")


async def _begun_in(wanted: Cancel, run_id: str) -> str | None:
    """The workspace of the run; None for the folder of its file, and where that cannot be read any more."""
    from tenter.harness import begun_in

    async with journal_of(wanted.place) as store:
        assert store is not None, "a run was found"
        with contextlib.suppress(TenterError, JournalError):
            return await begun_in(store, Stream("run", run_id))
    return None


async def _on_record(wanted: Cancel, run_id: str, trouble: str) -> Cancelled:
    """Ends a run that nobody has without its project, which could not be used. Raises RunHeld."""
    from tenter.harness import HOLDER, cancelled_by, claimed, end_on_record

    by, stream = login_name(), Stream("run", run_id)
    async with journal_of(wanted.place) as store:
        assert store is not None, "a run was found"
        async with claimed(store, stream, by=by, clock=SYSTEM_CLOCK, vouched=HOLDER in wanted.accept):
            error = ErrorInfo(code="cancelled", message=cancelled_by(by, wanted.why))
            await end_on_record(store, stream, error, now=SYSTEM_CLOCK.now())
    return told(run_id, "cancelled", trouble)


async def _end_left_below(wanted: Cancel, run_id: str) -> bool:
    """Ends what a run that is over had spawned, if its process died before that did. Raises RunHeld."""
    from tenter.harness import HOLDER, end_left_below

    async with journal_of(wanted.place) as store:
        assert store is not None, "a run was found"
        vouched = HOLDER in wanted.accept
        return await end_left_below(store, Stream("run", run_id), by=login_name(), clock=SYSTEM_CLOCK, vouched=vouched)


def told(run_id: str, status: str | None, trouble: str = "") -> Cancelled:
    """What came of it: the status that the run ended with, None where it has not.

    `trouble` is why no hook heard of it, where none did.
    """
    if status is not None:
        alone = f", on record alone: no hook heard of it, since {trouble}" if trouble else ""
        message = f"the run {run_id} ended: {status}{alone}"
        return Cancelled(run_id=run_id, status=status, has_ended=True, message=message)
    return Cancelled(
        run_id=run_id,
        status="running",
        has_ended=False,
        message=f"the process that has the run {run_id} was asked to end it, and has not within {WITHIN_SECONDS:g} s; "
        f"'tenter runs show {run_id}' tells what it is at. Where it is one of another machine and known to be gone, "
        "'--accept holder' ends the run all the same",
    )


async def _standing(wanted: Cancel) -> tuple[str, str | None]:
    """The id of the run, and its status where it has ended. Raises TenterError for a sub-run, and an unknown one."""
    async with journal_of(wanted.place) as store:
        found = await find_run(store, wanted.run_id)
        assert store is not None, "a run was found"
        root = await outermost(store, found)
    run_id = found.stream.id
    if root != found:
        raise TenterError(
            f"the run {run_id} is a part of the run {root.stream.id}; 'tenter runs cancel {root.stream.id}' ends both"
        )
    return run_id, found.status if found.is_over else None


async def ended_elsewhere(config: str, run_id: str) -> str | None:
    """The status that the run ends with in another process; None where it has not in time, and where nobody has it."""
    from tenter.harness import Holder

    with contextlib.suppress(TimeoutError):
        async with journal_of(Path(config)) as store, asyncio.timeout(WITHIN_SECONDS):
            while store is not None:
                summary = await store.summary(Stream("run", run_id))
                if summary is not None and summary.is_over:
                    return summary.status
                holder = None if summary is None else Holder.of(summary)
                if holder is None or not holder.lives():
                    return None
                await asyncio.sleep(STEP_SECONDS)
    return None
