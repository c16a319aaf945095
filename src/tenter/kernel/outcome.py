"""What a hook can answer (D§6). Raising an outcome is the same as returning it, so outcomes are exceptions too.

`None` says nothing, and an event of the point's type replaces; neither needs a class here.
"""

import re
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, cast, dataclass_transform, final

from tenter.kernel.frozen import freeze

T = TypeVar("T")

OnTimeout = Literal["block", "escalate"]

_MOST_SECONDS = 2**53 - 1
"""The largest integer that a record takes (D§10)."""

_CODE = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,63}")


class Outcome(Exception):
    """An answer of a hook: a frozen value that can also be raised. The set is closed: it has no other subclasses."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__} is frozen; answer with a new one instead of setting {name!r}")
        super().__setattr__(name, value)  # what Python itself keeps on an exception that is raised

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        values = {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}
        return (_rebuild, (type(self), values))

    def __str__(self) -> str:
        return repr(self)


def _rebuild(cls: type[T], values: dict[str, object]) -> T:
    return cls(**values)


@dataclass_transform(frozen_default=True)
def _frozen_outcome(cls: type[T]) -> type[T]:
    """A frozen dataclass that can be raised: `Outcome` refuses changes, not the methods that dataclasses make."""
    made = cast(Any, dataclass(frozen=True)(cls))
    del made.__setattr__, made.__delattr__
    return made


def check_code(code: object, owner: str) -> None:
    """Raises ValueError unless `code` is a word that a trace may hold: it must not carry content (D§3.12)."""
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise ValueError(f"the code of {owner} must be a word such as 'policy_denied', not {code!r}")


def _keep_text(outcome: Outcome, field: str = "reason") -> None:
    """Keeps plain text in a field, of a subclass of str its value. Raises TypeError for anything else."""
    text = getattr(outcome, field)
    if not isinstance(text, str):
        raise TypeError(f"the {field} of {type(outcome).__name__} must be text, not {type(text).__name__!r}")
    if type(text) is not str:
        object.__setattr__(outcome, field, str.__str__(text))


def _keep_code(outcome: Outcome, field: str = "code") -> None:
    """As `_keep_text`, and raises ValueError unless it is a word."""
    owner = type(outcome).__name__
    check_code(getattr(outcome, field), owner if field == "code" else f"{owner} (its {field})")
    _keep_text(outcome, field)


@final
@_frozen_outcome
class Allow(Outcome):
    """Waives Suspends of the hook's own band and of inner ones, never a baseline's, never a Block."""

    reason: str = ""

    def __post_init__(self) -> None:
        _keep_text(self)


@final
@_frozen_outcome
class Block(Outcome):
    """Refuses this operation. `stop=True` ends the run where the operation's own refusal would not."""

    reason: str
    code: str = "blocked"
    stop: bool = False

    def __post_init__(self) -> None:
        _keep_text(self)
        _keep_code(self)
        if type(self.stop) is not bool:
            raise TypeError(f"the stop of Block must be True or False, not {self.stop!r}")


@final
@_frozen_outcome
class Suspend(Outcome):
    """This needs a person.

    `editable` names the fields that the person may change, `expires_in` is in seconds (None: never), `on_timeout`
    what an unanswered request becomes.
    """

    reason: str
    code: str = "approval_required"
    editable: tuple[str, ...] = ()
    expires_in: float | None = None
    on_timeout: OnTimeout = "block"

    def __post_init__(self) -> None:
        _keep_text(self)
        _keep_code(self)
        object.__setattr__(self, "editable", _names(self.editable))
        object.__setattr__(self, "expires_in", freeze(self.expires_in))
        object.__setattr__(self, "on_timeout", freeze(self.on_timeout))
        if self.on_timeout not in ("block", "escalate"):
            raise ValueError(f"the on_timeout of Suspend must be 'block' or 'escalate', not {self.on_timeout!r}")
        if self.expires_in is not None and not _is_duration(self.expires_in):
            raise ValueError(f"the expires_in of Suspend must be seconds above 0, not {_shown(self.expires_in)}")


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, list | tuple):
        given = tuple(cast("tuple[object, ...]", names))
        if all(isinstance(name, str) for name in given):
            return tuple(str.__str__(cast(str, name)) for name in given)
    raise TypeError(f"the editable of Suspend must be a tuple of field names, not {names!r}")


def _is_duration(seconds: object) -> bool:
    if isinstance(seconds, float):
        return 0 < seconds < float("inf")
    return isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= _MOST_SECONDS


def _shown(seconds: object) -> str:
    is_large = isinstance(seconds, int) and abs(seconds) > _MOST_SECONDS  # Python may refuse to print it
    return "a number past 2^53-1" if is_large else repr(seconds)


@final
@_frozen_outcome
class Escalate(Outcome):
    """Ends the run and hands it to the people of `queue`."""

    reason: str
    queue: str = "default"

    def __post_init__(self) -> None:
        _keep_text(self)
        _keep_code(self, "queue")


@final
@_frozen_outcome
class Retry(Outcome):
    """Ask again; `feedback`, where given, goes along to the model as a user message."""

    reason: str
    feedback: str | None = None

    def __post_init__(self) -> None:
        _keep_text(self)
        if self.feedback is not None:
            _keep_text(self, "feedback")


@final
@_frozen_outcome
class Result(Outcome):
    """The work's result, answered at an `in` point in place of the default body. The value is frozen (D§3.3).

    Raises TypeError and ValueError for a value that `freeze` does not take.
    """

    value: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", freeze(self.value))


@final
@_frozen_outcome
class Fail(Outcome):
    """What `on_error: fail` makes of a hook's failure: the operation fails. No hook can answer it."""

    reason: str
    code: str = "hook_failed"
