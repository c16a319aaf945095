"""Holds a call's arguments against the tool's JSON Schema (draft 2020-12). Pure; nothing is fetched.

`pattern` is matched by RE2, so that no argument can make it hang. A schema that would need more than that, or a
document from elsewhere, is refused by `check_schema` when the tool is taken on.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import jsonschema
import jsonschema.validators
import referencing
import referencing.exceptions

from tenter.config.problem import did_you_mean, render_path
from tenter.harness.errors import LONGEST_SHOWN
from tenter.harness.regex import Regex, RegexError

MOST_PROBLEMS: Final = 20
REFERENCES: Final = ("$ref", "$dynamicRef")
MISFITS: Final = ("patternProperties", "$id", "$recursiveRef")
"""What is not taken: the first is matched with `re`; the second changes what a `$ref` points to."""

Checker = jsonschema.Draft202012Validator


def check_schema(schema: Mapping[str, object]) -> list[str]:
    """Why arguments cannot be held against `schema`; empty where they can."""
    try:
        Checker.check_schema(cast("Any", _plain(schema)))
    except jsonschema.SchemaError as error:
        return [f"at {_path(error.absolute_path)}: {_bounded(error.message)}"]
    except RecursionError:
        return ["it is nested too deeply"]
    return list(_misfits(schema, ()))[:MOST_PROBLEMS]


def check_arguments(schema: Mapping[str, object], arguments: object) -> list[str]:
    """What is wrong with `arguments`, each with its path and what was expected; empty where nothing is.

    Fails closed: where `schema` itself cannot be used, that is the problem.
    """
    if not isinstance(arguments, Mapping):
        return [f"expected an object with the arguments, got {_shown(arguments)}"]
    checker = _Validator(cast("Any", _plain(schema)), registry=referencing.Registry())
    try:
        errors = sorted(checker.iter_errors(_plain(cast("object", arguments))), key=lambda e: list(map(str, e.absolute_path)))
    except referencing.exceptions.Unresolvable as error:
        return [f"the tool's own schema cannot be used: it refers to {error.ref!r}, which is not in it"]
    except RecursionError:
        return ["the arguments, or the tool's own schema, are nested too deeply"]
    except (RegexError, ArithmeticError, jsonschema.exceptions.UnknownType) as error:
        return [f"the tool's own schema cannot be used: {error}"]
    told = [problem for error in errors for problem in _problems(error)]
    more = [f"and {len(told) - MOST_PROBLEMS} more"] if len(told) > MOST_PROBLEMS else []
    return told[:MOST_PROBLEMS] + more
