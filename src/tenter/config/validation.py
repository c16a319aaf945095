"""Everything that can be found wrong with a configuration without running or importing anything it names (D§12)."""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tenter.config.loading import Draft, load_draft, user_file
from tenter.config.outline import hook_files, outline
from tenter.config.problem import ConfigError, KeyPath, Problem, Unresolved
from tenter.config.spec import Spec
from tenter.config.targets import find_target


def validate(
    path: Path | str, *, builtin_tools: Collection[str] = (), environment: Mapping[str, str] = os.environ
) -> tuple[Problem, ...]:
    """Every problem of the file at `path` and of the user's file, in the order of the files; none where all is well.

    Looks at the files that are named (programs, scripts of models, Python modules). Runs and imports none of them.
    """
    draft = load_draft(path, builtin_tools=builtin_tools)
    users = user_file(environment)
    user = Draft(None, ()) if users is None else load_draft(users, level="user")
    problems = [*user.problems, *draft.problems]
    spec = draft.spec if draft.spec is not None else Spec(file=str(path), digest="", version=1)
    problems += outline(hook_files(spec, user.spec), environment.get("PATH", "")).problems
    problems += [*_models(spec), *_tools(spec)]
    return ConfigError(problems).problems


def _models(spec: Spec) -> Iterator[Problem]:
    folder = Path(os.path.realpath(spec.file)).parent
    for name, model in spec.models.items():
        path = folder / model.file
        try:
            trouble = "" if stat.S_ISREG(path.stat().st_mode) else "it is not a regular file"
        except OSError as error:
            trouble = error.strerror or "it cannot be looked at"
        if trouble:
            message = f"the script {model.file!r} of the model {name!r} cannot be read: {trouble}"
            yield _problem(spec, ("models", name, "file"), Unresolved(message, "a path starts at this file"))


def _tools(spec: Spec) -> Iterator[Problem]:
    folder = Path(os.path.realpath(spec.file)).parent
    for name, tool in spec.tools.items():
        if tool.python is not None and isinstance(found := find_target(tool.python, folder), Unresolved):
            message = f"the target {tool.python!r}: {found.message}"
            yield _problem(spec, ("tools", name, "python"), Unresolved(message, found.hint))


def _problem(spec: Spec, path: KeyPath, what: Unresolved) -> Problem:
    return Problem(where=spec.where(*path), path=path, message=what.message, hint=what.hint)
