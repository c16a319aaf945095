"""`tenter runs cancel`: ends a run cancelled; where another process has it, that is asked and waited for."""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.cli.decisions import login_name
from tenter.cli.foreground import BY_SIGNAL, harness_of, trusted
from tenter.cli.inside import marked
from tenter.cli.journals import find_run, journal_of, outermost
from tenter.cli.masking import Masking, mask_of, masked, told_mask_of
from tenter.cli.texts import json_text, one_line
from tenter.journal import JournalError, Stream
from tenter.kernel import TenterError

if TYPE_CHECKING:
    from tenter.config import Pins

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
    pins = trusted(wanted.config)
    try:
        with output_kept(), marked():
            cancelled = run_stoppable(_cancel(wanted, masks, pins))
    except CutShort as error:
        raise click.ClickException(f"the run was not cancelled: {error}") from None
    if isinstance(cancelled, signal.Signals):
        click.echo(f"ended by {cancelled.name}", err=True)
        return BY_SIGNAL + cancelled
    masking = mask_of(wanted.config)
    if as_json:
        click.echo(json_text(masked(msgspec.to_builtins(cancelled), masking)))
    else:
        click.echo(one_line(masking(cancelled.message), LONGEST), err=not cancelled.has_ended)
    return 0 if cancelled.has_ended else 1


async def _cancel(wanted: Cancel, masks: list[Masking], pins: "Pins") -> Cancelled:
    run_id, before = await _standing(wanted)
    if before is not None:
        return Cancelled(run_id=run_id, status=before, has_ended=True, message=f"the run {run_id} had ended: {before}")
    harness = harness_of(wanted.config, wanted.workspace, pins)
    masks.append(harness.mask)
    try:
        async with harness:
            reason = told_mask_of(wanted.config)(wanted.reason)
            result = await harness.cancel(run_id, by=login_name(), reason=reason)
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    except TenterError:
        _, meanwhile = await _standing(wanted)
        if meanwhile is None:
            raise
        return told(run_id, meanwhile)
    return told(run_id, await ended_elsewhere(wanted.config, run_id) if result is None else result.status)


def told(run_id: str, status: str | None) -> Cancelled:
    """What came of it: the status that the run ended with, None where it has not."""
    if status is not None:
        return Cancelled(run_id=run_id, status=status, has_ended=True, message=f"the run {run_id} ended: {status}")
    return Cancelled(
        run_id=run_id,
        status="running",
        has_ended=False,
        message=f"the process that has the run {run_id} was asked to end it, and has not within {WITHIN_SECONDS:g} s; "
        f"'tenter runs show {run_id}' tells what it is at",
    )


async def _standing(wanted: Cancel) -> tuple[str, str | None]:
    """The id of the run, and its status where it has ended. Raises TenterError for a sub-run, and an unknown one."""
    async with journal_of(Path(wanted.config)) as store:
        found = await find_run(store, wanted.run_id)
        assert store is not None, "a run was found"
        root = await outermost(store, found)
    run_id = found.stream.id
    if root != found:
        raise TenterError(
            f"the run {run_id} is a part of the run {root.stream.id}; 'tenter runs cancel {root.stream.id}' ends both"
        )
    return run_id, None if found.ended is None else found.status


async def ended_elsewhere(config: str, run_id: str) -> str | None:
    """The status that the run ends with in another process; None where it has not ended in time."""
    with contextlib.suppress(TimeoutError):
        async with journal_of(Path(config)) as store, asyncio.timeout(WITHIN_SECONDS):
            while store is not None:
                summary = await store.summary(Stream("run", run_id))
                if summary is not None and summary.ended is not None:
                    return summary.status
                await asyncio.sleep(STEP_SECONDS)
    return None
