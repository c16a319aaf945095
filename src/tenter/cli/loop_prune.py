"""`tenter loop prune`: takes away what loops that are over have left, and says what it kept and why."""

import asyncio
from typing import TYPE_CHECKING

import click

from tenter.cli.command_line import quoted
from tenter.cli.masking import mask, masked
from tenter.cli.texts import json_text, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenter.loop import LoopRow, Pruned, Registry

LONGEST = 1000
"""Characters of a line about one loop."""


def prune_verb(registry: "Registry", rows: "Sequence[LoopRow]", *, config: str, as_json: bool) -> int:
    """Prunes these loops; without any, all that are over. The exit code is 1 when something was not taken away.

    Of crashed loops, which go only by name, standard error says how many there are.
    """
    from tenter.loop import prune, standing_of

    pruned = asyncio.run(prune(registry, rows or None))
    masking = mask()
    crashed = 0 if rows else sum(standing_of(row) == "crashed" for row in registry.rows())
    if crashed:
        prune_one = quoted(config, "loop", "prune", "LOOP")
        click.echo(f"{crashed} crashed left: {prune_one} takes one away, 'resume' continues it", err=True)
    if as_json:
        click.echo(json_text(masked({"loops": [_as_json(one) for one in pruned]}, masking)))
    else:
        for one in pruned:
            click.echo(one_line(masking(f"{one.loop_id}: {one.message}"), LONGEST))
        if not pruned and not crashed:
            click.echo("there is nothing to take away", err=True)
    return 1 if any(one.result == "kept" for one in pruned) else 0


def _as_json(one: "Pruned") -> dict[str, object]:
    return {"loop_id": one.loop_id, "result": one.result, "message": one.message}
