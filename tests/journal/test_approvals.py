"""The fold of requests and decisions, and what every store shows of them."""

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from tests.journal.world import (
    OpenStore,
    asking,
    decision,
    entry,
    opened,
    over_every_store,
    read,
    request,
    run_stream,
    states,
    status,
    suspended,
)

from tenter.catalogue import ApprovalDecision, DecisionKind
from tenter.journal.approvals import (
    CHANGING,
    ApprovalRow,
    ApprovalState,
    Change,
    Cursor,
    Opened,
    Over,
    Settled,
    Standing,
    change,
    cursor_in,
    decision_entry,
    decision_in,
    request_in,
)
from tenter.journal.deciding import DecisionRefused
from tenter.journal.entry import Entry, Stream, verify
from tenter.kernel import TenterError

RUN = run_stream("r1")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (asking(request("a")), Opened("a", "r1")),
        (asking(request("a", root_run_id="r0")), Opened("a", "r0")),
        (asking(request("a", run="r2")), None),
        (asking(request("")), None),
        (asking(request("\udcff")), None),
        (entry("approval_requested", run_id="r1"), None),
        (decision_entry(decision("a")), Settled("a", "approved")),
        (decision_entry(decision("a", kind="edit", edits={"x": 1})), Settled("a", "edited")),
        (decision_entry(decision("a", kind="reject")), Settled("a", "rejected")),
        (decision_entry(decision("a", kind="expire")), Settled("a", "expired")),
        (entry("approval_decided", request_id="a", decision="maybe"), None),
        (entry("approval_decided", decision="approve"), None),
        (status("cancelled"), Over()),
        (status("awaiting_approval"), None),
        (entry("status", status=["completed"]), None),
        (entry("result"), Over()),
        (entry("note", status="completed"), None),
    ],
)
def test_an_entry_of_a_run_changes_what_it_says(written: Entry, expected: Change | None) -> None:
    assert change(RUN, written) == expected
    assert expected is None or written.kind in CHANGING


@pytest.mark.parametrize("kind", ["loop", "session", "process"])
def test_other_streams_ask_nobody(kind: str) -> None:
    stream = Stream(kind, "r1")  # pyright: ignore[reportArgumentType]  # the parameter is one of the kinds
    assert change(stream, asking(request("a"))) is None


def test_only_a_rejection_and_an_expiry_withdraw_siblings() -> None:
    assert [Settled("a", state).withdraws for state in ("approved", "edited", "rejected", "expired")] == [
        False,
        False,
        True,
        True,
    ]


def test_what_an_entry_holds_comes_back_and_what_is_none_is_none() -> None:
    asked, decided = request("a", reasons=[{"expires_at": 5.0}, {}]), decision("a", kind="edit", edits={"x": [1]})
    assert request_in(asking(asked).content) == asked
    assert decision_in(decision_entry(decided).content) == decided
    assert decision_entry(decided).time == 2_000_000
    assert request_in({"id": "a"}) is None
    assert decision_in({"request_id": "a", "decision": "maybe"}) is None


@pytest.mark.parametrize("text", ["", "x", "1", "1-", "1-x", "01-2", "1- 2", f"{2**63}-1", f"1-{2**70}", "1_0-2"])
def test_a_text_that_is_no_cursor_is_told(text: str) -> None:
    assert cursor_in("-5-7") == Cursor(-5, 7)
    with pytest.raises(TenterError, match="is no cursor of a list of approvals"):
        cursor_in(text)


@over_every_store
async def test_a_request_is_listed_with_its_call_until_it_is_decided(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        large = request("a", call={"call": {"arguments": {"command": "x" * 70_000}}})
        await suspended(store, large)
        (row,) = await store.approvals()
        assert (row.request, row.state, row.decision) == (large, "open", None)
        decided = await store.decide(decision("a", reason="fine"))
        assert await store.approvals() == []
        (row,) = await store.approvals(state=None)
        assert (row.request, row.state, row.decision) == (large, "approved", decided)
        assert [found.request.id for found in await store.approvals(state="approved")] == ["a"]


@over_every_store
async def test_pages_go_from_the_oldest_request_to_the_last_without_gaps(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        times = [random.Random(7).randrange(5) + 0.25 for _ in range(23)]
        for number, at in enumerate(times):
            await suspended(store, request(f"a{number}", f"r{number}", at=at))
        await store.decide(decision("a3", "r3"))
        assert [len(await store.approvals(limit=limit)) for limit in (-1, 0, 3)] == [0, 0, 3]
        counts: list[tuple[ApprovalState | None, int]] = [("open", 22), (None, 23)]
        for state, count in counts:
            seen, after = list[ApprovalRow](), None
            while page := await store.approvals(state=state, after=after, limit=5):
                seen += page
                after = page[-1].cursor
            assert len(seen) == count == len({row.request.id for row in seen})
            order = [(row.request.requested_at, int(row.request.id[1:])) for row in seen]
            assert order == sorted(order)


@over_every_store
async def test_a_run_lists_its_own_requests_and_those_of_the_runs_below_it(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        below = request("b", "child", root_run_id="r1", at=3.0)
        await suspended(store, request("a"), below, request("c", "other"))
        listed = [[row.request.id for row in await store.approvals(run=run)] for run in ("r1", "child", "other", "no")]
        assert listed == [["a", "b"], ["b"], ["c"], []]
        first = (await store.approvals(run="r1", limit=1))[-1]
        assert [row.request.id for row in await store.approvals(run="r1", after=first.cursor)] == ["b"]


@over_every_store
async def test_a_decision_stands_in_the_stream_of_the_run_that_asked(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("b", "child", root_run_id="r1"))
        decided = await store.decide(decision("b", "r1", reason="fine"))
        assert decided == decision("b", "child", reason="fine")
        records = await read(store, "child")
        assert decision_in(records[-1].entry.content) == decided
        assert records[-1].entry.kind == "approval_decided"
        assert verify(records) is None
        assert await read(store, "r1") == []


@over_every_store
@pytest.mark.parametrize(("kind", "at", "state"), [("reject", 1.5, "rejected"), ("expire", 2.0, "expired")])
async def test_a_rejection_and_an_expiry_withdraw_what_else_is_open_of_the_same_run_alone(
    kind: DecisionKind, at: float, state: str, open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        timed = request("a", reasons=[{"expires_at": 2.0}])
        below = request("c", "child", root_run_id="r1")
        await suspended(store, timed, request("b"), request("d"), below, request("e", "other"))
        await store.decide(decision("d"))
        await store.decide(decision("a", kind=kind, at=at, reason="no"))
        assert await states(store) == {"a": state, "b": "withdrawn", "d": "approved", "c": "open", "e": "open"}
        with pytest.raises(DecisionRefused, match="'b' of run 'r1' was withdrawn, because the request 'a'") as caught:
            await store.decide(decision("b"))
        assert caught.value.why == "decided"
        said = {
            "reject": "was rejected by 'anna' at 1970-01-01T00:00:01Z (no)",
            "expire": "expired at 1970-01-01T00:00:02Z",
        }
        assert said[kind] in str(caught.value)


@over_every_store
async def test_what_is_rejected_below_a_run_leaves_its_own_requests_and_those_beside_it(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        beside = [request(name, run, root_run_id="r1") for name, run in (("b", "one"), ("c", "one"), ("d", "two"))]
        await suspended(store, request("a"), *beside)
        await store.decide(decision("b", "r1", "reject"))
        assert await states(store) == {"a": "open", "b": "rejected", "c": "withdrawn", "d": "open"}
        assert await store.decide(decision("d", "r1")) == decision("d", "two")


@over_every_store
async def test_one_request_is_found_by_its_run_or_the_root_of_that_in_whatever_state(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        assert await store.request("r1", "a") is None
        asked = [request("a"), *(request(name, "child", root_run_id="r1", at=2.0) for name in "ab")]
        await suspended(store, *asked)
        for run, name, expected in (("r1", "a", 0), ("child", "a", 1), ("child", "b", 2), ("r1", "b", 2)):
            row = await store.request(run, name)
            assert row is not None
            assert (row.request, row.state, row.decision) == (asked[expected], "open", None)
            assert row in await store.approvals(run=run)
        assert [await store.request(*wrong) for wrong in (("r1", "c"), ("r2", "a"), ("r2", "b"))] == [None] * 3
        decided = await store.decide(decision("b", "r1", "reject"))
        for run in ("r1", "child"):
            row = await store.request(run, "b")
            assert row is not None
            assert (row.state, row.decision) == ("rejected", decided)
        await store.append(run_stream("child"), [entry("result", 5, status="failed")])
        await store.append(run_stream("r1"), [status("cancelled", 9)])
        await store.prune(before=6)
        assert [await store.request(run, "b") for run in ("r1", "child")] == [None, None]
        assert (await store.request("r1", "a")) is not None


@over_every_store
@pytest.mark.parametrize("last", [status("cancelled"), entry("result", status="failed")])
async def test_a_run_that_is_over_has_no_open_request_nor_have_those_below_it(
    last: Entry, open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("a"), request("b", "child", root_run_id="r1"), request("c", "other"))
        await store.append(run_stream("r1"), [last])
        assert await states(store) == {"a": "withdrawn", "b": "withdrawn", "c": "open"}
        for name, why in (("a", "its run is over"), ("b", "the run 'r1' around its run is over")):
            with pytest.raises(DecisionRefused, match=f"was withdrawn, because {why}") as caught:
                await store.decide(decision(name))
            assert caught.value.why == "finished"


@over_every_store
async def test_a_request_of_the_same_id_is_asked_anew_only_once_it_was_settled(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("a"), request("a", at=9.0))
        assert [row.request.requested_at for row in await store.approvals(state=None)] == [1.0]
        await store.decide(decision("a"))
        await store.append(RUN, [asking(request("a", at=11.0))])
        (row,) = await store.approvals()
        assert (row.request.requested_at, row.decision) == (11.0, None)
        await store.decide(decision("a", by="ben"))
        assert len(await read(store, "r1")) == 7


@over_every_store
async def test_what_was_settled_stays_so_whatever_is_appended(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("a"), request("b"))
        for kind in ("approve", "reject", "expire"):
            await store.append(RUN, [entry("approval_decided", request_id="a", decision=kind)])
            assert await states(store) == {"a": "approved", "b": "open"}
        assert [row.decision for row in await store.approvals(state="approved")] == [None]


@over_every_store
async def test_a_decision_is_refused_where_nothing_waits_for_it(open_store: OpenStore, tmp_path: Path) -> None:
    async with opened(open_store(tmp_path)) as store:
        with pytest.raises(DecisionRefused, match="run 'r1' has no request 'a'") as caught:
            await store.decide(decision("a"))
        assert caught.value.why == "unknown"
        await suspended(store, request("a"), request("b", "r2"))
        for wrong, why, text in (
            (decision("x"), "unknown", "run 'r1' has no request 'x'"),
            (decision("a", "r2"), "foreign", "'a' belongs to run 'r1' and not to 'r2'"),
            (decision("a", "nobody"), "foreign", "'a' belongs to run 'r1' and not to 'nobody'"),
        ):
            with pytest.raises(DecisionRefused, match=text) as caught:
                await store.decide(wrong)
            assert caught.value.why == why
        assert await states(store) == {"a": "open", "b": "open"}


@over_every_store
@pytest.mark.fault(46)
@pytest.mark.promise(10)
async def test_a_thousand_times_two_decisions_race_and_one_counts(open_store: OpenStore) -> None:
    chance = random.Random(46)
    in_memory = Path("/dev/shm")  # every decision is put on disk
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as name:
        async with opened(open_store(Path(name))) as store:
            await suspended(store, *(request("a", f"r{number}") for number in range(1000)))

            async def decide(run: str, by: str) -> ApprovalDecision | DecisionRefused:
                try:
                    return await store.decide(decision("a", run, "approve" if by == "anna" else "reject", by=by))
                except DecisionRefused as refused:
                    return refused

            for number in range(1000):
                run, order = f"r{number}", chance.sample(["anna", "ben"], 2)
                answers = await asyncio.gather(*(decide(run, by) for by in order))
                (won,) = [answer for answer in answers if isinstance(answer, ApprovalDecision)]
                (lost,) = [answer for answer in answers if isinstance(answer, DecisionRefused)]
                assert lost.why == "decided"
                assert f"by {won.by!r} at 1970-01-01T00:00:02Z" in str(lost)
                recorded = [record for record in await read(store, run) if record.entry.kind == "approval_decided"]
                assert [decision_in(record.entry.content) for record in recorded] == [won]
            assert await store.approvals() == []


@over_every_store
async def test_an_answer_that_comes_too_late_records_the_expiry_and_hears_of_it(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        await suspended(store, request("a", reasons=[{"expires_at": 5.0}, {"expires_at": 4.0}]), request("b"))
        for _ in range(2):
            with pytest.raises(DecisionRefused, match=r"'a' of run 'r1' expired at 1970-01-01T00:00:04Z") as caught:
                await store.decide(decision("a", at=4.0, reason="late"))
            assert caught.value.why == "expired"
        recorded = [record for record in await read(store, "r1") if record.entry.kind == "approval_decided"]
        expiry = decision("a", kind="expire", at=4.0)
        assert [decision_in(record.entry.content) for record in recorded] == [expiry]
        assert await states(store) == {"a": "expired", "b": "withdrawn"}


@over_every_store
@pytest.mark.fault(46)
async def test_a_thousand_times_an_answer_races_the_end_of_its_run_and_none_is_recorded_after_it(
    open_store: OpenStore,
) -> None:
    chance = random.Random(47)
    in_memory = Path("/dev/shm")  # every decision is put on disk
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as name:
        async with opened(open_store(Path(name))) as store:
            await suspended(store, *(request("a", f"r{number}") for number in range(1000)))

            async def decide(run: str) -> str:
                try:
                    return (await store.decide(decision("a", run))).decision
                except DecisionRefused as refused:
                    return refused.why

            async def cancel(run: str) -> str:
                await store.append(run_stream(run), [status("cancelled")], durable=chance.random() < 0.1)
                return "cancelled"

            seen = set[str]()
            for number in range(1000):
                run = f"r{number}"
                answers = await asyncio.gather(*chance.sample([decide(run), cancel(run)], 2))
                (told,) = set(answers) - {"cancelled"}
                kinds = [record.entry.kind for record in await read(store, run)][3:]
                assert kinds == (["status"] if told == "finished" else ["approval_decided", "status"])
                seen.add(told)
            assert seen == {"approve", "finished"}


@over_every_store
async def test_what_is_kept_of_requests_names_their_entries_in_the_stream_of_the_run_that_asks(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with opened(open_store(tmp_path)) as store:
        assert list(await store.standing("r2")) == []
        await store.append(Stream("process", "p"), [entry("note")])
        await suspended(store, request("b", "r2", at=3.0), request("a", "r2", root_run_id="r1"), request("c", "r1"))
        await store.decide(decision("b", "r2"))
        assert await store.standing("r2") == [
            Standing(id="a", run="r2", root="r1", time=1_000_000, asked=3),
            Standing(id="b", run="r2", root="r2", state="approved", time=3_000_000, asked=2, decided=5),
        ]
        await store.append(run_stream("r1"), [status("failed")])
        withdrawn = Standing(id="a", run="r2", root="r1", state="withdrawn", time=1_000_000, asked=3)
        assert (await store.standing("r2"))[0] == withdrawn
        await store.append(run_stream("r2"), [asking(request("b", "r2", at=4.0))])
        again = Standing(id="b", run="r2", root="r2", time=4_000_000, asked=6)
        assert await store.standing("r2") == [withdrawn, again]
