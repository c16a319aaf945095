"""What a configuration file says, as frozen values (D§12).

Holds only what is carried out. Resolves no command, imports no target, reads no other file. A field that the file may
leave out is None where leaving it out means something else than any value.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tenter.config.loop_spec import LoopSpec
from tenter.config.problem import KeyPath, Position
from tenter.executors import SuspendMode
from tenter.kernel import FrozenDict, Mode, Policy

HookKind = Literal["command", "script", "python"]
Pattern = str | tuple[str, ...] | Mapping[str, str]
"""A name with `*`, several of them, or `{re: expression}`."""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model: what answers, and where its script is (a path as written; relative ones start at the file's folder)."""

    provider: Literal["scripted"]
    file: str


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task. `model` is a key of `Spec.models`; each of `tools` is built in or a key of `Spec.tools`."""

    version: int
    model: str
    instructions: str
    tools: tuple[str, ...] = ()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a tool: of a built-in one where `python` is None, else of the user's own at that target."""

    timeout_seconds: float | None = None
    idempotent: bool | None = None
    python: str | None = None


class MutateSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the metadata that a hook gives count."""

    enabled: bool


class HookSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook at one point. Exactly one of `command`, `script` and `python` is not None.

    `where` and `path` are the place of the hook in its file. `on_error` is given for commands and scripts.
    `max_output_bytes` None means 1 MiB with a verdict and the default of the file without; `timeout_seconds` None means
    the default. `match`, `observe`, `mode` and `priority` are None where the file does not say: a function may say it
    itself. `suspend_mode` None means the default of the file, at the points of a loop; only there it stands.
    """

    where: Position
    path: KeyPath
    name: str
    command: tuple[str, ...] | None = None
    script: str | None = None
    python: str | None = None
    match: Mapping[str, Pattern] | None = None
    observe: bool | None = None
    mode: Mode | None = None
    priority: int | None = None
    on_error: Policy | None = None
    timeout_seconds: float | None = None
    grace_seconds: float = 1.0
    max_output_bytes: int | None = None
    cwd: str | None = None
    env: Mapping[str, str] = FrozenDict()
    pass_env: tuple[str, ...] = ()
    verdict: Literal["json"] | None = None
    mutate: MutateSpec = MutateSpec(enabled=False)
    suspend_mode: SuspendMode | None = None

    @property
    def kind(self) -> HookKind:
        """Which of the three it is."""
        if self.command is not None:
            return "command"
        return "script" if self.script is not None else "python"


class HookDefaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for hooks that do not say otherwise; `suspend_mode` for those at the points of a loop."""

    timeout_seconds: float = 30.0
    max_output_bytes: int = 8192
    suspend_mode: SuspendMode = "wait_for_resume"


class HooksSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hooks of one file: plugins as targets, and hooks by point (the name as written), in the order of the file."""

    enabled: bool = True
    defaults: HookDefaults = HookDefaults()
    plugins: tuple[str, ...] = ()
    events: Mapping[str, tuple[HookSpec, ...]] = FrozenDict()


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file. `secrets` are names of environment variables, never values."""

    file: str
    digest: str
    """`sha256:…` of the file's bytes."""
    version: Literal[1]
    secrets: tuple[str, ...] = ()
    models: Mapping[str, ModelSpec] = FrozenDict()
    tasks: Mapping[str, TaskSpec] = FrozenDict()
    tools: Mapping[str, ToolSpec] = FrozenDict()
    hooks: HooksSpec = HooksSpec()
    loop: LoopSpec = LoopSpec()
    positions: Mapping[KeyPath, Position] = FrozenDict()

    def where(self, *path: str | int) -> Position:
        """The place of the value at `path`, or of the nearest thing around it that the file has."""
        for length in range(len(path), -1, -1):
            if (found := self.positions.get(path[:length])) is not None:
                return found
        return Position(self.file)
