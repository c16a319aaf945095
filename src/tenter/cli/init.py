"""`tenter init`: a commented configuration and an example hook, to start from."""

from importlib.resources import files
from pathlib import Path

import click

from tenter.kernel import TenterError

FILES = {"tenter.yaml": 0o644, "script.yaml": 0o644, "hooks/guard.sh": 0o755}
"""What is written, and with which permissions."""


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False))
def init(folder: str) -> None:
    """Write a commented tenter.yaml and an example hook into FOLDER. Overwrites nothing."""
    root = Path(folder)
    taken = [name for name in FILES if (root / name).exists()]
    if taken:
        raise TenterError(f"{root / taken[0]} exists already; remove it, or run 'tenter init' in another folder")
    for name, mode in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files("tenter.cli").joinpath("start", *name.split("/")).read_bytes())
        path.chmod(mode)
        click.echo(f"wrote {path}")
    click.echo("Next: tenter hooks list, then tenter run hello 'say hello'")
