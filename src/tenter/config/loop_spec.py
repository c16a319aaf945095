"""What a configuration file says of loops, as frozen values (D§12, issue "The loop").

Holds only what the file says: resolves no program and routes no event. A field that is None has no limit, or is left
out.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tenter.kernel import FrozenDict

_SEGMENT: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
_SHORT: Final = r"(?!.{201})"

TOPIC: Final = rf"{_SHORT}{_SEGMENT}(?:\.{_SEGMENT})*"
"""What matches a topic from end to end: words of ASCII letters, digits, `_` and `-`, joined by dots; 200 characters."""

TOPIC_PATTERN: Final = rf"{_SHORT}(?:{_SEGMENT}|\*)(?:\.(?:{_SEGMENT}|\*))*"
"""What matches a topic in which any of the words may be `*`."""

PromptWay = Literal["stdin", "argument"]
PreflightCheck = Literal["config", "hooks", "trust", "backend", "git", "paths"]


class CommandBackendSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="command"
):
    """A program that does the work of an iteration. `command` is as written; `resolve_backends` finds the program."""

    command: tuple[str, ...]
    prompt: PromptWay = "stdin"
    inactivity_timeout_seconds: float = 1800.0


class HarnessBackendSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="harness"
):
    """A run of a task that does the work of an iteration. `harness` is a key of `Spec.tasks`."""

    harness: str


BackendSpec = CommandBackendSpec | HarnessBackendSpec


class HatSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part that an iteration may play. Its name is its key in `LoopSpec.hats`; without a backend it has the loop's.

    `triggers` are patterns of the topics that it takes on, at least one; `publishes` says what it may answer with.
    """

    description: str = ""
    instructions: str = ""
    triggers: tuple[str, ...]
    publishes: tuple[str, ...] = ()
    backend: BackendSpec | None = None


class PreflightSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is looked at before a loop starts. With `strict`, a warning is a failure."""

    enabled: bool = True
    skip: tuple[PreflightCheck, ...] = ()
    strict: bool = False


class LoopSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loops of one project. The order of `hats` is that of the file, and counts."""

    backend: BackendSpec | None = None
    hats: Mapping[str, HatSpec] = FrozenDict()
    completion_promise: str = "LOOP_COMPLETE"
    required_events: tuple[str, ...] = ()
    max_iterations: int = 100
    max_runtime_seconds: float | None = None
    max_cost_usd: float | None = None
    max_consecutive_failures: int = 5
    answer_timeout_seconds: float = 300.0
    preflight: PreflightSpec = PreflightSpec()
