"""What a loop does when a hook suspends it, for every hook at a point of a loop (seed 001).

A command that tries again in place does so by itself; the loop is told, since it waits for a person after that.
"""

from collections.abc import Iterator, Mapping

from tenter.catalogue import CATALOGUE, LOOP_OPERATIONS
from tenter.config.declared import Declared, HookFile, declared_plugin, default_mode, suspend_mode_of
from tenter.config.outline import hook_files
from tenter.config.spec import Spec
from tenter.executors import SuspendMode
from tenter.kernel import FrozenDict

Place = tuple[str, str]
"""A hook, by the full name of its point and its own name there."""


def suspend_modes(spec: Spec, user: Spec | None = None) -> Mapping[Place, SuspendMode]:
    """The modes that a hook names, and those that are not `wait_for_resume`; all other hooks have that.

    Imports and runs nothing. A plugin whose text does not show what it declares has no hook here.
    """
    return FrozenDict({place: mode for file in hook_files(spec, user) for place, mode in _of_file(file)})


def _of_file(file: HookFile) -> Iterator[tuple[Place, SuspendMode]]:
    points = [(CATALOGUE[name], hooks) for name, hooks in file.hooks.events.items() if name in CATALOGUE]
    for point, hook in ((point, hook) for point, hooks in points for hook in hooks):
        mode = suspend_mode_of(hook, file, point)
        if hook.suspend_mode is not None or mode != "wait_for_resume":
            yield (point.name, hook.name), mode
    mode = default_mode(file, process=False)
    for target in file.hooks.plugins if mode != "wait_for_resume" else ():
        for place in _of_plugin(target, file):
            yield place, mode


def _of_plugin(target: str, file: HookFile) -> Iterator[Place]:
    found = declared_plugin(target, file)
    for declared in found.hooks if isinstance(found, Declared) else ():
        point = CATALOGUE.get(declared.point)
        if point is not None and point.operation in LOOP_OPERATIONS:
            yield point.name, declared.name
