"""What a function's signature says: the JSON Schema of its arguments (draft 2020-12), and how JSON becomes arguments.

msgspec knows the types; what it cannot take is refused when the tool is defined, naming function and parameter. It
calls nothing.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import msgspec

from tenter.controls import check_schema
from tenter.harness.context import ToolContext
from tenter.kernel import TenterError, freeze

_TAKEN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_DEFS = "#/$defs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a tool's function takes."""

    schema: Mapping[str, object]
    """An object schema with `additionalProperties: false`, frozen."""
    struct: type[msgspec.Struct]
    """One field per parameter; one that was not given is UNSET, so that the function's own default counts."""
    takes_context: bool

    def bind(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """`arguments` as values of the annotated types, fresh and the callee's own.

        Raises msgspec.ValidationError where they do not fit; `pattern` is not judged here (see `arguments`).
        """
        bound = msgspec.convert(thawed(arguments), self.struct)
        given = ((field, getattr(bound, field)) for field in self.struct.__struct_fields__)
        return {field: value for field, value in given if value is not msgspec.UNSET}


def read_signature(function: Callable[..., object], owner: str) -> Signature:
    """The signature of a tool's function. Raises TenterError, naming `owner`, for one that a tool cannot have."""
    parameters = list(inspect.signature(function).parameters.values())
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise TenterError(f"{owner}: its annotations cannot be read ({error}); import what they name") from None
    takes_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
    fields: list[tuple[str, Any, Any]] = []
    properties: dict[str, object] = {}
    shapes: list[tuple[str, Any]] = []
    for parameter in parameters[takes_context:]:
        annotation = _annotation(parameter, hints, owner)
        shapes.append((parameter.name, annotation))
        properties[parameter.name] = _default(parameter, annotation, owner)
        lenient = _rewritten(annotation, patterns=False)
        field = (lenient,) if parameter.default is parameter.empty else (lenient | msgspec.UnsetType, msgspec.UNSET)
        fields.append(cast("tuple[str, Any, Any]", (parameter.name, *field)))
    required = [p.name for p in parameters[takes_context:] if p.default is p.empty]
    schema = _schema(shapes, required, cast("dict[str, dict[str, object]]", properties))
    struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    if b'"pattern":"' in msgspec.json.encode(_components(struct)):
        raise TenterError(
            f"{owner}: a msgspec.Struct among its parameters has a pattern, which 're' would match and may never end; "
            "put the pattern on the tool's own parameter, where RE2 matches it"
        )
    if b'"pattern":"' in msgspec.json.encode(schema) and (problems := check_schema(schema)):
        raise TenterError(f"{owner}: its schema cannot be used: {'; '.join(problems)}")
    return Signature(schema=schema, struct=struct, takes_context=takes_context)


def thawed(value: object) -> object:
    """A frozen JSON value with lists and dicts in place of tuples and frozen mappings, all new."""
    if isinstance(value, Mapping):
        return {key: thawed(inner) for key, inner in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [thawed(inner) for inner in cast("tuple[object, ...]", value)]
    return value


def _annotation(parameter: inspect.Parameter, hints: Mapping[str, object], owner: str) -> Any:
    """The parameter's type as msgspec takes it. Raises TenterError where a tool cannot have such a parameter."""
    name = f"{owner}: the parameter {parameter.name!r}"
    if parameter.kind not in _TAKEN:
        raise TenterError(f"{name} is {parameter.kind.description}; a model gives arguments by name")
    if parameter.name not in hints:
        raise TenterError(f"{name} has no annotation; write what it takes, such as {parameter.name}: str")
    annotation = _rewritten(hints[parameter.name])
    if annotation is ToolContext:
        raise TenterError(f"{name} is a ToolContext; that can only be the first parameter")
    try:
        msgspec.json.schema_components((annotation,), schema_hook=_schema_hook)
        msgspec.json.Decoder(annotation)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise TenterError(
            f"{name} has the type {annotation!r}, which no JSON can be read into ({reason[0]}); "
            "take str, int, float, bool, list, dict, Literal, unions of them or a msgspec.Struct"
        ) from None
    return annotation


def _default(parameter: inspect.Parameter, annotation: Any, owner: str) -> dict[str, object]:
    if parameter.default is parameter.empty:
        return {}
    try:
        default = msgspec.to_builtins(parameter.default)
        msgspec.convert(default, annotation)
    except (msgspec.ValidationError, TypeError):
        raise TenterError(
            f"{owner}: the default {parameter.default!r} of {parameter.name!r} is no {annotation!r}; "
            "make the annotation say it, such as 'str | None' for None"
        ) from None
    return {"default": default}


def _schema(
    shapes: list[tuple[str, Any]], required: list[str], extra: Mapping[str, Mapping[str, object]]
) -> Mapping[str, object]:
    schemas, shared = msgspec.json.schema_components(
        [shape for _, shape in shapes], schema_hook=_schema_hook, ref_template=f"{_DEFS}{{name}}"
    )
    named = zip(shapes, schemas, strict=True)
    schema: dict[str, object] = {
        "type": "object",
        "properties": {name: {**one, **extra[name]} for (name, _), one in named},
        "required": required,
        "additionalProperties": False,
    }
    return freeze({**schema, "$defs": shared} if shared else schema)


def _schema_hook(annotation: type) -> dict[str, object]:
    # msgspec asks about every class that it does not know, and takes an empty schema for no answer.
    if annotation is object:
        return {"description": "any JSON value"}
    raise NotImplementedError


def _rewritten(annotation: Any, *, patterns: bool = True) -> Any:
    """`annotation` with texts in `Annotated` as descriptions and, if asked, without the patterns in it."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        kept = (_meta(one, patterns=patterns) for one in annotation.__metadata__)
        return Annotated[(_rewritten(annotation.__origin__, patterns=patterns), *kept)]
    if origin is None or origin is typing.Literal:
        return annotation
    args = tuple(one if one is Ellipsis else _rewritten(one, patterns=patterns) for one in inner)
    if args == inner:
        return annotation
    if origin in (typing.Union, types.UnionType):
        return cast("Any", typing.Union)[args]
    return origin[args]


def _meta(metadata: object, *, patterns: bool) -> object:
    if isinstance(metadata, str):
        return msgspec.Meta(description=metadata)
    if isinstance(metadata, msgspec.Meta) and metadata.pattern is not None and not patterns:
        return msgspec.Meta(**{name: getattr(metadata, name) for name in _LIMITS})
    return metadata


_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "tz")


def _components(struct: type[msgspec.Struct]) -> object:
    return msgspec.json.schema_components((struct,), schema_hook=_schema_hook)[1]
