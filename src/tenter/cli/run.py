"""`tenter run`: one run of a task, with what its hooks decided (D§13).

Standard output gets the result and nothing else; the steps, the summary and whatever hooks print go to standard error.
"""

import asyncio
import math
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.catalogue import Status
from tenter.cli.masking import Masking
from tenter.cli.options import config_option
from tenter.cli.texts import escaped, json_text, one_line
from tenter.kernel import TenterError

if TYPE_CHECKING:
    from tenter.config import ConfigError, Pins
    from tenter.harness import Harness, RunResult

EXIT_CODES: Final[Mapping[Status, int]] = {
    "completed": 0,
    "failed": 1,
    "cancelled": 1,
    "blocked": 3,
    "awaiting_approval": 4,
    "escalated": 5,
    "pending": 1,
    "running": 1,
}
BY_SIGNAL: Final = 128
"""Added to the number of the signal that ended the run, as shells do."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    task: str
    text: str
    config: str
    workspace: str | None
    timeout: float | None
    max_steps: int | None
    steps: bool | None
    as_json: bool

    @property
    def shows_steps(self) -> bool:
        if self.steps is not None:
            return self.steps
        return not self.as_json and sys.stderr.isatty()


class Finished(msgspec.Struct, frozen=True):
    """A run's result, and what it was run by."""

    harness: "Harness"
    result: "RunResult"
    switched_off: list[str]
    """A line for each file whose hooks did not run."""


def _finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter("expected a number of seconds", context, option)
    return value


@click.command()
@click.argument("task")
@click.argument("text", metavar="[INPUT]", default="")
@config_option
@click.option("--workspace", "-w", default=None, help="The folder that the agent works in. [default: the file's]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    callback=_finite,
    help="Seconds until the run ends failed.",
)
@click.option("--max-steps", type=click.IntRange(min=1, max=2**53 - 1), help="Model calls until the run ends failed.")
@click.option("--steps/--no-steps", default=None, help="Show the steps as they happen. [default: on a terminal]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.pass_obj
def run(masks: list[Masking], **options: object) -> int:
    """Run TASK on INPUT ("-": from standard input)."""
    from tenter.cli.stopping import CutShort, run_stoppable
    from tenter.cli.streams import output_kept

    request = msgspec.convert(options, Request)
    pins = _trusted(request.config)
    if request.text == "-":
        request = msgspec.structs.replace(request, text=_standard_input())
    try:
        with output_kept():
            finished = run_stoppable(_run(request, masks, pins))
    except CutShort as error:
        raise click.ClickException(f"the run did not end by itself: {error}") from None
    if isinstance(finished, signal.Signals):
        click.echo(f"ended by {finished.name}", err=True)
        return BY_SIGNAL + finished
    _print(request, finished)
    return EXIT_CODES[finished.result.status]


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 (byte {error.start}); convert it first") from None


def _trusted(config: str) -> "Pins":
    """What holds the run to the project that its owner trusts. Raises Untrusted where nobody does."""
    from tenter.cli.trust import trusted_project
    from tenter.config import ConfigError

    try:
        return trusted_project(config).pins
    except ConfigError as error:
        raise _with_the_rest(error, config) from error


async def _run(request: Request, masks: list[Masking], pins: "Pins") -> Finished:
    from tenter.catalogue import Limits
    from tenter.cli.hook_table import switched_off
    from tenter.cli.screen import Screen
    from tenter.config import ConfigError, load, load_user
    from tenter.harness import BUILTIN_TOOLS, Harness
    from tenter.journal import JournalError
    from tenter.kernel import SYSTEM_CLOCK

    try:
        harness = Harness.from_file(request.config, workspace=request.workspace, pins=pins)
        off = switched_off(load(request.config, builtin_tools=BUILTIN_TOOLS), load_user())
    except ConfigError as error:
        raise _with_the_rest(error, request.config) from error
    masks.append(harness.mask)
    screen = Screen(harness.mask, shown=request.shows_steps)
    deadline = None if request.timeout is None else SYSTEM_CLOCK.now() + request.timeout
    limits = Limits() if request.max_steps is None else Limits(max_steps=request.max_steps)
    try:
        async with harness:
            result = await harness.run(
                request.task, request.text, deadline=deadline, max_steps=limits.max_steps, watcher=screen.show
            )
    except asyncio.CancelledError:
        click.echo(f"run {screen.run_id}: cancelled" if screen.run_id else "cancelled before it began", err=True)
        raise
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    return Finished(harness, result, off)


def _with_the_rest(error: "ConfigError", config: str) -> TenterError:
    """What stopped the start, which looks at one thing after the other, and where all that is wrong is told."""
    from tenter.config import validate
    from tenter.harness import BUILTIN_TOOLS, load_script

    found = len(validate(config, builtin_tools=BUILTIN_TOOLS, check_script=load_script))
    if found <= len(error.problems):
        return error
    return TenterError(f"{error}\n'tenter hooks validate' shows all {found} problems")


def _print(request: Request, finished: Finished) -> None:
    from tenter.cli.report import status_line, summary, verdict

    result, mask = finished.result, finished.harness.mask
    if request.shows_steps:
        click.echo(f"\n{summary(finished.harness.runtime.links(), result.trace)}\n", err=True)
    for line in finished.switched_off:
        click.echo(one_line(mask(line), 1000), err=True)
    if request.as_json:
        click.echo(json_text(result))
        return
    click.echo(status_line(result), err=True)
    if result.status == "completed":
        output = result.output if isinstance(result.output, str) else json_text(result.output)
        click.echo(escaped(mask(output)))
    else:
        click.echo(verdict(result, mask), err=True)
