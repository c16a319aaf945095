"""The options that several verbs have, said once."""

import functools
import math
import stat
from collections.abc import Callable
from pathlib import Path
from typing import cast

import click

from tenter.cli.command_line import TAKEN_BY_ITSELF, completed
from tenter.cli.masking import Masking, mask_of
from tenter.kernel import TenterError


def _note_secrets(context: click.Context, option: click.Parameter, value: str) -> str:
    """Whatever is said of a mistake, its commands name the file, and the secrets that the file names are not told."""
    masks = cast("list[Masking] | None", context.find_object(list))
    if masks is not None:
        masks += [functools.partial(completed, config=value), mask_of(value)]
    return value


def project_folder(config: Path) -> Path:
    """The folder of the project whose configuration that is, or was. Raises TenterError for what is no file.

    What lies beside a folder is another project's.
    """
    try:
        is_file = stat.S_ISREG(config.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):  # what it left behind may be there still
        is_file = True
    except OSError as error:
        raise TenterError(f"{str(config)!r} cannot be looked at: {error.strerror}; name another file") from error
    if not is_file:
        raise TenterError(f"{str(config)!r} is not a regular file; name the project's file with --config")
    return config.absolute().parent


def finite(unit: str) -> Callable[[click.Context, click.Parameter, float | None], float | None]:
    """Refuses what is no number, and infinity."""

    def checked(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise click.BadParameter(f"expected a number of {unit}", context, option)
        return value

    return checked


config_option = click.option(
    "--config",
    "-c",
    default=TAKEN_BY_ITSELF,
    show_default=True,
    help="The configuration file.",
    callback=_note_secrets,
    is_eager=True,
)

workspace_option = click.option(
    "--workspace", "-w", default=None, help="The folder that the agent works in. [default: the file's]"
)

steps_option = click.option(
    "--steps/--no-steps", default=None, help="Show the steps as they happen. [default: on a terminal]"
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
