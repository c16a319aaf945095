"""What a run is started with, checked before anything begins."""

import math
from collections.abc import Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Final, TypedDict, cast

from tenter.catalogue import EMPTY, Envelope, Limits, LoopFacts, Participant, TaskRef
from tenter.harness.parts import Watcher
from tenter.kernel import TenterError, freeze

MOST_STEPS: Final = 2**53 - 1
"""A larger number would be rounded by who reads JSON."""


class RunArguments(TypedDict, total=False):
    """What `Harness.run` takes beside the task and its input."""

    principal: str | None
    session_id: str | None
    correlation_id: str | None
    participants: tuple[Participant, ...]
    entities: tuple[str, ...]
    metadata: Mapping[str, object]
    deadline: float | None
    max_steps: int
    loop: LoopFacts | None
    watcher: Watcher | None
    environment: Mapping[str, str]


def check_arguments(task: object, input: object, given: RunArguments) -> None:
    """Raises TenterError for the first argument that is not what its annotation says, naming it and no value."""
    for name, value in (("task", task), ("input", input)):
        _expect(isinstance(value, str), name, "a text", value)
    for name in ("principal", "session_id", "correlation_id"):
        value: object = given.get(name)
        _expect(value is None or isinstance(value, str), name, "a text or None", value)
    for name, cls, words in (("participants", Participant, "Participant values"), ("entities", str, "texts")):
        value = given.get(name, ())
        _expect(_all_are(value, cls), name, f"a tuple of {words}", value)
    value = given.get("metadata", EMPTY)
    _expect(isinstance(value, Mapping), "metadata", "a mapping", value)
    value = cast("object", given.get("loop"))
    _expect(value is None or isinstance(value, LoopFacts), "loop", "LoopFacts or None", value)
    value = given.get("watcher")
    is_function = callable(value) and not iscoroutinefunction(value)
    _expect(value is None or is_function, "watcher", "a function that is not async, or None", value)
    value = cast("object", given.get("environment", {}))
    _expect(_is_environment(value), "environment", "a mapping of names to texts, as programs take them", value)


def envelope_of(task: TaskRef, given: RunArguments) -> Envelope:
    """Who a run is, made of checked arguments. Raises TenterError for metadata that is no data."""
    try:
        metadata = freeze(given.get("metadata", EMPTY))
    except (TypeError, ValueError) as error:
        raise TenterError(f"the metadata of a run must be data: {error}") from None
    return Envelope(
        run_id=task.id,
        task=task,
        correlation_id=given.get("correlation_id") or task.id,
        session_id=given.get("session_id"),
        principal=given.get("principal"),
        participants=tuple(given.get("participants", ())),
        entities=tuple(given.get("entities", ())),
        metadata=metadata,
    )


def limits_of(deadline: object, max_steps: object) -> Limits:
    """Raises TenterError for a deadline that is no moment, and for steps that are no count."""
    if deadline is not None and not _is_moment(deadline):
        raise TenterError(
            f"the deadline of a run must be in seconds since the epoch, not {_described(deadline)}; None for none"
        )
    if not isinstance(max_steps, int) or isinstance(max_steps, bool) or not 1 <= max_steps <= MOST_STEPS:
        raise TenterError(f"max_steps must be a number from 1 to 2^53 - 1, not {_described(max_steps)}")
    return Limits(deadline=None if deadline is None else float(cast("float", deadline)), max_steps=max_steps)


def _expect(fits: bool, name: str, what: str, value: object) -> None:
    if not fits:
        raise TenterError(f"the argument {name!r} of a run must be {what}, not {_described(value)}")


def _all_are(value: object, cls: type) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, cls) for one in cast("Sequence[object]", value))


def _is_environment(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    pairs = cast("Mapping[object, object]", value).items()
    return all(
        isinstance(name, str) and isinstance(text, str) and name and not set("=\0") & set(name) and "\0" not in text
        for name, text in pairs
    )


def _is_moment(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _described(value: object) -> str:
    """A number as it is; of anything else its kind alone, for a text may be a secret."""
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20):
        return repr(value)
    if isinstance(value, int):
        return "a number that large"
    kind = type(value).__name__
    if isinstance(value, tuple | list) and value:
        return f"{kind} with {', '.join(sorted({type(one).__name__ for one in cast('Sequence[object]', value)}))}"
    return kind
