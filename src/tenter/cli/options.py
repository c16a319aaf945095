"""The options that several verbs have, said once."""

import math
from collections.abc import Callable
from typing import cast

import click

from tenter.cli.masking import Masking, mask_of


def _note_secrets(context: click.Context, option: click.Parameter, value: str) -> str:
    """Whatever is said of a mistake, the secrets that the file names are not."""
    masks = cast("list[Masking] | None", context.find_object(list))
    if masks is not None:
        masks.append(mask_of(value))
    return value


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
    default="tenter.yaml",
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
