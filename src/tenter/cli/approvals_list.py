"""`tenter approvals list`: what waits for a person, a page at a time."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.cli.approvals_rows import asked_of, has_expired, outcome
from tenter.cli.decisions import call_of, root_of
from tenter.cli.journals import journal_of
from tenter.cli.masking import Masking, mask_of, masked
from tenter.cli.texts import json_text, moment, one_line
from tenter.journal import ApprovalRow
from tenter.kernel import SYSTEM_CLOCK

LONGEST: Final = 1000
"""Characters of a line."""
CALL: Final = 100
"""Characters of a call on a line."""


def list_verb(config: str, *, every: bool, limit: int, after: str | None, as_json: bool) -> None:
    """Prints a page, and the cursor of the next one where there is one."""
    page = asyncio.run(_page(Path(config), every=every, limit=limit + 1, after=after))
    rows, now, mask = page[:limit], SYSTEM_CLOCK.now(), mask_of(config)
    following = rows[-1].cursor if len(page) > limit else None
    if as_json:
        document = {"approvals": [msgspec.to_builtins(asked_of(row, now)) for row in rows], "next": following}
        click.echo(json_text(masked(document, mask)))
        return
    for row in rows:
        click.echo(_line(row, now, mask))
    if following is not None:
        more = "--all " if every else ""
        click.echo(f"more: 'tenter approvals list {more}--after {one_line(following)}'", err=True)
    if not rows:
        click.echo("nothing waits for a person" if after is None else "nothing more", err=True)


def _line(row: ApprovalRow, now: float, mask: Masking) -> str:
    request = row.request
    state = "expired" if has_expired(row, now) else row.state
    call = one_line(mask(json_text(call_of(request))), CALL)
    head = f"{root_of(request)}  {request.id}  {moment(request.requested_at)}  {state:9}  {request.operation}  "
    line = one_line(head, LONGEST).ljust(len(head)) + call
    return line if row.decision is None else f"{line}  {outcome(row, mask)}"


async def _page(config: Path, *, every: bool, limit: int, after: str | None) -> Sequence[ApprovalRow]:
    async with journal_of(config) as store:
        if store is None:
            return ()
        return await store.approvals(state=None if every else "open", after=after, limit=limit)
