"""What a tool is handed beside its arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK, Clock, FrozenDict


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """For a tool whose first parameter is annotated with it; the model never sees that parameter."""

    workspace: Workspace
    clock: Clock = SYSTEM_CLOCK
    environment: Mapping[str, str] = FrozenDict()
    """The whole environment of a program that the tool starts."""
    deadline: float | None = None
    """When the call must end, in seconds since the epoch as `clock` tells them; None: never."""
    mask: Callable[[str], str] = str
    """Takes secrets out of a text. What a tool returns is masked anyway; one that cuts a text masks it before."""

    def remaining(self) -> float | None:
        """Seconds until the deadline, below 0 when it has passed; None where there is none."""
        return None if self.deadline is None else self.deadline - self.clock.now()

    def expired(self) -> bool:
        """Whether the deadline has passed: a long loop asks, and ends instead of running on unseen."""
        remaining = self.remaining()
        return remaining is not None and remaining <= 0
