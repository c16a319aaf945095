"""From what a journal gives back, mappings and lists, to the values that were recorded. Pure.

What a run recorded was not held against the types of its fields in every place: a tool may say anything, and the
arguments of a call are the model's own text where that was no object. Such a value comes back as it stands in the
journal, in its place, instead of as an error.
"""

import functools
from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec


def thawed(raw: object, declared: Any) -> object:
    """`raw` as a value of the type `declared`, as far as it is one. Raises TypeError where a struct lacks a field."""
    if declared is object or declared is Any:
        return raw
    try:
        return msgspec.convert(raw, declared)
    except msgspec.ValidationError:
        return _as_far(raw, declared)


def types_of(cls: type[msgspec.Struct]) -> Mapping[str, Any]:
    """The types of the fields of a struct, by name."""
    return {field.name: field.type for field in _fields(cls)}


def _as_far(raw: object, declared: Any) -> object:
    if get_origin(declared) in (Union, UnionType):
        declared = next((one for one in get_args(declared) if one is not type(None)), declared)
    if isinstance(raw, dict) and isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        given = cast("dict[str, object]", raw)
        named = [field for field in _fields(declared) if field.encode_name in given]
        return declared(**{field.name: thawed(given[field.encode_name], field.type) for field in named})
    if isinstance(raw, list) and get_origin(declared) is tuple:
        return tuple([thawed(item, get_args(declared)[0]) for item in cast("list[object]", raw)])
    return cast("object", raw)


@functools.lru_cache(256)
def _fields(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(cls)
