"""`tenter runs`: what the journal has of runs (D§13). It reads and changes nothing."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.catalogue import ApprovalRequest
from tenter.cli.journals import find_run, journal_of
from tenter.cli.masking import Masking, mask, masked
from tenter.cli.options import config_option, json_option
from tenter.cli.report import request_text, told
from tenter.cli.texts import json_text, moment, one_line, seconds
from tenter.journal import Recorded, StreamSummary

NO_END: Final = "no end is on record: it is still running, or its process was ended"
OPERATION_KINDS: Final = ("started", "acting", "acted", "finished")
"""How far a pass of an operation has come, in this order (D§11)."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as listed. Times are in UTC."""

    run_id: str
    task: str
    status: str
    """`running` where no end is on record."""
    started: str
    ended: str | None


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One pass of an operation: how it ended, or how far it had come."""

    path: str
    number: int = msgspec.field(name="pass")
    reached: str = "started"
    outcome: str | None = None
    hook: str | None = None
    """Who stopped it."""
    reason: str | None = None
    seconds: float | None = None


class Shown(RunRow, frozen=True, kw_only=True):
    """A run with what happened in it."""

    output: object
    error: object
    operations: Sequence[Pass]
    approval: Mapping[str, object] | None = None
    """What the run waits for: the request as it was recorded."""


@click.group()
def runs() -> None:
    """What ran, and how it ended."""


@runs.command(name="list")
@config_option
@json_option
@click.option("--last", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
def list_(config: str, *, as_json: bool, last: int) -> None:
    """List the runs of the project, the last one first."""
    rows = [_row(summary) for summary in asyncio.run(_list(Path(config), last))]
    if as_json:
        click.echo(json_text(rows))
        return
    for row in rows:
        click.echo(one_line(f"{row.run_id}  {row.started}  {row.status:17}  {row.task}"))
    if not rows:
        click.echo("no runs yet", err=True)
    if any(row.status == "running" for row in rows):
        click.echo(f"running: {NO_END}", err=True)


@runs.command()
@click.argument("run_id", metavar="RUN")
@config_option
@json_option
def show(run_id: str, *, config: str, as_json: bool) -> None:
    """Show what happened in RUN (its id, or the beginning of it)."""
    shown = asyncio.run(_show(Path(config), run_id))
    if as_json:
        click.echo(json_text(masked(msgspec.to_builtins(shown), mask())))
        return
    for line in _lines(shown, mask()):
        click.echo(line)


async def _list(config: Path, last: int) -> Sequence[StreamSummary]:
    async with journal_of(config) as store:
        return () if store is None else await store.streams("run", limit=last)


async def _show(config: Path, run_id: str) -> Shown:
    async with journal_of(config) as store:
        summary = await find_run(store, run_id)
        assert store is not None, "a run was found"
        entries = [entry async for entry in store.read(summary.stream)]
    result, row = _last(entries, "result") or {}, _row(summary)
    return Shown(
        **msgspec.structs.asdict(row),
        approval=_last(entries, "approval_requested") if row.status == "awaiting_approval" else None,
        output=result.get("output"),
        error=result.get("error"),
        operations=passes(entries),
    )


def _last(entries: Sequence[Recorded], kind: str) -> Mapping[str, object] | None:
    return next((one.entry.content for one in reversed(entries) if one.entry.kind == kind), None)


def passes(entries: Iterable[Recorded]) -> Sequence[Pass]:
    """The passes of a run's operations, in the order in which they began."""
    began: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int], Pass] = {}
    for entry in (record.entry for record in entries if record.entry.kind in OPERATION_KINDS):
        content = entry.content
        place = (str(content.get("path")), _number(content.get("pass")))
        one = found.get(place) or Pass(path=place[0], number=place[1])
        began.setdefault(place, entry.time)
        if entry.kind == "finished":
            one = msgspec.structs.replace(
                one,
                outcome=_optional(content.get("outcome")),
                hook=_optional(content.get("hook")),
                reason=_optional(content.get("reason") or content.get("message")),
                seconds=(entry.time - began[place]) / 1_000_000,
            )
        found[place] = msgspec.structs.replace(one, reached=entry.kind)
    return tuple(found.values())


def _lines(shown: Shown, masking: Masking) -> Iterable[str]:
    for name in ("run_id", "task", "status", "started", "ended"):
        value = getattr(shown, name)
        if value is not None:
            yield one_line(f"{name + ':':9} {value}")
    if shown.status == "running":
        yield f"          {NO_END}"
    for name, value in (("output", shown.output), ("error", shown.error)):
        if value is not None:
            yield told(name, masking(value if isinstance(value, str) else json_text(value)))
    if shown.approval is not None:
        yield request_text(msgspec.convert(shown.approval, ApprovalRequest), masking)
    for one in shown.operations:
        yield f"  {one_line(f'{one.path}#{one.number}')}  {_ending(one, masking)}"


def _ending(one: Pass, masking: Masking) -> str:
    if one.outcome is None:
        return f"{one.reached}, not finished" + (" (it may have acted)" if one.reached == "acting" else "")
    took = "" if one.seconds is None else f" in {seconds(one.seconds)}"
    by = f" by {one.hook}" if one.hook else ""
    return one_line(f"{one.outcome}{by}{took}") + (f": {one_line(masking(one.reason), 400)}" if one.reason else "")


def _row(summary: StreamSummary) -> RunRow:
    return RunRow(
        run_id=summary.stream.id,
        task=summary.name,
        status=summary.status or "running",
        started=_time(summary.started),
        ended=None if summary.ended is None else _time(summary.ended),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(microseconds: int) -> str:
    return moment(microseconds / 1_000_000)
