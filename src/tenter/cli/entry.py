"""The command line (D§13): verbs, each in a file of its own that is loaded only when it is used.

Three endings beside a verb's own exit code: a mistake of the user (2, one line, no traceback), interrupted (130), and a
bug of ours (70, with a report that can be pasted into an issue).
"""

import importlib
import platform
import sys
from collections.abc import Mapping
from typing import NoReturn

import click

from tenter.cli.texts import escaped
from tenter.kernel import TenterError

VERBS: Mapping[str, Mapping[str, str]] = {
    "": {"init": "init:init", "run": "run:run", "runs": "runs:runs", "hooks": "hooks:hooks"},
}


class LazyGroup(click.Group):
    """A group whose verbs are named in a table and loaded when they are asked for."""

    def __init__(self, *, table: Mapping[str, str], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # what click takes, as the caller gives it
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        file, name = self._table[cmd_name].split(":")
        found: object = getattr(importlib.import_module(f"tenter.cli.{file}"), name)
        return found if isinstance(found, click.Command) else None


@click.command(
    cls=LazyGroup,
    table=VERBS[""],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="tenter", message="%(prog)s %(version)s")
def tenter() -> None:
    """Hooks for AI agents: write a guardrail once, run it everywhere, prove that it ran."""


def main() -> NoReturn:
    """The entry point: runs the verb and turns every ending into an exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        code: object = tenter.main(args=arguments, prog_name="tenter", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except TenterError as mistake:
        click.echo(f"tenter: {escaped(str(mistake))}", err=True)
        return 2
    except BrokenPipeError:
        return 1
    except Exception as bug:
        _report(bug, arguments)
        return 70
    return code if isinstance(code, int) else 0


def _report(bug: Exception, arguments: list[str]) -> None:
    from importlib.metadata import version

    from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS
    from tenter.kernel import Redactor

    redactor = Redactor(patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
    lines = (
        "tenter came upon a bug of its own. Please report it, with what follows:",
        "",
        f"tenter {version('tenter')}, Python {platform.python_version()}, {platform.platform()}",
        redactor.mask_fuzzy(f"command: tenter {' '.join(arguments[:2])}"),
        redactor.mask_exception_text(bug, stack=True),
    )
    click.echo("\n".join(lines), err=True)
