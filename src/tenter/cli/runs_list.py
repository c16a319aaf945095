"""`tenter runs list`: the runs of a project, and whether those without an end still run."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.cli.command_line import quoted
from tenter.cli.decisions import root_of
from tenter.cli.journals import journal_of
from tenter.cli.texts import json_text, moment, one_line
from tenter.journal import ApprovalRow, StreamSummary, every_request

NO_END: Final = "no end is on record: it is still running, or its process was ended"


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as listed. Times are in UTC."""

    run_id: str
    task: str
    status: str
    """`running` where no end is on record, `stopped` where no process has it, too."""
    started: str
    ended: str | None
    parent_run_id: str | None
    """The run that spawned it."""
    decided: bool = False
    """It waits for nobody any more: people have decided, and it goes on when it is resumed. Not told of sub-runs."""


def list_verb(config: str, last: int, *, as_json: bool) -> None:
    """Prints the last runs."""
    rows = asyncio.run(_list(Path(config), last))
    if as_json:
        click.echo(json_text(rows))
        return
    for row in rows:
        of = f"  (of {row.parent_run_id})" if row.parent_run_id else ""
        decided = "  (decided)" if row.decided else ""
        click.echo(one_line(f"{row.run_id}  {row.started}  {row.status:17}  {row.task}{of}{decided}"))
    if not rows:
        click.echo("no runs yet", err=True)
    if any(row.status == "stopped" for row in rows):
        click.echo(f"stopped: {no_process(config)}", err=True)
    if any(row.decided for row in rows):
        click.echo(f"decided: {goes_on(config)}", err=True)


def no_process(config: str, run_id: str = "RUN") -> str:
    """What is said of a run that stopped."""
    return f"no end is on record and no process has it; {quoted(config, 'resume', run_id)} goes on with it"


def goes_on(config: str, run_id: str = "RUN") -> str:
    """What is said of a run that waits for nobody any more."""
    return f"people have decided on it; {quoted(config, 'resume', run_id)} goes on with it"


def row_of(summary: StreamSummary, asked: Sequence[ApprovalRow] = ()) -> RunRow:
    """A run as listed. `asked` is all that it, and the runs that it spawned, ever asked for."""
    return RunRow(
        run_id=summary.stream.id,
        task=summary.name,
        status=_status(summary),
        started=_time(summary.started),
        ended=None if summary.ended is None else _time(summary.ended),
        parent_run_id=summary.parent or None,
        decided=waits(summary) and _is_decided(asked),
    )


def waits(summary: StreamSummary) -> bool:
    """Whether the run, which is no sub-run, began to wait for people and was not resumed since."""
    return summary.status == "awaiting_approval" and not summary.parent


def _is_decided(asked: Sequence[ApprovalRow]) -> bool:
    """Whether a run that waits can go on: nothing is open, or one of its own requests was refused."""
    refused = any(row.state in ("rejected", "expired") and root_of(row.request) == row.request.run_id for row in asked)
    return refused or all(row.state != "open" for row in asked)


def _status(summary: StreamSummary) -> str:
    status = summary.status or "running"
    if status not in ("running", "pending"):
        return status
    return "stopped" if _is_left(summary) else status


def _is_left(summary: StreamSummary) -> bool:
    """Whether no process has the run; one on another machine cannot be seen, and is taken to live."""
    from tenter.executors import is_alive
    from tenter.harness import Holder

    holder = Holder.of(summary)
    return holder is None or (holder.host == socket.gethostname() and not is_alive(holder.process))


async def _list(config: Path, last: int) -> Sequence[RunRow]:
    async with journal_of(config) as store:
        if store is None:
            return ()
        return [
            row_of(one, await every_request(store, one.stream.id) if waits(one) else ())
            for one in await store.streams("run", limit=last)
        ]


def _time(microseconds: int) -> str:
    return moment(microseconds / 1_000_000)
