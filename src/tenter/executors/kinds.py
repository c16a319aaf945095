"""The one table of executor kinds (D§14): a new kind is a file of its own and a line here.

Keys are those by which a configuration names a kind (D§12).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from tenter.executors.command import command_hook
from tenter.executors.command_settings import CommandHook
from tenter.executors.function import FunctionHook, function_hook
from tenter.executors.kind import Surroundings
from tenter.kernel import Declaration

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Kind(Generic[S]):
    """How a configured hook becomes a declaration."""

    settings: type[S]
    """What is said about such a hook: a frozen dataclass with the fields `name`, `point` and the kind's own."""
    declare: Callable[[S, Surroundings], Declaration]
    """Raises RegistrationError for what cannot be attached; runs no hook."""


KINDS: Final[Mapping[str, Kind[Any]]] = {
    "command": Kind(CommandHook, command_hook),
    "script": Kind(CommandHook, command_hook),
    "python": Kind(FunctionHook, function_hook),
}
