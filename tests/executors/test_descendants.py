"""Finding by the mark, and killing nobody else."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.outside import alive, one_of_three, steady_loop

from tenter.executors import descendants
from tenter.executors.descendants import (
    candidates,
    end,
    end_marked,
    environment_mark,
    find,
    last_started,
    look,
    running,
    started_between,
    sweep,
    within,
)

MARK = environment_mark("TENTER_CALL=cookie-1")


def nobody() -> None:
    """Kills no group."""


@contextmanager
def sleeper(**environment: str) -> Generator[int]:
    """A process that waits, with exactly this environment, reaped at the end."""
    with subprocess.Popen(["/bin/cat"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"running\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"running\n"
            yield process.pid
        finally:
            process.kill()


async def test_a_process_is_found_by_the_mark_in_its_environment() -> None:
    with sleeper(PATH="/bin", TENTER_CALL="cookie-1", LANG="C") as ours, sleeper(PATH="/bin") as foreign:
        assert look([ours, foreign], MARK) == ([ours], [])
        marked, _ = await find(MARK, running())
        assert marked == [ours]


async def test_what_a_call_within_a_call_started_is_found_by_both() -> None:
    inner = within("cookie-1", "cookie-3")
    assert (inner, within(None, "cookie-1"), within("", "cookie-1")) == ("cookie-1.cookie-3", "cookie-1", "cookie-1")
    with sleeper(PATH="/bin", TENTER_CALL=inner) as ours:
        assert look([ours], MARK) == ([ours], [])
        assert look([ours], environment_mark(f"TENTER_CALL={inner}")) == ([ours], [])
        assert look([ours], environment_mark("TENTER_CALL=cookie-3")) == ([], [])
        assert end(ours, MARK)


@pytest.mark.parametrize(
    "environment",
    [
        {"TENTER_CALL": "cookie-12"},
        {"TENTER_CALL": "cookie-3.cookie-1"},
        {"TENTER_CALL": "cookie-"},
        {"XTENTER_CALL": "cookie-1"},
        {"TENTER_CALL2": "cookie-1"},
    ],
)
def test_a_mark_that_is_only_part_of_a_variable_finds_nobody(environment: dict[str, str]) -> None:
    with sleeper(**environment) as foreign:
        assert look([foreign], MARK) == ([], [])


def test_an_empty_environment_is_told_apart_because_it_may_be_filled_in_a_moment() -> None:
    with sleeper() as bare:
        assert look([bare], MARK) == ([], [bare])


def test_a_process_that_is_gone_or_may_not_be_looked_into_is_not_found() -> None:
    assert look([2**22 + 1], MARK) == ([], [])


def test_a_zombie_is_not_found() -> None:
    process = subprocess.Popen(["/bin/true"], env={"TENTER_CALL": "cookie-1"})
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    marked, _ = look([process.pid], MARK)
    process.wait()
    assert marked == []


def test_end_kills_the_process_that_carries_the_mark() -> None:
    with sleeper(TENTER_CALL="cookie-1") as ours:
        assert end(ours, MARK)
        os.waitid(os.P_PID, ours, os.WEXITED | os.WNOWAIT)
        assert not alive(ours)


def test_end_leaves_alone_who_does_not_carry_the_mark() -> None:
    """As when the id was given to another process between the look and the kill."""
    with sleeper(TENTER_CALL="cookie-2") as foreign:
        assert not end(foreign, MARK)
        assert alive(foreign)


def test_end_works_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with sleeper(TENTER_CALL="cookie-1") as ours, sleeper(TENTER_CALL="cookie-2") as foreign:
        assert (end(ours, MARK), end(foreign, MARK)) == (True, False)
        os.waitid(os.P_PID, ours, os.WEXITED | os.WNOWAIT)
        assert (alive(ours), alive(foreign)) == (False, True)


def test_end_of_a_process_that_is_gone_is_no_error() -> None:
    assert not end(2**22 + 1, MARK)


async def test_sweep_ends_all_that_carry_the_mark_and_nobody_else() -> None:
    with (
        sleeper(TENTER_CALL="cookie-1") as one,
        sleeper(TENTER_CALL="cookie-1") as two,
        sleeper(TENTER_CALL="cookie-2") as foreign,
    ):
        ended = await sweep(MARK, since=None, until=asyncio.get_running_loop().time() + 5, kill_group=nobody)
        assert ended == {one, two}
        assert (alive(one), alive(two), alive(foreign)) == (False, False, True)


async def test_sweep_looks_again_at_a_process_that_was_just_being_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    with sleeper(TENTER_CALL="cookie-1") as ours:
        real = descendants._environment  # pyright: ignore[reportPrivateUsage]  # the moment cannot be hit from outside
        looks: list[int] = []

        def late(process: int) -> bytes:
            if process == ours:
                looks.append(process)
                return real(process) if len(looks) > 1 else descendants.BARE
            return b""

        monkeypatch.setattr(descendants, "_environment", late)
        ended = await sweep(MARK, since=None, until=asyncio.get_running_loop().time() + 5, kill_group=nobody)
        assert ended == {ours}
        assert not alive(ours)


async def test_sweep_gives_up_at_its_time_what_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def stubborn(process: int, mark: bytes) -> bool:
        tries.append(process)
        return mark != MARK

    monkeypatch.setattr(descendants, "end", stubborn)
    with sleeper(TENTER_CALL="cookie-1") as ours:
        until = asyncio.get_running_loop().time() + 0.05
        ended = await asyncio.wait_for(sweep(MARK, since=None, until=until, kill_group=nobody), 5)
        assert (ended, set(tries), len(tries) > 1) == ({ours}, {ours}, True)


async def test_sweep_since_a_process_finds_what_was_started_after_it() -> None:
    with sleeper() as first, sleeper(TENTER_CALL="cookie-1") as ours:
        assert ours in candidates(first)
        ended = await sweep(MARK, since=first, until=asyncio.get_running_loop().time() + 5, kill_group=nobody)
        assert ended == {ours}


@pytest.mark.timed
async def test_a_machine_with_many_processes_does_not_stall_the_loop() -> None:
    async def attempt() -> None:
        async with steady_loop(0.05):
            marked, _ = await find(MARK, running() * 300)
        assert marked == []

    await one_of_three(attempt)


def test_the_last_started_process_is_the_newest() -> None:
    before = last_started()
    with sleeper():
        after = last_started()
    assert before is not None
    assert after is not None
    assert after != before


def test_where_proc_belongs_to_another_namespace_nobody_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "self").symlink_to("12345678")
    monkeypatch.setattr(descendants, "PROCESSES", str(tmp_path))
    assert running() == []


def test_without_proc_nothing_is_told_and_nobody_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descendants, "PROCESSES", "/nowhere")
    assert (last_started(), running(), candidates(1)) == (None, [], [])


@given(st.integers(1, 40), st.integers(0, 38), st.data())
def test_ids_given_out_in_a_circle_are_found_between_two_of_them(
    first: int, given_out: int, data: st.DataObject
) -> None:
    after = [(first + step - 1) % 40 + 1 for step in range(1, given_out + 1)]
    others = sorted(set(range(1, 41)) - set(after) - {first})
    ids = sorted({*data.draw(st.sets(st.sampled_from(others or [first]))), *after})
    last = after[-1] if after else first
    assert started_between(ids, first, last) == sorted(after)


def spares(*processes: int) -> Callable[[int], bool]:
    return lambda process: process in processes


async def test_what_carries_the_mark_is_asked_to_end_and_what_is_spared_is_not() -> None:
    with sleeper(TENTER_CALL="cookie-1") as ours, sleeper(TENTER_CALL="cookie-1") as spared, sleeper() as foreign:
        assert await end_marked(MARK, spared=spares(spared), grace=5.0) == (frozenset({ours}), frozenset())
        assert [alive(one) for one in (ours, spared, foreign)] == [False, True, True]


async def test_what_lives_on_after_the_grace_is_killed_and_what_does_that_too_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[signal.Signals] = []

    def deaf(_process: int, _mark: bytes, number: signal.Signals = signal.SIGKILL) -> bool:
        sent.append(number)
        return True

    monkeypatch.setattr(descendants, "end", deaf)
    monkeypatch.setattr(descendants, "GONE_SECONDS", 0.05)
    with sleeper(TENTER_CALL="cookie-1") as ours:
        assert await end_marked(MARK, spared=spares(), grace=0.05) == (frozenset({ours}), frozenset({ours}))
    assert sent[:2] == [signal.SIGTERM, signal.SIGCONT]
    assert set(sent[2:]) == {signal.SIGKILL}
