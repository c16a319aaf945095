"""A run whose process is killed after any of its journal entries comes to the same end, and does nothing twice.

The sweep is over every entry; what must hold is said in `swept`, and what runs in `sweeping`.
"""

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.faults.sweeping import OUTPUT, Case, World, begin, in_process, recorded
from tests.faults.swept import Before, Swept, broken

pytestmark = pytest.mark.timed

ENTRIES = 191
"""How many entries the run has: the sweep is over all of them."""

LONGEST = 300.0
"""Seconds for all cases of a test on a machine that does much else."""

ROOT = Path(__file__).parents[2]
SERVER = [sys.executable, "-c", "from tests.faults.sweeping import serve; serve()"]


def sweep(cases: Sequence[Case]) -> list[tuple[Case, Swept]]:
    """What came of each case. They run in two processes side by side."""
    halves = [cases[::2], cases[1::2]]
    servers = [subprocess.Popen(SERVER, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in halves]
    try:
        for server, half in zip(servers, halves, strict=True):
            assert server.stdin is not None
            server.stdin.write(msgspec.json.encode(half))
            server.stdin.close()
            server.stdin = None
        said = [server.communicate(timeout=LONGEST)[0].splitlines() for server in servers]
    finally:
        for server in servers:
            server.kill()
            server.wait(10)
    done = [msgspec.json.decode(line, type=Swept) for lines in said for line in lines]
    return list(zip([case for half in halves for case in half], done, strict=True))


def wrong(done: Sequence[tuple[Case, Swept]]) -> list[object]:
    return [(case, one) for case, one in done if one.broken]


def test_the_run_that_is_swept_has_as_many_entries_as_the_sweep(tmp_path: Path) -> None:
    begin(tmp_path)
    world = World(tmp_path)
    assert in_process(world, entries=None) == 0
    journal = recorded(world)
    assert sum(map(len, journal.values())) == ENTRIES
    assert len(journal) == 2, "a sub-run is part of it"
    assert broken([], Before(journal, world.lines()), OUTPUT) == []


@pytest.mark.timeout(LONGEST)
@pytest.mark.fault(35)
@pytest.mark.fault(47)
@pytest.mark.promise(9)
@pytest.mark.parametrize("part", range(2))
def test_a_run_killed_after_any_entry_goes_on_to_the_same_end_and_does_nothing_twice(part: int) -> None:
    done = sweep([Case((entries,)) for entries in range(1 + part, ENTRIES + 1, 2)])
    assert wrong(done) == []
    assert [one.kills for _, one in done] == [1] * len(done)


@pytest.mark.timeout(LONGEST)
@pytest.mark.fault(35)
@pytest.mark.fault(47)
@pytest.mark.promise(9)
@pytest.mark.parametrize("part", range(2))
def test_so_it_does_where_tools_that_run_side_by_side_end_in_any_order(part: int) -> None:
    done = sweep([Case((entries,), shuffled=entries) for entries in range(1 + part, ENTRIES + 1, 2)])
    assert wrong(done) == []
    assert [one.kills for _, one in done] == [1] * len(done)


@pytest.mark.timeout(LONGEST)
@pytest.mark.fault(35)
@pytest.mark.fault(47)
@pytest.mark.promise(9)
def test_so_it_does_where_the_processes_that_go_on_with_it_are_killed_as_well() -> None:
    chance = random.Random(47)
    first = [chance.randrange(1, ENTRIES) for _ in range(20)]
    cases = [Case((entries, chance.randrange(1, 8), chance.randrange(1, 30)), shuffled=entries) for entries in first]
    done = sweep(cases)
    assert wrong(done) == []
    assert sum(one.kills for _, one in done) > 2 * len(done)
