"""`tenter approvals show`: all that a person needs to decide on what a run asks for."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from tenter.cli.approvals_rows import has_expired, outcome, request_row
from tenter.cli.command_line import quoted
from tenter.cli.decisions import call_of, root_of
from tenter.cli.journals import find_run, journal_of, outermost
from tenter.cli.masking import Masking, mask_of, masked
from tenter.cli.report import how_to_answer, request_text
from tenter.cli.texts import escaped, json_text, moment, one_line
from tenter.journal import ApprovalRow, Store, every_request
from tenter.kernel import SYSTEM_CLOCK, TenterError


def show_verb(config: str, run_id: str, request_id: str, *, as_json: bool) -> None:
    """Prints the request, or all that wait where none is named; without any that waits, all."""
    rows = asyncio.run(_rows(Path(config), run_id, request_id))
    now, mask = SYSTEM_CLOCK.now(), mask_of(config)
    if as_json:
        document = {"approvals": [msgspec.to_builtins(request_row(row, now)) for row in rows]}
        click.echo(json_text(masked(document, mask)))
        return
    for row in rows:
        for line in _lines(row, now, mask, config):
            click.echo(line)
    if waiting := [row.request for row in rows if row.state == "open" and not has_expired(row, now)]:
        click.echo(how_to_answer(waiting, config=config))
    elif any(row.state == "open" for row in rows):
        click.echo(f"{quoted(config, 'resume', root_of(rows[0].request))} brings the run to its end")


async def requests_of(store: Store | None, run_id: str, request_id: str) -> list[ApprovalRow]:
    """What the outermost run of that one asked for, or what is meant of it by the beginning of an id.

    Raises TenterError for an unknown run, for one that never asked for anything, and for an id that fits none or
    several.
    """
    found = await find_run(store, run_id)
    assert store is not None, "a run was found"
    root = (await outermost(store, found)).stream.id
    rows = await every_request(store, root)
    if not rows:
        raise TenterError(f"the run {root} asks for nothing; 'tenter approvals list' prints what waits for a person")
    if not request_id:
        return rows
    fitting = [row for row in rows if row.request.id == request_id] or [
        row for row in rows if row.request.id.startswith(request_id)
    ]
    if len(fitting) == 1:
        return fitting
    if not fitting:
        raise TenterError(f"the run {root} has no request {request_id!r}; it has {_ids(rows)}")
    raise TenterError(f"{request_id!r} begins {len(fitting)} requests ({_ids(fitting)}); give more of it")


def _ids(rows: Sequence[ApprovalRow]) -> str:
    return ", ".join(row.request.id for row in rows)


async def _rows(config: Path, run_id: str, request_id: str) -> Sequence[ApprovalRow]:
    async with journal_of(config) as store:
        rows = await requests_of(store, run_id, request_id)
    return [row for row in rows if row.state == "open"] or rows


def _lines(row: ApprovalRow, now: float, mask: Masking, config: str) -> Iterator[str]:
    request = row.request
    if row.state == "open":
        yield request_text(request, mask, config=config)
    else:
        yield one_line(f"request {request.id} of the run {root_of(request)}:")
        yield f"  {escaped(mask(json_text(call_of(request))))}"
    if request.task:
        yield one_line(f"  task {request.task}")
    yield f"  asked for at {moment(request.requested_at)}"
    if row.state == "open":
        if request.expires_at is not None:
            gone = " and is over: whoever resumes or answers it ends the run" if has_expired(row, now) else ""
            yield f"  time is until {moment(request.expires_at)}{gone}"
    else:
        yield f"  {outcome(row, mask)}"
