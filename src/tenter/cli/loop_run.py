"""`tenter loop run`, and what it has in common with the verbs that continue a loop: one loop in this process.

Standard error hears what happens, a line each, and on a terminal also what the agent puts out. Standard output gets
the result with `--json`, and nothing else.
"""

import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, assert_never, cast

import click
import msgspec

from tenter.catalogue import EMPTY
from tenter.cli.command_line import completed
from tenter.cli.masking import Masking, masked
from tenter.cli.texts import json_text, one_line, quoted_block

if TYPE_CHECKING:
    from tenter.cli.outlet import Outlet
    from tenter.loop import Asking, DryRun, Listener, LoopRequest, LoopResult, Reason, Told

BY_SIGNAL: Final = 128
"""Added to the number of the signal that ended the loop, as shells do."""
LONGEST: Final = 2000
"""Characters of a line about a loop."""

Start = Callable[["Listener", "Asking | None"], Awaitable["LoopResult"]]
"""Runs a loop to its end, telling a listener."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line of `loop run` says."""

    config: str
    task: str | None
    prompt: str | None
    prompt_file: str | None
    max_iterations: int | None
    exclusive: bool
    skip_preflight: bool
    dry_run: bool
    as_json: bool


def exit_code(reason: "Reason") -> int:
    """The exit code of a loop that ended for `reason` (D§13)."""
    match reason:
        case "completed" | "cancelled":
            return 0
        case "consecutive_failures" | "loop_stale" | "validation_failure" | "stopped" | "blocked" | "failed":
            return 1
        case "max_iterations" | "max_runtime" | "max_cost":
            return 2
        case "restart_requested":
            return 3
        case "escalated":
            return 5
        case "interrupted":
            return 130
        case _:
            assert_never(reason)


def run_verb(options: Mapping[str, object], mask: Masking) -> int:
    """Runs a loop, or shows what would run."""
    words = msgspec.convert(options, Words)
    request = _request(words)
    if words.dry_run:
        from tenter.loop import dry_run

        _show_plan(dry_run(request), mask, as_json=words.as_json)
        return 0

    async def start(tell: "Listener", asking: "Asking | None") -> "LoopResult":
        from tenter.loop import run_loop

        return await run_loop(request, tell=naming(words.config, tell), asking=asking)

    return in_foreground(start, mask, as_json=words.as_json)


def naming(config: str, tell: "Listener") -> "Listener":
    """Tells what it hears with commands that name the configuration; what an agent puts out as it is."""

    def told(one: "Told") -> None:
        tell(one if one.kind == "output" else msgspec.structs.replace(one, text=completed(one.text, config)))

    return told


def in_foreground(
    start: Start,
    mask: Masking,
    *,
    as_json: bool,
    head: Mapping[str, object] = EMPTY,
    code: Callable[["Reason"], int] = exit_code,
) -> int:
    """Runs a loop in this process and gives its exit `code`; with `as_json` its result is printed, behind `head`.

    A signal that asks the process to end, Ctrl-C too, ends the loop `interrupted`; a second Ctrl-C cuts that short.
    """
    from tenter.cli.inside import marked
    from tenter.cli.outlet import Outlet
    from tenter.cli.stopping import CutShort, run_stoppable
    from tenter.cli.streams import ERR, output_kept
    from tenter.journal import JournalError

    outlet = Outlet(ERR, encoding=sys.stderr.encoding)
    try:
        with output_kept(), marked():
            ended = run_stoppable(_watched(start, outlet, shows_output=not as_json and sys.stderr.isatty()))
        if isinstance(ended, signal.Signals):
            outlet.put(f"ended by {ended.name}")
            return BY_SIGNAL + ended
    except CutShort as error:
        raise click.ClickException(f"the loop did not end by itself: {error}") from None
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    finally:
        outlet.close()
    if as_json:
        click.echo(json_text(masked({**head, **msgspec.structs.asdict(ended)}, mask)))
    return code(ended.reason)


async def _watched(start: Start, outlet: "Outlet", *, shows_output: bool) -> "LoopResult":
    """Runs the loop, telling what happens; it goes on untold where a terminal is stopped, or a pipe full or closed."""
    from tenter.cli.loop_asking import asker
    from tenter.cli.terminal import asks_here

    def tell(told: "Told") -> None:
        if told.kind != "output" or shows_output:
            outlet.put(line(told), dispensable=told.kind == "output")

    def show(text: str) -> None:
        outlet.put(text, end="")

    return await start(tell, asker(show) if asks_here() else None)


def line(told: "Told") -> str:
    """How what a loop tells stands on a screen: what an agent puts out behind a bar, further lines indented."""
    match told.kind:
        case "output":
            return quoted_block(told.text)
        case "began":
            return one_line(told.text, LONGEST)
        case "iteration" | "held" | "released" | "question" | "note" | "ended":
            first, *more = told.text.split("\n") if told.kind == "ended" else [told.text]
            rest = [f"  {one_line(one, LONGEST)}" for one in more]
            return "\n".join([one_line(f"loop {told.loop_id}: {first}", LONGEST), *rest])
        case _:
            assert_never(told.kind)


def _request(words: Words) -> "LoopRequest":
    from tenter.loop import LoopRequest

    said = [name for name in ("task", "prompt", "prompt_file") if getattr(words, name) is not None]
    if len(said) > 1:
        given = " and ".join("--" + name.replace("_", "-") for name in said)
        raise click.UsageError(f"{given} exclude each other; take one of them")
    prompt = words.prompt if words.prompt_file is None else _read(words.prompt_file)
    if prompt is not None and not prompt.strip():
        raise click.UsageError("the prompt is empty; say what the agent is to work on")
    return LoopRequest(
        config=words.config,
        task=words.task,
        prompt=prompt,
        max_iterations=words.max_iterations,
        exclusive=words.exclusive,
        skip_preflight=words.skip_preflight,
    )


def _read(path: str) -> str:
    name = "standard input" if path == "-" else repr(path)
    try:
        with click.open_file(path, "rb") as file:
            return file.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 (byte {error.start}); convert it first") from None
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}; name another file") from None


def _show_plan(plan: "DryRun", mask: Masking, *, as_json: bool) -> None:
    told = cast("dict[str, object]", masked(msgspec.to_builtins(plan), mask))
    if as_json:
        click.echo(json_text(told))
        return
    for name, value in told.items():
        several = cast("list[object]", value) if isinstance(value, list) else [value]
        for one in several:
            if one is not None:
                click.echo(one_line(f"{name + ':':25} {one if isinstance(one, str) else json_text(one)}", LONGEST))
