"""What is told is written in order by somebody else, and nobody waits for who does not read it."""

import os
import select
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tenter.cli import outlet as outlet_file
from tenter.cli.outlet import Outlet

LONGEST = 20.0


@contextmanager
def piped() -> Generator[tuple[int, int]]:
    """The two ends of a pipe: from where is read, and to where is written."""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def read(reading: int, end: bytes) -> bytes:
    """What comes, up to `end`."""
    data = b""
    while not data.endswith(end):
        assert select.select([reading], [], [], LONGEST)[0], data[-200:]
        data += os.read(reading, 1 << 20)
    return data


def test_what_is_put_comes_out_in_order_and_closing_waits_for_it() -> None:
    with piped() as (reading, writing):
        outlet = Outlet(writing)
        outlet.put("one")
        outlet.put("tw\udc80", end="")
        outlet.put("o", dispensable=True)
        outlet.close(LONGEST)
        outlet.close()
        assert os.read(reading, 100) == b"one\ntw\\udc80o\n"


@pytest.mark.fault(7)
def test_nobody_waits_for_a_full_pipe_and_what_is_lost_is_counted_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet_file, "MOST_WAITING", 200_000)
    line = "x" * 999
    with piped() as (reading, writing):
        outlet = Outlet(writing)
        for _ in range(1000):
            outlet.put(line, dispensable=True)
        outlet.put("important")
        outlet.close(0.01)
        found = read(reading, b"important\n").decode().splitlines()
    shown = found.count(line)
    assert 200 <= shown < 300, "what waits, and what the pipe took"
    assert found[shown:] == [
        f"({1000 - shown} lines not shown: the terminal, or who reads this, took no more)",
        "important",
    ]


def test_what_is_important_is_bounded_too_and_the_last_losses_are_told_when_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlet_file, "MOST_WAITING", 100_000)
    with piped() as (reading, writing):
        outlet = Outlet(writing)
        for _ in range(1000):
            outlet.put("x" * 999)
        outlet.close(0.01)
        found = read(reading, b"took no more)\n").decode().splitlines()
    assert len(found) < 400
    assert found[-1].startswith(f"({1001 - len(found)} lines not shown")


def test_whoever_reads_again_gets_what_is_put_then() -> None:
    with piped() as (reading, writing):
        outlet = Outlet(writing)
        outlet.put("x" * 300_000)
        read(reading, b"x\n")
        outlet.put("and on")
        assert read(reading, b"\n") == b"and on\n"
        outlet.close()


def test_a_reader_that_went_away_is_not_waited_for() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    outlet = Outlet(writing)
    outlet.put("one")
    outlet.close(LONGEST)
    outlet.put("two")
    outlet.close(LONGEST)
    os.close(writing)
    for thread in threading.enumerate():
        if thread.name == "tenter-outlet":
            thread.join(LONGEST)
    assert "tenter-outlet" not in [thread.name for thread in threading.enumerate()]


def test_a_descriptor_that_somebody_made_non_blocking_is_waited_for() -> None:
    with piped() as (reading, writing):
        os.set_blocking(writing, False)
        outlet = Outlet(writing)
        outlet.put("x" * 300_000)
        assert len(read(reading, b"x\n")) == 300_001
        outlet.close(LONGEST)


def test_an_outlet_that_is_closed_lets_its_thread_end() -> None:
    with piped() as (_, writing):
        before = set(threading.enumerate())  # that of a test before may be on its way out
        outlet = Outlet(writing)
        (thread,) = [one for one in threading.enumerate() if one.name == "tenter-outlet" and one not in before]
        outlet.close()
        thread.join(LONGEST)
    assert not thread.is_alive()
