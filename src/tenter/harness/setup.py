"""From a configuration file to the parts of a harness (D§12): everything is checked and built here, once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tenter.catalogue import CATALOGUE
from tenter.config import Spec, TaskSpec, ToolSpec, build_hooks, load, load_user, nearest
from tenter.controls import FUZZY_PAIRS, GATES, PUBLISHED_KEYS
from tenter.executors import Surroundings, load_target
from tenter.harness.definition import Tool, tool
from tenter.harness.model import Model, make_model
from tenter.harness.shell import inherited_environment
from tenter.harness.sink import JournalSink
from tenter.harness.tools import BUILTIN_TOOLS, builtin_tool
from tenter.harness.workspace import Workspace
from tenter.journal import SqliteStore, Store, Stream
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

JOURNAL = Path(".tenter", "journal.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parts of one harness."""

    spec: Spec
    digest: str
    """Of the configuration as it was read (D§11)."""
    workspace: Workspace
    runtime: Runtime
    redactor: Redactor
    store: Store
    sink: JournalSink
    clock: Clock
    random: Random
    tool_environment: Mapping[str, str]
    models: Mapping[str, Model]
    toolbox: Mapping[str, Tool]

    def task(self, name: str) -> TaskSpec:
        """Raises TenterError for a task that the file does not have."""
        if name in self.spec.tasks:
            return self.spec.tasks[name]
        near = nearest(name, self.spec.tasks)
        known = ", ".join(map(repr, self.spec.tasks)) or "none"
        hint = f"; did you mean {near!r}?" if near else f"; it has {known}"
        raise TenterError(f"{self.spec.file} has no task {name!r}{hint}")

    def model(self, task: str) -> Model:
        return self.models[self.task(task).model]

    def tools(self, task: str) -> Mapping[str, Tool]:
        """The tools that the task offers, by name."""
        return {name: self.toolbox[name] for name in self.task(task).tools}


def set_up(
    path: Path,
    hooks: tuple[object, ...],
    *,
    workspace: str | Path | None,
    store: Store | None,
    clock: Clock | None,
    random: Random | None,
) -> Setup:
    """Builds everything that the file describes; `hooks` are the caller's. Raises ConfigError and RegistrationError."""
    spec, user = load(path, builtin_tools=BUILTIN_TOOLS), load_user()
    folder = path.resolve().parent
    work = Workspace.at(folder if workspace is None else workspace)
    clock, random = clock or SYSTEM_CLOCK, random or SYSTEM_RANDOM
    redactor = redactor_for(spec, user, os.environ)
    journal = store if store is not None else SqliteStore(folder / JOURNAL, clock.now)
    sink = JournalSink(journal, Stream("process", f"{random.getrandbits(64):016x}"))
    surroundings = Surroundings(
        workspace=str(work.root),
        project_dir=str(folder),
        environment=dict(os.environ),
        sink=sink,
        redactor=redactor,
        clock=clock,
        random=random,
    )
    runtime = Runtime(
        CATALOGUE,
        [*build_hooks(spec, surroundings, user=user), *hooks],
        gates=GATES,
        redactor=redactor,
        clock=clock,
        digest=digest,
        timeout=spec.hooks.defaults.timeout_seconds,
    )
    return Setup(
        spec=spec,
        digest=spec.digest,
        workspace=work,
        runtime=runtime,
        redactor=redactor,
        store=journal,
        sink=sink,
        clock=clock,
        random=random,
        tool_environment=FrozenDict(inherited_environment(os.environ)),
        models={name: make_model(model, folder) for name, model in spec.models.items()},
        toolbox={name: _tool(name, spec.tools.get(name), folder, redactor) for name in _tool_names(spec)},
    )


def redactor_for(spec: Spec, user: Spec | None, environment: Mapping[str, str]) -> Redactor:
    """Knows the values of the environment variables that the files name as secrets, and the published keys."""
    names = {*spec.secrets, *(user.secrets if user is not None else ())}
    values = [environment[name] for name in sorted(names) if environment.get(name)]
    return Redactor(secrets=values, patterns=PUBLISHED_KEYS, fuzzy=FUZZY_PAIRS)


def _tool_names(spec: Spec) -> list[str]:
    return sorted({name for task in spec.tasks.values() for name in task.tools})


def _tool(name: str, settings: ToolSpec | None, folder: Path, redactor: Redactor) -> Tool:
    """The built-in tool or the user's own, with the settings of the file."""
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
