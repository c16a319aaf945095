"""From a configuration file to the parts of a harness (D§12): everything is checked and built here, once."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tenter.catalogue import CATALOGUE, ToolCallEvent, ToolInfo
from tenter.config import ConfigError, Pins, Problem, Spec, TaskSpec, build_hooks, load, load_user, nearest
from tenter.controls import FUZZY_PAIRS, PUBLISHED_KEYS, gates
from tenter.executors import Surroundings, load_target, sleep_through
from tenter.harness.definition import Tool, tool
from tenter.harness.model import Model, make_model
from tenter.harness.shell import inherited_environment
from tenter.harness.sink import JournalSink
from tenter.harness.tools import BUILTIN_TOOLS, builtin_tool
from tenter.harness.workspace import Workspace
from tenter.journal import JOURNAL_PLACE, SqliteStore, Store, Stream
from tenter.kernel import (
    SYSTEM_CLOCK,
    SYSTEM_RANDOM,
    Clock,
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
    pause: Callable[[float], Awaitable[bool]] | None = None
    """How a hook's retry waits its seconds; False: nobody is to try again."""
    pins: Pins | None = None
    """What the project was when it was found trusted: it must be that still, and nothing else of it runs (D§3.14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetup:
    """One task with what it works with."""

    spec: TaskSpec
    model: Model
    tools: Mapping[str, Tool]
    infos: Mapping[str, ToolInfo]
    """The same tools as hooks see them."""


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
    """Builds everything that the file describes; `hooks` are the caller's.

    Raises ConfigError and RegistrationError, and TenterError for a project that is not what the pins hold it to.
    """
    spec, user = load(path, builtin_tools=BUILTIN_TOOLS), load_user()
    if given.pins is not None:
        given.pins.check(spec)
        given.pins.guard_imports()
    folder = Path(os.path.realpath(path)).parent
    clock, random = given.clock or SYSTEM_CLOCK, given.random or SYSTEM_RANDOM
    redactor = redactor_for(spec, user, os.environ)
    store = given.store if given.store is not None else SqliteStore(folder / JOURNAL_PLACE, clock.now)
    surroundings = Surroundings(
        workspace=str(Workspace.at(folder if given.workspace is None else given.workspace).root),
        project_dir=str(folder),
        environment=dict(os.environ),
        sink=(sink := JournalSink(store, Stream("process", f"{random.getrandbits(64):016x}"))),
        redactor=redactor,
        clock=clock,
        random=random,
        pause=given.pause or sleep_through,
    )
    configured = build_hooks(spec, surroundings, user=user, pins=given.pins)
    tasks = _tasks(spec, folder, redactor)
    if given.pins is not None:
        given.pins.check(spec)  # what was read meanwhile is what was looked at
    runtime = Runtime(
        CATALOGUE,
        [*configured, *hooks],
        gates=gates(lambda event: _offered(event, tasks)),
        redactor=redactor,
        clock=clock,
        digest=digest,
        timeout=spec.hooks.defaults.timeout_seconds,
    )
    _refuse_secret_names(runtime, tasks, redactor)
    return Setup(
        spec=spec,
        workspace=Workspace.at(surroundings.workspace),
        runtime=runtime,
        redactor=redactor,
        store=store,
        sink=sink,
        clock=clock,
        random=random,
        tool_environment=FrozenDict(inherited_environment(os.environ)),
        tasks=tasks,
    )


def _refuse_secret_names(runtime: Runtime, tasks: Mapping[str, TaskSetup], redactor: Redactor) -> None:
    """Raises RegistrationError for a name that holds a told secret: names stand on record and in listings unmasked."""
    names = [
        *((f"a hook at {link.point.label}", link.name, link.hook.source) for link in runtime.links()),
        *(("a task", name, "") for name in tasks),
        *(("a tool", tool, "") for task in tasks.values() for tool in task.tools),
    ]
    for what, name, source in names:
        if redactor.mask_text(name) != name:
            place = f" ({redactor.mask_fuzzy(source)})" if source else ""
            raise RegistrationError(f"the name of {what}{place} holds a secret, which it would give away; change it")


def redactor_for(spec: Spec, user: Spec | None, environment: Mapping[str, str]) -> Redactor:
    """Knows the values of the environment variables that the files name as secrets, and the published keys.

    Raises ConfigError for a value that cannot be looked for: masking it would be promised and not done.
    """
    named = [
        (name, one.where("secrets", index)) for one in (spec, user) if one for index, name in enumerate(one.secrets)
    ]
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


def _tasks(spec: Spec, folder: Path, redactor: Redactor) -> Mapping[str, TaskSetup]:
    models = {name: make_model(model, folder) for name, model in spec.models.items()}
    tools = _tools(spec, folder, redactor)
    return FrozenDict(
        {
            name: TaskSetup(
                spec=task,
                model=models[task.model],
                tools=FrozenDict({tool: tools[tool] for tool in task.tools}),
                infos=FrozenDict({tool: tools[tool].info for tool in task.tools}),
            )
            for name, task in spec.tasks.items()
        }
    )


def _tools(spec: Spec, folder: Path, redactor: Redactor) -> Mapping[str, Tool]:
    """All that tasks name. Raises ConfigError with every one that cannot be taken on."""
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for name in sorted({name for task in spec.tasks.values() for name in task.tools}):
        try:
            tools[name] = _tool(name, spec, folder, redactor)
        except TenterError as error:
            path = ("tools", name)
            problems.append(Problem(where=spec.where(*path), path=path, message=redactor.mask_fuzzy(str(error))))
    if problems:
        raise ConfigError(problems)
    return tools


def _tool(name: str, spec: Spec, folder: Path, redactor: Redactor) -> Tool:
    """The built-in tool or the user's own, with the settings of the file."""
    settings = spec.tools.get(name)
    if settings is None:
        return builtin_tool(name)
    if settings.python is None:
        made = builtin_tool(name)
    else:
        found = load_target(settings.python, str(folder), redactor=redactor)
        if not isinstance(found, Tool) and not callable(found):
            raise RegistrationError(f"the tool {name!r} names {settings.python!r}, which is no function")
        made = found if isinstance(found, Tool) else tool(found)
    return made.configured(name=name, timeout_seconds=settings.timeout_seconds, idempotent=settings.idempotent)


def _offered(event: ToolCallEvent, tasks: Mapping[str, TaskSetup]) -> Mapping[str, ToolInfo]:
    found = tasks.get(event.envelope.task.name)
    return FrozenDict() if found is None else found.infos
