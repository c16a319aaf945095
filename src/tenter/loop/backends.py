"""The one table of backends: a new kind is a file of its own and a case here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import msgspec

from tenter.config import BackendSpec, CommandBackendSpec, HarnessBackendSpec
from tenter.executors import PinnedFile
from tenter.kernel import FrozenDict
from tenter.loop.command_backend import CommandBackend
from tenter.loop.harness_backend import HarnessBackend
from tenter.loop.work import Backend, Equipment


@dataclass(frozen=True, slots=True)
class Program:
    """A command as it is started, its program resolved, and the files of it that were trusted."""

    argv: tuple[str, ...] = ()
    pinned: tuple[PinnedFile, ...] = ()


_UNRESOLVED: Final = Program()


def backends_of(
    specs: Mapping[str | None, BackendSpec], programs: Mapping[str | None, Program], equipment: Equipment
) -> Mapping[str | None, Backend]:
    """The backend of each hat that has one of its own; under None that of all others. `programs` are of commands."""
    return FrozenDict({hat: _backend(spec, programs.get(hat, _UNRESOLVED), equipment) for hat, spec in specs.items()})


def _backend(spec: BackendSpec, program: "Program", equipment: Equipment) -> Backend:
    match spec:
        case CommandBackendSpec():
            resolved = msgspec.structs.replace(spec, command=program.argv or spec.command)
            return CommandBackend(resolved, equipment, program.pinned)
        case HarnessBackendSpec():
            return HarnessBackend(spec, equipment)
        case _:
            assert_never(spec)
