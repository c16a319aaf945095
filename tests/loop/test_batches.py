"""What an iteration leaves in the events file is taken in once, whole and masked."""

from pathlib import Path

import pytest

from tenter.kernel import Redactor, TenterError
from tenter.loop.batches import collected, events_of
from tenter.loop.events_file import publish
from tenter.loop.published import Malformed
from tenter.loop.state import Published
from tenter.loop.work import Worked

OK = Worked(status="ok")
PLAIN = Redactor()


async def test_each_batch_begins_where_the_one_before_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "first.one", 1, at=1.0)
    first = await collected(path, 0, OK, "DONE")
    publish(path, "second.one", 2, at=1.0)
    second = await collected(path, first.stop, OK, "DONE")
    assert (first.start, first.lines, second.start, second.lines) == (0, 1, first.stop, 1)
    assert await events_of(path, first, lines=0, redactor=PLAIN) == (Published("first.one", 1),)
    assert await events_of(path, second, lines=1, redactor=PLAIN) == (Published("second.one", 2),)


async def test_an_iteration_that_published_nothing_leaves_nothing(tmp_path: Path) -> None:
    batch = await collected(tmp_path / "events.jsonl", 0, OK, "DONE")
    assert (batch.start, batch.stop, batch.lines) == (0, 0, 0)
    assert await events_of(tmp_path / "events.jsonl", batch, lines=0, redactor=PLAIN) == ()


async def test_what_is_published_later_is_not_in_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "first.one", 1, at=1.0)
    batch = await collected(path, 0, OK, "DONE")
    publish(path, "late.one", 2, at=1.0)
    assert await events_of(path, batch, lines=0, redactor=PLAIN) == (Published("first.one", 1),)


async def test_a_line_that_is_no_event_is_told_by_its_number_in_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "first.one", 1, at=1.0)
    batch = await collected(path, 0, OK, "DONE")
    with path.open("a") as file:
        file.write("torn")
    batch = await collected(path, batch.stop, OK, "DONE")
    (found,) = await events_of(path, batch, lines=1, redactor=PLAIN)
    assert isinstance(found, Malformed)
    assert found.line == 2


async def test_a_file_that_was_cut_is_read_from_its_new_end_and_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "first.one", 1, at=1.0)
    batch = await collected(path, 1_000, OK, "DONE")
    size = path.stat().st_size
    assert (batch.start, batch.stop, batch.lines) == (size, size, 0)
    assert "events may be lost" in batch.cut


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").mkdir()
    with pytest.raises(TenterError, match=r"events\.jsonl"):
        await collected(tmp_path / "events.jsonl", 0, OK, "DONE")


@pytest.mark.parametrize(
    ("worked", "promised"),
    [
        (Worked(status="ok", last_line="DONE"), True),
        (Worked(status="ok", last_line="DONE."), False),
        (Worked(status="failed", last_line="DONE"), False),
        (Worked(status="escalated", last_line="DONE", queue="owners"), False),
    ],
)
async def test_the_last_line_is_a_promise_only_where_the_work_went_well(
    tmp_path: Path, worked: Worked, promised: bool
) -> None:
    batch = await collected(tmp_path / "events.jsonl", 0, worked, "DONE")
    assert batch.promised == promised
    assert batch.failed == (worked.status == "failed")
    assert batch.escalated == (worked.queue or None)


@pytest.mark.promise(4)
async def test_a_secret_in_an_event_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    publish(path, "first.one", {"deep": ["swordfish-4711"]}, at=1.0)
    batch = await collected(path, 0, OK, "DONE")
    (event,) = await events_of(path, batch, lines=0, redactor=Redactor(secrets=["swordfish-4711"]))
    assert "swordfish" not in str(event)
