"""Holds a call's arguments against the tool's JSON Schema (draft 2020-12). Pure; nothing is fetched.

`pattern` is matched by RE2, so that no argument can make it hang. A schema that would need more than that, or a
document from elsewhere, is refused by `check_schema` when the tool is taken on. What a schema is compiled to is kept:
making a validator anew takes as long as using it.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from tenter.controls.fitting import Test, fitting
from tenter.kernel import FrozenDict, Regex, RegexError

if TYPE_CHECKING:
    import jsonschema

MOST_PROBLEMS: Final = 20
LONGEST_SHOWN: Final = 200
REFERENCES: Final = ("$ref", "$dynamicRef")
MOST_KEPT: Final = 1_024
MISFITS: Final = ("patternProperties", "$id", "$recursiveRef")
"""What is not taken: the first is matched with `re`; the others change what a `$ref` points to."""


def check_schema(schema: Mapping[str, object]) -> list[str]:
    """Why arguments cannot be held against `schema`; empty where they can."""
    import jsonschema  # here and below, because loading it takes longer than most starts of tenter

    try:
        jsonschema.Draft202012Validator.check_schema(msgspec.json.decode(msgspec.json.encode(schema)))
    except jsonschema.SchemaError as error:
        return [f"at {_path(error)}: {_bounded(error.message)}"]
    except RecursionError:
        return ["it is nested too deeply"]
    return list(_misfits(schema, ()))[:MOST_PROBLEMS]


def check_arguments(schema: Mapping[str, object], arguments: object) -> list[str]:
    """What is wrong with `arguments`, each with its path and what was expected; empty where nothing is.

    Fails closed: where `schema` itself cannot be used, that is the problem.
    """
    if not isinstance(arguments, Mapping):
        return [f"expected an object with the arguments, got {_shown(arguments)}"]
    import jsonschema.exceptions
    import referencing.exceptions

    try:
        errors = _errors(schema, cast("object", arguments))
    except referencing.exceptions.Unresolvable as error:
        return [f"the tool's own schema cannot be used: it refers to {error.ref!r}, which is not in it"]
    except RecursionError:
        return ["the arguments, or the tool's own schema, are nested too deeply"]
    except (RegexError, ArithmeticError, jsonschema.exceptions.UnknownType) as error:
        return [f"the tool's own schema cannot be used: {error}"]
    told = sorted({problem for error in errors for problem in _problems(error)})
    more = [f"and {len(told) - MOST_PROBLEMS} more"] if len(told) > MOST_PROBLEMS else []
    return told[:MOST_PROBLEMS] + more


def surely_fits(schema: Mapping[str, object], arguments: object) -> bool:
    """Whether, told at once, `check_arguments` would find nothing and the arguments can be recorded. False is no
    verdict."""
    test = _prepared(schema).test
    return test is not None and test(arguments)


@dataclass(frozen=True)
class _Prepared:
    """A schema and what it is compiled to, each when it is first asked for."""

    schema: Mapping[str, object]

    @cached_property
    def test(self) -> Test | None:
        return fitting(self.schema)

    @cached_property
    def validator(self) -> Any:
        validator, registry = _validator()
        return validator(self.schema, registry=registry)


_kept: dict[int, _Prepared] = {}
"""By the identity of the schema, which an entry keeps alive."""


def _prepared(schema: Mapping[str, object]) -> _Prepared:
    if (found := _kept.get(id(schema))) is not None:
        return found
    made = _Prepared(schema)
    if isinstance(schema, FrozenDict) and getattr(schema, "deep", False):  # what can change may come to something else
        if len(_kept) >= MOST_KEPT:
            _kept.clear()  # in one step: there may be event loops in other threads
        _kept[id(schema)] = made
    return made


def _errors(schema: Mapping[str, object], arguments: object) -> "list[jsonschema.ValidationError]":
    return list(_prepared(schema).validator.iter_errors(arguments))


@cache
def _validator() -> tuple[Any, Any]:
    """The class that validates, and where it looks a `$ref` up beside the schema: nowhere."""
    import jsonschema.validators
    import referencing

    base = jsonschema.Draft202012Validator
    types: dict[str, Any] = {"array": _is_array, "object": _is_object, "integer": _is_integer}
    made = cast("Any", jsonschema.validators).extend(
        base,
        validators={"pattern": _pattern, "patternProperties": _refused},
        type_checker=base.TYPE_CHECKER.redefine_many(types),
    )
    return made, referencing.Registry[Any]()


def _misfits(schema: object, path: tuple[str | int, ...]) -> Iterator[str]:
    """What is well-formed and still not taken, wherever it may stand."""
    if isinstance(schema, Mapping):
        for key, value in cast("Mapping[str, object]", schema).items():
            if key in MISFITS:
                yield f"at {_way(path)}: {key!r} is not supported"
            elif key in REFERENCES and not str(value).startswith("#"):
                yield f"at {_way(path)}: {key!r} may only refer to the schema itself ('#/…')"
            elif key == "pattern" and isinstance(value, str) and (reason := _not_a_regex(value)):
                yield f"at {_way(path)}: 'pattern' is not one that RE2 takes: {reason}"
            yield from _misfits(value, (*path, key))
    elif isinstance(schema, list | tuple):
        for index, value in enumerate(cast("tuple[object, ...]", schema)):
            yield from _misfits(value, (*path, index))


def _not_a_regex(expression: str) -> str:
    try:
        Regex(expression)
    except RegexError as error:
        return str(error)
    return ""


def _problems(error: "jsonschema.ValidationError") -> Iterator[str]:
    place = f"at {_path(error)}: "
    expected: Any = error.validator_value
    match error.validator:
        case "type":
            yield f"{place}expected {_kinds(expected)}, got {_shown(error.instance)}"
        case "required":
            missing = [name for name in expected if name not in cast("Any", error.instance)]
            yield from (f"{place}{name!r} is missing" for name in missing)
        case "additionalProperties":
            yield from (place + problem for problem in _unknown(error))
        case "enum":
            yield f"{place}expected {' or '.join(map(_shown, expected))}, got {_shown(error.instance)}"
        case "const":
            yield f"{place}expected {_shown(expected)}, got {_shown(error.instance)}"
        case "pattern":
            yield f"{place}expected text that matches {_shown(expected)}, got {_shown(error.instance)}"
        case "anyOf" | "oneOf" if error.context:
            yield from _alternatives(error)
        case _:
            yield f"{place}{_bounded(error.message)}"


def _unknown(error: "jsonschema.ValidationError") -> Iterator[str]:
    known = list(cast("Any", error.schema).get("properties", {}))
    for name in cast("Mapping[str, object]", error.instance):
        if name not in known:
            near = difflib.get_close_matches(name[:LONGEST_SHOWN], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known) or 'none'}"
            yield f"{_shown(name)} is not expected; {hint}"


def _alternatives(error: "jsonschema.ValidationError") -> Iterator[str]:
    """What is wrong with the one alternative that was meant, going by the kind of value, or the kinds there are."""
    branches: dict[Any, list[jsonschema.ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    wrong_kind = [
        i.validator_value for b in branches.values() for i in b if i.validator == "type" and not i.relative_path
    ]
    meant = [b for b in branches.values() if not any(i.validator == "type" and not i.relative_path for i in b)]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from _problems(inner)
    elif wrong_kind and not meant:
        yield f"at {_path(error)}: expected {' or '.join(map(_kinds, wrong_kind))}, got {_shown(error.instance)}"
    else:
        yield f"at {_path(error)}: {_shown(error.instance)} fits none of the alternatives of its schema"


def _kinds(expected: object) -> str:
    kinds = [expected] if isinstance(expected, str) else cast("Iterable[object]", expected)
    return " or ".join(_KINDS.get(str(kind), str(kind)) for kind in kinds)


def _path(error: Any) -> str:
    return _way(tuple(error.absolute_path))


def _way(path: tuple[str | int, ...]) -> str:
    """The path as people write it: `edits[0].line`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{_bounded(step)}" for step in path)
    return text.removeprefix(".") or "the top"


def _shown(value: object) -> str:
    try:
        return _bounded(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def _bounded(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _pattern(_: object, pattern: str, instance: object, __: object) -> "Iterator[jsonschema.ValidationError]":
    if isinstance(instance, str) and not Regex(pattern).search(instance):
        from jsonschema import ValidationError

        yield ValidationError("it does not match")


def _refused(*_: object) -> "Iterator[jsonschema.ValidationError]":
    raise RegexError("'patternProperties' is not supported")


def _is_array(_: object, value: object) -> bool:
    return isinstance(value, list | tuple)  # frozen values have tuples


def _is_object(_: object, value: object) -> bool:
    return isinstance(value, Mapping)


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # not 1.0: no tool could take it as one


_KINDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
