"""Whether a hook can be called as its point calls it, seen from its signature alone (D§7). Calls nothing."""

import inspect
import types
import typing
from typing import Any, TypeGuard, cast

from tenter.kernel.declaration import Declaration, function_of
from tenter.kernel.errors import RegistrationError
from tenter.kernel.event import Event
from tenter.kernel.outcome import Outcome
from tenter.kernel.point import Point

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

ENDED = "ended"
"""The second parameter of an observer that wants to know how the chain ended."""


def check_signature(declared: Declaration, point: Point, owner: str) -> bool:
    """Whether the hook takes `ended` besides the event. Raises RegistrationError where it cannot take the event."""
    call: object = declared.call
    _check_kind(call, owner)
    if (signature := _signature(call)) is None:
        return False
    shape = "(event) or (event, ended)" if declared.observe else "(event)"
    expected = f"{owner} has the signature {signature}; expected {shape}"
    _check_event(_members(_first(signature), call), point, owner)
    _check_answers(_members(signature.return_annotation, call), declared, point, owner)
    ended = signature.parameters.get(ENDED)
    if declared.observe and ended is not None and ended.kind is inspect.Parameter.KEYWORD_ONLY:
        raise RegistrationError(f"{expected}, without a *")
    places = [one for one in signature.parameters.values() if one.kind in _POSITIONAL]
    second = places[1] if declared.observe and len(places) > 1 else None
    takes_ended = second is not None and (second.name == ENDED or second.default is inspect.Parameter.empty)
    if not _binds(signature, 2 if takes_ended else 1):
        raise RegistrationError(expected)
    return takes_ended


def check_abandon(abandon: object, owner: str) -> None:
    """Raises RegistrationError unless `abandon` is a plain function of (point, event, error)."""
    if inspect.iscoroutinefunction(abandon) or inspect.iscoroutinefunction(function_of(abandon)):
        raise RegistrationError(
            f"{owner} has an async abandon; it is called while things come down: make it a plain function"
        )
    signature = _signature(abandon) if callable(abandon) else inspect.Signature()
    if signature is not None and not _binds(signature, 3):
        raise RegistrationError(f"{owner} has an abandon that is no method of (self, point, event, error)")


def _check_kind(call: object, owner: str) -> None:
    if not callable(call) or isinstance(call, type):
        raise RegistrationError(f"{owner} cannot be called with an event; expected a function")
    function = function_of(cast(object, call))
    if any(
        is_one(one) for is_one in (inspect.isgeneratorfunction, inspect.isasyncgenfunction) for one in (call, function)
    ):
        raise RegistrationError(f"{owner} is a generator; a hook returns its answer")


def _signature(call: object) -> inspect.Signature | None:
    """The signature, or None where Python cannot tell, as of some functions that are written in C."""
    try:
        return inspect.signature(cast(Any, call))
    except (TypeError, ValueError):
        return None


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _first(signature: inspect.Signature) -> object:
    """What the first parameter is annotated with."""
    first = next(iter(signature.parameters.values()), None)
    return first.annotation if first is not None and first.kind in _POSITIONAL else inspect.Parameter.empty


def _check_event(wanted: tuple[object, ...], point: Point, owner: str) -> None:
    classes = [cls for cls in wanted if _is_class(cls)]
    if len(classes) == len(wanted) > 0 and not any(issubclass(point.event, cls) for cls in classes):
        names = " or ".join(cls.__name__ for cls in classes)
        raise RegistrationError(f"{owner} takes a {names}; this point hands out a {point.event.__name__}")


def _check_answers(answers: tuple[object, ...], declared: Declaration, point: Point, owner: str) -> None:
    """What the hook says that it returns: each outcome must be one that the point takes, and an event its own."""
    classes = [cls for cls in answers if _is_class(cls)]
    outcomes = [cls for cls in classes if issubclass(cls, Outcome) and cls is not Outcome]
    events = [cls for cls in classes if issubclass(cls, Event)]
    if declared.observe and (outcomes or events):
        raise RegistrationError(f"{owner} answers {(outcomes or events)[0].__name__}; an observer answers nothing")
    for cls in outcomes:
        if not point.takes(cls):
            raise RegistrationError(f"{owner} answers {cls.__name__}; this point takes {_taken(point)}")
    if events and not (point.rule.replaces and any(issubclass(point.event, cls) for cls in events)):
        raise RegistrationError(f"{owner} answers {events[0].__name__}; this point takes {_taken(point)}")


def _taken(point: Point) -> str:
    events = [point.event.__name__] if point.rule.replaces else []
    return " or ".join([*sorted(cls.__name__ for cls in point.rule.takes), *events]) or "no answer"


def _members(annotation: object, call: object) -> tuple[object, ...]:
    """What an annotation names, a union's members one by one; nothing where Python cannot tell."""
    if annotation is inspect.Signature.empty:
        return ()
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    namespace = getattr(inspect.unwrap(cast(Any, function_of(call))), "__globals__", {})
    try:
        hint = typing.get_type_hints(holder, namespace)["it"]
    except Exception:  # a name that only a type checker can see says nothing about the hook
        return ()
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _is_class(hint: object) -> TypeGuard[type]:
    """Whether `hint` is a class that can be held against another."""
    if not isinstance(hint, type) or hint is Any or typing.get_origin(hint) is not None:
        return False
    return not getattr(hint, "_is_protocol", False)
