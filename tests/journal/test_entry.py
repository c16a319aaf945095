import hashlib
import hmac
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, strategies as st

from tenter.journal.entry import Entry, Head, Recorded, Stream, flaw, genesis, link, microseconds, verify
from tenter.wire.canonical import digest

RUN = Stream("run", "r1")


def _chain(count: int, stream: Stream = RUN, key: bytes | None = None) -> list[Recorded]:
    head, records = genesis(stream), list[Recorded]()
    for number in range(count):
        entry = Entry(kind="note", time=number, content={"n": number})
        head = link(head, entry, digest(entry.content), key)
        records.append(
            Recorded(stream=stream, sequence=head.sequence, hash=head.hash, digest=digest(entry.content), entry=entry)
        )
    return records


def _entry(record: Recorded, **changes: object) -> Recorded:
    return msgspec.structs.replace(record, entry=msgspec.structs.replace(record.entry, **changes))


@pytest.mark.parametrize("kind", ["run", "session"])
def test_the_hash_of_an_entry_is_that_of_plain_json_which_anybody_can_compute(kind: str) -> None:
    stream = msgspec.convert({"kind": kind, "id": "r1"}, Stream)
    start = hashlib.sha256(b'["tenter journal",1,"%s","r1"]' % kind.encode()).hexdigest()
    content = hashlib.sha256(b'{"x":1}').hexdigest()
    expected = f'["sha256:{start}",1,"note",1,17,"sha256:{content}"]'
    head = link(genesis(stream), Entry(kind="note", time=17, content={"x": 1}), f"sha256:{content}")
    assert head == Head(1, "sha256:" + hashlib.sha256(expected.encode()).hexdigest())


def test_under_a_key_the_hash_is_the_hmac_of_the_same_text() -> None:
    content = digest({"x": 1})
    text = f'["{genesis(RUN).hash}",1,"note",1,17,"{content}"]'
    head = link(genesis(RUN), Entry(kind="note", time=17, content={"x": 1}), content, b"a key")
    assert head == Head(1, "sha256:" + hmac.new(b"a key", text.encode(), "sha256").hexdigest())


def test_a_chain_under_a_key_holds_only_under_that_key() -> None:
    records = _chain(5, key=b"a key")
    assert verify(records, key=b"a key") is None
    assert verify(records[2:], after=records[1].head, key=b"a key") is None
    assert [verify(records), verify(records, key=b"another"), verify(_chain(5), key=b"a key")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sequence": 5}, "entry 5 stands in its place"),
        ({"altered": True}, "its content is not what its digest was made of"),
        ({"digest": digest("other")}, "its hash is not that of the chain: "),
    ],
)
def test_a_record_that_does_not_hold_is_told_why(changes: dict[str, object], why: str) -> None:
    first, second = _chain(2)
    assert flaw(second, first.head) is None
    found = flaw(msgspec.structs.replace(second, **changes), first.head)
    assert found is not None
    assert found.startswith(why)


def test_a_chain_holds_from_its_start_and_from_a_known_head() -> None:
    records = _chain(5)
    assert verify(records) is None
    assert verify(records[2:], after=records[1].head) is None
    assert verify([]) is None


TAMPERINGS: Sequence[Callable[[Recorded], Recorded]] = (
    lambda record: _entry(record, kind="finished"),
    lambda record: _entry(record, version=2),
    lambda record: _entry(record, time=99),
    lambda record: msgspec.structs.replace(record, altered=True),
    lambda record: msgspec.structs.replace(
        record, digest=digest({"n": 99}), entry=_entry(record, content={"n": 99}).entry
    ),
    lambda record: msgspec.structs.replace(record, sequence=9),
    lambda record: msgspec.structs.replace(record, hash=genesis(RUN).hash),
    lambda record: msgspec.structs.replace(_entry(record, kind="result"), erased=True),
)


@pytest.mark.parametrize("tamper", TAMPERINGS)
@given(place=st.integers(0, 4))
def test_a_changed_record_is_found_where_it_stands(tamper: Callable[[Recorded], Recorded], place: int) -> None:
    records = _chain(5)
    records[place] = tamper(records[place])
    assert verify(records) == place + 1


@pytest.mark.parametrize(("order", "bad"), [([1, 0, 2], 1), ([0, 2], 2), ([0, 0, 1], 2), ([1, 2], 1), ([0, 1, 1], 3)])
def test_records_out_of_order_missing_or_repeated_are_found(order: Sequence[int], bad: int) -> None:
    records = _chain(3)
    assert verify([records[place] for place in order]) == bad


def test_a_record_of_another_stream_is_found() -> None:
    records = _chain(2)
    moved = [msgspec.structs.replace(record, stream=Stream("run", "r2")) for record in records]
    assert verify(moved) == 1


def test_the_chain_holds_when_content_was_erased() -> None:
    records = _chain(3)
    records[1] = msgspec.structs.replace(_entry(records[1], content={}), erased=True)
    assert verify(records) is None


def test_the_id_of_a_stream_is_unicode_text() -> None:
    with pytest.raises(ValueError, match=r"the id of a session, 'a\\udcff', holds lone surrogates"):
        Stream("session", "a\udcff")


def test_seconds_become_whole_microseconds() -> None:
    assert microseconds(1_790_000_000.123456) == 1_790_000_000_123_456
