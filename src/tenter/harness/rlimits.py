"""The limits that the system sets to a process of the sandbox `process`: how much, and how a shell is told.

A limit holds for each process alone, not for all that a tool starts together. Sets none itself.
"""

import math
import resource
from collections.abc import Mapping
from typing import Final

from tenter.kernel import FrozenDict

GIB: Final = 1 << 30
FIXED: Final[FrozenDict[str, int]] = FrozenDict(
    {"RLIMIT_AS": 4 * GIB, "RLIMIT_FSIZE": GIB, "RLIMIT_NOFILE": 256, "RLIMIT_CORE": 0}
)
"""Bytes of address space, bytes of a file, open files, bytes of a core dump."""
NAMES: Final = frozenset({"RLIMIT_CPU", *FIXED})
"""As the module `resource` calls them."""

_ULIMITS: Final = {
    "RLIMIT_CPU": ("-t", 1),
    "RLIMIT_AS": ("-v", 1024),
    "RLIMIT_FSIZE": ("-f", 512),
    "RLIMIT_NOFILE": ("-n", 1),
    "RLIMIT_CORE": ("-c", 512),
}
"""The option of `ulimit`, and how much one of its units is."""


def process_limits(seconds: float) -> Mapping[str, int]:
    """The limits of a process that has `seconds` until its deadline (infinity: no limit of CPU time), by name.

    None is above what this process may have itself: that could not be set.
    """
    wanted = dict(FIXED)
    if seconds < math.inf:
        wanted["RLIMIT_CPU"] = math.ceil(max(seconds, 0.0)) + 1
    return FrozenDict({name: _allowed(name, limit) for name, limit in wanted.items()})


def limiting(limits: Mapping[str, int]) -> str:
    """A command of `sh` that sets `limits` to itself and what it runs then, and fails where it cannot."""
    each = (f"ulimit {option} {limits[name] // unit}" for name, (option, unit) in _ULIMITS.items() if name in limits)
    return " && ".join(each)


def _allowed(name: str, limit: int) -> int:
    hard = resource.getrlimit(getattr(resource, name))[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
