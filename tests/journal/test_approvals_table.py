import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.journal.world import asking, decision, entry, opened, read, request, run_stream, states, status, suspended

from tenter.journal import tables
from tenter.journal.approvals import ApprovalState, Cursor, decision_in
from tenter.journal.approvals_table import FIND, FIND_ELSEWHERE, asked, note, page_statement, request as request_of
from tenter.journal.database import Database
from tenter.journal.deciding import DecisionRefused
from tenter.journal.entry import genesis, verify
from tenter.journal.rows import INSERT, entry_row, row_id
from tenter.journal.sealed import prepare, seal
from tenter.journal.sqlite import SqliteStore
from tenter.journal.streams_table import begin


def _plan(connection: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> list[str]:
    return [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize(
    ("run", "state", "after", "expected"),
    [
        (None, "open", None, ["SEARCH approvals USING INDEX approvals_by_state (state=?)"]),
        (
            None,
            "open",
            Cursor(1, 1),
            ["SEARCH approvals USING INDEX approvals_by_state (state=? AND (time,asked)>(?,?))"],
        ),
        (None, None, None, ["SCAN approvals USING INDEX approvals_by_time"]),
        (None, None, Cursor(1, 1), ["SEARCH approvals USING INDEX approvals_by_time ((time,asked)>(?,?))"]),
    ],
)
def test_a_page_is_read_row_by_row_from_an_index_that_has_its_order(
    run: str | None, state: ApprovalState | None, after: Cursor | None, expected: list[str]
) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        tables.make(connection)
        assert _plan(connection, *page_statement(run=run, state=state, after=after)) == expected


@pytest.mark.parametrize("state", ["open", None])
@pytest.mark.parametrize("after", [None, Cursor(1, 1)])
def test_a_page_of_one_run_reads_only_what_that_run_asked(state: ApprovalState | None, after: Cursor | None) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        tables.make(connection)
        plan = _plan(connection, *page_statement(run="r1", state=state, after=after))
        assert plan == [
            "MULTI-INDEX OR",
            "INDEX 1",
            "SEARCH approvals USING INDEX approvals_by_run (run=?)",
            "INDEX 2",
            "SEARCH approvals USING INDEX approvals_by_root (root=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ]


def test_what_a_decision_looks_for_and_changes_is_found_by_an_index(tmp_path: Path) -> None:
    statements = list[str]()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        tables.make(connection)
        connection.set_trace_callback(statements.append)
        stream = run_stream("r1")
        note(connection, stream, 1, asking(request("a")))
        note(connection, stream, 2, entry("approval_decided", request_id="a", decision="reject"))
        note(connection, stream, 3, status("failed"))
        connection.set_trace_callback(None)
        assert len(statements) == 4
        for statement in statements:
            assert not [step for step in _plan(connection, statement, ()) if step.startswith("SCAN")], statement
        for find, values in ((FIND, ("a", "r", "r", "a")), (FIND_ELSEWHERE, ("a", "r"))):
            steps = _plan(connection, find, values)
            assert not [step for step in steps if "SCAN" in step], steps


class _Filling(Database):
    """A journal that comes to many runs at once."""

    def fill(self, count: int) -> sqlite3.Connection:
        """Runs that ask; at each time a thousand of them. Returns the connection."""
        connection = self._connect(create=True)
        assert connection is not None
        with self._transaction(connection, run_stream("r0")):
            for number in range(count):
                asks = asking(request("a", f"r{number}", at=float(number // 1000)))
                waits = [entry("run", task="fix"), asks, status("awaiting_approval")]
                self._append(connection, run_stream(f"r{number}"), prepare(waits), None)
        return connection


def test_a_page_and_a_decision_cost_the_same_with_10_and_with_10000_open_requests(tmp_path: Path) -> None:
    costs: list[list[int]] = []
    for count in (30, 10_000):
        middle = Cursor(0, min(count, 1000) // 2 << 32)
        with closing(_Filling(tmp_path / f"{count}.db")) as database:
            connection, steps = database.fill(count), list[int]()
            connection.set_progress_handler(partial(steps.append, 1), 10)  # counted, and not timed
            costs.append([])
            for work in (
                partial(database.approvals, run=None, state="open", after=None, limit=10),
                partial(database.approvals, run=None, state=None, after=middle, limit=10),
                partial(database.approvals, run="r25", state="open", after=None, limit=10),
                partial(database.request, "r25", "a"),
                partial(database.decide, decision("a", "r25", "reject")),
                partial(database.append, run_stream("r26"), prepare([status("cancelled")])),
                database.cancelling,
            ):
                steps.clear()
                work()
                costs[-1].append(len(steps))
            assert len(database.approvals(run=None, state=None, after=middle, limit=10)) == 10
    few, many = costs
    assert min(few[:-1]) > 0
    assert all(more <= less * 1.2 + 3 for less, more in zip(few, many, strict=True)), costs


def test_a_request_that_is_of_another_version_is_left_out_and_cannot_be_decided(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "journal.db")) as database:
        strange = entry("approval_requested", id="a", run_id="r1", call="new")
        database.append(run_stream("r1"), prepare([strange, asking(request("b", at=9.0))]))
        assert [row.request.id for row in database.approvals(run=None, state="open", after=None, limit=1)] == ["b"]
        with pytest.raises(DecisionRefused):
            database.decide(decision("a"))


def test_the_runs_own_request_comes_before_that_of_a_run_below_it() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        tables.make(connection)
        below, own = request("a", "child", root_run_id="r1"), request("a")
        for number, each in enumerate((below, own), 1):
            stream = run_stream(each.run_id)
            prepared = prepare([asking(each)])
            begin(connection, stream, 1, keyed=0)
            connection.execute(INSERT, entry_row(number, seal(genesis(stream), prepared)[0]))
            note(connection, stream, row_id(number, 1), prepared[0].entry)
        assert asked(connection, decision("a")).request == own
        assert request_of(connection, "r1", "a") == asked(connection, decision("a"))
        assert asked(connection, decision("a", "child")).request == below
        connection.execute("DELETE FROM approvals WHERE run = 'r1'")
        assert asked(connection, decision("a")).request == below


DECIDE = """
import asyncio, sys, time
from pathlib import Path
from tenter.catalogue import ApprovalDecision
from tenter.journal import DecisionRefused, SqliteStore

async def main(path, by):
    store = SqliteStore(Path(path))
    await store.streams(limit=1)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        kind = "approve" if by in "ac" else "reject"
        try:
            run = f"r{number}"
            await store.decide(ApprovalDecision(request_id="a", run_id=run, decision=kind, by=by, decided_at=2.0))
            print("won")
        except DecisionRefused as refused:
            print(f"{refused.why}: {refused}")
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.fault(45)
@pytest.mark.promise(10)
async def test_of_processes_that_answer_at_the_same_moment_one_decides_and_the_others_hear_who(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await suspended(store, *(request("a", f"r{number}") for number in range(20)))
    names = "abcd"
    command = [sys.executable, "-c", DECIDE, str(path)]
    people = [
        subprocess.Popen([*command, by], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for by in names
    ]
    for person in people:
        assert person.stdout is not None
        assert person.stdout.readline() == "ready\n"
    for person in people:
        assert person.stdin is not None
        person.stdin.write("go\n")
        person.stdin.flush()
    heard = [person.communicate(timeout=30)[0].splitlines() for person in people]
    assert [person.returncode for person in people] == [0] * len(people)
    async with opened(SqliteStore(path)) as store:
        for number in range(20):
            answers = {by: lines[number] for by, lines in zip(names, heard, strict=True)}
            (won,) = [by for by, answer in answers.items() if answer == "won"]
            said = f"by {won!r} at 1970-01-01T00:00:02Z"
            assert all(answers[by].startswith("decided: ") and said in answers[by] for by in names if by != won)
            records = await read(store, f"r{number}")
            assert verify(records) is None
            decided = [decision_in(r.entry.content) for r in records if r.entry.kind == "approval_decided"]
            assert [found.by for found in decided if found] == [won]
        assert await store.approvals() == []


KILLED = """
import os, sys
from pathlib import Path
from tenter.catalogue import ApprovalDecision
from tenter.journal.database import Database

class Dies(Database):
    def _append(self, *args, **kwargs):
        head = super()._append(*args, **kwargs)
        if sys.argv[2] == "before":
            os.kill(os.getpid(), 9)
        return head

    def _check_log(self, durable):
        if self.decided and sys.argv[2] == "after":
            os.kill(os.getpid(), 9)
        self.decided = True
        super()._check_log(durable)

database = Dies(Path(sys.argv[1]))
database.decided = False
database.decide(ApprovalDecision(request_id="a", run_id="r1", decision="reject", by="anna", decided_at=2.0))
"""


@pytest.mark.fault(47)
@pytest.mark.parametrize(("when", "expected"), [("before", "open"), ("after", "rejected")])
async def test_a_decision_whose_process_is_killed_stands_whole_or_not_at_all(
    when: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    async with opened(SqliteStore(path)) as store:
        await suspended(store, request("a"), request("b"))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), when], timeout=30, check=False)
    assert killed.returncode == -9
    async with opened(SqliteStore(path)) as store:
        found = await states(store)
        kinds = [record.entry.kind for record in await read(store, "r1")]
        assert found == {"a": expected, "b": "open" if expected == "open" else "withdrawn"}
        assert kinds.count("approval_decided") == (expected != "open")
        if expected == "open":
            await store.decide(decision("a"))
        assert verify(await read(store, "r1")) is None
