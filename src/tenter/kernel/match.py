"""`match`: which events a hook is for, judged before anything is built or started (D§5).

A pattern is a name with `*`, a list of these, or `{re: …}` (RE2 over the whole value). All are linear in the value,
whatever the pattern (FAULTS 34).
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import cast

from tenter.kernel.errors import RegistrationError
from tenter.kernel.event import Event

Matcher = Callable[[Event], bool]
Test = Callable[[str], bool]

LONGEST_PATTERN = 1_000


def compile_match(match: Mapping[str, object], fields: Mapping[str, str], owner: str) -> Matcher | None:
    """The predicate for `match`, or None where it asks nothing. Raises RegistrationError for a field or a pattern that is none."""
    tests: list[tuple[Callable[[Event], object], Test]] = []
    for name, pattern in match.items():
        if name not in fields:
            known = ", ".join(sorted(fields)) or "no field at all"
            raise RegistrationError(f"{owner} matches on {name!r}; this point can match on {known}")
        tests.append((attrgetter(fields[name]), _compile_pattern(pattern, f"{owner}, match.{name},")))
    if not tests:
        return None

    def matches(event: Event) -> bool:
        return all(isinstance(value := read(event), str) and test(value) for read, test in tests)

    return matches


def _compile_pattern(pattern: object, owner: str) -> Test:
    match pattern:
        case str():
            return _glob(_bounded(pattern, owner))
        case list() | tuple() if pattern:
            tests = [_compile_pattern(one, owner) for one in cast(tuple[object, ...], pattern)]
            return lambda value: any(test(value) for test in tests)
        case {"re": str(expression), **rest} if not rest:
            return _expression(_bounded(expression, owner), owner)
        case _:
            raise RegistrationError(f"{owner} must be a name with '*', a list of these or {{re: …}}, not {pattern!r}")


def _bounded(pattern: str, owner: str) -> str:
    if len(pattern) > LONGEST_PATTERN:
        raise RegistrationError(
            f"{owner} is a pattern of {len(pattern)} characters; at most {LONGEST_PATTERN} are taken"
        )
    return pattern


def _glob(pattern: str) -> Test:
    first, *rest = pattern.split("*")
    if not rest:
        return first.__eq__
    *middle, last = rest

    def matches(value: str) -> bool:
        if len(value) < len(first) + len(last) or not (value.startswith(first) and value.endswith(last)):
            return False
        at, end = len(first), len(value) - len(last)
        for piece in middle:
            if (found := value.find(piece, at, end)) < 0:
                return False
            at = found + len(piece)
        return True

    return matches


def _expression(expression: str, owner: str) -> Test:
    import re2  # here, because loading it costs more than most hooks need

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        raise RegistrationError(f"{owner} is not an expression that RE2 takes: {expression!r} ({error})") from None
    return lambda value: compiled.fullmatch(value) is not None
