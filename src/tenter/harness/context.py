"""What a tool is handed beside its arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tenter.harness.workspace import Workspace
from tenter.kernel import SYSTEM_CLOCK, Clock, FrozenDict


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """For a tool whose first parameter is annotated with it; the model never sees that parameter."""

    workspace: Workspace
    clock: Clock = SYSTEM_CLOCK
    environment: Mapping[str, str] = field(default=FrozenDict(), repr=False)
    """The whole environment of a program that the tool starts; the tool's secrets are in it."""
    secrets: Mapping[str, str] = field(default=FrozenDict(), repr=False)
    """Those that the configuration names for this tool and that this process was given, by the name of the variable."""
    key: str = ""
    """Which call of the run it is, `<run>/<path>`: the same when it is made again after a crash or an approval, so that
    a tool can find what it did already."""
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
