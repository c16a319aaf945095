"""Whatever two processes want at once, one gets, and the other hears who has it."""

import contextlib
import gc
import json
import os
import select
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast

import pytest
from tests.outside import open_files

from tenter.executors.process_id import ProcessId, is_alive, started_by_proc, this_process
from tenter.kernel import TenterError
from tenter.loop.loop_row import Changes, LoopRow
from tenter.loop.registry import AmbiguousLoop, Registry, Taken, UnknownLoop, registry_path, standing_of
from tenter.loop.release import By, Release
from tenter.loop.state import Asked
from tenter.loop.suspension import Suspender, SuspendState

GONE = ProcessId(os.getpid(), "an earlier process with this number")
NOW = 1000.0
RESUME = Release(how="resume", by=By(7, "ann"), at="2026-02-28T15:31:00Z")
STOP = Release(how="stop", by=By(8, "bob"), at="2026-02-28T15:31:01Z")
LONGEST = 20.0

TAKER = """
import json, sys
from pathlib import Path
from tenter.executors.process_id import this_process
from tenter.loop.registry import Registry, Taken
registry, own = Registry(Path(sys.argv[1])), this_process()
print(json.dumps([own.pid, own.started]), flush=True)
for line in sys.stdin:
    found = registry.take_over(line.strip(), own)
    row = found.holder if isinstance(found, Taken) else found
    print(json.dumps([isinstance(found, Taken), row.pid, row.started, row.taken_at]), flush=True)
"""


def registry_in(folder: Path) -> Registry:
    return Registry(registry_path(folder), lambda: NOW)


def loop(loop_id: str, process: ProcessId | None = None, workspace: str = "/p", **more: object) -> LoopRow:
    own = process or this_process()
    row = LoopRow(
        loop_id=loop_id,
        primary=True,
        project="/p",
        workspace=workspace,
        config="/p/tenter.yaml",
        pid=own.pid,
        started=own.started,
        started_at=1.0,
    )
    return row.but(**more)


def suspension(suspension_id: str = "s1") -> SuspendState:
    by = Suspender(hook_name="gate", reason="why", code="suspended", suspend_mode="wait_for_resume")
    return SuspendState(
        loop_id="loop-a",
        phase_event="pre.loop.start",
        hook_name="gate",
        reason="why",
        suspend_mode="wait_for_resume",
        suspended_at="2026-02-28T15:31:00Z",
        suspension_id=suspension_id,
        suspensions=(by,),
    )


def ids(registry: Registry, everything: bool = False) -> list[str]:
    return [row.loop_id for row in registry.rows(everything)]


def test_a_look_at_no_registry_finds_nothing_and_makes_none(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    assert registry.rows(everything=True) == ()
    assert registry.row("loop-a") is None
    assert registry.released("loop-a", "s1") is None
    assert registry.remove(["loop-a"]) == []
    assert list(tmp_path.iterdir()) == []


def test_a_loop_is_found_again_by_whoever_looks(tmp_path: Path) -> None:
    row = loop("loop-a", branch="tenter/loop-a", prompt="do \x1b[31m it", request={"argv": ["a", 1, "\udc80"]})
    assert registry_in(tmp_path).add(row, hold=True) is None
    registry = registry_in(tmp_path)
    assert registry.row("loop-a") == row.but(taken_at=NOW)
    assert registry.resolve("loop-a").request == {"argv": ("a", 1, "\udc80")}


def test_a_registry_that_nobody_keeps_lets_go_of_its_file(tmp_path: Path) -> None:
    kept = registry_in(tmp_path)
    assert kept.add(loop("loop-a"), hold=True) is None
    assert str(registry_path(tmp_path)) in {name for _, name in open_files()}
    del kept  # from Python 3.13 on a connection that is not closed warns here, and that fails
    gc.collect()
    assert str(registry_path(tmp_path)) not in {name for _, name in open_files()}


@pytest.mark.parametrize(
    ("process", "status", "is_held"),
    [
        (None, "running", True),
        (None, "suspended", True),
        (GONE, "suspended", True),
        (GONE, "running", False),
        (None, "completed", False),
        (GONE, "failed", False),
    ],
)
@pytest.mark.fault(48)
def test_a_workspace_is_held_while_a_loop_runs_or_is_suspended(
    process: ProcessId | None, status: str, is_held: bool, tmp_path: Path
) -> None:
    registry = registry_in(tmp_path)
    first = loop("loop-a", process, status=status)
    assert registry.add(first, hold=True) is None
    holder = registry.add(loop("loop-b"), hold=True)
    assert holder == (first.but(taken_at=NOW) if is_held else None)
    assert (registry.row("loop-b") is None) == is_held
    assert registry.add(loop("loop-c", workspace="/elsewhere"), hold=True) is None
    assert registry.add(loop("loop-d"), hold=False) is None


def test_of_many_that_want_a_workspace_at_once_one_gets_it_and_the_others_hear_which(tmp_path: Path) -> None:
    registry, together, holders = registry_in(tmp_path), threading.Barrier(8), list[LoopRow | None]()
    others = [registry_in(tmp_path) for _ in range(7)]

    def add(own: Registry, number: int) -> None:
        for one in range(20):
            together.wait(10)
            holders.append(own.add(loop(f"loop-{one}-{number}", workspace=f"/p{one}"), hold=True))

    threads = [threading.Thread(target=add, args=(one, n)) for n, one in enumerate([registry, *others])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    rows = registry.rows()
    assert sorted(row.workspace for row in rows) == sorted(f"/p{one}" for one in range(20))
    assert holders.count(None) == 20
    assert all(holders.count(row) == 7 for row in rows)


def test_while_one_asks_whether_a_workspace_is_free_no_other_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry_in(tmp_path).add(loop("loop-gone", GONE), hold=False)
    both, met, added = threading.Barrier(2), list[ProcessId](), list[LoopRow | None]()

    def asked(process: ProcessId) -> bool:
        if process == GONE:
            with contextlib.suppress(threading.BrokenBarrierError):  # as it should be: the other one did not come
                both.wait(0.3)
                met.append(process)
        return is_alive(process)

    monkeypatch.setattr("tenter.loop.registry.is_alive", asked)

    def add(number: int) -> None:
        added.append(registry_in(tmp_path).add(loop(f"loop-{number}"), hold=True))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert met == []
    assert added.count(None) == 1
    assert len(added) == 2


def test_an_id_is_given_once(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)
    with pytest.raises(TenterError, match="'loop-a' is registered already"):
        registry.add(loop("loop-a", workspace="/other"), hold=True)
    with pytest.raises(TenterError, match="is no id of a loop"):
        registry.add(loop("../../x"), hold=True)
    with pytest.raises(TenterError, match="no UTF-8 text"):
        registry.add(loop("loop-b", workspace="/p\udc80"), hold=True)
    assert ids(registry) == ["loop-a"]


def test_those_that_ended_are_listed_where_everything_is_asked_for(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    for name, status in (("loop-a", "running"), ("loop-b", "failed"), ("loop-c", "suspended"), ("loop-d", "completed")):
        registry.add(loop(name, status=status), hold=False)
    assert ids(registry) == ["loop-c", "loop-a"]
    assert ids(registry, everything=True) == ["loop-d", "loop-c", "loop-b", "loop-a"]
    assert [standing_of(row) for row in registry.rows()] == ["suspended", "running"]
    registry.add(loop("loop-e", GONE), hold=False)
    assert standing_of(registry.resolve("loop-e")) == "crashed"


def test_a_loop_is_named_exactly_or_by_the_only_beginning(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    for name in ("loop-12ab-34cd", "loop-12ab-34ce", "loop-12", "loop-9f00-0000"):
        registry.add(loop(name, status="completed"), hold=False)
    assert registry.resolve("loop-12").loop_id == "loop-12"
    assert registry.resolve("loop-9").loop_id == "loop-9f00-0000"
    with pytest.raises(AmbiguousLoop, match="'loop-12a' begins the ids of 2 loops") as raised:
        registry.resolve("loop-12a")
    assert sorted(raised.value.matches) == ["loop-12ab-34cd", "loop-12ab-34ce"]
    assert all(match in str(raised.value) for match in raised.value.matches)


@pytest.mark.parametrize("text", ["", "loop-x", "%", "_", "loop-%", "' OR 1=1 --", "\x1b[31m"])
def test_an_unknown_loop_is_told_with_where_it_was_looked_for(text: str, tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)
    with pytest.raises(UnknownLoop, match=f"in '{registry.path}'; 'tenter loop list --all' prints them") as raised:
        registry.resolve(text)
    assert str(raised.value).isprintable()


def test_what_changes_is_changed_and_nothing_else(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)
    registry.add(loop("loop-b"), hold=False)
    before = registry.resolve("loop-a")
    registry.iteration("loop-a", 3)
    registry.ask("loop-a", question_id="q1", asked=Asked(question="really?"))
    registry.suspend("loop-a", suspension())
    row = registry.resolve("loop-a")
    assert row.question is not None
    assert row.question.asked.question == "really?"
    assert row == before.but(iteration=3, question=row.question, status="suspended", suspension=suspension())
    registry.asked_no_more("loop-a")
    registry.go_on("loop-a")
    registry.update("loop-a", status="failed", reason="blocked", message="a\udc80", ended_at=5.0)
    ended = before.but(iteration=3, status="failed", reason="blocked", message=r"a\udc80", ended_at=5.0)
    assert registry.resolve("loop-a") == ended
    assert registry.resolve("loop-b") == loop("loop-b", taken_at=NOW)


def test_what_is_no_change_of_a_loop_is_refused(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)
    for changes in ({}, {"pid": 1}, {'"message" = 1; --': 1}):
        with pytest.raises(TypeError, match="what changes of a loop is one of"):
            registry.update("loop-a", **cast(Changes, changes))


@pytest.mark.fault(46)
def test_a_suspension_ends_once_and_every_end_is_remembered(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)
    first = registry.release("loop-a", "s1", RESUME)
    assert (first.how, first.by, first.suspension_id) == ("resume", RESUME.by, "s1")
    assert registry_in(tmp_path).release("loop-a", "s1", STOP) == first
    assert registry.resolve("loop-a").released == first
    second = registry.release("loop-a", "s2", STOP)
    assert second.how == "stop"
    assert registry.resolve("loop-a").released == second
    assert registry.released("loop-a", "s1") == first
    assert registry.released("loop-a", "s3") is None


@pytest.mark.fault(46)
def test_of_many_that_decide_at_once_all_hear_the_same(tmp_path: Path) -> None:
    registry, together, heard = registry_in(tmp_path), threading.Barrier(8), list[Release]()
    registry.add(loop("loop-a"), hold=False)

    def decide(number: int) -> None:
        own = registry_in(tmp_path)
        for one in range(20):
            together.wait(10)
            heard.append(own.release("loop-a", f"s{one}", STOP if number % 2 else RESUME))

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    decided = [registry.released("loop-a", f"s{one}") for one in range(20)]
    assert len(heard) == 160
    assert all(heard.count(one) == 8 for one in decided if one is not None)
    assert None not in decided


def test_a_loop_whose_process_is_gone_is_taken_over(tmp_path: Path) -> None:
    registry, own = registry_in(tmp_path), this_process()
    registry.add(loop("loop-a", GONE, status="suspended", suspension=suspension()), hold=True)
    taken = registry.take_over("loop-a", own)
    assert isinstance(taken, LoopRow)
    assert (taken.process, taken.taken_at, taken.status) == (own, NOW, "suspended")
    assert registry.resolve("loop-a") == taken
    assert registry.take_over("loop-a", own) == taken
    with pytest.raises(UnknownLoop, match="'loop-b'"):
        registry.take_over("loop-b", own)


@pytest.mark.fault(48)
def test_nothing_is_taken_of_a_loop_that_lives_or_ended_and_who_has_it_is_told(tmp_path: Path) -> None:
    registry, own = registry_in(tmp_path), this_process()
    registry.add(loop("loop-a"), hold=False)
    registry.add(loop("loop-b", GONE, status="failed"), hold=False)
    for name, holder in (("loop-a", own), ("loop-b", GONE)):
        taken = registry.take_over(name, ProcessId(1, "another"))
        assert isinstance(taken, Taken)
        assert (taken.by, taken.at, taken.holder.loop_id) == (holder, NOW, name)


def test_a_crashed_loop_is_not_taken_over_where_another_works_in_its_workspace_now(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a", GONE), hold=True)
    assert registry.add(loop("loop-b"), hold=True) is None
    taken = registry.take_over("loop-a", ProcessId(1, "another"))
    assert isinstance(taken, Taken)
    assert taken.holder.loop_id == "loop-b"
    registry.update("loop-b", status="completed")
    assert isinstance(registry.take_over("loop-a", this_process()), LoopRow)


@pytest.mark.fault(45)
def test_of_two_processes_that_take_a_loop_over_one_wins_and_the_other_hears_which(tmp_path: Path) -> None:
    registry, rounds = registry_in(tmp_path), 30
    for number in range(rounds):
        registry.add(loop(f"loop-{number}", GONE, status="suspended", workspace=f"/p{number}"), hold=True)
    command, pipe = [sys.executable, "-c", TAKER, str(registry.path)], subprocess.PIPE
    with ExitStack() as stack:
        takers = [stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe)) for _ in range(2)]

        def say(taker: "subprocess.Popen[bytes]") -> list[object]:
            assert taker.stdout is not None
            assert select.select([taker.stdout], [], [], LONGEST)[0]
            return json.loads(taker.stdout.readline())

        own = [say(taker) for taker in takers]
        for number in range(rounds):
            for taker in takers:
                assert taker.stdin is not None
                taker.stdin.write(f"loop-{number}\n".encode())
                taker.stdin.flush()
            one, other = (say(taker) for taker in takers)
            assert one[1:] == other[1:], "both name the same process and moment"
            winner = own[0] if one[0] is False else own[1]
            assert {one[0], other[0]} == {False, True}
            assert one[1:3] == winner
            row = registry.resolve(f"loop-{number}")
            assert [row.pid, row.started, row.taken_at] == one[1:]
        for taker in takers:
            taker.kill()


@pytest.mark.parametrize("harm", ["removed", "replaced"])
def test_a_registry_that_goes_while_a_loop_runs_is_told(harm: str, tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=True)
    for file in list(registry.path.parent.glob("loops.db*")):
        file.unlink()
    if harm == "replaced":
        registry_in(tmp_path).add(loop("loop-b"), hold=True)
    says = f"'{registry.path}' cannot be used .*it was removed or replaced while the loop ran"
    with pytest.raises(TenterError, match=says):
        registry.iteration("loop-a", 2)
    with pytest.raises(TenterError, match=f"{says}|'loop-a'"):
        registry.release("loop-a", "s1", RESUME)
    assert ids(registry) == ([] if harm == "removed" else ["loop-b"])


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=True)
    registry.close()
    with closing(sqlite3.connect(registry.path)) as connection, connection:
        connection.execute("UPDATE loops SET request = '{'")
    with pytest.raises(TenterError, match=f"'{registry.path}' cannot be used .*the file is damaged"):
        registry.rows()


def test_what_ended_is_forgotten_and_what_goes_on_is_not(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as other:
        living = ProcessId(other.pid, started_by_proc(other.pid) or "")
        registry.add(loop("loop-runs", living), hold=False)
        registry.add(loop("loop-suspended", GONE, status="suspended"), hold=False)
        registry.add(loop("loop-crashed", GONE), hold=False)
        registry.add(loop("loop-over", living, status="failed"), hold=False)
        registry.add(loop("loop-own"), hold=False)
        registry.release("loop-over", "s1", STOP)
        removed = registry.remove([*ids(registry, everything=True), "loop-unknown"])
        assert sorted(removed) == ["loop-crashed", "loop-over", "loop-own"]
        assert sorted(ids(registry, everything=True)) == ["loop-runs", "loop-suspended"]
        assert registry.released("loop-over", "s1") is None
        other.kill()


def test_threads_share_a_registry(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)

    def work(number: int) -> None:
        for one in range(20):
            registry.release("loop-a", f"s{number}-{one}", STOP)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert all(registry.released("loop-a", f"s{n}-{one}") is not None for n in range(4) for one in range(20))


def test_a_registry_that_was_closed_opens_again(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.add(loop("loop-a"), hold=False)
    registry.close()
    assert ids(registry) == ["loop-a"]
    registry.close()
    registry.close()


@pytest.mark.fault(64)
def test_a_row_that_cannot_be_so_is_as_if_it_were_not_there_and_that_is_said_once(tmp_path: Path) -> None:
    registry_in(tmp_path).add(loop("loop-a", GONE, workspace="/elsewhere", status="suspended"), hold=False)
    registry_in(tmp_path).add(loop("loop-b", GONE), hold=False)
    said: list[str] = []

    def strange(row: LoopRow) -> str | None:
        return f"its workspace is {row.workspace!r}" if row.workspace == "/elsewhere" else None

    registry = Registry(registry_path(tmp_path), strange=strange, told=said.append)
    assert ids(registry, everything=True) == ["loop-b"]
    assert registry.row("loop-a") is None
    assert registry.remove(["loop-a", "loop-b"]) == ["loop-b"]
    with pytest.raises(UnknownLoop):
        registry.resolve("loop-a")
    with pytest.raises(UnknownLoop):
        registry.take_over("loop-a", this_process())
    with pytest.raises(TenterError, match=r"cannot be registered .*its workspace is '/elsewhere'"):
        registry.add(loop("loop-c", workspace="/elsewhere"), hold=True)
    assert len(said) == 1
    assert "'loop-a': its workspace is '/elsewhere'" in said[0]
    assert registry_in(tmp_path).row("loop-a") is not None, "it is left as it is"
