"""The shared options: the same words and defaults at every verb that has them."""

import click
import pytest
from click.testing import CliRunner

from tenter.cli.options import config_option, json_option


@click.command()
@config_option
@json_option
def verb(*, config: str, as_json: bool) -> None:
    click.echo(f"{config} {as_json}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "tenter.yaml False"), (["-c", "a.yaml"], "a.yaml False"), (["--config", "b.yaml", "--json"], "b.yaml True")],
)
def test_a_verb_takes_the_shared_options(arguments: list[str], said: str) -> None:
    assert CliRunner().invoke(verb, arguments).output == f"{said}\n"
