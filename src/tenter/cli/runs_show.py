"""`tenter runs show`: what happened in one run: its operations, its sub-runs, and what persons decided."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import click
import msgspec

from tenter.cli.approvals_rows import RequestRow, outcome, request_row
from tenter.cli.command_line import quoted
from tenter.cli.journals import find_run, journal_of
from tenter.cli.masking import Masking, mask_of, masked
from tenter.cli.report import how_to_answer, request_text, told
from tenter.cli.runs_facts import Facts, fact_lines, facts_of
from tenter.cli.runs_list import NO_END, RunRow, goes_on, no_process, row_of
from tenter.cli.texts import json_text, one_line, seconds
from tenter.journal import ApprovalRow, Entry, Recorded, every_request
from tenter.kernel import SYSTEM_CLOCK

OPERATION_KINDS: Final = ("started", "acting", "acted", "finished")
"""How far a pass of an operation has come, in this order (D§11)."""
LONGEST: Final = 400
"""Characters of a line of what it was begun with, and what it used."""
EXTRACTED: Final = re.compile(r"(\d+)\.tool_calls\.extracted\.\d+")
"""Where the calls that a model asked for are told; group 1 is the step."""


class PassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pass of an operation: how it ended, or how far it had come."""

    path: str
    number: int = msgspec.field(name="pass")
    reached: str = "started"
    tool: str | None = None
    """The tool that is called, as far as that is on record."""
    outcome: str | None = None
    hook: str | None = None
    """Who stopped it."""
    reason: str | None = None
    seconds: float | None = None


class Shown(RunRow, frozen=True, kw_only=True):
    """A run with what happened in it."""

    output: object
    error: object
    operations: Sequence[PassRow]
    children: Sequence[RunRow]
    """The runs that it spawned, the first begun first."""
    approval: RequestRow | None
    """The first of what the run waits for."""
    approvals: Sequence[RequestRow]
    """All that it ever asked for, its sub-runs too, and what was decided."""
    facts: Facts
    """In JSON its fields stand among those of the run."""
    erased: int
    """How many entries have lost their content, of `entries`."""
    entries: int
    journal_head: str

    def document(self) -> Mapping[str, object]:
        """As JSON has it."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        facts = cast("dict[str, object]", plain.pop("facts"))
        return {**plain, **facts}


class Found(msgspec.Struct, frozen=True):
    """A run, and the rows of what it asked for, as they are for people."""

    shown: Shown
    rows: Sequence[ApprovalRow]


def show_verb(config: str, run_id: str, *, as_json: bool) -> None:
    """Prints the run."""
    found = asyncio.run(_show(Path(config), run_id))
    if as_json:
        click.echo(json_text(masked(found.shown.document(), mask_of(config))))
        return
    for line in _lines(found, mask_of(config), config):
        click.echo(line)


async def _show(config: Path, run_id: str) -> Found:
    async with journal_of(config) as store:
        summary = await find_run(store, run_id)
        assert store is not None, "a run was found"
        entries = [entry async for entry in store.read(summary.stream)]
        rows = await every_request(store, summary.stream.id)
        children = [row_of(one) for one in await store.streams("run") if one.parent == summary.stream.id]
    result, row = _last(entries, "result") or {}, row_of(summary, rows)
    now = SYSTEM_CLOCK.now()
    waiting = [request_row(one, now) for one in rows if one.state == "open"]
    shown = Shown(
        **msgspec.structs.asdict(row),
        approval=waiting[0] if waiting else None,
        approvals=[request_row(one, now) for one in rows],
        output=result.get("output"),
        error=result.get("error"),
        operations=passes(entries),
        children=children[::-1],
        facts=facts_of(entries),
        erased=sum(one.erased for one in entries),
        entries=len(entries),
        journal_head=entries[-1].hash if entries else "",
    )
    return Found(shown, rows)


def _last(entries: Sequence[Recorded], kind: str) -> Mapping[str, object] | None:
    return next((one.entry.content for one in reversed(entries) if one.entry.kind == kind), None)


def passes(entries: Iterable[Recorded]) -> Sequence[PassRow]:
    """The passes of a run's operations, in the order in which they began; without those whose content was erased."""
    began: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int], PassRow] = {}
    tools: dict[str, str] = {}
    for entry in (record.entry for record in entries if record.entry.kind in OPERATION_KINDS and not record.erased):
        content = entry.content
        place = (str(content.get("path")), _number(content.get("pass")))
        tools |= _tools(entry)
        one = found.get(place) or PassRow(path=place[0], number=place[1], tool=tools.get(place[0]))
        began.setdefault(place, entry.time)
        if entry.kind == "finished":
            one = msgspec.structs.replace(
                one,
                outcome=_optional(content.get("outcome")),
                hook=_optional(content.get("hook")),
                reason=_optional(content.get("reason") or content.get("message")),
                seconds=(entry.time - began[place]) / 1_000_000,
            )
        found[place] = msgspec.structs.replace(one, reached=entry.kind, tool=tools.get(place[0]))
    return tuple(found.values())


def _tools(entry: Entry) -> Mapping[str, str]:
    """The tools that an entry tells, by the paths of their calls: what the model asked for, and what was called."""
    path, content = str(entry.content.get("path")), entry.content
    if entry.kind == "acted" and (step := EXTRACTED.fullmatch(path)):
        asked = _mapping(content.get("result")).get("calls")
        calls = cast("Sequence[object]", asked) if isinstance(asked, Sequence) else ()
        named = {f"{step[1]}.tool.invoked.{n}": _mapping(call).get("name") for n, call in enumerate(calls)}
    elif entry.kind == "acting" and ".tool.invoked." in path:
        named = {path: _mapping(_mapping(content.get("event")).get("call")).get("name")}
    else:
        return {}
    return {path: name for path, name in named.items() if isinstance(name, str)}


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _lines(found: Found, masking: Masking, config: str) -> Iterable[str]:
    shown = found.shown
    yield from _head(shown, config)
    for line in fact_lines(shown.facts, masking):
        yield one_line(line, LONGEST)
    for name, value in (("output", shown.output), ("error", shown.error)):
        if value is not None:
            yield told(name, masking(value if isinstance(value, str) else json_text(value)))
    for child in shown.children:
        yield one_line(f"spawned:  {child.run_id}  {child.status}  {child.task}")
    waiting = [row.request for row in found.rows if row.state == "open"]
    for row in found.rows:
        if row.state == "open":
            yield request_text(row.request, masking, config=config)
        else:
            yield f"request {one_line(f'{row.request.id}, {row.request.operation}')}: {outcome(row, masking)}"
    if waiting:
        yield how_to_answer(waiting, config=config)
    for one in shown.operations:
        tool = f"  {one_line(masking(one.tool))}" if one.tool else ""
        yield f"  {one_line(f'{one.path}#{one.number}')}{tool}  {_ending(one, masking)}"


def _head(shown: Shown, config: str) -> Iterable[str]:
    """Which run it is, how it stands, and what can be done about that."""
    for name in ("run_id", "parent_run_id", "task", "status", "started", "ended", "journal_head"):
        value = getattr(shown, name)
        if value is not None:
            yield one_line(f"{name + ':':9} {value}", 200)
    if shown.status in ("running", "stopped"):
        yield f"          {NO_END if shown.status == 'running' else no_process(config, shown.run_id)}"
    if shown.decided:
        yield f"          {goes_on(config, shown.run_id)}"
    if shown.erased:
        erased, verify = f"{shown.erased} of {shown.entries} entries", quoted(config, "runs", "verify", shown.run_id)
        yield f"          the content of {erased} was erased; {verify} checks what is left"


def _ending(one: PassRow, masking: Masking) -> str:
    if one.outcome is None:
        return f"{one.reached}, not finished" + (" (it may have acted)" if one.reached == "acting" else "")
    took = "" if one.seconds is None else f" in {seconds(one.seconds)}"
    by = f" by {one.hook}" if one.hook else ""
    return one_line(f"{one.outcome}{by}{took}") + (f": {one_line(masking(one.reason), 400)}" if one.reason else "")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
