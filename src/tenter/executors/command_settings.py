"""A command hook as configured: a program or a script, within which bounds it runs, and what becomes of its failure.

Data alone; paths are resolved when it gets them. What it does is `command`'s matter, what its answer means `answer`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenter.kernel import Band, FrozenDict, Mode, Point, Policy

OUTPUT_BYTES, ANSWER_BYTES = 8192, 1 << 20
"""What is kept of each output unless the hook says otherwise: without, and with a verdict."""


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
    """Whether the metadata of the verdict count."""
    on_error: Policy | None = None
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
    def policy(self) -> Policy:
        """The failure policy in force (D§7)."""
        if self.mode == "shadow":
            return "warn"
        return self.on_error or ("warn" if self.observe else self.point.default_policy)
