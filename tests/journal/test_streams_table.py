import sqlite3
from contextlib import closing

from tests.journal.world import entry, status

from tenter.journal import tables
from tenter.journal.entry import Stream
from tenter.journal.streams_table import (
    CANCELLING,
    begin,
    cancelling,
    is_there,
    keyed,
    number_of,
    show,
    stream_of,
    summaries,
    summary_at,
    summary_of,
)
from tenter.journal.summary import StreamSummary, erased_entry

RUN, LOOP = Stream("run", "r1"), Stream("loop", "l1")


def _tables() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    tables.make(connection)
    return connection


def test_a_stream_has_a_number_of_its_own_that_is_never_given_again() -> None:
    with closing(_tables()) as connection:
        numbers = [begin(connection, stream, 5, keyed=0) for stream in (RUN, LOOP)]
        assert [number_of(connection, stream) for stream in (RUN, LOOP)] == numbers
        assert stream_of(connection, numbers[1]) == LOOP
        assert is_there(connection, numbers[1])
        connection.execute("DELETE FROM streams")
        assert number_of(connection, RUN) is None
        assert stream_of(connection, numbers[0]) is None
        assert [is_there(connection, number) for number in numbers] == [False, False]
        assert begin(connection, RUN, 6, keyed=9) not in numbers


def test_the_key_of_a_stream_is_remembered_by_its_number() -> None:
    with closing(_tables()) as connection:
        assert [keyed(connection, begin(connection, stream, 5, keyed=n)) for n, stream in ((0, RUN), (7, LOOP))] == [
            0,
            7,
        ]


def test_a_row_shows_what_its_entries_say() -> None:
    with closing(_tables()) as connection:
        number = begin(connection, RUN, 5, keyed=0)
        assert summary_of(connection, RUN) == StreamSummary(stream=RUN, started=5)
        begun = entry("run", 5, task="fix", process={"pid": 7}, host="here", envelope={"parent_run_id": "r0"})
        show(connection, number, [begun, entry("note", 6), status("running"), entry("cancel_requested", 8)])
        held = '{"host":"here","process":{"pid":7},"since":5}'
        shown = StreamSummary(
            stream=RUN, name="fix", status="running", started=5, holder=held, cancelling=True, parent="r0"
        )
        assert summary_of(connection, RUN) == shown
        show(connection, number, [entry("result", 9, status="cancelled"), entry("released", 9)])
        assert summaries(connection, None, None) == [
            StreamSummary(stream=RUN, name="fix", status="cancelled", started=5, ended=9, parent="r0")
        ]


def test_listings_are_of_a_kind_and_begin_with_the_last() -> None:
    with closing(_tables()) as connection:
        streams = [Stream("run", "a"), LOOP, Stream("run", "b")]
        for stream in streams:
            begin(connection, stream, 1, keyed=0)
        assert [row.stream for row in summaries(connection, None, 2)] == [streams[2], LOOP]
        assert [row.stream.id for row in summaries(connection, "run", None)] == ["b", "a"]
        assert summary_of(connection, Stream("loop", "a")) is None


def test_runs_to_be_cancelled_are_found_by_an_index_that_holds_no_other() -> None:
    with closing(_tables()) as connection:
        for stream in (RUN, LOOP, Stream("run", "r2")):
            show(connection, begin(connection, stream, 1, keyed=0), [entry("run"), entry("cancel_requested")])
        show(connection, number_of(connection, Stream("run", "r2")) or 0, [status("failed")])
        assert cancelling(connection) == {"r1"}
        plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {CANCELLING}")]
        assert plan == ["SCAN streams USING INDEX streams_cancelling"]


def test_that_a_stream_was_erased_to_the_end_stays_known() -> None:
    with closing(_tables()) as connection:
        number = begin(connection, RUN, 5, keyed=0)
        show(connection, number, [erased_entry(summary_at(connection, number), 6)])
        assert summary_at(connection, number) == StreamSummary(stream=RUN, started=5, erased=True)
        connection.execute("UPDATE streams SET erased = 2")
        show(connection, number, [status("failed")])
        assert connection.execute("SELECT erased FROM streams").fetchone() == (2,)
