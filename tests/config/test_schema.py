"""Schemas are data that say in words what they expect."""

from tenter.config.schema import Choice, Dollars, Seconds, Slug, Text, Whole


def test_each_schema_says_in_words_what_it_expects() -> None:
    assert Whole(least=0, most=999).what == "a whole number from 0 to 999"
    assert Whole(least=1, most=1).what == "1"
    assert Seconds(most=60).what == "a number of seconds above 0 and at most 60"
    assert Dollars(most=60).what == "a number of US dollars above 0 and at most 60"
    assert Dollars(most=60, free=True).what == "a number of US dollars from 0 to 60"
    assert Choice(words=("warn", "block")).what == "'warn' or 'block'"
    assert Text().what == "text"
    assert Slug().what.startswith("a name (lower-case letters")


def test_schemas_that_say_the_same_are_equal_and_can_be_keys() -> None:
    assert {Whole(least=0, most=1): "x"}[Whole(least=0, most=1)] == "x"
