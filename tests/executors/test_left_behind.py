"""What carries the variable of a process that died is ended, and nothing else is."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.outside import alive

from tenter.executors import descendants, left_behind
from tenter.executors.left_behind import end_left_behind
from tenter.kernel import TenterError

NAME = "TENTER_LEFT_BEHIND_TEST"


def left(value: str) -> int:
    """The id of a process that nobody who runs this test started, and that carries the variable."""
    script = "sleep 60 < /dev/null > /dev/null 2>&1 & echo $!"
    environment = {**os.environ, NAME: value}
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=20
    )
    return int(done.stdout)


async def test_what_carries_the_variable_is_ended_but_for_what_is_spared() -> None:
    first, second, other = left("a"), left("a"), left("b")
    try:
        assert await end_left_behind(f"{NAME}=a", "the run a", spared=lambda process: process == second) == 1
        assert [alive(one) for one in (first, second, other)] == [False, True, True]
        assert await end_left_behind(f"{NAME}=a", "the run a") == 1
        assert [alive(one) for one in (second, other)] == [False, True]
    finally:
        for one in (first, second, other):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


async def test_one_that_cannot_be_ended_is_told_with_whose_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    never: Callable[..., bool] = lambda *_: False  # noqa: E731  # as `end` where the kernel holds the process
    monkeypatch.setattr(descendants, "end", never)
    monkeypatch.setattr(descendants, "GONE_SECONDS", 0.05)
    monkeypatch.setattr(left_behind, "GRACE_SECONDS", 0.05)
    process = left("a")
    try:
        with pytest.raises(TenterError, match=rf"what the run a left running .* \(process {process}\)"):
            await end_left_behind(f"{NAME}=a", "the run a")
    finally:
        os.kill(process, signal.SIGKILL)
