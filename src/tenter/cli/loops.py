"""The registry of loops, for the verbs that are about one or all of them."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tenter.cli.command_line import TAKEN_BY_ITSELF, completed
from tenter.cli.masking import Masking, mask_of
from tenter.cli.options import project_folder
from tenter.cli.texts import escaped
from tenter.kernel import TenterError

if TYPE_CHECKING:
    from tenter.loop import LoopRow, Registry


class Found(msgspec.Struct, frozen=True):
    """A loop that was named on the command line, and what it is registered in."""

    registry: "Registry"
    row: "LoopRow"
    mask: Masking
    """Knows the secrets that the loop's configuration names."""
    config: str = TAKEN_BY_ITSELF
    """The configuration by which its repository was named."""


def loops_of(config: str | None) -> "Registry":
    """The loops of the repository of that configuration, or of the working folder.

    That some of them are not believed is told. Raises TenterError where there is no such file.
    """
    from tenter.loop import registry_of

    if config is None:
        return registry_of(Path.cwd(), _tell)
    folder = project_folder(Path(config))
    if not Path(config).exists():
        raise TenterError(f"there is no configuration {config!r}; name another, or go to the repository's folder")
    return registry_of(folder, _tell)


def _tell(text: str) -> None:
    click.echo(escaped(text), err=True)


def named_loop(config: str | None, named: str, masks: list[Masking]) -> Found:
    """The loop with that id, or the only one whose id begins so. From now on its secrets are not told.

    Raises TenterError (UnknownLoop, AmbiguousLoop) otherwise, naming what fits.
    """
    if config is not None:
        masks.append(functools.partial(completed, config=config))
    registry = loops_of(config)
    row = registry.resolve(named)
    mask = mask_of(row.config)
    masks.append(mask)
    return Found(registry, row, mask, config or TAKEN_BY_ITSELF)
