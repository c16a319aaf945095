import pytest

from tenter.journal.entry import Stream
from tenter.journal.key import journal_key, key_number, key_of
from tenter.journal.store import JournalError
from tenter.kernel import TenterError

KEY, OTHER = b"k" * 16, b"o" * 16
RUN = Stream("run", "r1")


def test_the_key_is_the_text_of_the_variable_and_without_it_there_is_none() -> None:
    assert journal_key({"TENTER_JOURNAL_KEY": "sixteen letters!"}) == b"sixteen letters!"
    assert journal_key({"TENTER_JOURNAL_KEY": "\udcff" * 16}) == b"\xff" * 16
    assert journal_key({"OTHER": "x"}) is None


@pytest.mark.parametrize("text", ["", "fifteen letters"])
def test_a_short_key_is_a_mistake_and_not_no_key(text: str) -> None:
    with pytest.raises(TenterError, match=rf"TENTER_JOURNAL_KEY has {len(text)} characters and needs at least 16; "):
        journal_key({"TENTER_JOURNAL_KEY": text})


def test_a_stream_tells_its_key_from_another_and_none_is_0() -> None:
    assert key_number(None) == 0
    assert 0 < key_number(KEY) < 2**48
    assert key_number(KEY) == key_number(KEY) != key_number(OTHER)


def test_a_stream_that_was_begun_without_a_key_stays_without() -> None:
    assert key_of(RUN, key_number(None), KEY) is None
    assert key_of(RUN, key_number(None), None) is None
    assert key_of(RUN, key_number(KEY), KEY) == KEY


@pytest.mark.parametrize(("key", "given"), [(None, "none"), (OTHER, "another one")])
def test_without_the_key_that_it_was_begun_with_a_stream_is_refused(key: bytes | None, given: str) -> None:
    with pytest.raises(
        JournalError, match=f"run 'r1' was journaled under a key, {given} was given; set TENTER_"
    ) as caught:
        key_of(RUN, key_number(KEY), key)
    assert caught.value.trouble == "key"
    assert KEY.decode() not in str(caught.value)
