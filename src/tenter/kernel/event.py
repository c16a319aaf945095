"""The base of every event: a frozen value with the envelope and the op it belongs to (D§2, D§3.3).

The kernel does not look into either; the catalogue gives them their types.
"""

import functools
from collections.abc import Collection, Mapping
from typing import Any, Self, cast

import msgspec

from tenter.kernel.frozen import FrozenStruct
from tenter.kernel.outcome import Result
from tenter.kernel.sameness import same

CONTEXT = frozenset({"envelope", "op"})
"""The fields that say who and which call an event belongs to; a replacement keeps both."""


class Event(FrozenStruct, frozen=True, kw_only=True):
    """What a point hands out. To change it, answer with `event.replace(field=value)`."""

    envelope: object = None
    op: object = None

    def replace(self, **changes: object) -> Self:
        """A copy with `changes`, frozen.

        Raises TypeError for a field that the event does not have or may not change, and TypeError or ValueError for a
        value that `freeze` does not take. Whether a value is of its field's type is judged when it is answered.
        """
        if wrong := changes.keys() & CONTEXT or changes.keys() - set(self.__struct_fields__):
            raise TypeError(f"{type(self).__name__} has no replaceable field {min(wrong)!r}; {_fields(type(self))}")
        return msgspec.structs.replace(self, **changes)

    def editable_fields(self) -> frozenset[str]:
        """What a hook may let a person change of it, by the names that a Suspend gives."""
        return frozenset(self.own_fields())

    def own_fields(self) -> dict[str, object]:
        """All but envelope and op, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in CONTEXT}


class BeforeEvent(Event, frozen=True, kw_only=True):
    """What `pre` and `in` see: the input of an operation."""

    def result(self, value: Any) -> Result:
        """The answer, at an `in` point, that stands for the work: its value, or a mapping where there are several."""
        return Result(value)


class AfterEvent(Event, frozen=True, kw_only=True):
    """What `post` sees: the input and the result of an operation."""


def conforms(event: Event, original: Event) -> str | None:
    """What is wrong with `event` as a replacement of `original`, or None.

    The type must be the original's own, envelope and op the same, and whatever is not the original's of its declared
    type, all the way down: a mapping does not stand for a struct.
    """
    cls = type(original)
    if type(event) is not cls:
        return f"a replacement must be of {cls.__name__}, not {type(event).__name__}"
    for name in sorted(CONTEXT):
        if not same(getattr(event, name), getattr(original, name)):
            return f"a replacement keeps the {name} of the event that it replaces"
    return _struct_misfit(event, original, "")


def misfit(
    after: type[Event], results: Collection[str], value: object, *, before: type[Event] | None = None
) -> str | None:
    """What is wrong with `value` as the result of an operation whose `after` adds the fields `results`, or None.

    With `before`, a result that is left out must have a default, or a field of `before` to fall back on.
    """
    try:
        values = result_fields(results, value)
    except TypeError as error:
        return str(error)
    for field in _declared(after):
        if field.name in values:
            if wrong := _misfit(values[field.name], field.type, None, field.name):
                return f"the result does not fit: {wrong}"
        elif before is not None and field.required and field.name not in before.__struct_fields__:
            return f"the result lacks {field.name!r}"
    return None


def unlike_result(after: Event, results: Collection[str]) -> str | None:
    """What is wrong with the fields `results` of `after`, or None. Nothing in a struct is looked at."""
    for field in _declared_results(type(after), tuple(results)):
        value = getattr(after, field.name)
        if type(value) is field.type or value is field.default:
            continue
        converted, wrong = _converted(value, field.type, field.name)
        if wrong is None and isinstance(converted, msgspec.Struct) and converted is not value:
            wrong = _unlike(value, converted, None, field.name)
        if wrong is not None:
            return wrong
    return None


def result_fields(results: Collection[str], value: object) -> Mapping[str, object]:
    """`value` as the fields that it stands for: the one there is, or those of a mapping. Raises TypeError otherwise."""
    if len(results) == 1:
        return dict.fromkeys(results, value)
    if not isinstance(value, Mapping):
        raise TypeError(f"a result of {_listed(results)} is a mapping of these, not {type(value).__name__}")
    values = cast("Mapping[str, object]", value)
    if unknown := [name for name in values if name not in results]:
        raise TypeError(f"a result has {_listed(results)}, not {unknown[0]!r}")
    return values


@functools.lru_cache(1024)
def _declared(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(cls)


@functools.lru_cache(1024)
def _declared_results(cls: type[Event], results: tuple[str, ...]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields `results` that are declared to be anything in particular."""
    return tuple(field for field in _declared(cls) if field.name in results and field.type not in (object, Any))


def _struct_misfit(value: msgspec.Struct, original: object, path: str) -> str | None:
    for field in _declared(type(value)):
        inner, known = getattr(value, field.name), getattr(original, field.name, msgspec.UNSET)
        if inner is known or inner is field.default or type(inner) is field.type is str:
            continue
        if not path and field.name in CONTEXT:
            continue
        if wrong := _misfit(inner, field.type, known, f"{path}.{field.name}" if path else field.name):
            return wrong
    return None


def _misfit(value: object, declared: Any, original: object, path: str) -> str | None:
    """What is wrong with `value` where `declared` is wanted; what it shares with `original` is taken as it is."""
    converted, wrong = _converted(value, declared, path)
    return wrong if wrong is not None else _unlike(value, converted, original, path)


def _converted(value: object, declared: Any, path: str) -> tuple[object, str | None]:
    """What msgspec makes of `value` where `declared` is wanted, and why it makes nothing of it, or None."""
    try:
        return msgspec.convert(value, declared), None
    except (msgspec.ValidationError, TypeError) as error:
        if isinstance(declared, type) and issubclass(declared, msgspec.Struct) and not isinstance(value, Mapping):
            fields = ", ".join(declared.__struct_fields__)
            return None, f"{path}: expected {declared.__name__}({fields}), got {type(value).__name__}"
        return None, f"{path}: {error}"


def _unlike(value: object, converted: object, original: object, path: str) -> str | None:
    """Holds `value` against what msgspec made of it, which turns mappings into structs and looks into no struct."""
    match converted:
        case msgspec.Struct() if converted is value:
            return _struct_misfit(converted, original if type(original) is type(value) else None, path)
        case _ if converted is value:
            return None
        case list() | tuple() if isinstance(value, list | tuple):
            kept = cast("tuple[object, ...]", original) if isinstance(original, tuple) else ()
            known = set(map(id, kept))
            pairs = zip(cast("tuple[object, ...]", value), cast("tuple[object, ...]", converted), strict=True)
            inner = [(one, other, f"{path}[{at}]") for at, (one, other) in enumerate(pairs) if id(one) not in known]
        case dict() if isinstance(value, Mapping):
            made = cast("dict[object, object]", converted)
            items = cast("Mapping[object, object]", value).items()
            inner = [(one, made[key], f"{path}[{key!r}]") for key, one in items if key in made]
        case float() if isinstance(value, int):
            return None
        case _ if isinstance(value, type(converted)):
            return None
        case _:
            return f"{path}: expected {type(converted).__name__}, got {type(value).__name__}"
    return next((wrong for one, other, where in inner if (wrong := _unlike(one, other, None, where))), None)


def _listed(names: Collection[str]) -> str:
    return " and ".join(map(repr, names))


def _fields(cls: type[Event]) -> str:
    return "it has " + ", ".join(repr(name) for name in cls.__struct_fields__ if name not in CONTEXT)
