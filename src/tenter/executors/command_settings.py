"""A command hook as configured: a program or a script, within which bounds it runs, and what becomes of its failure.

Data alone; paths are resolved when it gets them. What it does is `command`'s matter, what its answer means `answer`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tenter.kernel import Band, FrozenDict, Mode, Point, Policy

if TYPE_CHECKING:  # a configuration takes words from here and reads no file's digest
    from tenter.executors.pinned import PinnedFile

OUTPUT_BYTES, ANSWER_BYTES = 8192, 1 << 20
"""What is kept of each output unless the hook says otherwise: without, and with a verdict."""


SuspendMode = Literal["wait_for_resume", "retry_backoff", "wait_then_retry"]
"""What a loop does about a hook that suspends it (seed 001): wait for a person and go on; try the hook again in place
a few times and then wait; wait, and go on once the hook passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """A command hook as configured: exactly one of `argv` and `script` is given. Seconds and bytes are as in D§12."""

    name: str
    point: Point
    argv: tuple[str, ...] | None = None
    """The program, resolved already, and its arguments."""
    script: str | None = None
    """Text for `/bin/sh -c`; its `$0` is the hook's name."""
    cwd: str | None = None
    """A relative one starts at the workspace, which is also the default."""
    env: Mapping[str, str] = field(default_factory=FrozenDict[str, str])
    pass_env: tuple[str, ...] = ()
    timeout_seconds: float = 30.0
    grace_seconds: float = 1.0
    max_output_bytes: int | None = None
    """None: 8192, or 1 MiB with a verdict."""
    verdict: bool = False
    """Whether stdout is the verdict document."""
    mutate: bool = False
    """Whether metadata count: those of the verdict, or, without one, stdout is nothing but metadata."""
    on_error: Policy | None = None
    suspend_mode: SuspendMode = "wait_for_resume"
    """Only `retry_backoff` is carried out here; the rest is the loop's."""
    pinned: "tuple[PinnedFile, ...]" = ()
    """Files that must be what they were when their owner trusted them, whenever the hook starts."""
    observe: bool = False
    match: Mapping[str, object] = field(default_factory=FrozenDict[str, object])
    mode: Mode = "active"
    priority: int = 500
    band: Band = "app"
    source: str = ""

    def __post_init__(self) -> None:
        if (self.script is None) == (not self.argv):
            raise ValueError(f"the command hook {self.name!r} needs either argv or script")

    @property
    def output_limit(self) -> int:
        """Bytes that are kept of each output."""
        if self.max_output_bytes is not None:
            return self.max_output_bytes
        return ANSWER_BYTES if self.verdict else OUTPUT_BYTES

    @property
    def answers(self) -> bool:
        """Whether stdout is read as an answer, and so must not be cut."""
        return self.verdict or self.mutate

    @property
    def policy(self) -> Policy:
        """The failure policy in force (D§7)."""
        if self.mode == "shadow":
            return "warn"
        return self.on_error or ("warn" if self.observe else self.point.default_policy)
