"""`tenter runs verify`: whether the record of a run, or the whole journal, is as it was written (D§10)."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
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
    """What was found of one stream."""

    stream: Stream
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
    pruned: bool = False
    """It was pruned while it was looked at."""

    def document(self) -> Mapping[str, object]:
        """As JSON has it."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        del plain["stream"], plain["pruned"]
        kind, name = self.stream.kind, self.stream.id
        return {"run_id": name, **plain} if kind == "run" else {"kind": kind, "id": name, **plain}


class Every(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the streams that were looked at, and of what belongs to none that is listed."""

    runs: Sequence[Checked]
    others: Sequence[Checked] = ()
    """Of loops, sessions, and what hooks outside of runs did."""
    strays: Strays = Strays()
    unsound: str = ""
    """What is wrong with the journal's file itself."""

    @property
    def holds(self) -> bool:
        return self.strays == Strays() and not self.unsound and all(one.holds for one in (*self.runs, *self.others))


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
        runs, others = ([one.document() for one in found] for found in (every.runs, every.others))
        strays = msgspec.to_builtins(every.strays)
        document = {"holds": every.holds, "runs": runs, "others": others, "strays": strays, "unsound": every.unsound}
        click.echo(json_text(masked(document, mask)))
        return 0 if every.holds else 1
    for one in every.runs if run_id else [one for one in (*every.runs, *every.others) if not one.holds]:
        click.echo(one_line(mask(_told(one)), LONGEST))
    if not run_id:
        if every.unsound:
            click.echo(one_line(mask(f"the journal's file is damaged, or was changed: {every.unsound}"), LONGEST))
        for line in _strays(every.strays):
            click.echo(line)
        click.echo(_sum(every))
    return 0 if every.holds else 1


def _strays(strays: Strays) -> Iterator[str]:
    if strays.streams:
        yield f"the journal has the entries of {_counted(strays.streams, 'stream')} that no listing shows"
    if strays.requests:
        yield f"{_counted(strays.requests, 'request')} listed whose run is not"
    if strays.doomed:
        yield f"the next pruning would delete {_counted(strays.doomed, 'stream')} that nobody asked it to delete"


def _sum(every: Every) -> str:
    checked = every.runs
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
    amiss = sum(not one.holds for one in every.others)
    other = f"; {amiss} of {_counted(len(every.others), 'other record')} not found to hold" if amiss else ""
    return ", ".join([_counted(len(checked), "run"), *filter(None, told)]) + under + without + other


def _counted(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or what + 's'}"


def _told(one: Checked) -> str:
    named = f"{one.stream.kind} {one.stream.id}"
    if one.holds is None:
        return f"{named}: cannot be checked: {one.fault}"
    if not one.holds:
        return f"{named}: {one.fault}"
    keyed = "under the key" if one.keyed else "without a key"
    erased = f" ({one.erased} of them erased)" if one.erased else ""
    since = "" if one.expected_at in (None, one.entries) else f"; it went on since that head, entry {one.expected_at}"
    return f"{named}: holds, {one.entries} entries{erased}, chained {keyed}, journal head {one.head}{since}"


async def _check(config: Path, run_id: str, expect: str | None) -> Every:
    async with journal_of(config) as store:
        if run_id:
            stream = (await find_run(store, run_id)).stream
            assert store is not None, "a run was found"
            return Every(runs=[await _checked(store, stream, expect)])
        if store is None:
            return Every(runs=[])
        checked = [await _checked(store, one.stream, None) for one in await store.streams()]
        there = [one for one in checked if not one.pruned]
        return Every(
            runs=[one for one in there if one.stream.kind == "run"],
            others=[one for one in there if one.stream.kind != "run"],
            strays=await store.strays(),
            unsound=await store.unsound(),
        )


async def _checked(store: Store, stream: Stream, expect: str | None) -> Checked:
    try:
        found = await verified(store, stream, expect=expect)
    except JournalError as error:
        pruned = error.trouble == "removed" and await store.summary(stream) is None
        return Checked(stream=stream, holds=None if error.trouble == "key" else False, fault=str(error), pruned=pruned)
    return Checked(
        stream=stream,
        holds=found.fault is None,
        entries=found.entries,
        erased=found.erased,
        head=found.head,
        keyed=found.keyed,
        fault=found.fault,
        expected_at=found.expected_at,
    )
