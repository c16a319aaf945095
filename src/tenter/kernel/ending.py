"""How an operation ended, as a value (D§8, D§11). Only cancellation is raised."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from tenter.kernel.event import AfterEvent, Event
from tenter.kernel.outcome import OnTimeout, Retry

A = TypeVar("A", bound=Event)


@dataclass(frozen=True, slots=True)
class Done(Generic[A]):
    """The operation's output: its after-event, results included."""

    event: A


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A hook refused. `failed` says that its failure policy did, not the hook: then `reason` is not for a model."""

    reason: str
    code: str
    hook: str
    stop: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one hook's Suspend asks of a person."""

    hook: str
    reason: str
    code: str = "approval_required"
    point: str = ""
    """Where the hook stands."""
    editable: tuple[str, ...] = ()
    expires_in: float | None = None
    on_timeout: OnTimeout = "block"

    @property
    def name(self) -> str:
        """What an approval names it by: hooks bear one name at several points, and a hook may ask several things."""
        return f"{self.point}/{self.hook}#{self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """A person must decide. `event` is the call as it stands, `digest` binds a decision to it (D§3.10)."""

    requirements: tuple[Requirement, ...]
    event: Event
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated:
    reason: str
    queue: str
    hook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The body, or a hook with `on_error: fail`, failed. `exception` is a type's name; `hook` is None for the body."""

    message: str
    code: str = "internal"
    exception: str = ""
    hook: str | None = None
    retryable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The body may or may not have acted: its process died in between, and it is not idempotent (D§11).

    `event` is the call as the body was given it, `digest` binds a person's answer to it.
    """

    reason: str
    event: Event | None = None
    digest: str = ""


Stopped: TypeAlias = Blocked | Suspended | Escalated | Retry | Failed
"""Every ending without an output that the runner returns."""

Ending: TypeAlias = Done[AfterEvent] | Blocked | Suspended | Escalated | Retry | Failed | Unknown
"""What an engine returns for an operation."""
