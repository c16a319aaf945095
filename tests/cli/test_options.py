"""The shared options: the same words and defaults at every verb that has them."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tenter.cli.masking import Masking
from tenter.cli.options import config_option, finite, json_option, project_folder
from tenter.kernel import TenterError


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


def test_what_is_said_of_a_mistake_names_the_project_in_its_commands() -> None:
    masks: list[Masking] = []
    CliRunner().invoke(verb, ["-c", "a.yaml"], obj=masks)
    text = "'tenter runs list' prints them"
    for mask in masks:
        text = mask(text)
    assert text == "'tenter runs list -c a.yaml' prints them"


def test_the_folder_of_a_project_is_that_of_its_file_also_where_that_is_gone(tmp_path: Path) -> None:
    assert project_folder(tmp_path / "tenter.yaml") == tmp_path
    (tmp_path / "tenter.yaml").write_text("")
    (tmp_path / "link.yaml").symlink_to("tenter.yaml")
    for name in ("tenter.yaml", "link.yaml", "tenter.yaml/gone"):
        assert project_folder(tmp_path / name) == (tmp_path / name).parent


def test_what_is_no_file_or_cannot_be_looked_at_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(TenterError, match=r"is not a regular file; name the project's file with --config"):
        project_folder(tmp_path)
    with pytest.raises(TenterError, match=r"cannot be looked at: File name too long; name another file"):
        project_folder(tmp_path / ("a" * 300))
