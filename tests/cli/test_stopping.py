"""A signal that asks the process to end cancels what runs first."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from tenter.cli.stopping import ENDING, CutShort, run_stoppable


async def never(begun: Callable[[], object], seen: list[str]) -> str:
    begun()
    try:
        await asyncio.wait_for(asyncio.get_running_loop().create_future(), 5)
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise
    return "not cancelled"


async def answer() -> int:
    return 42


def test_what_is_not_stopped_gives_its_value() -> None:
    assert run_stoppable(answer()) == 42


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_cancels_and_is_given_back(number: signal.Signals) -> None:
    seen: list[str] = []
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert run_stoppable(never(lambda: os.kill(os.getpid(), number), seen)) is number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert seen == ["cancelled"]


def test_ctrl_c_cancels_and_raises() -> None:
    seen: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            run_stoppable(never(lambda: os.kill(os.getpid(), signal.SIGINT), seen))
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["cancelled"]


def test_ctrl_c_within_code_that_does_not_await_cancels_what_runs_and_not_that_code() -> None:
    seen: list[str] = []

    async def presses() -> str:
        task = asyncio.current_task()
        assert task is not None
        os.kill(os.getpid(), signal.SIGINT)
        seen.append(f"{task.cancelling()} times")  # a hook that ends so was not cancelled, and does not answer for it
        return await never(str, seen)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_stoppable(presses())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["0 times", "cancelled"]


def test_a_second_ctrl_c_ends_code_that_does_not_come_to_its_end() -> None:
    async def hangs() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it went on")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_stoppable(hangs())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_that_is_to_be_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def hung_up() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(asyncio.to_thread(str), 5)
        return "went on"

    try:
        assert run_stoppable(hung_up()) == "went on"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_cancellation_from_inside_is_no_signal() -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_stoppable(cancels_itself())


def exits_from_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 0)


def exits_from_a_task() -> None:
    async def leaves() -> None:
        sys.exit(0)

    kept.add(asyncio.get_running_loop().create_task(leaves()))


def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()


def stops_the_loop_again_and_again() -> None:
    loop = asyncio.get_running_loop()
    loop.stop()
    loop.call_soon(stops_the_loop_again_and_again)


kept: set[object] = set()


@pytest.mark.parametrize(
    ("left", "how"),
    [
        (exits_from_a_callback, "was asked to exit"),
        (exits_from_a_task, "was asked to exit"),
        (stops_the_loop, "was stopped"),
        (stops_the_loop_again_and_again, "was stopped"),
    ],
)
def test_what_ends_the_event_loop_cancels_what_runs_and_is_told(left: Callable[[], None], how: str) -> None:
    seen: list[str] = []
    with pytest.raises(CutShort, match=how):
        run_stoppable(never(left, seen))
    kept.clear()
    assert seen == ["cancelled"]


def test_an_exit_that_comes_when_all_is_done_changes_nothing() -> None:
    async def ends_with_an_exit_behind() -> int:
        exits_from_a_callback()
        return 42

    assert run_stoppable(ends_with_an_exit_behind()) == 42


def test_an_exit_of_what_runs_is_told_as_well() -> None:
    async def leaves() -> None:
        sys.exit(0)

    with pytest.raises(CutShort, match="was asked to exit"):
        run_stoppable(leaves())


def test_an_error_of_what_runs_is_raised_as_it_is() -> None:
    async def breaks() -> None:
        raise RuntimeError("its own")

    with pytest.raises(RuntimeError, match="its own"):
        run_stoppable(breaks())


def test_what_is_left_in_the_loop_is_not_waited_for() -> None:
    ended = threading.Event()

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    async def leaves_much() -> str:
        loop = asyncio.get_running_loop()
        kept.add(loop.create_task(stubborn()))
        kept.add(loop.run_in_executor(None, ended.wait, 5))
        await asyncio.wait_for(asyncio.to_thread(str), 5)
        return "done"

    assert run_stoppable(leaves_much()) == "done"
    assert not ended.is_set()
    ended.set()
    kept.clear()
