"""What of a project runs, and the files inside it that are named for that (D§3.14).

Reads modules and looks at files; imports and runs nothing. What a program reads or starts by itself is not seen.
"""

import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tenter.config.command_words import Word, words_of_arguments, words_of_script
from tenter.config.commands import resolve_program
from tenter.config.import_closure import project_modules
from tenter.config.loop_spec import CommandBackendSpec
from tenter.config.outline import Outline, PlannedHook, PlannedPlugin
from tenter.config.problem import KeyPath
from tenter.config.spec import HookSpec, Spec
from tenter.executors import is_below

CodeKind = Literal["hook", "plugin", "tool", "model", "backend"]

_PROGRAMS: Final = frozenset(
    ".sh .bash .zsh .ksh .py .pyc .pyz .js .mjs .cjs .ts .rb .pl .php .lua .awk .jq".split()  # noqa: SIM905
)
"""How the names of programs end that an interpreter is given."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file of the project, as whoever uses it finds it: by an absolute path, or from its working folder."""

    found_as: str
    path: str
    """Absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCode:
    """Something of the project that runs. `path` is its place in the file."""

    kind: CodeKind
    name: str
    path: KeyPath
    runs: str
    """What it runs, for people."""
    files: tuple[NamedFile, ...]
    unseen: tuple[str, ...] = ()
    """Words of it that look like a file's path, where nothing is."""


def named_code(spec: Spec, planned: Outline, search: str) -> tuple[NamedCode, ...]:
    """All that runs of a project.

    `planned` holds the project's hooks, and `search` is the $PATH on which the programs of backends are looked up.
    """
    folder = Path(os.path.realpath(spec.file)).parent
    return (*_hooks(planned, folder), *_tools(spec, folder), *_models(spec, folder), *_backends(spec, folder, search))


def words_of_hook(hook: HookSpec, folder: Path) -> tuple[Word, ...]:
    """The words by which a `command` or `script`, or its variables, may name files; all but its program."""
    variables = [Word(value, is_read=True) for value in hook.env.values()]
    if hook.command is not None:
        return (*words_of_arguments(hook.command[1:], project=str(folder), cwd=hook.cwd), *variables)
    return (*words_of_script(hook.script or "", project=str(folder), cwd=hook.cwd), *variables)


def files_named(words: Iterable[Word], root: Path, cwd: Path) -> Iterator[NamedFile]:
    """The files inside the folder `root` that `words` name, seen from `cwd`."""
    for word, found_as in _looked_for(words, cwd):
        path = os.path.join(cwd, found_as)  # noqa: PTH118  # as it is written: `..` after a link means its target
        if _is_inside(path, str(root)) and (word.is_read or _is_program(path)):
            yield NamedFile(found_as, path)


def _looked_for(words: Iterable[Word], cwd: Path) -> Iterator[tuple[Word, str]]:
    """Each word with each place where its file may be: seen from `cwd`, and from a folder that its script goes to."""
    there: dict[tuple[str, ...], tuple[str, ...]] = {}
    for word in words:
        yield word, word.path
        if word.folders not in there:
            there[word.folders] = tuple(folder for folder in word.folders if _is_folder(cwd, folder))
        if there[word.folders] and not os.path.isabs(word.path):  # noqa: PTH117  # a text that may be anything
            below = word.path.removeprefix("./")
            yield from ((word, os.path.join(folder, below)) for folder in there[word.folders])  # noqa: PTH118  # as above


def _unseen(words: Iterable[Word], cwd: Path) -> tuple[str, ...]:
    """The words that begin with `./` or `../` and are nowhere; `./...` is a pattern of some program's own."""
    found: dict[str, bool] = {}
    for word, found_as in _looked_for(words, cwd):
        if word.path.startswith(("./", "../")) and word.path.strip("./"):
            found[word.path] = found.get(word.path, False) or os.path.lexists(Path(cwd, found_as))
    return tuple(path for path, is_there in found.items() if not is_there)


def _hooks(planned: Outline, folder: Path) -> Iterator[NamedCode]:
    for one in planned.planned:
        if isinstance(one, PlannedHook):
            yield _hook(one, folder)
        elif isinstance(one, PlannedPlugin):
            files = _modules(one.target, folder)
            yield NamedCode(kind="plugin", name=one.target, path=one.path, runs=one.target, files=files)


def _hook(one: PlannedHook, folder: Path) -> NamedCode:
    hook, unseen = one.spec, ()
    if hook.python is not None:
        runs, files = hook.python, _modules(hook.python, folder)
    else:
        runs, cwd = hook.script or shlex.join(hook.command or ()), Path(folder, hook.cwd or "")
        program = _program(hook.command[0], one.argv[0], folder) if hook.command and one.argv else ()
        words = tuple(words_of_hook(hook, folder))
        files, unseen = _distinct((*program, *files_named(words, folder, cwd))), _unseen(words, cwd)
    name = f"{hook.name} at {one.point.label}"
    return NamedCode(kind="hook", name=name, path=hook.path, runs=runs, files=files, unseen=unseen)


def _tools(spec: Spec, folder: Path) -> Iterator[NamedCode]:
    for name, tool in spec.tools.items():
        if tool.python is not None:
            path, files = ("tools", name), _modules(tool.python, folder)
            yield NamedCode(kind="tool", name=name, path=path, runs=tool.python, files=files)


def _models(spec: Spec, folder: Path) -> Iterator[NamedCode]:
    """A script is code: the calls that it holds are made."""
    for name, model in spec.models.items():
        path = os.path.join(folder, model.file)  # noqa: PTH118
        files = (NamedFile(path, path),) if _lies_inside(path, str(folder)) else ()
        yield NamedCode(kind="model", name=name, path=("models", name), runs=model.file, files=files)


def _backends(spec: Spec, folder: Path, search: str) -> Iterator[NamedCode]:
    hats = ((name, ("loop", "hats", name, "backend"), hat.backend) for name, hat in spec.loop.hats.items())
    for name, path, backend in (("loop", ("loop", "backend"), spec.loop.backend), *hats):
        if isinstance(backend, CommandBackendSpec):
            found = resolve_program(backend.command[0], folder=folder, search=search)
            program = _program(backend.command[0], found, folder) if isinstance(found, str) else ()
            words = tuple(words_of_arguments(backend.command[1:], project=str(folder)))
            files, unseen = _distinct((*program, *files_named(words, folder, folder))), _unseen(words, folder)
            runs = shlex.join(backend.command)
            yield NamedCode(kind="backend", name=name, path=path, runs=runs, files=files, unseen=unseen)


def _program(written: str, found: str, folder: Path) -> tuple[NamedFile, ...]:
    """The program, where it is the project's; what PATH finds beside the Python that runs tenter is installed."""
    installed = "/" not in written and os.path.dirname(found) == os.path.dirname(sys.executable)  # noqa: PTH120
    return (NamedFile(found, found),) if not installed and _is_inside(found, str(folder)) else ()


def _modules(target: str, folder: Path) -> tuple[NamedFile, ...]:
    files = project_modules(target, folder)
    return tuple(NamedFile(file, file) for file in files if _lies_inside(file, str(folder)))


def _distinct(files: Iterable[NamedFile]) -> tuple[NamedFile, ...]:
    return tuple(dict.fromkeys(files))


def _is_inside(path: str, root: str) -> bool:
    """Whether there is a regular file at `path`, and it, or what it is a link to, lies inside `root`."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and _lies_inside(path, root)  # noqa: PTH116
    except (OSError, ValueError):  # an argument may be anything
        return False


def _lies_inside(path: str, root: str) -> bool:
    return is_below(os.path.normpath(path), root) or is_below(os.path.realpath(path), root)


def _is_folder(cwd: Path, folder: str) -> bool:
    return os.path.isdir(os.path.join(cwd, folder))  # noqa: PTH112, PTH118  # it raises nothing; as it is written


def _is_program(path: str) -> bool:
    """Whether a file can be executed, or looks as if an interpreter were given it."""
    if os.path.splitext(path)[1] in _PROGRAMS or os.access(path, os.X_OK):  # noqa: PTH122
        return True
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(2) == b"#!"
    except OSError:
        return False
