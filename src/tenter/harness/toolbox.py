"""The tools that a configuration names, as a harness calls them: with their settings, each in its sandbox (D§12)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenter.config import ConfigError, Pins, Problem, Spec
from tenter.executors import load_target
from tenter.harness.definition import Tool, tool
from tenter.harness.sandbox import Machine, Origin, confined, loaded_digests
from tenter.harness.tools import builtin_target, builtin_tool
from tenter.kernel import FrozenDict, Redactor, RegistrationError, TenterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """What tools are made with."""

    spec: Spec
    project: str
    """The real path of the file's folder."""
    machine: Machine
    redactor: Redactor
    told: Mapping[str, str] = field(default=FrozenDict(), repr=False)
    """The values of all secrets that are told, by name."""
    pins: Pins | None = None

    def tools(self) -> Mapping[str, Tool]:
        """All that tasks name. Raises ConfigError with every one that cannot be taken on."""
        tools: dict[str, Tool] = {}
        problems: list[Problem] = []
        for name in sorted({name for task in self.spec.tasks.values() for name in task.tools}):
            try:
                tools[name] = self._tool(name)
            except TenterError as error:
                path = ("tools", name)
                message = self.redactor.mask_fuzzy(str(error))
                problems.append(Problem(where=self.spec.where(*path), path=path, message=message))
        if problems:
            raise ConfigError(problems)
        return FrozenDict(tools)

    def secrets(self, tool: Tool) -> Mapping[str, str]:
        """The values that `tool` is given, by name; one that the environment does not hold is not among them."""
        return FrozenDict({name: self.told[name] for name in tool.secrets if name in self.told})

    def _tool(self, name: str) -> Tool:
        """The built-in tool or the user's own, with the settings of the file, in its sandbox."""
        settings = self.spec.tools.get(name)
        if settings is None:
            return builtin_tool(name)
        made = builtin_tool(name) if settings.python is None else self._own(name, settings.python)
        made = made.configured(
            name=name,
            timeout_seconds=settings.timeout_seconds,
            idempotent=settings.idempotent,
            risk=settings.risk,
            sandbox=settings.sandbox,
            principals=settings.principals,
            secrets=settings.secrets,
        )
        return confined(made, self._origin(made, settings.python), self.machine)

    def _own(self, name: str, target: str) -> Tool:
        found = load_target(target, self.project, redactor=self.redactor)
        if not isinstance(found, Tool) and not callable(found):
            raise RegistrationError(f"the tool {name!r} names {target!r}, which is no function")
        return found if isinstance(found, Tool) else tool(found)

    def _origin(self, made: Tool, target: str | None) -> Origin | None:
        """From where another process gets it; None where it stays in this one."""
        if made.sandbox == "none":
            return None
        if target is None:
            # Our own code, which shows parts of files: it masks all secrets, in whose company no foreign code is.
            masked = tuple(self.told.values())
            return Origin(target=builtin_target(made.name), project=self.project, masked=masked)
        digests = loaded_digests(self.project) if self.pins is None else self.pins.files
        masked = tuple(self.secrets(made).values())
        return Origin(target=target, project=self.project, digests=digests, masked=masked)
