"""`match`: which events a hook is for, judged before anything is built or started (D§5).

A pattern is a name with `*`, a list of these, or `{re: …}` (RE2 over the whole value, in which `.` is any character).
Every look at a value is bounded (FAULTS 34); a value too long for its pattern is the hook's failure, so that a guard is
not passed by in silence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import cast

from tenter.kernel.errors import HookFailure, RegistrationError
from tenter.kernel.event import Event

Matcher = Callable[[Event], bool]

LONGEST_PATTERN = 1_000

MOST_WORK = 1_200_000
"""Characters times cost that one match may take: some 8 ms."""

SMALL_PROGRAM = 8
"""Instructions up to which RE2 keeps to its automaton on any text, and each character costs the same."""


@dataclass(frozen=True, slots=True)
class Test:
    """What a value is held against. `cost` is how often it looks at each character in the worst case."""

    holds: Callable[[str], bool]
    cost: int


def compile_match(match: object, fields: Mapping[str, str], owner: str) -> Matcher | None:
    """The predicate for `match`, or None where it asks nothing. `fields` maps each word to the path that it looks at.

    Raises RegistrationError for a word or a pattern that is none. The predicate is False where there is no text at the
    path, and raises HookFailure where the text is too long for the pattern.
    """
    if not isinstance(match, Mapping):
        raise RegistrationError(
            f"{owner} has the match {_shown(match)}; expected a mapping such as {{'tool': 'shell'}}"
        )
    asked = [
        _question(_path(word, fields, owner), _compile(pattern, f"{owner}, match.{word},"), f"match.{word}")
        for word, pattern in cast("Mapping[object, object]", match).items()
    ]
    if not asked:
        return None
    return lambda event: all(question(event) for question in asked)


def _path(word: object, fields: Mapping[str, str], owner: str) -> str:
    if isinstance(word, str) and word in fields:
        return fields[word]
    known = ", ".join(sorted(fields)) or "no field at all"
    raise RegistrationError(f"{owner} matches on {_shown(word)}; this point can match on {known}")


def _question(path: str, test: Test, where: str) -> Matcher:
    read = attrgetter(path)

    def matches(event: Event) -> bool:
        try:
            value = read(event)
        except AttributeError:  # nothing stands there, such as the name of a tool that is not known
            return False
        if not isinstance(value, str):
            return False
        if test.cost * len(value) > MOST_WORK:
            raise HookFailure(
                "crashed",
                f"{where}: a text of {len(value)} characters is too long for this pattern",
                code="match_too_long",
            )
        return test.holds(value)

    return matches


def _compile(pattern: object, owner: str) -> Test:
    if isinstance(pattern, list | tuple) and (items := cast("Sequence[object]", pattern)):
        return _any([_one(item, owner) for item in items])
    return _one(cast(object, pattern), owner)


def _any(tests: Sequence[Test]) -> Test:
    return Test(lambda value: any(test.holds(value) for test in tests), sum(test.cost for test in tests))


def _one(pattern: object, owner: str) -> Test:
    if isinstance(pattern, str):
        return _glob(_bounded(pattern, owner))
    if isinstance(pattern, Mapping):
        keyed = cast("Mapping[object, object]", pattern)
        if len(keyed) == 1 and isinstance(expression := keyed.get("re"), str):
            return _expression(_bounded(expression, owner), owner)
    what = _shown(cast(object, pattern))
    raise RegistrationError(f"{owner} must be a name with '*', a list of these or {{re: …}}, not {what}")


def _bounded(pattern: str, owner: str) -> str:
    if len(pattern) > LONGEST_PATTERN:
        raise RegistrationError(
            f"{owner} is a pattern of {len(pattern)} characters; at most {LONGEST_PATTERN} are taken"
        )
    return pattern


def _glob(pattern: str) -> Test:
    first, *rest = pattern.split("*")
    if not rest:
        return Test(first.__eq__, 0)
    *between, last = rest
    middle = tuple(filter(None, between))

    def holds(value: str) -> bool:
        if len(value) < len(first) + len(last) or not (value.startswith(first) and value.endswith(last)):
            return False
        at, end = len(first), len(value) - len(last)
        for piece in middle:
            if (found := value.find(piece, at, end)) < 0:
                return False
            at = found + len(piece)
        return True

    return Test(holds, 1 if middle else 0)


def _expression(expression: str, owner: str) -> Test:
    import re2  # here, because loading it costs more than most hooks need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # capturing costs a hundred times as much
    options.dot_nl = True
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        why = cast(bytes, error.args[0]).decode("utf-8", "replace")
        raise RegistrationError(f"{owner} is not an expression that RE2 takes: {expression!r} ({why})") from None
    except UnicodeEncodeError:
        raise RegistrationError(f"{owner} holds half a character: {expression!r}") from None
    size = compiled.programsize
    return Test(
        lambda value: compiled.fullmatch(value.encode("utf-8", "replace")) is not None,
        1 if size <= SMALL_PROGRAM else size,
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
