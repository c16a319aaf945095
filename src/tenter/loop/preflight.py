"""Whether a loop could start here, one finding for each thing that was looked at (issue "The loop", seed 001 AC-18).

It reads files and asks git; it runs nothing that the configuration names, and leaves nothing behind. Whether a project
is trusted is one of the checks, and no list can skip it: a loop of an untrusted project does not start anyway (D§3.14).
"""

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from tenter.config import (
    CommandBackendSpec,
    ConfigError,
    PreflightCheck,
    PreflightSpec,
    Problem,
    Spec,
    Untrusted,
    load_draft,
    nearest,
    require_trust,
    validate,
)
from tenter.harness import BUILTIN_TOOLS, load_script
from tenter.kernel import FrozenStruct, TenterError
from tenter.loop.place import STATE_FOLDER
from tenter.loop.request import LoopRequest
from tenter.loop.worktree import has_commit, has_git, tracked

Level = Literal["ok", "warning", "failed", "skipped"]

ALWAYS: Final = frozenset({"trust"})
"""The checks that nobody can skip."""


class Finding(FrozenStruct, frozen=True, kw_only=True):
    """What a check came to: `message` says what was found, `hint` what to do about it."""

    check: PreflightCheck
    level: Level
    message: str
    hint: str = ""

    def __str__(self) -> str:
        told = f"{self.check}: {self.message}"
        return f"{told}; {self.hint}" if self.hint else told


class PreflightFailed(TenterError):
    """A loop cannot start here, and nothing was started. `findings` are all that were made."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        failed = [f"  {one}" for one in self.findings if one.level == "failed"]
        return "\n".join(["the preflight failed, and nothing was started:", *failed])


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What the checks look at: the request, the file as far as it can be read, and all that is wrong with it."""

    request: LoopRequest
    spec: Spec | None
    problems: tuple[Problem, ...]

    @property
    def project(self) -> Path:
        """The folder of the configuration."""
        return Path(os.path.realpath(self.request.config)).parent


Said = tuple[Literal["warning", "failed"], str, str]
"""A level, a message and a hint."""
Check = Callable[[Surveyed], Iterable[Said]]
"""What is wrong with one thing; nothing where all is well."""


def check_start(request: LoopRequest) -> tuple[Finding, ...]:
    """The findings of a loop that may start; none where the request says that it starts without a preflight.

    Raises PreflightFailed where it may not.
    """
    findings = () if request.skip_preflight else run_preflight(request)
    if any(one.level == "failed" for one in findings):
        raise PreflightFailed(findings)
    return findings


def run_preflight(request: LoopRequest, *, only: str | None = None) -> tuple[Finding, ...]:
    """The findings of every check, in the order of the table, or of the check `only`, which then is not skipped.

    The file itself may say that checks are skipped, or that a warning is a failure. Raises TenterError for a check that
    does not exist.
    """
    if only is not None and only not in CHECKS:
        near = nearest(only, CHECKS)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(CHECKS)}."
        raise TenterError(f"there is no check {only!r}; {hint}")
    spec = load_draft(request.config, builtin_tools=BUILTIN_TOOLS).spec
    settings = PreflightSpec() if spec is None else spec.loop.preflight
    problems = validate(request.config, builtin_tools=BUILTIN_TOOLS, check_script=load_script)
    surveyed = Surveyed(request, spec, problems)
    skipped = frozenset[str]() if only is not None else _skipped(settings)
    names: list[PreflightCheck] = [name for name in CHECKS if only is None or name == only]
    found = [one for name in names for one in _findings(name, surveyed, skipped)]
    return tuple(_strict(found) if settings.strict else found)


def _skipped(settings: PreflightSpec) -> frozenset[str]:
    every: Collection[str] = settings.skip if settings.enabled else CHECKS
    return frozenset(every) - ALWAYS


def _findings(name: PreflightCheck, surveyed: Surveyed, skipped: Collection[str]) -> Iterator[Finding]:
    if name in skipped:
        yield Finding(check=name, level="skipped", message="skipped by the configuration")
        return
    said = tuple(CHECKS[name](surveyed))
    for level, message, hint in said:
        yield Finding(check=name, level=level, message=message, hint=hint)
    if not said:
        yield Finding(check=name, level="ok", message=_WELL[name])


def _strict(findings: Iterable[Finding]) -> Iterator[Finding]:
    for one in findings:
        yield msgspec.structs.replace(one, level="failed") if one.level == "warning" else one


def _config(surveyed: Surveyed) -> Iterator[Said]:
    yield from _of(surveyed, "config")


def _hooks(surveyed: Surveyed) -> Iterator[Said]:
    yield from _of(surveyed, "hooks")


def _trust(surveyed: Surveyed) -> Iterator[Said]:
    try:
        require_trust(surveyed.request.config, builtin_tools=BUILTIN_TOOLS)
    except Untrusted as error:
        yield "failed", error.headline, error.hint
    except ConfigError:
        yield "warning", "whether it is trusted cannot be told before the file is right", "mend what is wrong in it"


def _backend(surveyed: Surveyed) -> Iterator[Said]:
    yield from _of(surveyed, "backend")
    if (spec := surveyed.spec) is None:
        return
    task, backend = surveyed.request.task, spec.loop.backend
    if task is not None and task not in spec.tasks:
        near = nearest(task, spec.tasks)
        there = f"there are {', '.join(map(repr, spec.tasks))}" if spec.tasks else "the file has none"
        yield "failed", f"there is no task {task!r}", f"did you mean {near!r}?" if near else there
    if backend is None and task is None:
        hint = "say 'loop: {backend: {command: [program, argument]}}' or '{harness: task}', or run with --task"
        yield "failed", "no backend is configured, which does the work of an iteration", hint
    every = [backend, *(hat.backend for hat in spec.loop.hats.values())]
    if spec.loop.max_cost_usd is not None and any(isinstance(one, CommandBackendSpec) for one in every):
        hint = "use a 'harness' backend, or bound the loop by max_iterations or max_runtime_seconds"
        yield "warning", "max_cost_usd does not bound a command backend, which reports no cost", hint


def _git(surveyed: Surveyed) -> Iterator[Said]:
    ending = "a second loop at once would have no worktree to work in"
    if not has_git():
        yield "warning", f"git is not installed, and {ending}", "install it, or run one loop at a time"
        return
    try:
        is_committed, ours = has_commit(surveyed.project), tracked(surveyed.project, STATE_FOLDER)
    except TenterError as error:
        yield "warning", f"{error}; {ending}", "mend it, or run one loop at a time"
        return
    if not is_committed:
        hint = "make one with 'git init' and a commit, or run one loop at a time"
        yield "warning", f"the project is in no git repository with a commit, and {ending}", hint
    if ours:
        first, *others = ours
        more = f" and {len(others)} more" if others else ""
        told = f"git tracks {first!r}{more}, where loops keep what belongs to this machine and to no other"
        yield "warning", told, f"run 'git rm -r --cached {STATE_FOLDER}', and add '{STATE_FOLDER}/' to .gitignore"


def _paths(surveyed: Surveyed) -> Iterator[Said]:
    """The journal, the registry and what is kept of a loop are below the state folder, which may not be there yet."""
    state = surveyed.project / STATE_FOLDER
    folder = state if os.path.lexists(state) else state.parent
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="preflight-") as probe:
            probe.write(b"\0")
    except OSError as error:
        told = f"the folder {str(folder)!r} cannot be written ({error.strerror}), and a loop keeps its files there"
        yield "failed", told, "check what is there, its permissions and the room on its disk"


CHECKS: Final[Mapping[PreflightCheck, Check]] = {
    "config": _config,
    "hooks": _hooks,
    "trust": _trust,
    "backend": _backend,
    "git": _git,
    "paths": _paths,
}
"""Every check, in the order in which they are told."""

_WELL: Final[Mapping[PreflightCheck, str]] = {
    "config": "the file is right",
    "hooks": "every hook can be run",
    "trust": "the project is trusted",
    "backend": "the backend is there",
    "git": "the project is in a git repository with a commit",
    "paths": "the state folder can be written",
}


def _of(surveyed: Surveyed, check: PreflightCheck) -> Iterator[Said]:
    """The problems of the file that belong to `check`, by where they are."""
    for problem in surveyed.problems:
        if _whose(problem) == check:
            plain = str(problem).removesuffix(f"; {problem.hint}") if problem.hint else str(problem)
            yield "failed", plain, problem.hint


def _whose(problem: Problem) -> PreflightCheck:
    match problem.path:
        case ("hooks", *_):
            return "hooks"
        case ("loop", "backend", *_) | ("loop", "hats", _, "backend", *_):
            return "backend"
        case _:
            return "config"
