"""The base of every event: a frozen value with the envelope and the op it belongs to (D§2, D§3.3).

The kernel does not look into either; the catalogue gives them their types.
"""

from collections.abc import Mapping
from typing import Any, Self, cast

import msgspec

from tenter.kernel.frozen import freeze
from tenter.kernel.outcome import Result

CONTEXT = frozenset({"envelope", "op"})
"""The fields that say who and which call an event belongs to; a replacement keeps both."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What a point hands out. To change it, answer with `event.replace(field=value)`."""

    envelope: object = None
    op: object = None

    def replace(self, **changes: object) -> Self:
        """A copy with `changes`, frozen. Raises TypeError for a field that the event does not have, or may not change."""
        if wrong := changes.keys() & CONTEXT or changes.keys() - set(self.__struct_fields__):
            raise TypeError(
                f"{type(self).__name__} has no replaceable field {sorted(wrong)[0]!r}; {_fields(type(self))}"
            )
        return msgspec.structs.replace(self, **{name: freeze(value) for name, value in changes.items()})

    def payload(self) -> dict[str, object]:
        """The event's own fields, without envelope and op."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in CONTEXT}


class BeforeEvent(Event, frozen=True, kw_only=True):
    """What `pre` and `in` see: the input of an operation."""

    def result(self, value: Any) -> Result:
        """The answer, at an `in` point, that stands for the work: its value, or a mapping where there are several."""
        return Result(freeze(value))


class AfterEvent(Event, frozen=True, kw_only=True):
    """What `post` sees: the input and the result of an operation."""


def conforms(event: Event, original: Event) -> str | None:
    """What is wrong with `event` as a replacement of `original`, or None.

    The type must be the original's own, envelope and op the same, and each changed field of its declared type.
    """
    cls = type(original)
    if type(event) is not cls:
        return f"a replacement must be of {cls.__name__}, not {type(event).__name__}"
    for name in CONTEXT:
        mine, theirs = getattr(event, name), getattr(original, name)
        if mine is not theirs and mine != theirs:
            return f"a replacement keeps the {name} of the event that it replaces"
    for field in msgspec.structs.fields(cls):
        value = getattr(event, field.name)
        if value is getattr(original, field.name):
            continue
        try:
            msgspec.convert(msgspec.to_builtins(value), field.type)
        except (msgspec.ValidationError, TypeError) as error:
            return f"the field {field.name!r} of the replacement does not fit: {error}"
    return None


def misfit(after: type[Event], results: tuple[str, ...], value: object) -> str | None:
    """What is wrong with `value` as the result of an operation whose `after` adds the fields `results`, or None."""
    try:
        values = result_fields(results, value)
    except TypeError as error:
        return str(error)
    types = {field.name: field.type for field in msgspec.structs.fields(after)}
    for name, given in values.items():
        try:
            msgspec.convert(msgspec.to_builtins(given), types[name])
        except (msgspec.ValidationError, TypeError) as error:
            return f"the result {name!r} does not fit: {error}"
    return None


def result_fields(results: tuple[str, ...], value: object) -> Mapping[str, object]:
    """`value` as the fields that it stands for: the one there is, or those of a mapping. Raises TypeError otherwise."""
    if len(results) == 1:
        return {results[0]: value}
    if not isinstance(value, Mapping):
        raise TypeError(
            f"a result of {' and '.join(map(repr, results))} is a mapping of these, not {type(value).__name__}"
        )
    values = cast("Mapping[str, object]", value)
    if unknown := values.keys() - set(results):
        raise TypeError(f"a result has {' and '.join(map(repr, results))}, not {sorted(unknown)[0]!r}")
    return values


def _fields(cls: type[Event]) -> str:
    return "it has " + ", ".join(repr(name) for name in cls.__struct_fields__ if name not in CONTEXT)
