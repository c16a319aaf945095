"""How long a hook with `retry_backoff` waits before it is tried again in place, and how often it is (seed 001).

Pure: it waits for nothing and draws no number of its own.
"""

from typing import Final

from tenter.kernel import Random

ATTEMPTS: Final = 5
"""How often the hook runs, the first time included."""
FIRST_SECONDS, LONGEST_SECONDS = 1, 60

_STEPS: Final = LONGEST_SECONDS.bit_length()
"""So many doublings reach the longest delay."""


def delay(attempt: int, random: Random) -> float:
    """Seconds to wait after the attempt of this number, counted from 1.

    They double from 1 to at most 60, each times a factor from 0.5 up to 1: what failed at the same time is not tried
    again at the same time.
    """
    longest = min(FIRST_SECONDS << min(attempt - 1, _STEPS), LONGEST_SECONDS)
    return longest * (0.5 + random.random() / 2)
