"""Problems render as one harmless line that says where, what and what to do."""

import pickle

import pytest
from hypothesis import given, strategies as st

from tenter.config.problem import ConfigError, Position, Problem, nearest, printable, quoted, render_path


def test_a_problem_renders_place_path_message_and_hint() -> None:
    problem = Problem(
        where=Position("tenter.yaml", 7, 12),
        path=("hooks", "events", "tool.before", 0, "timeout"),
        message="unknown key 'timeout'",
        hint="did you mean 'timeout_seconds'?",
    )
    assert str(problem) == (
        "tenter.yaml:7:12: at hooks.events.tool.before[0].timeout: "
        "unknown key 'timeout'; did you mean 'timeout_seconds'?"
    )


def test_a_problem_of_the_whole_file_has_no_line_and_no_path() -> None:
    assert str(Problem(where=Position("tenter.yaml"), message="there is no such file")) == (
        "tenter.yaml: there is no such file"
    )


@pytest.mark.fault(43)
def test_what_would_move_or_colour_the_terminal_is_escaped() -> None:
    problem = Problem(
        where=Position("a\x1b[2J\n.yaml", 1, 1), path=("\u202eevil", "x"), message="got \u2028 and \x07", hint="\u2066"
    )
    assert str(problem) == ("a\\x1b[2J\\n.yaml:1:1: at ['\\u202eevil'].x: got \\u2028 and \\x07; \\u2066")


@given(st.text())
def test_whatever_a_file_says_renders_printable_and_on_one_line(text: str) -> None:
    problem = Problem(where=Position(text, 1, 1), path=(text, 0, text), message=f"got {quoted(text)}", hint=text)
    assert str(problem).isprintable()
    assert printable(printable(text)) == printable(text)


def test_a_key_with_unusual_characters_stands_in_quotes() -> None:
    assert render_path(("tools", "my tool", "python")) == "tools['my tool'].python"


def test_a_path_that_begins_with_an_item_begins_with_its_index() -> None:
    assert render_path((0, "a")) == "[0].a"


def test_a_long_text_is_quoted_in_part_with_its_length() -> None:
    assert quoted("x" * 1_000) == f"'{'x' * 60}'… (1000 characters)"


def test_an_error_holds_its_problems_in_the_order_of_the_file() -> None:
    late = Problem(where=Position("f", 9, 1), message="late")
    early = Problem(where=Position("f", 2, 5), message="early")
    first = Problem(where=Position("f", 2, 1), message="first")
    error = ConfigError([late, early, first])
    assert error.problems == (first, early, late)
    assert str(error) == "f:2:1: first\nf:2:5: early\nf:9:1: late"
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


@pytest.mark.parametrize(
    ("word", "near"),
    [("timeout", "timeout_seconds"), ("Timeout-Seconds", "timeout_seconds"), ("on_eror", "on_error"), ("zzz", None)],
)
def test_the_nearest_name_is_found_despite_case_dashes_and_slips(word: str, near: str | None) -> None:
    assert nearest(word, ["timeout_seconds", "on_error", "name"]) == near


def test_nothing_is_guessed_for_a_word_of_a_megabyte() -> None:
    assert nearest("n" * 1_000_000, ["n" * 1_000_000]) is None
