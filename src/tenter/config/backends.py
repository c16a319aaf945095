"""The programs of a file's backends, looked up once, when a loop is started (issue "The loop").

Looks at the file system as hooks' commands do, and runs nothing.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tenter.config.commands import resolve_program
from tenter.config.loop_spec import BackendSpec, CommandBackendSpec
from tenter.config.problem import ConfigError, KeyPath, Problem, Unresolved
from tenter.config.spec import Spec
from tenter.kernel import FrozenDict


def resolve_backends(spec: Spec, search: str) -> Mapping[str | None, tuple[str, ...]]:
    """The arguments of each `command` backend, its program resolved, by the hat that has it; None is the loop itself.

    A program with a slash is seen from the folder of the file, another is found on `search` ($PATH). Raises ConfigError
    with every program that cannot be run, at its place in the file.
    """
    argv: dict[str | None, tuple[str, ...]] = {}
    problems: list[Problem] = []
    folder = Path(os.path.realpath(spec.file)).parent
    for hat, path, backend in _commands(spec):
        program = resolve_program(backend.command[0], folder=folder, search=search)
        if isinstance(program, Unresolved):
            where = (*path, "command", 0)
            problems.append(Problem(where=spec.where(*where), path=where, message=program.message, hint=program.hint))
        else:
            argv[hat] = (program, *backend.command[1:])
    if problems:
        raise ConfigError(problems)
    return FrozenDict(argv)


def _commands(spec: Spec) -> Iterator[tuple[str | None, KeyPath, CommandBackendSpec]]:
    hats = ((name, ("loop", "hats", name, "backend"), hat.backend) for name, hat in spec.loop.hats.items())
    every: list[tuple[str | None, KeyPath, BackendSpec | None]] = [
        (None, ("loop", "backend"), spec.loop.backend),
        *hats,
    ]
    for hat, path, backend in every:
        if isinstance(backend, CommandBackendSpec):
            yield hat, path, backend
