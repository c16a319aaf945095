"""Time and chance as values that are handed over, so that a run can be repeated (D§11)."""

import random
import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from. `now` is seconds since the epoch, `monotonic` seconds that never go back."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Random(Protocol):
    """Where chance comes from; `random.Random` is one."""

    def random(self) -> float:
        """A number from 0 up to, and not including, 1."""
        ...

    def getrandbits(self, k: int, /) -> int: ...


class SystemClock:
    """The machine's own clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


SYSTEM_CLOCK: Clock = SystemClock()
SYSTEM_RANDOM: Random = random.SystemRandom()
