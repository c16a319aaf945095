"""`tenter runs prune`: takes away the records of runs that ended long ago (D§10)."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.cli.inside import refuse_inside
from tenter.cli.journals import journal_of
from tenter.cli.texts import json_text
from tenter.journal import KEY_VARIABLE
from tenter.kernel import SYSTEM_CLOCK

if TYPE_CHECKING:
    from tenter.journal import Pruned

DAY_SECONDS: Final = 86_400


def prune_verb(config: str, days: float, *, erase: bool, dry: bool, as_json: bool) -> int:
    """Takes away what ended so many days ago, or only says what that would be.

    The exit code is 1 where a run was left whose key was not given.
    """
    if not dry:
        refuse_inside(
            "what is on record of an agent is not the agent's to take away; prune from a shell of your own", config
        )
    pruned = asyncio.run(_prune(Path(config), days, erase=erase, dry=dry))
    runs, entries, size, left = msgspec.structs.astuple(pruned) if pruned else (0, 0, 0, 0)
    if as_json:
        told = {"runs": runs, "entries": entries, "bytes": size, "left": left, "erased": erase, "dry_run": dry}
        click.echo(json_text(told))
        return 1 if left else 0
    did = f"{'would be ' if dry else ''}{'erased; the chain stays' if erase else 'removed'}"
    click.echo(f"{_counted(runs)} ({entries} entries, {size} bytes) {did}")
    if left:
        why = f"chained under a key that was not given; set {KEY_VARIABLE} to it"
        click.echo(f"{_counted(left)} {'would be ' if dry else ''}left, {why}", err=True)
    return 1 if left else 0


def _counted(runs: int) -> str:
    return f"{runs} {'run' if runs == 1 else 'runs'}"


async def _prune(config: Path, days: float, *, erase: bool, dry: bool) -> "Pruned | None":
    before = round((SYSTEM_CLOCK.now() - days * DAY_SECONDS) * 1_000_000)
    async with journal_of(config) as store:
        return None if store is None else await store.prune(before=before, erase=erase, dry=dry)
