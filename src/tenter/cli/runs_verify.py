"""`tenter runs verify`: whether the record of a run, or of every run, is as it was written (D§10)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.cli.journals import find_run, journal_of
from tenter.cli.masking import mask_of, masked
from tenter.cli.texts import json_text, one_line
from tenter.journal import JournalError, Store, Stream, verified

LONGEST: Final = 1000
"""Characters of a line."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one run."""

    run_id: str
    holds: bool
    entries: int = 0
    """How many hold, from the first on."""
    erased: int = 0
    """How many of these hold without their content, which was erased."""
    head: str = ""
    keyed: bool = False
    """The chain could be computed only with the key."""
    fault: str | None = None
    """What does not hold, and at which entry."""
    expected_at: int | None = None
    """Behind so many entries the expected head stands."""


def verify_verb(config: str, run_id: str, expect: str | None, *, as_json: bool) -> int:
    """Prints what was found. The exit code is 1 where something does not hold."""
    if expect is not None and not run_id:
        raise click.UsageError("--expect is the head of one run; name the run, too")
    checked, mask = asyncio.run(_check(Path(config), run_id, expect)), mask_of(config)
    wrong = [one for one in checked if not one.holds]
    if as_json:
        click.echo(json_text(masked({"holds": not wrong, "runs": msgspec.to_builtins(checked)}, mask)))
        return 1 if wrong else 0
    for one in checked if run_id else wrong:
        click.echo(one_line(mask(_told(one)), LONGEST))
    if not run_id:
        click.echo(
            f"{len(checked)} runs, {len(wrong) or 'all'} of them {'do not hold' if wrong else 'hold'}{_keys(checked)}"
        )
    return 1 if wrong else 0


def _told(one: Checked) -> str:
    if not one.holds:
        return f"run {one.run_id}: {one.fault}"
    keyed = "under the key" if one.keyed else "without a key"
    erased = f" ({one.erased} of them erased)" if one.erased else ""
    since = "" if one.expected_at in (None, one.entries) else f"; it went on since that head, entry {one.expected_at}"
    return f"run {one.run_id}: holds, {one.entries} entries{erased}, chained {keyed}, journal head {one.head}{since}"


def _keys(checked: Sequence[Checked]) -> str:
    keyed = sum(one.keyed for one in checked)
    return f"; {keyed} chained under the key" if keyed else ""


async def _check(config: Path, run_id: str, expect: str | None) -> Sequence[Checked]:
    async with journal_of(config) as store:
        if run_id:
            stream = (await find_run(store, run_id)).stream
            assert store is not None, "a run was found"
            return [await _checked(store, stream, expect)]
        if store is None:
            return []
        return [await _checked(store, one.stream, None) for one in await store.streams("run")]


async def _checked(store: Store, stream: Stream, expect: str | None) -> Checked:
    try:
        found = await verified(store, stream, expect=expect)
    except JournalError as error:
        return Checked(run_id=stream.id, holds=False, fault=str(error))
    return Checked(
        run_id=stream.id,
        holds=found.fault is None,
        entries=found.entries,
        erased=found.erased,
        head=found.head,
        keyed=found.keyed,
        fault=found.fault,
        expected_at=found.expected_at,
    )
