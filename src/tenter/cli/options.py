"""The options that several verbs have, said once."""

from typing import cast

import click

from tenter.cli.masking import Masking, mask_of


def _note_secrets(context: click.Context, option: click.Parameter, value: str) -> str:
    """Whatever is said of a mistake, the secrets that the file names are not."""
    masks = cast("list[Masking] | None", context.find_object(list))
    if masks is not None:
        masks.append(mask_of(value))
    return value


config_option = click.option(
    "--config",
    "-c",
    default="tenter.yaml",
    show_default=True,
    help="The configuration file.",
    callback=_note_secrets,
    is_eager=True,
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
