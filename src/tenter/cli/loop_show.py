"""`tenter loop show`: all that is known of one loop: its row, the state that it recorded last, and its summary."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click
import msgspec

from tenter.cli.journals import journal_of
from tenter.cli.loop_list import Listed, below, listed
from tenter.cli.loops import Found
from tenter.cli.masking import Masking, masked
from tenter.cli.texts import json_text, moment, one_line
from tenter.kernel import TenterError

if TYPE_CHECKING:
    from tenter.loop import LoopRow, LoopState

LONGEST: Final = 1000
"""Characters of a line."""
LARGEST: Final = 16 << 20
"""Bytes of a summary; ours are far smaller."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One loop. `state` and `summary` are None where there is none, or none that can be read; see `timed`."""

    loop: Listed
    project: str
    config: str
    backend: str
    state: "LoopState | None"
    metadata: Mapping[str, object]
    """By hook, what hooks with `mutate.enabled` said."""
    summary: Mapping[str, object] | None


def show_verb(found: Found, *, as_json: bool) -> None:
    """Prints the loop."""
    shown = asyncio.run(_shown(found.row))
    if as_json:
        plain = cast("dict[str, object]", msgspec.to_builtins(shown))
        loop = cast("dict[str, object]", plain.pop("loop"))
        told = {name: timed(plain[name]) for name in ("state", "summary")}
        click.echo(json_text(masked({**loop, **plain, **told}, found.mask)))
        return
    for line in _lines(shown, found.mask, found.config):
        click.echo(line)


def timed(document: object) -> object:
    """A document with its own times, which are in seconds since the epoch, as text, as all others are shown."""
    if not isinstance(document, dict):
        return document
    return {name: _time(name, value) for name, value in cast("dict[str, object]", document).items()}


def _time(name: str, value: object) -> object:
    is_time = name.endswith("_at") and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return moment(cast(float, value)) if is_time else value


async def _shown(row: "LoopRow") -> Shown:
    state = await _state(row)
    return Shown(
        loop=listed(row),
        project=row.project,
        config=row.config,
        backend=row.backend,
        state=state,
        metadata={} if state is None else state.metadata,
        summary=_summary(row),
    )


async def _state(row: "LoopRow") -> "LoopState | None":
    """The state that the journal of the project has, which may be gone, or begin with the loop's first boundary."""
    from tenter.journal import Stream
    from tenter.loop import last_state

    try:
        async with journal_of(Path(row.config)) as store:
            return None if store is None else await last_state(store, Stream("loop", row.loop_id))
    except TenterError as error:
        click.echo(one_line(f"no state: {error}", LONGEST), err=True)
        return None


def _summary(row: "LoopRow") -> Mapping[str, object] | None:
    from tenter.loop import place_of

    try:
        with place_of(row).summary.open("rb") as file:
            return msgspec.json.decode(file.read(LARGEST), type=dict[str, object])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _lines(shown: Shown, mask: Masking, config: str) -> Iterator[str]:
    loop, state = shown.loop, shown.state
    told: dict[str, object] = {
        "loop": loop.loop_id,
        "status": loop.status,
        "started": loop.started_at,
        "ended": loop.ended_at,
        "workspace": loop.workspace,
        "branch": loop.branch,
        "process": f"{loop.pid}, {'alive' if loop.process_alive else 'gone'}",
        "backend": shown.backend or None,
        "iteration": loop.iteration,
        "prompt": loop.prompt,
    }
    if state is not None and state.stage != "ending":
        told |= {
            "stage": f"{state.side} of {state.stage}",
            "hat": state.selected_hat,
            "pending": ", ".join(dict.fromkeys(one.topic for one in state.pending)) or None,
            "failures": state.failures or None,
        }
    if state is not None and state.cost_usd:
        told["cost"] = f"${state.cost_usd:.4f}"
    for name, value in told.items():
        if value is not None:
            yield one_line(f"{name + ':':11} {mask(str(value))}", LONGEST)
    for line in below(loop, mask, config):
        yield f"  {one_line(mask(line), LONGEST)}"
    for hook, said in shown.metadata.items():
        yield one_line(mask(f"metadata of {hook}: {json_text(said)}"), LONGEST)
