"""A run in this process, begun or resumed, for a person or a program that waits for it (D§13).

Standard output gets the result and nothing else; the steps, the summary and whatever hooks print go to standard error.
On a terminal a person is asked then and there for what the run waits for.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tenter.catalogue import Status
from tenter.cli.inside import marked
from tenter.cli.masking import Masking, told_mask_of
from tenter.cli.texts import escaped, json_text, one_line
from tenter.kernel import SYSTEM_CLOCK, TenterError

if TYPE_CHECKING:
    from tenter.cli.screen import Screen
    from tenter.cli.words import Said
    from tenter.config import ConfigError, Pins
    from tenter.harness import Harness, RunResult, Watcher

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

Start = Callable[["Harness", "Watcher"], Coroutine[object, object, "RunResult"]]
"""Begins or resumes a run with a harness; the watcher is told of its steps."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of how a run is shown, and where it works."""

    config: str
    workspace: str | None
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
    said: "tuple[Said, ...]"
    """What its hooks said."""
    switched_off: list[str]
    """A line for each file whose hooks did not run."""


def in_foreground(words: Words, masks: list[Masking], pins: "Pins", start: Start) -> int:
    """Runs what `start` begins, prints what came of it and gives its exit code. Ctrl-C raises KeyboardInterrupt."""
    from tenter.cli.stopping import CutShort, run_stoppable
    from tenter.cli.streams import output_kept

    try:
        with output_kept(), marked():
            finished = run_stoppable(_run(words, masks, pins, start))
    except CutShort as error:
        raise click.ClickException(f"the run did not end by itself: {error}") from None
    if isinstance(finished, signal.Signals):
        click.echo(f"ended by {finished.name}", err=True)
        return BY_SIGNAL + finished
    _print(words, finished)
    return EXIT_CODES[finished.result.status]


def trusted(config: str) -> "Pins":
    """What holds the run to the project that its owner trusts. Raises Untrusted where nobody does."""
    from tenter.cli.trust import trusted_project
    from tenter.config import ConfigError

    try:
        return trusted_project(config).pins
    except ConfigError as error:
        raise _with_the_rest(error, config) from error


def harness_of(config: str, workspace: str | None, pins: "Pins") -> "Harness":
    """The harness of a trusted project. Raises ConfigError, or TenterError where more is wrong than it says."""
    from tenter.config import ConfigError
    from tenter.harness import Harness

    try:
        return Harness.from_file(config, workspace=workspace, pins=pins)
    except ConfigError as error:
        raise _with_the_rest(error, config) from error


async def _run(words: Words, masks: list[Masking], pins: "Pins", start: Start) -> Finished:
    from tenter.cli.hook_table import switched_off
    from tenter.cli.screen import Screen
    from tenter.config import load, load_user
    from tenter.harness import BUILTIN_TOOLS
    from tenter.journal import JournalError

    harness = harness_of(words.config, words.workspace, pins)
    off = switched_off(load(words.config, builtin_tools=BUILTIN_TOOLS), load_user())
    masks.append(harness.mask)
    screen = Screen(harness.mask, shown=words.shows_steps)
    try:
        async with harness:
            result = await _heard(start(harness, screen.show), screen)
            if result.approvals:
                result = await _answered(result, harness, screen, words.config)
    except JournalError as error:
        raise click.ClickException(str(error)) from error
    return Finished(harness, result, screen.said(result), off)


async def _answered(result: "RunResult", harness: "Harness", screen: "Screen", config: str) -> "RunResult":
    """Goes on with a run that waits for as long as somebody at the terminal decides; the result at last."""
    from tenter.cli.answering import Asker, asks_for_decisions

    if not asks_for_decisions():
        return result
    asker = Asker(harness, screen.mask, told_mask=told_mask_of(config), config=config)
    try:
        while result.approvals and await asker.decided(result.approvals):
            result = await _heard(harness.resume(result.run_id, by=asker.by, watcher=screen.show), screen)
        if result.approvals and (left := await harness.approvals(result.run_id)):  # some may be decided by now
            result = msgspec.structs.replace(result, approval=left[0], approvals=left)
    except TenterError as error:  # somebody else went on with it meanwhile, or ended it: no mistake of who is asked
        raise click.ClickException(str(error)) from error
    return result


async def _heard(run: Coroutine[object, object, "RunResult"], screen: "Screen") -> "RunResult":
    """The run's result; that it was cancelled is told."""
    try:
        return await run
    except asyncio.CancelledError:
        click.echo(f"run {screen.run_id}: cancelled" if screen.run_id else "cancelled before it began", err=True)
        raise


def _with_the_rest(error: "ConfigError", config: str) -> TenterError:
    """What stopped the start, which looks at one thing after the other, and where all that is wrong is told."""
    from tenter.config import validate
    from tenter.harness import BUILTIN_TOOLS, load_script

    found = len(validate(config, builtin_tools=BUILTIN_TOOLS, check_script=load_script))
    if found <= len(error.problems):
        return error
    return TenterError(f"{error}\n'tenter hooks validate' shows all {found} problems")


def _print(words: Words, finished: Finished) -> None:
    from tenter.cli.approvals_rows import result_document
    from tenter.cli.report import status_line, summary, verdict

    result, mask = finished.result, finished.harness.mask
    if words.shows_steps:
        click.echo(f"\n{summary(finished.harness.runtime.links(), finished.said, config=words.config)}\n", err=True)
    for line in finished.switched_off:
        click.echo(one_line(mask(line), 1000), err=True)
    if words.as_json:
        click.echo(json_text(result_document(result, SYSTEM_CLOCK.now())))
        return
    click.echo(status_line(result), err=True)
    if result.status == "completed":
        output = result.output if isinstance(result.output, str) else json_text(result.output)
        click.echo(escaped(mask(output)))
    else:
        click.echo(verdict(result, mask, config=words.config), err=True)
