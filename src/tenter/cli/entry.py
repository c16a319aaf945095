"""The command line (D§13): verbs, each in a file of its own that is loaded only when it is used.

Endings beside a verb's own exit code: a mistake of the user (2, or 1 for what was found wrong; no traceback; with
`--json` a document says it, too), interrupted (130), and a bug of ours (70, with a report that can be pasted into an
issue).
"""

import contextlib
import errno
import importlib
import itertools
import os
import platform
import sys
import traceback
from collections.abc import Mapping
from typing import Final, NoReturn

import click

from tenter.cli.leaving import leave
from tenter.cli.masking import Masking, mask
from tenter.cli.streams import prepare_streams
from tenter.cli.texts import escaped, json_text
from tenter.config import nearest
from tenter.kernel import TenterError

VERBS: Final[Mapping[str, str]] = {
    "init": "Write a commented tenter.yaml, a script and an example hook.",
    "run": "Run a task with its hooks.",
    "resume": "Go on with a run that waits or was interrupted.",
    "approvals": "What waits for a person, and the decision on it.",
    "runs": "What ran, and how it ended.",
    "hooks": "What runs at each point, and what ran.",
    "loop": "Run an agent again and again until it is done, with hooks at each boundary.",
    "emit": "Publish an event to the loop around an agent.",
}
"""Each verb is the command of its name in the file of its name. What it is for stands here, so `--help` loads none."""

FAILURE, MISTAKE, UNTRUSTED, BUG, INTERRUPTED = 1, 2, 6, 70, 130


class Verbs(click.Group):
    """The verbs of the table, loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        found: object = getattr(importlib.import_module(f"tenter.cli.{cmd_name}"), cmd_name)
        assert isinstance(found, click.Command), f"tenter.cli.{cmd_name} has no command of its name"
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        if verb not in VERBS and not verb.startswith("-"):
            near = nearest(verb, VERBS)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(VERBS)}."
            raise click.UsageError(f"there is no verb {verb!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done or completed, 1 failed or cancelled, 2 usage or configuration, 3 blocked, or a"
    " restart was asked for, 4 waiting for a person, 5 escalated, 6 untrusted, 70 a bug of tenter, 130 interrupted.",
)
@click.version_option(package_name="tenter", message="%(prog)s %(version)s")
@click.pass_context
def tenter(context: click.Context) -> None:
    """Hooks for AI agents: write a guardrail once, run it everywhere, prove that it ran."""
    if os.environ.get("NO_COLOR"):
        context.color = False


def main() -> NoReturn:
    """The entry point: runs the verb and turns every ending into an exit code."""
    prepare_streams()
    leave(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    masks: list[Masking] = []
    try:
        code: object = tenter.main(args=arguments, prog_name="tenter", standalone_mode=False, obj=masks)
    except (Exception, KeyboardInterrupt) as error:
        return _told(error, arguments, masks)
    return code if isinstance(code, int) else 0


def _told(error: BaseException, arguments: list[str], masks: list[Masking]) -> int:
    """Tells the user what ended the verb, and gives the exit code for it."""
    told: str | None = None
    match error:
        case click.UsageError():
            # Without masks no verb was found, and nothing is said that a file could hold.
            shown = click.UsageError(_hidden(error.format_message(), masks), error.ctx) if masks else error
            shown.show()
            told, code = shown.format_message(), MISTAKE
        case click.Abort() | KeyboardInterrupt():
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        case click.ClickException():
            told, code = _say(error.format_message(), masks), error.exit_code
        case TenterError():
            told, code = _say(str(error), masks), UNTRUSTED if _is_untrusted(error) else MISTAKE
        case FileNotFoundError(filename=None) if _has_no_folder():
            told, code = _say("the working folder is not there any more; go to a folder that is", masks), MISTAKE
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO, filename=None):
            _say(f"the output could not be written: {error.strerror}", masks)
            code = FAILURE
        case _:
            _report(error, arguments, masks)
            code = BUG
    if told is not None and _wants_json(arguments):
        with contextlib.suppress(OSError):  # nobody reads it; standard error and the exit code tell it, too
            click.echo(json_text({"error": {"message": told, "exit_code": code}}))
    return code


def _wants_json(arguments: list[str]) -> bool:
    """Whether a verb is asked for a document, also where its words are too wrong to be understood."""
    return "--json" in itertools.takewhile(lambda word: word != "--", arguments)


def _is_untrusted(error: TenterError) -> bool:
    # Late, because most verbs end without asking for anybody's trust.
    from tenter.config import Untrusted

    return isinstance(error, Untrusted)


def _say(text: str, masks: list[Masking]) -> str:
    """Tells the user, and gives what was told: without secrets, and not escaped."""
    hidden = _hidden(text, masks)
    click.echo(f"tenter: {escaped(hidden)}", err=True)
    return hidden


def _hidden(text: str, masks: list[Masking]) -> str:
    """`text` without secrets; `masks` are those of verbs that know more of them."""
    for one in (mask(), *masks):
        text = one(text)
    return text


def _has_no_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  # it is asked whether there is one
    except FileNotFoundError:
        return True
    return False


def _report(bug: BaseException, arguments: list[str], masks: list[Masking]) -> None:
    """Says what is needed to find the bug."""
    from importlib.metadata import version

    text = "\n".join(
        (
            f"tenter {version('tenter')}, Python {platform.python_version()}, {platform.platform()}",
            f"command: tenter {' '.join(arguments)}",
            "".join(traceback.format_exception(bug)),
        )
    )
    click.echo("tenter came upon a bug of its own. Please report it, with what follows:\n", err=True)
    click.echo(escaped(_hidden(text, masks).rstrip()), err=True)
