"""What a configuration hangs where, told without importing or running anything it names (D§12, promise 15).

`hooks list` and `hooks validate` show it, and `build` binds it. A hook's declaration here has a call that stands for
the real one; everything else is what will be in force.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from tenter.catalogue import CATALOGUE
from tenter.config.commands import resolve_program
from tenter.config.declared import (
    Declared,
    HookFile,
    declared_command,
    declared_function,
    declared_plugin,
    suspend_mode_fault,
)
from tenter.config.problem import KeyPath, Position, Problem, Unresolved, nearest
from tenter.config.rules import PlannedRule, rule_faults, rule_hook
from tenter.config.spec import HookDefaults, HookSpec, Spec
from tenter.controls import GATES
from tenter.kernel import Band, Declaration, FrozenDict, Point, RegistrationError, attach


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHook:
    """A hook of `hooks.events`, with all that can be known of it before it is bound."""

    file: HookFile
    spec: HookSpec
    point: Point
    argv: tuple[str, ...] | None
    """Its program, resolved, and the arguments."""
    declared: Declaration
    certain: bool
    """Whether the hook itself may say nothing else: a function may, where its text does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPlugin:
    """One of `hooks.plugins`."""

    file: HookFile
    target: str
    where: Position
    path: KeyPath
    declared: tuple[Declaration, ...]
    certain: bool
    """Whether that is all; not so where its text does not show what it declares."""


Planned = PlannedHook | PlannedPlugin | PlannedRule


@dataclass(frozen=True, slots=True)
class Outline:
    """The hooks and rules of all files in registration order, and everything that is wrong with them."""

    planned: tuple["Planned", ...]
    problems: tuple[Problem, ...]

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        return tuple(one for planned in self.planned for one in declarations_of(planned))


def declarations_of(planned: Planned) -> tuple[Declaration, ...]:
    return planned.declared if isinstance(planned, PlannedPlugin) else (planned.declared,)


def hook_files(spec: Spec | None, user: Spec | None) -> tuple[HookFile, ...]:
    """The files whose hooks or rules are in force, in registration order (D§5).

    Every look-up, import and start of a hook comes after this: for a project that is not trusted, `spec` is None, and
    nothing that it sets holds (D§3.14).
    """
    timeout = (HookDefaults() if spec is None else spec.hooks.defaults).timeout_seconds
    levels: tuple[tuple[Spec | None, Band], ...] = ((user, "baseline"), (spec, "app"))
    return tuple(
        _hook_file(one, band, timeout) for one, band in levels if one is not None and (one.hooks.enabled or one.policy)
    )


def _hook_file(spec: Spec, band: Band, timeout: float) -> HookFile:
    own = spec.hooks.defaults.timeout_seconds
    folder = Path(os.path.realpath(spec.file)).parent
    # What the project says of deadlines does not hold for the user's hooks.
    return HookFile(spec=spec, band=band, folder=folder, timeout=own if own != timeout else None)


def outline(files: Iterable[HookFile], search: str) -> Outline:
    """The hooks and rules of `files`. `search` is the $PATH on which programs are looked up."""
    outliner = _Outliner(search)
    planned = [one for file in files for one in outliner.read(file)]
    return Outline(tuple(planned), tuple(outliner.problems))


class _Outliner:
    def __init__(self, search: str) -> None:
        self.problems: list[Problem] = []
        self._search = search
        self._taken: dict[tuple[str, str], str] = {
            (CATALOGUE[gate.point].name, gate.name): "one of tenter's own checks" for gate in GATES
        }

    def read(self, file: HookFile) -> Iterator[Planned]:
        """What of the hooks of `file` can be planned, in registration order; the rest is among the problems."""
        hooks = file.hooks
        yield from self._rules(file)
        for index, target in enumerate(hooks.plugins):
            if (plugin := self._plugin(file, target, ("hooks", "plugins", index))) is not None:
                yield plugin
        for name, specs in hooks.events.items():
            point = self._point(file, name, ("hooks", "events", name))
            hooks_here = () if point is None else (self._hook(file, spec, point) for spec in specs)
            yield from (one for one in hooks_here if one is not None)

    def _rules(self, file: HookFile) -> Iterator[PlannedRule]:
        first: dict[str, Position] = {}
        for spec in file.spec.policy:
            point = self._point(file, spec.at, (*spec.path, "at"))
            faults = [] if point is None else list(rule_faults(spec, point))
            if (before := first.setdefault(spec.name, spec.where)) is not spec.where:
                message = f"the name {spec.name!r} is taken by the rule at line {before.line}"
                faults.append((("name",), Unresolved(message, "give it another name")))
            for key, fault in faults:
                path = (*spec.path, *key)
                self._report(file.spec.where(*path), path, fault.message, fault.hint)
            if point is not None and not faults and (declared := rule_hook(spec)) is not None:
                self._claim(declared, file, (*spec.path, "name"))
                yield PlannedRule(file=file, spec=spec, point=point, declared=declared)

    def _point(self, file: HookFile, name: str, path: KeyPath) -> Point | None:
        if name in CATALOGUE:
            return CATALOGUE[name]
        near = nearest(name, CATALOGUE.names)
        hint = f"did you mean {near!r}?" if near else "'tenter hooks list --all' prints all points"
        self._report(file.spec.where(*path), path, f"there is no point {name[:100]!r}", hint)
        return None

    def _plugin(self, file: HookFile, target: str, path: KeyPath) -> PlannedPlugin | None:
        where = file.spec.where(*path)
        found = declared_plugin(target, file)
        if isinstance(found, Unresolved):
            self._report(where, path, f"the plugin {target!r}: {found.message}", found.hint)
            return None
        for one in found.hooks:
            if (said := refusal(one)) is not None:
                self._report(where, path, said, "")
            else:
                self._claim(one, file, path)
        return PlannedPlugin(
            file=file, target=target, where=where, path=path, declared=found.hooks, certain=found.certain
        )

    def _hook(self, file: HookFile, spec: HookSpec, point: Point) -> PlannedHook | None:
        if spec.python is None:
            found: Declared | Unresolved = Declared((declared_command(spec, file, point),), certain=True)
        else:
            found = declared_function(spec, spec.python, file, point)
        if isinstance(found, Unresolved):
            path = (*spec.path, "python")
            self._report(file.spec.where(*path), path, f"the target {spec.python!r}: {found.message}", found.hint)
            return None
        (declared,) = found.hooks
        self._check(declared, file, spec)
        if (fault := suspend_mode_fault(spec, point)) is not None:
            path = (*spec.path, "suspend_mode")
            self._report(file.spec.where(*path), path, fault.message, fault.hint)
        self._claim(declared, file, (*spec.path, "name"))
        argv = self._argv(file, spec)
        return PlannedHook(file=file, spec=spec, point=point, argv=argv, declared=declared, certain=found.certain)

    def _check(self, declared: Declaration, file: HookFile, spec: HookSpec) -> None:
        """Holds each setting against the point by itself, so that all that is wrong is told, each at its own place."""
        bare = replace(declared, on_error=None, match=FrozenDict(), source="")
        trials: list[tuple[KeyPath, Declaration]] = [((), bare)]
        if declared.on_error is not None:
            trials.append((("on_error",), replace(bare, on_error=declared.on_error)))
        trials += [(("match", *word), replace(bare, match=part)) for word, part in _parts(declared.match)]
        for key, trial in trials:
            if (said := refusal(trial)) is not None:
                path = (*spec.path, *key)
                self._report(file.spec.where(*path), path, said, "")

    def _claim(self, declared: Declaration, file: HookFile, path: KeyPath) -> None:
        point, where = CATALOGUE[declared.point], file.spec.where(*path)
        place = (point.name, declared.name)
        if (first := self._taken.get(place)) is not None:
            message = f"the name {declared.name!r} is taken at {point.label!r}, by {first}"
            self._report(where, path, message, "give it another name")
        self._taken.setdefault(place, str(where))

    def _argv(self, file: HookFile, spec: HookSpec) -> tuple[str, ...] | None:
        if spec.command is None:
            return None
        program = resolve_program(spec.command[0], folder=file.folder, search=self._search)
        if isinstance(program, Unresolved):
            path = (*spec.path, "command", 0)
            self._report(file.spec.where(*path), path, program.message, program.hint)
            return None
        return (program, *spec.command[1:])

    def _report(self, where: Position, path: KeyPath, message: str, hint: str) -> None:
        self.problems.append(Problem(where=where, path=path, message=message, hint=hint))


def _parts(match: object) -> Iterator[tuple[KeyPath, Mapping[str, object]]]:
    """The questions of a match, each by itself; the whole where a function says something else than a mapping."""
    if isinstance(match, Mapping):
        questions = cast("Mapping[str, object]", match)
        yield from (((word,), {word: pattern}) for word, pattern in questions.items())
    else:
        yield (), cast("Mapping[str, object]", match)


def refusal(declared: Declaration) -> str | None:
    """Why its point cannot take this hook, in the kernel's words; None where it can."""
    try:
        attach(declared, CATALOGUE)
    except RegistrationError as error:
        return str(error)
    return None
