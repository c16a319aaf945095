"""A printed command does what it says when it is pasted: it is quoted for a shell, and names the project."""

import shlex

import pytest
from hypothesis import given, strategies as st

from tenter.cli.command_line import command_line, completed, quoted


@pytest.mark.parametrize("config", ["tenter.yaml", "./tenter.yaml", ".//tenter.yaml"])
def test_the_configuration_of_the_folder_is_not_named(config: str) -> None:
    assert command_line(config, "resume", "R") == "tenter resume R"
    assert quoted(config, "runs", "list") == "'tenter runs list'"
    assert completed("see 'tenter runs list'", config) == "see 'tenter runs list'"


@pytest.mark.parametrize("config", ["u/tenter.yaml", "other.yaml", "../tenter.yaml", "/p/tenter.yaml"])
def test_another_one_is_named(config: str) -> None:
    assert command_line(config, "resume", "R") == f"tenter resume R -c {config}"
    assert quoted(config, "resume", "R") == f"'tenter resume R -c {config}'"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.text())
def test_a_shell_takes_it_for_these_words(config: str, word: str) -> None:
    assert shlex.split(command_line(f"u/{config}.yaml", "resume", word)) == [
        "tenter",
        "resume",
        word,
        "-c",
        f"u/{config}.yaml",
    ]


def test_where_it_has_quotes_in_it_it_stands_in_others() -> None:
    assert quoted("a b.yaml", "runs", "list") == "`tenter runs list -c 'a b.yaml'`"


@pytest.mark.fault(43)
def test_it_is_escaped() -> None:
    assert quoted("a\x1b[31m.yaml", "runs", "list") == r"`tenter runs list -c 'a\x1b[31m.yaml'`"


def test_commands_in_a_text_are_completed_as_far_as_they_need_it() -> None:
    text = (
        "no run 'tenter'; 'tenter runs list' or `tenter approvals list --all` shows them, "
        "'tenter hooks trust --config x', 'tenter resume R -c y'; 'tenter emit' and 'tenter hooks schema' and "
        "'tenter init' take none; tenter runs list"
    )
    assert completed(text, "u.yaml") == (
        "no run 'tenter'; 'tenter runs list -c u.yaml' or `tenter approvals list --all -c u.yaml` shows them, "
        "'tenter hooks trust --config x', 'tenter resume R -c y'; 'tenter emit' and 'tenter hooks schema' and "
        "'tenter init' take none; tenter runs list"
    )
    assert completed("'tenter runs list' tells", "a b.yaml") == "`tenter runs list -c 'a b.yaml'` tells"
