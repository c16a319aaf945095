"""`tenter init`: a commented configuration, a script for its model and an example hook, to start from."""

import os
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from tenter.cli.texts import escaped, json_text
from tenter.kernel import TenterError

FILES: Final[Mapping[str, int]] = {"tenter.yaml": 0o666, "script.yaml": 0o666, "hooks/guard.sh": 0o777}
"""What is written, and the permissions that the user's umask leaves a part of."""


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def init(folder: str, *, as_json: bool) -> None:
    """Write a commented tenter.yaml, a script and an example hook into FOLDER, and trust them. Overwrites nothing."""
    from tenter.cli.trust import trust_new

    root = Path(folder)
    taken = [name for name in FILES if os.path.lexists(root / name)]
    if taken:
        raise TenterError(f"{str(root / taken[0])!r} exists already; remove it, or name another folder")
    for name, mode in FILES.items():
        _write(root / name, files("tenter.cli").joinpath("start", *name.split("/")).read_bytes(), mode)
        if not as_json:
            click.echo(f"wrote {escaped(str(root / name))}")
    refused = trust_new(str(root / "tenter.yaml"))
    if as_json:
        click.echo(json_text({"written": [str(root / name) for name in FILES], "trusted": not refused}))
        return
    told = f"not trusted yet ({refused}); 'tenter hooks trust' does it" if refused else "trusted what was written"
    click.echo(escaped(told))
    go = "" if root.resolve() == Path.cwd() else f"cd {escaped(shlex.quote(folder))} && "
    click.echo(f"\nNext:\n  {go}tenter hooks list\n  {go}tenter run hello 'say hello'")


def _write(path: Path, data: bytes, mode: int) -> None:
    """A new file; never one that is there, and never through a link. Raises TenterError where it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
            file.write(data)
    except OSError as error:
        raise TenterError(f"{str(path)!r} cannot be written: {error.strerror}; name another folder") from error
