"""`tenter runs`: what the journal has of runs (D§13). It reads and changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from tenter.cli.journals import find_run, open_journal
from tenter.cli.texts import one_line, seconds
from tenter.journal import Recorded, Store, StreamSummary

config_option = click.option("--config", "-c", default="tenter.yaml", show_default=True, help="The configuration file.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def runs() -> None:
    """What ran, and how it ended."""


@runs.command(name="list")
@config_option
@json_option
@click.option("--last", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
def list_(config: str, *, as_json: bool, last: int) -> None:
    """List the runs of the project, the last one first."""
    found = asyncio.run(_list(Path(config), last))
    if as_json:
        click.echo(msgspec.json.encode([_row(summary) for summary in found]))
        return
    for summary in found:
        row = _row(summary)
        click.echo(one_line(f"{row['run_id']}  {row['started']}  {row['status']:18} {row['task']}"))
    if not found:
        click.echo("no runs yet", err=True)


@runs.command()
@click.argument("run_id", metavar="RUN")
@config_option
@json_option
def show(run_id: str, *, config: str, as_json: bool) -> None:
    """Show what happened in RUN (its id, or the beginning of it)."""
    shown = asyncio.run(_show(Path(config), run_id))
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    for name in ("run_id", "task", "status", "started", "ended", "output", "error"):
        if shown[name] is not None:
            click.echo(one_line(f"{name + ':':9} {_text(shown[name])}", 400))
    for step in shown["operations"]:
        click.echo(one_line(f"  {step['path']}#{step['pass']}  {step['outcome']}{_took(step)}"))


async def _list(config: Path, last: int) -> tuple[StreamSummary, ...]:
    async with journal_of(config) as store:
        return () if store is None else tuple(await store.streams("run", limit=last))


async def _show(config: Path, run_id: str) -> dict[str, object]:
    async with journal_of(config) as store:
        summary = await find_run(store, run_id)
        assert store is not None, "a run was found"
        entries = [entry async for entry in store.read(summary.stream)]
    result = next((e.entry.content for e in reversed(entries) if e.entry.kind == "result"), {})
    return {**_row(summary), "output": result.get("output"), "error": result.get("error"), "operations": _steps(entries)}


@asynccontextmanager
async def journal_of(config: Path) -> AsyncIterator[Store | None]:
    """The journal beside the configuration, closed afterwards; None where nothing was ever written."""
    store = open_journal(config)
    try:
        yield store
    finally:
        if store is not None:
            await store.close()


def _row(summary: StreamSummary) -> dict[str, object]:
    return {
        "run_id": summary.stream.id,
        "task": summary.name,
        "status": summary.status or "pending",
        "started": _time(summary.started),
        "ended": None if summary.ended is None else _time(summary.ended),
    }


def _steps(entries: list[Recorded]) -> list[dict[str, object]]:
    """One line an operation's pass: how it ended, and what it took in seconds."""
    began: dict[tuple[object, object], int] = {}
    steps: list[dict[str, object]] = []
    for record in entries:
        content: Mapping[str, object] = record.entry.content
        place = (content.get("path"), content.get("pass"))
        if record.entry.kind == "started":
            began[place] = record.entry.time
        elif record.entry.kind == "finished":
            took = (record.entry.time - began.get(place, record.entry.time)) / 1_000_000
            steps.append({"path": place[0], "pass": place[1], "outcome": content.get("outcome"), "seconds": took})
    return steps


def _took(step: Mapping[str, object]) -> str:
    took = step["seconds"]
    return f" in {seconds(took)}" if isinstance(took, float) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
