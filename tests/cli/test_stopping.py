"""A signal that asks the process to end cancels what runs first."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from tenter.cli.stopping import ENDING, run_stoppable


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
