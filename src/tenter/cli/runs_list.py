"""`tenter runs list`: the runs of a project, and whether those without an end still run."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.cli.journals import journal_of
from tenter.cli.texts import json_text, moment, one_line
from tenter.journal import StreamSummary

if TYPE_CHECKING:
    from tenter.executors import ProcessId

NO_END: Final = "no end is on record: it is still running, or its process was ended"
NO_PROCESS: Final = "no end is on record and no process has it; 'tenter resume RUN' goes on with it"


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


class Numbered(msgspec.Struct, frozen=True):
    """A process, as a journal names it."""

    pid: int
    started: str

    def id(self) -> "ProcessId":
        from tenter.executors import ProcessId

        return ProcessId(self.pid, self.started)


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a run, as its summary tells it."""

    process: Numbered
    host: str = ""
    since: int = 0
    """Microseconds since the epoch."""


def list_verb(config: str, last: int, *, as_json: bool) -> None:
    """Prints the last runs."""
    rows = [row_of(summary) for summary in asyncio.run(_list(Path(config), last))]
    if as_json:
        click.echo(json_text(rows))
        return
    for row in rows:
        of = f"  (of {row.parent_run_id})" if row.parent_run_id else ""
        click.echo(one_line(f"{row.run_id}  {row.started}  {row.status:17}  {row.task}{of}"))
    if not rows:
        click.echo("no runs yet", err=True)
    if any(row.status == "stopped" for row in rows):
        click.echo(f"stopped: {NO_PROCESS}", err=True)


def row_of(summary: StreamSummary) -> RunRow:
    """A run as listed."""
    return RunRow(
        run_id=summary.stream.id,
        task=summary.name,
        status=_status(summary),
        started=_time(summary.started),
        ended=None if summary.ended is None else _time(summary.ended),
        parent_run_id=summary.parent or None,
    )


def holder_of(summary: StreamSummary) -> Holder | None:
    """Who has the run; None where nobody has, or the record does not tell."""
    try:
        return msgspec.json.decode(summary.holder, type=Holder)
    except msgspec.DecodeError:
        return None


def has_gone(holder: Holder) -> bool:
    """Whether the process has ended; one on another machine cannot be seen, and is taken to live."""
    from tenter.executors import is_alive

    return holder.host == socket.gethostname() and not is_alive(holder.process.id())


def _status(summary: StreamSummary) -> str:
    status = summary.status or "running"
    if status not in ("running", "pending"):
        return status
    holder = holder_of(summary)
    return "stopped" if holder is None or has_gone(holder) else status


async def _list(config: Path, last: int) -> Sequence[StreamSummary]:
    async with journal_of(config) as store:
        return () if store is None else await store.streams("run", limit=last)


def _time(microseconds: int) -> str:
    return moment(microseconds / 1_000_000)
