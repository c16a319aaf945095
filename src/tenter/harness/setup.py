"""From a configuration file to the parts of a harness (D§12): everything is checked and built here, once."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenter.catalogue import CATALOGUE, ToolInfo
from tenter.config import (
    ConfigError,
    ModelSpec,
    Pins,
    Position,
    Problem,
    Spec,
    TaskSpec,
    build_hooks,
    gate_rules,
    load,
    load_user,
    nearest,
)
from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS, Prices, Rule, gates
from tenter.executors import Pause, Surroundings, sleep_through
from tenter.harness.definition import Tool
from tenter.harness.desk import HarnessDesk, Offer
from tenter.harness.model import Model, make_model
from tenter.harness.sandbox import Machine, this_machine
from tenter.harness.shell import inherited_environment
from tenter.harness.sink import JournalSink
from tenter.harness.toolbox import Toolbox
from tenter.harness.tools import BUILTIN_TOOLS
from tenter.harness.workspace import Workspace
from tenter.journal import JOURNAL_PLACE, KEY_VARIABLE, SqliteStore, Store, Stream, journal_key
from tenter.kernel import (
    SYSTEM_CLOCK,
    SYSTEM_RANDOM,
    Clock,
    Declaration,
    FrozenDict,
    Random,
    Redactor,
    RegistrationError,
    Runtime,
    TenterError,
)
from tenter.wire import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a caller hands over in place of the machine's own; None: that one."""

    workspace: str | Path | None = None
    store: Store | None = None
    clock: Clock | None = None
    random: Random | None = None
    pause: Pause | None = None
    """How retries wait, of hooks and of a run's operations."""
    pins: Pins | None = None
    """What the project was when it was found trusted: it must be that still, and nothing else of it runs (D§3.14)."""
    machine: Machine | None = None
    """What there is for the sandboxes of tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetup:
    """One task with what it works with."""

    spec: TaskSpec
    model: Model
    tools: Mapping[str, Tool]
    infos: Mapping[str, ToolInfo]
    """The same tools as hooks see them."""
    prices: Prices | None = None
    """Of the model, where the file says them."""
    secrets: Mapping[str, Mapping[str, str]] = field(default=FrozenDict(), repr=False)
    """By tool: the values of the secrets that it alone is given, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parts of one harness."""

    spec: Spec
    workspace: Workspace
    runtime: Runtime
    redactor: Redactor
    store: Store
    sink: JournalSink
    clock: Clock
    random: Random
    pause: Pause
    """How retries wait."""
    desk: HarnessDesk
    user_digest: str
    """Of the user's file; empty where there is none."""
    callers_hooks: tuple[str, ...]
    """The hooks that the caller added, in no file: each a line of point, name and place."""
    tool_environment: Mapping[str, str]
    tasks: Mapping[str, TaskSetup]

    def task(self, name: str) -> TaskSetup:
        """Raises TenterError for a task that the file does not have."""
        if name in self.tasks:
            return self.tasks[name]
        near = nearest(name, self.tasks)
        known = ", ".join(map(repr, self.tasks)) or "none"
        hint = f"; did you mean {near!r}?" if near else f"; it has {known}"
        raise TenterError(self.redactor.mask_fuzzy(f"{self.spec.file} has no task {name[:100]!r}{hint}"))


def set_up(path: Path, hooks: tuple[object, ...], given: Given) -> Setup:
    """Builds all that the file describes. Raises ConfigError, RegistrationError, and TenterError for unmet pins."""
    spec, user = load(path, builtin_tools=BUILTIN_TOOLS), load_user()
    if given.pins is not None:
        given.pins.check(spec)
        given.pins.guard_imports()
    folder = Path(os.path.realpath(path)).parent
    clock, random = given.clock or SYSTEM_CLOCK, given.random or SYSTEM_RANDOM
    store = given.store if given.store is not None else journal_at(folder, clock)
    sink = JournalSink(store, Stream("process", f"{random.getrandbits(64):016x}"))
    surroundings = Surroundings(
        workspace=str(Workspace.at(folder if given.workspace is None else given.workspace).root),
        project_dir=str(folder),
        environment=dict(os.environ),
        sink=sink,
        redactor=redactor_for(spec, user, os.environ),
        clock=clock,
        random=random,
        pause=given.pause or sleep_through,
    )
    configured = build_hooks(spec, surroundings, user=user, pins=given.pins)
    toolbox = _toolbox(spec, user, surroundings, given)
    tasks = _tasks(toolbox)
    if given.pins is not None:
        given.pins.check(spec)  # what was read meanwhile is what was looked at
    desk = HarnessDesk({name: Offer(task.infos, task.prices) for name, task in tasks.items()}, clock.now)
    runtime = _runtime(spec, (*configured, *hooks), desk, surroundings)
    _refuse_secret_names(runtime, tasks, gate_rules(spec), surroundings.redactor)
    return Setup(
        spec=spec,
        workspace=Workspace.at(surroundings.workspace),
        runtime=runtime,
        redactor=surroundings.redactor,
        store=store,
        sink=sink,
        clock=clock,
        random=random,
        pause=surroundings.pause,
        desk=desk,
        user_digest="" if user is None else user.digest,
        callers_hooks=_beside(runtime, configured),
        tool_environment=_without(toolbox.told, inherited_environment(os.environ)),
        tasks=tasks,
    )


def _toolbox(spec: Spec, user: Spec | None, surroundings: Surroundings, given: Given) -> Toolbox:
    """Makes the tools of the file, in what there is for their sandboxes."""
    return Toolbox(
        spec=spec,
        project=surroundings.project_dir,
        machine=given.machine or this_machine(),
        redactor=surroundings.redactor,
        told=told_secrets(spec, user, os.environ),
        pins=given.pins,
    )


def _runtime(spec: Spec, hooks: Iterable[object], desk: HarnessDesk, surroundings: Surroundings) -> Runtime:
    """The hooks as they run, the governor's checks among them."""
    return Runtime(
        CATALOGUE,
        hooks,
        gates=gates(desk, gate_rules(spec)),
        redactor=surroundings.redactor,
        clock=surroundings.clock,
        digest=digest,
        timeout=spec.hooks.defaults.timeout_seconds,
    )


def _beside(runtime: Runtime, configured: Sequence[Declaration]) -> tuple[str, ...]:
    """The hooks of a runtime that no file has, without the gate's."""
    known = {(CATALOGUE[hook.point].name, hook.name) for hook in configured}
    return tuple(
        f"{link.point.name} {link.hook.name} ({link.hook.band} {link.hook.priority})"
        for link in runtime.links()
        if link.hook.band != "gate" and (link.point.name, link.hook.name) not in known
    )


def journal_at(folder: Path, clock: Clock) -> SqliteStore:
    """The journal of the project in `folder`, under the key of the environment. Raises TenterError for a poor key."""
    return SqliteStore(folder / JOURNAL_PLACE, clock.now, journal_key(os.environ))


def _refuse_secret_names(
    runtime: Runtime, tasks: Mapping[str, TaskSetup], rules: Iterable[Rule], redactor: Redactor
) -> None:
    """Raises RegistrationError for a name that holds a told secret: names stand on record and in listings unmasked."""
    names = [
        *((f"a hook at {link.point.label}", link.name, link.hook.source) for link in runtime.links()),
        *(("a task", name, "") for name in tasks),
        *(("a tool", tool, "") for task in tasks.values() for tool in task.tools),
        *(("a rule", rule.name, "") for rule in rules),
    ]
    for what, name, source in names:
        if redactor.mask_text(name) != name:
            place = f" ({redactor.mask_fuzzy(source)})" if source else ""
            raise RegistrationError(f"the name of {what}{place} holds a secret, which it would give away; change it")


def redactor_for(spec: Spec, user: Spec | None, environment: Mapping[str, str]) -> Redactor:
    """Knows the values of the environment variables that the files name as secrets, the key of the journal, and the
    published keys.

    Raises ConfigError for a value that cannot be looked for: masking it would be promised and not done.
    """
    named = [
        (name, one.where("secrets", index)) for one in (spec, user) if one for index, name in enumerate(one.secrets)
    ]
    if environment.get(KEY_VARIABLE):
        named.append((KEY_VARIABLE, Position(spec.file)))
    told = [(name, where, environment[name]) for name, where in named if environment.get(name)]
    redactor = Redactor(secrets=[value for _, _, value in told], patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)
    if redactor.ignored:
        raise ConfigError(
            Problem(
                where=told[place][1],
                path=("secrets",),
                message=f"the value of the variable {told[place][0]!r} cannot be masked: it is blank, shorter than 4 "
                "characters, or a part of the mask",
                hint="give it another value, or take it out of 'secrets'",
            )
            for place in redactor.ignored
        )
    return redactor


def told_secrets(spec: Spec, user: Spec | None, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The values of the environment variables that the files name as secrets, by name, where they are set."""
    names = (name for one in (user, spec) if one for name in one.secrets)
    return FrozenDict({name: environment[name] for name in names if environment.get(name)})


def _without(secrets: Mapping[str, str], environment: Mapping[str, str]) -> Mapping[str, str]:
    """A secret may be called like something that every tool inherits; those that it is named for are given it."""
    return FrozenDict({name: value for name, value in environment.items() if name not in secrets})


def _tasks(toolbox: Toolbox) -> Mapping[str, TaskSetup]:
    spec = toolbox.spec
    models = {name: make_model(model, Path(toolbox.project)) for name, model in spec.models.items()}
    tools = toolbox.tools()
    return FrozenDict(
        {
            name: TaskSetup(
                spec=task,
                model=models[task.model],
                tools=FrozenDict({tool: tools[tool] for tool in task.tools}),
                infos=FrozenDict({tool: tools[tool].info for tool in task.tools}),
                prices=_prices(spec.models[task.model]),
                secrets=FrozenDict({tool: toolbox.secrets(tools[tool]) for tool in task.tools}),
            )
            for name, task in spec.tasks.items()
        }
    )


def _prices(model: ModelSpec) -> Prices | None:
    return None if model.prices is None else Prices(input=model.prices.input, output=model.prices.output)
