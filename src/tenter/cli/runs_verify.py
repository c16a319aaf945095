"""`tenter runs verify`: whether the record of a run, or of every run, is as it was written (D§10)."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from tenter.cli.journals import find_run, journal_of
from tenter.cli.masking import mask_of, masked
from tenter.cli.texts import json_text, one_line
from tenter.journal import JournalError, Store, Strays, Stream, verified

LONGEST: Final = 1000
"""Characters of a line."""
HEAD: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one run."""

    run_id: str
    holds: bool | None
    """None where it cannot be told without the key."""
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


class Every(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the runs that were looked at, and of what belongs to none that is listed."""

    runs: Sequence[Checked]
    strays: Strays = Strays()

    @property
    def holds(self) -> bool:
        return self.strays == Strays() and all(one.holds for one in self.runs)


def verify_verb(config: str, run_id: str, expect: str | None, *, as_json: bool) -> int:
    """Prints what was found. The exit code is 1 where something does not hold, or cannot be told."""
    if expect is not None and not run_id:
        raise click.UsageError("--expect is the head of one run; name the run, too")
    if expect is not None and not HEAD.fullmatch(expect):
        raise click.UsageError(
            f"--expect wants a journal head, sha256: and 64 hexadecimal digits, not {one_line(expect, 80)!r}"
        )
    every, mask = asyncio.run(_check(Path(config), run_id, expect)), mask_of(config)
    if as_json:
        document = {"holds": every.holds, **msgspec.to_builtins(every)}
        click.echo(json_text(masked(document, mask)))
        return 0 if every.holds else 1
    for one in every.runs if run_id else [one for one in every.runs if not one.holds]:
        click.echo(one_line(mask(_told(one)), LONGEST))
    if not run_id:
        for line in _strays(every.strays):
            click.echo(line)
        click.echo(_sum(every.runs))
    return 0 if every.holds else 1


def _strays(strays: Strays) -> Iterator[str]:
    if strays.streams:
        yield f"the journal has the entries of {_counted(strays.streams, 'stream')} that no listing shows"
    if strays.requests:
        yield f"{_counted(strays.requests, 'request')} listed whose run is not"


def _sum(checked: Sequence[Checked]) -> str:
    wrong = sum(one.holds is False for one in checked)
    unknown = sum(one.holds is None for one in checked)
    keyed = sum(one.keyed for one in checked)
    told = [
        f"{wrong} of them {'does' if wrong == 1 else 'do'} not hold" if wrong else "",
        f"{unknown} of them cannot be checked without the key" if unknown else "",
        "all of them hold" if not wrong and not unknown and len(checked) > 1 else "",
        "it holds" if not wrong and not unknown and len(checked) == 1 else "",
    ]
    erased = sum(one.erased for one in checked)
    under = f"; {keyed} chained under the key" if keyed else ""
    without = f"; the content of {_counted(erased, 'entry', 'entries')} was erased" if erased else ""
    return ", ".join([_counted(len(checked), "run"), *filter(None, told)]) + under + without


def _counted(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or what + 's'}"


def _told(one: Checked) -> str:
    if one.holds is None:
        return f"run {one.run_id}: cannot be checked: {one.fault}"
    if not one.holds:
        return f"run {one.run_id}: {one.fault}"
    keyed = "under the key" if one.keyed else "without a key"
    erased = f" ({one.erased} of them erased)" if one.erased else ""
    since = "" if one.expected_at in (None, one.entries) else f"; it went on since that head, entry {one.expected_at}"
    return f"run {one.run_id}: holds, {one.entries} entries{erased}, chained {keyed}, journal head {one.head}{since}"


async def _check(config: Path, run_id: str, expect: str | None) -> Every:
    async with journal_of(config) as store:
        if run_id:
            stream = (await find_run(store, run_id)).stream
            assert store is not None, "a run was found"
            return Every(runs=[await _checked(store, stream, expect)])
        if store is None:
            return Every(runs=[])
        checked = [await _checked(store, one.stream, None) for one in await store.streams("run")]
        return Every(runs=checked, strays=await store.strays())


async def _checked(store: Store, stream: Stream, expect: str | None) -> Checked:
    try:
        found = await verified(store, stream, expect=expect)
    except JournalError as error:
        return Checked(run_id=stream.id, holds=None if error.trouble == "key" else False, fault=str(error))
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
