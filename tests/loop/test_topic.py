"""Topics are words joined by dots, and a star stands for one of them."""

import pytest
from hypothesis import given, strategies as st

from tenter.loop.topic import is_topic, matches

WORDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,9}", fullmatch=True)
TOPICS = st.lists(WORDS, min_size=1, max_size=5).map(".".join)
ANY = st.one_of(WORDS, st.just("*"))


@pytest.mark.parametrize("text", ["task.start", "LOOP_COMPLETE", "a", "plan.a.b-c_1"])
def test_words_joined_by_dots_are_a_topic(text: str) -> None:
    assert is_topic(text)


@pytest.mark.parametrize("text", ["", "*", "a.*", "a..b", "a.", "a b", "a\n", "-x", "a" * 201, "\ud800", "a\0"])
def test_anything_else_is_none(text: str) -> None:
    assert not is_topic(text)


@pytest.mark.parametrize(
    ("pattern", "topic"), [("build.done", "build.done"), ("build.*", "build.done"), ("*", "x"), ("*.b.*", "a.b.c")]
)
def test_a_star_stands_for_one_word(pattern: str, topic: str) -> None:
    assert matches(pattern, topic)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [("build.done", "build"), ("build.*", "build"), ("build.*", "build.a.b"), ("*", "a.b"), ("*.b", "a.c"), ("a", "A")],
)
def test_a_star_stands_for_nothing_else_and_everything_else_for_itself(pattern: str, topic: str) -> None:
    assert not matches(pattern, topic)


@given(TOPICS, st.data())
def test_a_topic_fits_itself_with_any_of_its_words_starred(topic: str, data: st.DataObject) -> None:
    assert is_topic(topic)
    words = [data.draw(st.sampled_from([word, "*"])) for word in topic.split(".")]
    assert matches(".".join(words), topic)


@given(st.lists(ANY, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=5))
def test_a_pattern_fits_a_topic_of_as_many_words_alone(pattern: list[str], topic: list[str]) -> None:
    fits = matches(".".join(pattern), ".".join(topic))
    assert fits == (len(pattern) == len(topic) and all(p in ("*", t) for p, t in zip(pattern, topic, strict=False)))
