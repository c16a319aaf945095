"""`tenter runs show`: what happened in one run: its operations, its sub-runs, and what persons decided."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import click
import msgspec

from tenter.cli.approvals_rows import Asked, asked_of, every_row, outcome
from tenter.cli.journals import find_run, journal_of
from tenter.cli.masking import Masking, mask, masked
from tenter.cli.report import how_to_answer, request_text, told
from tenter.cli.runs_list import NO_END, NO_PROCESS, RunRow, row_of
from tenter.cli.texts import json_text, one_line, seconds
from tenter.journal import ApprovalRow, Entry, Recorded

OPERATION_KINDS: Final = ("started", "acting", "acted", "finished")
"""How far a pass of an operation has come, in this order (D§11)."""
EXTRACTED: Final = re.compile(r"(\d+)\.tool_calls\.extracted\.\d+")
"""Where the calls that a model asked for are told; group 1 is the step."""


class Pass(msgspec.Struct, frozen=True, kw_only=True):
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
    operations: Sequence[Pass]
    children: Sequence[RunRow]
    """The runs that it spawned, the first begun first."""
    approval: object
    """The first of what the run waits for: the request as it was recorded."""
    approvals: Sequence[Asked]
    """All that it ever asked for, its sub-runs too, and what was decided."""
    journal_head: str


class Found(msgspec.Struct, frozen=True):
    """A run, and the rows of what it asked for, as they are for people."""

    shown: Shown
    rows: Sequence[ApprovalRow]


def show_verb(config: str, run_id: str, *, as_json: bool) -> None:
    """Prints the run."""
    found = asyncio.run(_show(Path(config), run_id))
    if as_json:
        click.echo(json_text(masked(msgspec.to_builtins(found.shown), mask())))
        return
    for line in _lines(found, mask()):
        click.echo(line)


async def _show(config: Path, run_id: str) -> Found:
    async with journal_of(config) as store:
        summary = await find_run(store, run_id)
        assert store is not None, "a run was found"
        entries = [entry async for entry in store.read(summary.stream)]
        rows = await every_row(store, summary.stream.id)
        children = [row_of(one) for one in await store.streams("run") if one.parent == summary.stream.id]
    result, row = _last(entries, "result") or {}, row_of(summary)
    waiting = [one.request for one in rows if one.state == "open"]
    shown = Shown(
        **msgspec.structs.asdict(row),
        approval=msgspec.to_builtins(waiting[0]) if waiting else None,
        approvals=[asked_of(one) for one in rows],
        output=result.get("output"),
        error=result.get("error"),
        operations=passes(entries),
        children=children[::-1],
        journal_head=entries[-1].hash if entries else "",
    )
    return Found(shown, rows)


def _last(entries: Sequence[Recorded], kind: str) -> Mapping[str, object] | None:
    return next((one.entry.content for one in reversed(entries) if one.entry.kind == kind), None)


def passes(entries: Iterable[Recorded]) -> Sequence[Pass]:
    """The passes of a run's operations, in the order in which they began."""
    began: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int], Pass] = {}
    tools: dict[str, str] = {}
    for entry in (record.entry for record in entries if record.entry.kind in OPERATION_KINDS):
        content = entry.content
        place = (str(content.get("path")), _number(content.get("pass")))
        tools |= _tools(entry)
        one = found.get(place) or Pass(path=place[0], number=place[1], tool=tools.get(place[0]))
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


def _lines(found: Found, masking: Masking) -> Iterable[str]:
    shown = found.shown
    for name in ("run_id", "parent_run_id", "task", "status", "started", "ended", "journal_head"):
        value = getattr(shown, name)
        if value is not None:
            yield one_line(f"{name + ':':9} {value}", 200)
    if shown.status in ("running", "stopped"):
        yield f"          {NO_END if shown.status == 'running' else NO_PROCESS}"
    for name, value in (("output", shown.output), ("error", shown.error)):
        if value is not None:
            yield told(name, masking(value if isinstance(value, str) else json_text(value)))
    for child in shown.children:
        yield one_line(f"spawned:  {child.run_id}  {child.status}  {child.task}")
    waiting = [row.request for row in found.rows if row.state == "open"]
    for row in found.rows:
        if row.state == "open":
            yield request_text(row.request, masking)
        else:
            yield f"request {one_line(f'{row.request.id}, {row.request.operation}')}: {outcome(row, masking)}"
    if waiting:
        yield how_to_answer(waiting)
    for one in shown.operations:
        tool = f"  {one_line(masking(one.tool))}" if one.tool else ""
        yield f"  {one_line(f'{one.path}#{one.number}')}{tool}  {_ending(one, masking)}"


def _ending(one: Pass, masking: Masking) -> str:
    if one.outcome is None:
        return f"{one.reached}, not finished" + (" (it may have acted)" if one.reached == "acting" else "")
    took = "" if one.seconds is None else f" in {seconds(one.seconds)}"
    by = f" by {one.hook}" if one.hook else ""
    return one_line(f"{one.outcome}{by}{took}") + (f": {one_line(masking(one.reason), 400)}" if one.reason else "")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
