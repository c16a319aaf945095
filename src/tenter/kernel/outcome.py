"""What a hook can answer (D§6). Raising an outcome is the same as returning it, so outcomes are exceptions too.

`None` says nothing, and an event of the point's type replaces; neither needs a class here.
"""

import re
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, dataclass_transform

T = TypeVar("T")

OnTimeout = Literal["block", "escalate"]

_CODE = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,63}")


class Outcome(Exception):
    """An answer of a hook: a frozen value that can also be raised."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__") and name in self.__dict__:
            raise AttributeError(f"{type(self).__name__} is frozen; answer with a new one instead of setting {name!r}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)}))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return repr(self)


def _rebuild(cls: type[T], values: dict[str, object]) -> T:
    return cls(**values)


@dataclass_transform(frozen_default=True, field_specifiers=())
def _frozen_outcome(cls: type[T]) -> type[T]:
    return dataclass(eq=True, unsafe_hash=True)(cls)


def check_code(code: object, owner: str) -> None:
    """Raises ValueError unless `code` is a word that a trace may hold: it must not carry content (D§3.12)."""
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise ValueError(f"the code of {owner} must be a word such as 'policy_denied', not {code!r}")


def _check_text(text: object, owner: str, field: str = "reason") -> None:
    if not isinstance(text, str):
        raise TypeError(f"the {field} of {owner} must be text, not {type(text).__name__!r}")


@_frozen_outcome
class Allow(Outcome):
    """Waives Suspends of the hook's own band and of inner ones, never a baseline's, never a Block."""

    reason: str = ""

    def __post_init__(self) -> None:
        _check_text(self.reason, "Allow")


@_frozen_outcome
class Block(Outcome):
    """Refuses this operation. `stop=True` ends the run where the operation's own refusal would not."""

    reason: str
    code: str = "blocked"
    stop: bool = False

    def __post_init__(self) -> None:
        _check_text(self.reason, "Block")
        check_code(self.code, "Block")


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
        _check_text(self.reason, "Suspend")
        check_code(self.code, "Suspend")
        if isinstance(self.editable, str) or not all(isinstance(name, str) for name in self.editable):
            raise TypeError("the editable of Suspend must be a tuple of field names")
        if type(self.editable) is not tuple:
            self.__dict__["editable"] = tuple(self.editable)
        if self.on_timeout not in ("block", "escalate"):
            raise ValueError(f"the on_timeout of Suspend must be 'block' or 'escalate', not {self.on_timeout!r}")
        if self.expires_in is not None and not 0 < self.expires_in < float("inf"):
            raise ValueError(f"the expires_in of Suspend must be seconds above 0, not {self.expires_in!r}")


@_frozen_outcome
class Escalate(Outcome):
    """Ends the run and hands it to the people of `queue`."""

    reason: str
    queue: str = "default"

    def __post_init__(self) -> None:
        _check_text(self.reason, "Escalate")
        check_code(self.queue, "Escalate (its queue)")


@_frozen_outcome
class Retry(Outcome):
    """Ask again; `feedback`, where given, goes along to the model as a user message."""

    reason: str
    feedback: str | None = None

    def __post_init__(self) -> None:
        _check_text(self.reason, "Retry")
        if self.feedback is not None:
            _check_text(self.feedback, "Retry", "feedback")


@_frozen_outcome
class Result(Outcome):
    """The work's result, answered at an `in` point in place of the default body."""

    value: object


@_frozen_outcome
class Fail(Outcome):
    """What `on_error: fail` makes of a hook's failure: the operation fails. No hook can answer it."""

    reason: str
    code: str = "hook_failed"
