import msgspec
import pytest

from tenter.catalogue import Envelope, TaskRef
from tenter.journal.entry import Entry, Stream
from tenter.journal.summary import SHOWN, TERMINAL, StreamSummary, erased_entry, summarise

BEFORE = StreamSummary(stream=Stream("run", "r1"), name="fix", status="running", started=1)


@pytest.mark.parametrize(
    ("kind", "content", "shown"),
    [
        ("run", {"task": "build"}, ("build", "running", None)),
        ("run", {"task": 7}, ("", "running", None)),
        ("status", {"status": "awaiting_approval"}, ("fix", "awaiting_approval", None)),
        *[("status", {"status": status}, ("fix", status, 9)) for status in sorted(TERMINAL)],
        ("result", {"status": "failed"}, ("fix", "failed", 9)),
        ("note", {"status": "failed", "task": "x"}, ("fix", "running", None)),
    ],
)
def test_a_summary_shows_what_its_entries_say(
    kind: str, content: dict[str, object], shown: tuple[str, str, int | None]
) -> None:
    after = summarise(BEFORE, Entry(kind=kind, time=9, content=content))
    assert (after.name, after.status, after.ended, after.started) == (*shown, 1)
    assert after.is_over == (after.status in TERMINAL)


def test_a_stream_is_over_with_either_word_of_its_end() -> None:
    listed = [msgspec.structs.replace(BEFORE, ended=9), msgspec.structs.replace(BEFORE, status="failed"), BEFORE]
    assert [one.is_over for one in listed] == [True, True, False]


def test_the_end_is_that_of_the_first_entry_that_tells_of_it() -> None:
    summary = BEFORE
    for time, kind, expected in ((5, "status", 5), (6, "status", 5), (7, "result", 5), (8, "resumed", 5)):
        summary = summarise(summary, Entry(kind=kind, time=time, content={"status": "failed"}))
        assert (summary.ended, summary.status) == (expected, "failed")


@pytest.mark.parametrize("kind", ["note", "started", "future_event"])
def test_an_entry_that_shows_nothing_leaves_the_summary_as_it_is(kind: str) -> None:
    assert kind not in SHOWN
    assert summarise(BEFORE, Entry(kind=kind, time=9, content={"status": "x"})) is BEFORE


class _Process(msgspec.Struct, frozen=True):
    pid: int
    started: int


Steps = list[tuple[str, dict[str, object]]]

CLAIM: dict[str, object] = {"process": {"pid": 7, "started": 3}, "host": "here"}
HELD = '{"host":"here","process":{"pid":7,"started":3},"since":9}'


def _after(*entries: tuple[str, dict[str, object]]) -> StreamSummary:
    summary = BEFORE
    for kind, content in entries:
        summary = summarise(summary, Entry(kind=kind, time=9, content=content))
    return summary


HOLDING: list[tuple[Steps, str, str]] = [
    ([("run", {"task": "fix", **CLAIM})], HELD, "running"),
    ([("run", {"task": "fix", "process": _Process(7, 3), "host": "here"})], HELD, "running"),
    ([("run", {"task": "fix"})], "", "running"),
    ([("status", {"status": "awaiting_approval"}), ("resumed", CLAIM)], HELD, "running"),
    ([("resumed", CLAIM), ("status", {"status": "running"}), ("note", {})], HELD, "running"),
    ([("resumed", CLAIM), ("status", {"status": "awaiting_approval"})], "", "awaiting_approval"),
    ([("resumed", CLAIM), ("released", {"status": "running"})], "", "running"),
    ([("resumed", CLAIM | {"status": "running"})], HELD, "running"),
    ([("resumed", CLAIM | {"status": 7})], HELD, "running"),
    ([("status", {"status": "failed"}), ("resumed", CLAIM | {"status": "failed"})], HELD, "failed"),
    (
        [
            ("result", {"status": "failed"}),
            ("resumed", CLAIM | {"status": "failed"}),
            ("released", {"status": "failed"}),
        ],
        "",
        "failed",
    ),
    *[([("resumed", CLAIM), ("status", {"status": status})], HELD, status) for status in sorted(TERMINAL)],
    ([("resumed", CLAIM), ("result", {"status": "failed"})], HELD, "failed"),
    *[
        ([("resumed", CLAIM), ("status", {"status": status}), ("released", {"status": said})], "", status)
        for status in sorted(TERMINAL)
        for said in ("", "running", status)
    ],
]


@pytest.mark.parametrize(("entries", "holder", "status"), HOLDING)
def test_a_run_is_held_from_a_claim_until_it_waits_or_is_let_go_of_and_an_end_stays(
    entries: Steps, holder: str, status: str
) -> None:
    after = _after(*entries)
    assert (after.holder, after.status) == (holder, status)


CANCELLED: list[tuple[Steps, bool]] = [
    ([("cancel_requested", {})], True),
    ([("cancel_requested", {}), ("status", {"status": "awaiting_approval"}), ("note", {})], True),
    ([("cancel_requested", {}), ("resumed", CLAIM)], True),
    ([("cancel_requested", {}), ("resumed", {}), ("released", {"status": "awaiting_approval"})], True),
    ([("cancel_requested", {}), ("run", CLAIM)], False),
    ([("cancel_requested", {}), ("run", {})], False),
    ([("resumed", CLAIM), ("cancel_requested", {})], True),
    ([("cancel_requested", {}), ("status", {"status": "cancelled"})], False),
    ([("cancel_requested", {}), ("result", {"status": "failed"})], False),
    ([("status", {"status": "completed"}), ("cancel_requested", {})], False),
    ([("result", {}), ("cancel_requested", {})], False),
]


@pytest.mark.parametrize(("entries", "cancelling"), CANCELLED)
def test_a_run_is_to_be_cancelled_from_the_request_until_it_is_over_or_begun_anew_whoever_claims_it(
    entries: Steps, cancelling: bool
) -> None:
    assert _after(*entries).cancelling == cancelling


@pytest.mark.parametrize(
    ("envelope", "parent"),
    [
        ({"parent_run_id": "r0"}, "r0"),
        ({"parent_run_id": None}, ""),
        (Envelope(run_id="r1", task=TaskRef(id="t", name="fix"), correlation_id="c", parent_run_id="r0"), "r0"),
        (None, ""),
        ("r0", ""),
    ],
)
def test_a_run_tells_which_one_spawned_it(envelope: object, parent: str) -> None:
    assert _after(("run", {"envelope": envelope})).parent == parent


def test_what_erasing_leaves_on_record_makes_the_summary_that_was_listed() -> None:
    ended = msgspec.structs.replace(BEFORE, status="failed", ended=9, holder='{"since":3}', parent="r0")
    left = erased_entry(ended, 20)
    assert (left.kind, left.time) == ("erased", 20)
    fresh = StreamSummary(stream=BEFORE.stream, started=1)
    assert summarise(fresh, left) == msgspec.structs.replace(ended, erased=True)
    assert summarise(ended, left) == msgspec.structs.replace(ended, erased=True)


def test_an_erasing_that_this_version_does_not_know_leaves_the_summary_but_for_that() -> None:
    for content in ({}, {"name": 7, "status": "", "ended": None, "holder": "", "parent": ""}):
        after = summarise(BEFORE, Entry(kind="erased", time=9, content=content))
        assert after == msgspec.structs.replace(BEFORE, erased=True)
