"""What a configuration file says, as frozen values (D§12).

Holds only what is carried out. Resolves no command, imports no target, reads no other file. A field that the file may
leave out is None where leaving it out means something else than any value.
"""

from collections.abc import Mapping
from typing import Final, Literal, cast

import msgspec

from tenter.catalogue import Budgets, Risk, Sandbox
from tenter.config.loop_spec import LoopSpec
from tenter.config.problem import KeyPath, Position
from tenter.executors import SuspendMode
from tenter.kernel import FrozenDict, Mode, OnTimeout, Policy
from tenter.wire import digest

HookKind = Literal["command", "script", "python"]
Then = Literal["block", "suspend", "escalate"]
"""What a rule answers."""
Pattern = str | tuple[str, ...] | Mapping[str, str]
"""A name with `*`, several of them, or `{re: expression}`."""


class PricesSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars for a million tokens."""

    input: float
    output: float


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model: what answers, and where its script is (a path as written; relative ones start at the file's folder).

    `prices` are for answers that do not tell what they cost.
    """

    provider: Literal["scripted"]
    file: str
    prices: PricesSpec | None = None


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task. `model` is a key of `Spec.models`; each of `tools` is built in or a key of `Spec.tools`.

    `subtasks` are keys of `Spec.tasks`, and no task is reached from itself by them.
    """

    version: int
    model: str
    instructions: str
    tools: tuple[str, ...] = ()
    budgets: Budgets = Budgets()
    parallel_tools: bool = False
    subtasks: tuple[str, ...] = ()


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a tool: of a built-in one where `python` is None, else of the user's own at that target.

    `principals` are names with `*`, `secrets` some of `Spec.secrets`. Whether this machine has the `sandbox` is not
    looked at here.
    """

    timeout_seconds: float | None = None
    idempotent: bool | None = None
    risk: Risk | None = None
    sandbox: Sandbox | None = None
    principals: tuple[str, ...] | None = None
    secrets: tuple[str, ...] | None = None
    python: str | None = None


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of `policy`: what is answered at a point, wherever `match` fits.

    `where` and `path` are its place in the file, and `at` is the point's name as written. `queue` says something only
    where `then` is `escalate`; `editable`, `expires_in_seconds` and `on_timeout` only where it is `suspend`.
    """

    where: Position
    path: KeyPath
    name: str
    at: str
    match: Mapping[str, Pattern] = FrozenDict()
    then: Then
    reason: str
    queue: str = "default"
    editable: tuple[str, ...] = ()
    expires_in_seconds: float | None = None
    on_timeout: OnTimeout = "block"


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
    policy: tuple[RuleSpec, ...] = ()
    hooks: HooksSpec = HooksSpec()
    loop: LoopSpec = LoopSpec()
    positions: Mapping[KeyPath, Position] = FrozenDict()

    def where(self, *path: str | int) -> Position:
        """The place of the value at `path`, or of the nearest thing around it that the file has."""
        for length in range(len(path), -1, -1):
            if (found := self.positions.get(path[:length])) is not None:
                return found
        return Position(self.file)

    def reached(self, task: str) -> Mapping[str, TaskSpec]:
        """`task`, and each task that a run of it may spawn, however deep. Raises KeyError for one that is not there."""
        found = {task: self.tasks[task]}
        left = [task]
        while left:
            new = [name for name in self.tasks[left.pop()].subtasks if name not in found]
            found.update({name: self.tasks[name] for name in new})
            left += new
        return FrozenDict(found)

    def parts(self, task: str) -> Mapping[str, str]:
        """Digests of what a run of `task` rests on: `task` (and its subtasks), `models`, `tools`, `hooks` and `policy`.

        Only what the file says counts. Neither what stands where in it, nor what no such run comes to, changes a
        digest, nor a key that the file does not have. Raises KeyError for a task that is not there.
        """
        tasks = self.reached(task)
        tools = sorted({name for one in tasks.values() for name in one.tools})
        # The order of the points counts, since one point may stand there by several names.
        events = [[point, _said(hooks)] for point, hooks in self.hooks.events.items()]
        parts = {
            "task": _said(tasks),
            "models": {one.model: _said(self.models[one.model]) for one in tasks.values()},
            "tools": {name: _said(self.tools.get(name, ToolSpec())) for name in tools},
            "hooks": [_said(msgspec.structs.replace(self.hooks, events=FrozenDict())), events],
            "policy": _said(self.policy),
        }
        return FrozenDict({name: digest(value) for name, value in parts.items()})


_PLACES: Final = frozenset({"where", "path"})
"""Fields that say where something stands, and not what it says."""


def _said(value: object) -> object:
    """`value` without places, and without what says no more than silence: so new keys can come to be."""
    match value:
        case msgspec.Struct():
            fields = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
            return {
                field.name: _said(one) for field, one in fields if field.name not in _PLACES and one != field.default
            }
        case Mapping():
            return {name: _said(one) for name, one in cast("Mapping[str, object]", value).items()}
        case tuple():
            return [_said(one) for one in cast("tuple[object, ...]", value)]
        case _:
            return value
