import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.loop.document import NewerVersion, Unreadable, decode_document, encode_document, well_formed


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: int = 1
    text: str
    more: tuple[str, ...] = ()


def read(data: bytes) -> Note:
    return decode_document(data, Note, version=1)


@given(st.text(st.characters()), st.lists(st.text()))
def test_what_is_written_is_read(text: str, more: list[str]) -> None:
    note = Note(text=well_formed(text), more=tuple(map(well_formed, more)))
    assert read(encode_document(note)) == note


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert read(encode_document(Note(text="a\udc80b", more=("\ud83d",)))) == Note(text=r"a\udc80b", more=(r"\ud83d",))


def test_it_is_one_field_a_line_for_people() -> None:
    assert encode_document(Note(text="a")) == b'{\n  "schema_version": 1,\n  "text": "a",\n  "more": []\n}\n'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\0", "NUL"),
        (b"{", "line 1|byte"),
        (b'{"text": "a"', "delimiter"),
        (b'{"text": "a", "text": "b"}', "stands twice"),
        (b'{"text": "a", "other": 1}', "unknown field `other`"),
        (b'{"text": 1}', "Expected `str`"),
        (b"[]", "Expected `object`"),
        (b'{"text": "a"} x', "Extra data"),
        (b'{"text": "\\ud800"}', "surrogate"),
        (b"\xff", "UTF-8"),
        (b'{"schema_version": 0.5, "text": "a"}', "Expected `int`"),
    ],
)
def test_anything_else_is_unreadable(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read(data)


def test_a_newer_version_is_told_before_what_it_holds() -> None:
    with pytest.raises(NewerVersion, match="it is of version 2, this version of tenter reads up to 1"):
        read(b'{"schema_version": 2, "words": []}')
