"""From checked files to hooks that can be called (D§12): the one place where what a configuration names is imported.

Runs no hook. Whatever is wrong is told at its place in the file, all at once.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from tenter.catalogue import CATALOGUE
from tenter.config.declared import deadline, source_at, suspend_mode_of, timed
from tenter.config.outline import PlannedHook, PlannedPlugin, hook_files, outline, refusal
from tenter.config.pins import Pins
from tenter.config.problem import ConfigError, KeyPath, Position, Problem
from tenter.config.rules import PlannedRule
from tenter.config.spec import Spec
from tenter.kernel import Declaration, FrozenDict, RegistrationError

if TYPE_CHECKING:
    from tenter.executors import CommandHook, FunctionHook, PinnedFile, Surroundings


def build_hooks(
    spec: Spec, surroundings: "Surroundings", *, user: Spec | None = None, pins: Pins | None = None
) -> list[Declaration]:
    """The hooks of the user's file, of the project's rules, plugins and events (D§5), in this order, to be called.

    Rules that the gate judges are not among them. Imports Python targets; starts nothing. `pins` hold the project's
    commands to the files that were looked at. The runtime's deadline must be the project's default. Raises ConfigError
    with every problem.
    """
    planned = outline(hook_files(spec, user), surroundings.environment.get("PATH", ""))
    if planned.problems:
        raise ConfigError(planned.problems)
    problems: list[Problem] = []
    hooks: list[Declaration] = []
    for one in planned.planned:
        if isinstance(one, PlannedRule):
            hooks.append(one.declared)
            continue
        try:
            bound = _bound(one, surroundings, pins if one.file.spec is spec else None)
        except RegistrationError as error:
            problems.append(_problem(one, str(error)))
            continue
        problems += [_problem(one, said) for hook in bound if (said := refusal(hook)) is not None]
        hooks += bound
    if problems:
        raise ConfigError(problems)
    return hooks


def _bound(
    planned: PlannedHook | PlannedPlugin, surroundings: "Surroundings", pins: Pins | None
) -> tuple[Declaration, ...]:
    # Here, since executors of processes load an event loop, which the verbs that only look do without.
    from tenter.executors import KINDS, plugin_hooks

    file = planned.file
    at_file = replace(surroundings, project_dir=str(file.folder))
    if isinstance(planned, PlannedPlugin):
        found = plugin_hooks(planned.target, at_file, catalogue=CATALOGUE, band=file.band)
        return tuple(timed(one, file) for one in found)
    kind = KINDS[planned.spec.kind]
    if planned.spec.kind == "python":
        function = kind.declare(_function(planned), at_file)
        return (replace(timed(function, file), source=source_at(planned.spec.where)),)
    pinned = () if pins is None else pins.of_hook(planned.spec, surroundings.workspace)
    return (kind.declare(_command(planned, pinned), surroundings),)


def _command(planned: PlannedHook, pinned: "tuple[PinnedFile, ...]") -> "CommandHook":
    from tenter.executors import CommandHook

    hook, declared, defaults = planned.spec, planned.declared, planned.file.spec.hooks.defaults
    kept = hook.max_output_bytes
    if kept is None and hook.verdict is None:
        kept = defaults.max_output_bytes
    return CommandHook(
        name=hook.name,
        point=planned.point,
        argv=planned.argv,
        script=hook.script,
        cwd=hook.cwd,
        env=hook.env,
        pass_env=hook.pass_env,
        timeout_seconds=deadline(hook, planned.file),
        grace_seconds=hook.grace_seconds,
        max_output_bytes=kept,
        verdict=hook.verdict == "json",
        mutate=hook.mutate.enabled,
        suspend_mode=suspend_mode_of(hook, planned.file, planned.point),
        pinned=pinned,
        on_error=hook.on_error,
        observe=declared.observe,
        match=FrozenDict(declared.match),
        mode=declared.mode,
        priority=declared.priority,
        band=declared.band,
        source=declared.source,
    )


def _function(planned: PlannedHook) -> "FunctionHook":
    from tenter.executors import FunctionHook

    hook = planned.spec
    assert hook.python is not None, "the kind is python"
    return FunctionHook(
        name=hook.name,
        point=planned.point,
        target=hook.python,
        catalogue=CATALOGUE,
        timeout_seconds=hook.timeout_seconds,
        on_error=hook.on_error,
        observe=hook.observe,
        match=hook.match,
        mode=hook.mode,
        priority=hook.priority,
        band=planned.file.band,
    )


def _problem(planned: PlannedHook | PlannedPlugin, message: str) -> Problem:
    where: Position = planned.where if isinstance(planned, PlannedPlugin) else planned.spec.where
    path: KeyPath = planned.path if isinstance(planned, PlannedPlugin) else planned.spec.path
    return Problem(where=where, path=path, message=message)
