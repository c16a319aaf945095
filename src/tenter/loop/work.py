"""What a backend is given for one iteration, and what comes of it. Data alone, and the protocol that backends meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tenter.catalogue import LoopFacts
from tenter.harness import Harness
from tenter.kernel import Clock, FrozenDict, FrozenStruct
from tenter.loop.output_log import OutputLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One iteration."""

    number: int
    """From 1."""
    prompt: str
    facts: LoopFacts
    hat: str | None = None
    deadline: float | None = None
    """When the work must end, in seconds since the epoch; None: never."""
    environment: Mapping[str, str] = FrozenDict()
    """What programs get beside the user's own, such as TENTER_EVENTS_FILE."""


class Worked(FrozenStruct, frozen=True, kw_only=True):
    """What came of it. All texts are masked, and hold nothing that a terminal would obey."""

    status: Literal["ok", "failed", "escalated"]
    last_line: str = ""
    """The last line of the output that is not blank."""
    error: str = ""
    """Why it failed, for people and for the next iteration."""
    queue: str = ""
    """Where it was escalated to."""
    cost_usd: float = 0.0
    run_id: str | None = None
    """Of the run, where the backend is one of a harness."""


class Backend(Protocol):
    """Does the work of an iteration."""

    async def run(self, work: Work, /) -> Worked:
        """Raises nothing that the work does. Cancellation ends it, with all that it started, and is raised again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What the backends of one loop work with."""

    workspace: str
    """Absolute."""
    environment: Mapping[str, str]
    """The user's whole environment."""
    log: OutputLog
    mask: Callable[[str], str]
    """Takes out of a text what is or looks like a secret."""
    clock: Clock
    harness: Harness
