"""`tenter approvals list`: what waits for a person, and why, a page at a time."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.cli.approvals_rows import has_expired, outcome, request_row
from tenter.cli.command_line import quoted
from tenter.cli.decisions import call_of, root_of
from tenter.cli.journals import journal_of
from tenter.cli.masking import Masking, mask_of, masked
from tenter.cli.report import asked_by
from tenter.cli.runs_list import waits
from tenter.cli.texts import json_text, moment, one_line
from tenter.journal import ApprovalRow
from tenter.kernel import SYSTEM_CLOCK

LONGEST: Final = 1000
"""Characters of a line."""
CALL: Final = 100
"""Characters of a call on a line."""
MOST_NAMED: Final = 10
"""Runs that are named on a line."""
WHY: Final = 200
"""Characters of a reason on a line."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the listing."""

    rows: Sequence[ApprovalRow] = ()
    following: str | None = None
    """The cursor behind which more stands."""
    decided: Sequence[str] = ()
    """Runs that wait for nobody any more, and were not resumed; told where one page holds all that waits."""


def list_verb(config: str, *, every: bool, limit: int, after: str | None, as_json: bool) -> None:
    """Prints a page, and the cursor of the next one where there is one."""
    page = asyncio.run(_page(Path(config), every=every, limit=limit, after=after))
    rows, following, now, mask = page.rows, page.following, SYSTEM_CLOCK.now(), mask_of(config)
    if as_json:
        asked = [msgspec.to_builtins(request_row(row, now)) for row in rows]
        document = {"approvals": asked, "next": following, "decided": page.decided}
        click.echo(json_text(masked(document, mask)))
        return
    for row in rows:
        for line in _lines(row, now, mask):
            click.echo(line)
    if following is not None:
        more = quoted(config, "approvals", "list", *(["--all"] if every else []), "--after", following)
        click.echo(f"more: {more}", err=True)
    if page.decided:
        runs = ", ".join(page.decided[:MOST_NAMED]) + (", …" if len(page.decided) > MOST_NAMED else "")
        click.echo(f"decided: {one_line(runs, LONGEST)}; {quoted(config, 'resume', 'RUN')} goes on with each", err=True)
    if not rows:
        click.echo("nothing waits for a person" if after is None else "nothing more", err=True)


def _lines(row: ApprovalRow, now: float, mask: Masking) -> Iterator[str]:
    """The request on a line, and below it every reason of one that waits."""
    request = row.request
    state = "expired" if has_expired(row, now) else row.state
    call = one_line(mask(json_text(call_of(request))), CALL)
    what = f"{request.task}  {request.operation}" if request.task else request.operation
    head = f"{root_of(request)}  {request.id}  {moment(request.requested_at)}  {state:9}  {what}  "
    line = one_line(head, LONGEST).ljust(len(head)) + call
    yield line if row.decision is None else f"{line}  {outcome(row, mask)}"
    if row.state == "open":
        yield from (one_line(f"    {asked_by(one)}: {mask(one.reason)}", WHY) for one in request.reasons)


async def _page(config: Path, *, every: bool, limit: int, after: str | None) -> Page:
    async with journal_of(config) as store:
        if store is None:
            return Page()
        rows = await store.approvals(state=None if every else "open", after=after, limit=limit + 1)
        if len(rows) > limit:
            return Page(rows=rows[:limit], following=rows[limit - 1].cursor)
        # What waits is all here, so that all other runs that began to wait have what they waited for.
        waiting = {root_of(row.request) for row in rows if row.state == "open"}
        runs = await store.streams("run") if after is None else ()
        return Page(rows=rows, decided=[one.stream.id for one in runs if waits(one) and one.stream.id not in waiting])
