"""Everything that can be found wrong with a configuration without running or importing anything it names (D§12)."""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from tenter.config.backends import resolve_backends
from tenter.config.declared import HookFile
from tenter.config.loading import Draft, load_draft, user_file
from tenter.config.outline import hook_files, outline
from tenter.config.problem import ConfigError, KeyPath, Problem, Unresolved
from tenter.config.spec import Spec
from tenter.config.targets import find_target


def validate(
    path: Path | str,
    *,
    builtin_tools: Collection[str] = (),
    check_script: Callable[[Path], object] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Problem, ...]:
    """Every problem of the file at `path` and of the user's file, in the order of the files; none where all is well.

    Looks at the files that are named (programs, scripts of models, Python modules). Runs and imports none of them.
    `check_script` reads the script of a model and raises ConfigError with what is wrong in it. Folders that hooks run
    in are looked for in the folder of the file at `path`, where no other is the workspace.
    """
    draft = load_draft(path, builtin_tools=builtin_tools)
    users = user_file(environment)
    user = Draft(None, ()) if users is None else load_draft(users, level="user")
    problems = [*user.problems, *draft.problems]
    spec = draft.spec if draft.spec is not None else Spec(file=str(path), digest="", version=1)
    files = hook_files(spec, user.spec)
    search = environment.get("PATH", "")
    problems += [*outline(files, search).problems, *_backends(spec, search)]
    problems += [*_models(spec, check_script), *_tools(spec), *_folders(files, Path(os.path.realpath(path)).parent)]
    return ConfigError(problems).problems


def _models(spec: Spec, check_script: Callable[[Path], object] | None) -> Iterator[Problem]:
    folder = Path(os.path.realpath(spec.file)).parent
    checked: set[Path] = set()
    for name, model in spec.models.items():
        path = folder / model.file
        try:
            trouble = "" if stat.S_ISREG(path.stat().st_mode) else "it is not a regular file"
        except OSError as error:
            trouble = error.strerror or "it cannot be looked at"
        if trouble:
            message = f"the script {model.file!r} of the model {name!r} cannot be read: {trouble}"
            yield _problem(spec, ("models", name, "file"), Unresolved(message, "a path starts at this file"))
        elif check_script is not None and path not in checked:
            checked.add(path)
            try:
                check_script(path)
            except ConfigError as error:
                yield from error.problems


def _backends(spec: Spec, search: str) -> tuple[Problem, ...]:
    try:
        resolve_backends(spec, search)
    except ConfigError as error:
        return error.problems
    return ()


def _folders(files: Iterable[HookFile], workspace: Path) -> Iterator[Problem]:
    """The hooks that could not be started for want of their working folder."""
    for file in files:
        for hook in (one for hooks in file.hooks.events.values() for one in hooks):
            if hook.cwd is not None and not os.path.isdir(workspace / hook.cwd):  # noqa: PTH112  # it raises nothing
                what = Unresolved(f"there is no folder {hook.cwd!r}", "a path starts at the workspace")
                yield _problem(file.spec, (*hook.path, "cwd"), what)


def _tools(spec: Spec) -> Iterator[Problem]:
    folder = Path(os.path.realpath(spec.file)).parent
    for name, tool in spec.tools.items():
        if tool.python is not None and isinstance(found := find_target(tool.python, folder), Unresolved):
            message = f"the target {tool.python!r}: {found.message}"
            yield _problem(spec, ("tools", name, "python"), Unresolved(message, found.hint))


def _problem(spec: Spec, path: KeyPath, what: Unresolved) -> Problem:
    return Problem(where=spec.where(*path), path=path, message=what.message, hint=what.hint)
