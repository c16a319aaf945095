"""Builds what one loop is made of, from a checked configuration and the place that it was given.

It starts nothing and writes nothing but the loop's log.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tenter.config import BackendSpec, HarnessBackendSpec, LoopSpec, Pins, Spec, resolve_backends, suspend_modes
from tenter.executors import PinnedFile
from tenter.harness import Given, Harness, set_up
from tenter.kernel import FrozenDict, TenterError
from tenter.loop.attention import Attention
from tenter.loop.backends import Program, backends_of
from tenter.loop.claim import place_of
from tenter.loop.events_file import EVENTS_VARIABLE
from tenter.loop.facts import Identity
from tenter.loop.loop_row import LoopRow
from tenter.loop.output_log import OutputLog
from tenter.loop.parts import Asking, Listener, Parts, Told
from tenter.loop.registry import Registry
from tenter.loop.request import LoopRequest
from tenter.loop.work import Equipment
from tenter.loop.worktree import repo_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A configuration that may run: read, looked through, and trusted."""

    request: LoopRequest
    spec: Spec
    user: Spec | None
    pins: Pins | None

    @property
    def project(self) -> Path:
        """The folder of the configuration, links followed."""
        return Path(os.path.realpath(self.request.config)).parent

    @property
    def loop(self) -> LoopSpec:
        """What the file says of loops, with what the request says instead."""
        most = self.request.max_iterations
        return self.spec.loop if most is None else msgspec.structs.replace(self.spec.loop, max_iterations=most)

    @property
    def backend(self) -> BackendSpec:
        """The backend of iterations without a hat of its own. Raises TenterError where nobody names one."""
        backend, task = self.spec.loop.backend, self.request.task
        if task is not None and (backend is None or isinstance(backend, HarnessBackendSpec)):
            return HarnessBackendSpec(harness=task)
        if backend is None:
            raise TenterError(
                f"{self.spec.file} names no backend for its loops; add 'loop: {{backend: {{command: [program]}}}}', or "
                "name a task with --task"
            )
        return backend

    @property
    def task(self) -> str | None:
        """The task that is worked on."""
        backend = self.spec.loop.backend
        return self.request.task or (backend.harness if isinstance(backend, HarnessBackendSpec) else None)

    @property
    def prompt(self) -> str:
        """What the agent is asked. Raises TenterError where nothing says it."""
        request = self.request
        if request.prompt is not None:
            return request.prompt
        if self.task is None:
            raise TenterError("there is nothing to do: give --prompt TEXT, --prompt-file FILE or --task NAME")
        if self.task not in self.spec.tasks:
            raise TenterError(
                f"{self.spec.file} has no task {self.task!r}; it has {', '.join(self.spec.tasks) or 'none'}"
            )
        return "" if isinstance(self.backend, HarnessBackendSpec) else self.spec.tasks[self.task].instructions


@dataclass(frozen=True, slots=True)
class Built:
    """A loop's parts, the harness that closes them, its attention, and the log of its backends."""

    parts: Parts
    harness: Harness
    attention: Attention
    log: OutputLog

    def close(self) -> None:
        """Lets go of the files that the harness does not close."""
        self.log.close()
        self.parts.registry.close()


def build(checked: Checked, row: LoopRow, registry: Registry, *, tell: Listener, asking: Asking | None) -> Built:
    """Raises ConfigError and RegistrationError for what cannot be built."""
    place = place_of(row)

    def told(text: str) -> None:
        tell(Told(kind="note", loop_id=row.loop_id, text=text))

    attention = Attention(place, row.loop_id, told)
    given = Given(workspace=row.workspace, pins=checked.pins, pause=attention.pause)
    setup = set_up(Path(checked.request.config), (), given)
    harness, surroundings = Harness(setup), _environment(os.environ)
    log = OutputLog(
        place.output,
        setup.redactor.mask_fuzzy,
        lambda line: tell(Told(kind="output", loop_id=row.loop_id, text=line)),
        note=told,
        now=setup.clock.now,
    )
    equipment = Equipment(
        workspace=row.workspace,
        environment=surroundings,
        log=log,
        mask=setup.redactor.mask_fuzzy,
        clock=setup.clock,
        harness=harness,
    )
    hats = {name: hat.backend for name, hat in checked.spec.loop.hats.items() if hat.backend is not None}
    programs = {
        hat: Program(argv, _pinned(checked.pins, hat, row.workspace)) for hat, argv in _resolved(checked.spec).items()
    }
    parts = Parts(
        identity=_identity(row, checked.loop),
        place=place,
        spec=checked.loop,
        setup=setup,
        registry=registry,
        modes=suspend_modes(checked.spec, checked.user),
        backends=backends_of({None: checked.backend, **hats}, programs, equipment),
        environment=FrozenDict(
            {
                "PATH": surroundings.get("PATH", os.defpath),
                "TENTER_LOOP_ID": row.loop_id,
                "TENTER_WORKSPACE": row.workspace,
                "TENTER_PROJECT_DIR": row.project,
                EVENTS_VARIABLE: str(place.events),
            }
        ),
        prompt=setup.redactor.mask_text(checked.prompt),
        task=checked.task,
        listener=tell,
        asking=asking,
    )
    return Built(parts, harness, attention, log)


def _identity(row: LoopRow, spec: LoopSpec) -> Identity:
    project = Path(row.project)
    return Identity(
        id=row.loop_id,
        is_primary=row.primary,
        workspace=row.workspace,
        repo_root=str(repo_root(project) or project),
        pid=row.pid,
        max_iterations=spec.max_iterations,
    )


def _resolved(spec: Spec) -> Mapping[str | None, tuple[str, ...]]:
    return resolve_backends(spec, os.environ.get("PATH", ""))


def _pinned(pins: Pins | None, hat: str | None, workspace: str) -> tuple[PinnedFile, ...]:
    place = ("loop", "backend") if hat is None else ("loop", "hats", hat, "backend")
    return () if pins is None else pins.of(place, workspace)


def _environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The user's, in which `tenter` is found: an agent publishes with it, wherever it is installed."""
    search = environment.get("PATH", "")
    own = Path(sys.argv[0]).absolute().parent
    if shutil.which("tenter", path=search) is not None or not (own / "tenter").is_file():
        return environment
    return {**environment, "PATH": f"{search}{os.pathsep}{own}" if search else str(own)}
