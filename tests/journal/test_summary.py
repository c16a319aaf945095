import pytest

from tenter.journal.entry import Entry, Stream
from tenter.journal.summary import SHOWN, StreamSummary, summarise

BEFORE = StreamSummary(stream=Stream("run", "r1"), name="fix", status="running", started=1)


@pytest.mark.parametrize(
    ("kind", "content", "shown"),
    [
        ("run", {"task": "build"}, ("build", "running", None)),
        ("run", {"task": 7}, ("", "running", None)),
        ("status", {"status": "blocked"}, ("fix", "blocked", None)),
        ("result", {"status": "failed"}, ("fix", "failed", 9)),
        ("note", {"status": "failed", "task": "x"}, ("fix", "running", None)),
    ],
)
def test_a_summary_shows_what_its_entries_say(
    kind: str, content: dict[str, object], shown: tuple[str, str, int | None]
) -> None:
    after = summarise(BEFORE, Entry(kind=kind, time=9, content=content))
    assert (after.name, after.status, after.ended, after.started) == (*shown, 1)


@pytest.mark.parametrize("kind", ["note", "started", "future_event"])
def test_an_entry_that_shows_nothing_leaves_the_summary_as_it_is(kind: str) -> None:
    assert kind not in SHOWN
    assert summarise(BEFORE, Entry(kind=kind, time=9, content={"status": "x"})) is BEFORE
