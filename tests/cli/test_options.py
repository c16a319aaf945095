"""The shared options: the same words and defaults at every verb that has them."""

import click
import pytest
from click.testing import CliRunner

from tenter.cli.options import config_option, finite, json_option


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


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_no_number_is_refused(value: str) -> None:
    @click.command()
    @click.option("--days", type=float, callback=finite("days"))
    def waits(days: float) -> None:
        click.echo(str(days))

    done = CliRunner().invoke(waits, ["--days", value])
    assert done.exit_code == 2
    assert "expected a number of days" in done.output
    assert CliRunner().invoke(waits, ["--days", "1.5"]).output == "1.5\n"
