"""`tenter runs prune`: takes away the records of runs that ended long ago (D§10)."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tenter.cli.inside import refuse_inside
from tenter.cli.journals import journal_of
from tenter.cli.texts import json_text
from tenter.kernel import SYSTEM_CLOCK

if TYPE_CHECKING:
    from tenter.journal import Pruned

DAY_SECONDS: Final = 86_400


def prune_verb(config: str, days: float, *, erase: bool, dry: bool, as_json: bool) -> None:
    """Takes away what ended so many days ago, or only says what that would be."""
    if not dry:
        refuse_inside(
            "what is on record of an agent is not the agent's to take away; prune from a shell of your own", config
        )
    pruned = asyncio.run(_prune(Path(config), days, erase=erase, dry=dry))
    runs, entries, size = (0, 0, 0) if pruned is None else (pruned.runs, pruned.entries, pruned.bytes)
    if as_json:
        click.echo(json_text({"runs": runs, "entries": entries, "bytes": size, "erased": erase, "dry_run": dry}))
        return
    did = f"{'would be ' if dry else ''}{'erased; the chain stays' if erase else 'removed'}"
    click.echo(f"{runs} {'run' if runs == 1 else 'runs'} ({entries} entries, {size} bytes) {did}")


async def _prune(config: Path, days: float, *, erase: bool, dry: bool) -> "Pruned | None":
    before = round((SYSTEM_CLOCK.now() - days * DAY_SECONDS) * 1_000_000)
    async with journal_of(config) as store:
        return None if store is None else await store.prune(before=before, erase=erase, dry=dry)
