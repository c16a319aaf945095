import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.journal.entry import Entry, Stream, genesis, verify
from tenter.journal.sealed import kept, leave, prepare, seal, seal_flat, unseal
from tenter.journal.store import JournalError
from tenter.wire.canonical import CanonicalError, Document, OversizeError

RUN = Stream("run", "r1")
NOTE = Entry(kind="note", time=1, content={"text": "x"})


def test_sealed_entries_continue_the_chain_and_open_to_what_they_were() -> None:
    first = seal(genesis(RUN), prepare([NOTE, NOTE]))
    records = [unseal(RUN, sealed, leave) for sealed in first]
    second = seal(records[-1].head, prepare([NOTE]))
    records += [unseal(RUN, sealed, leave) for sealed in second]
    assert [record.sequence for record in records] == [1, 2, 3]
    assert [record.entry for record in records] == [NOTE] * 3
    assert verify(records) is None


@given(
    text=st.text(),
    number=st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    key=st.text(),
    kind=st.text(st.characters(max_codepoint=127)),
    time=st.integers(0, 2**53 - 1),
)
def test_a_flat_entry_is_sealed_as_any_other(text: str, number: float, key: str, kind: str, time: int) -> None:
    entry = Entry(kind=kind, time=time, content={"text": text, key: number, "none": None, "yes": True})
    (expected,) = seal(genesis(RUN), prepare([entry]))
    assert seal_flat(genesis(RUN), entry) in (expected, None)
    assert seal_flat(genesis(RUN), NOTE) is not None


def test_under_a_key_entries_are_chained_under_it() -> None:
    key = b"a key"
    sealed = seal(genesis(RUN), prepare([NOTE, NOTE]), key)
    assert verify([unseal(RUN, one, leave) for one in sealed], key=key) is None
    assert seal_flat(genesis(RUN), NOTE, key) == sealed[0] != seal_flat(genesis(RUN), NOTE)


def test_what_several_entries_keep_apart_is_kept_once() -> None:
    message = Document({"role": "user"})
    prepared = prepare([Entry(kind="note", time=1, content={"added": [message]})] * 2)
    assert kept(prepared) == {message.digest: (b'{"role":"user"}',)}


def test_content_without_canonical_form_is_refused_by_kind_and_place() -> None:
    with pytest.raises(JournalError, match="an entry 'acted' cannot be journaled, at 'value': ") as caught:
        prepare([NOTE, Entry(kind="acted", time=1, content={"value": object()})])
    assert caught.value.trouble == "content"


@pytest.mark.parametrize(
    "changes", [{"kind": "\udcff"}, {"kind": "ü"}, {"time": 2**53}, {"time": -(2**53)}, {"version": 2**63}]
)
def test_an_entry_that_cannot_be_chained_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(JournalError, match=r"its kind must be ASCII, its time .* and version integers") as caught:
        prepare([msgspec.structs.replace(NOTE, **changes)])
    assert caught.value.trouble == "content"


def test_an_entry_larger_than_asked_for_is_refused_before_it_is_written() -> None:
    with pytest.raises(OversizeError):
        prepare([NOTE, Entry(kind="note", time=1, content={"text": "x" * 100})], at_most=50)


def test_an_erased_entry_opens_without_content_and_its_chain_holds() -> None:
    (sealed,) = seal(genesis(RUN), prepare([NOTE]))
    recorded = unseal(RUN, msgspec.structs.replace(sealed, data=None), leave)
    assert (recorded.erased, recorded.entry.content) == (True, {})
    assert verify([recorded]) is None


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff"])
def test_damaged_content_is_refused(data: bytes) -> None:
    (sealed,) = seal(genesis(RUN), prepare([NOTE]))
    with pytest.raises(CanonicalError):
        unseal(RUN, msgspec.structs.replace(sealed, data=data), leave)


def test_altered_content_is_marked() -> None:
    (sealed,) = seal(genesis(RUN), prepare([NOTE]))
    altered = unseal(RUN, msgspec.structs.replace(sealed, data=b'{"text":"y"}'), leave)
    assert (altered.altered, verify([altered])) == (True, 1)


@pytest.mark.parametrize(("data", "bad"), [(b'{"role":"user"}', None), (b'{"role":"tool"}', 1)])
def test_altered_content_that_was_kept_apart_is_marked(data: bytes, bad: int | None) -> None:
    entry = Entry(kind="note", time=1, content={"added": [Document({"role": "user"})]})
    (sealed,) = seal(genesis(RUN), prepare([entry]))
    recorded = unseal(RUN, sealed, lambda _digest: (data,))
    assert (recorded.altered, verify([recorded])) == (bad is not None, bad)


def test_every_entry_that_names_what_was_altered_is_marked() -> None:
    content = {"added": [Document({"role": "user"})]}
    sealed = seal(genesis(RUN), prepare([Entry(kind="note", time=1, content=content)] * 2))
    known: dict[str, object] = {}
    assert [unseal(RUN, one, lambda _digest: (b"[]",), known).altered for one in sealed] == [True, True]
    assert [unseal(RUN, one, lambda _digest: (b'{"role":"user"}',), known).altered for one in sealed] == [False, False]
    assert list(known.values()) == [{"role": "user"}]
