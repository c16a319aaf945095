"""A trace for people and for tests (D§10, seed 003)."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from tenter.kernel import TraceEvent


class Traced(Protocol):
    @property
    def trace(self) -> tuple[TraceEvent, ...]: ...


def render_trace(traced: Traced | Iterable[TraceEvent]) -> str:
    """The trace, one entry a line: number, kind, source, code, and details as `name=value`."""
    return "\n".join(_line(event) for event in _events(traced))


def assert_trace(traced: Traced | Iterable[TraceEvent], expected: Sequence[str]) -> None:
    """Asserts that `expected` occur in the trace, in this order; other entries may stand between them.

    An expectation is `kind source code` with as many words as matter: `hook tool.before`, `outcome guard
    policy_denied`. The AssertionError names the first that is missing and prints the trace. Raises ValueError for one
    without a word, which every entry would meet, and TypeError for a text in place of the list.
    """
    if isinstance(expected, str):
        raise TypeError(f"the expectations are a list; write assert_trace(…, [{expected!r}])")
    events = _events(traced)
    rest = iter(events)
    for number, expectation in enumerate(expected, 1):
        words = expectation.split()
        if not words:
            raise ValueError(f"expectation {number}, {expectation!r}, has no word; write `kind source code`")
        if not any(words == [event.kind, event.source, event.code][: len(words)] for event in rest):
            where = "in the trace" if number == 1 else f"in the trace after {expected[number - 2]!r}"
            raise AssertionError(f"expectation {number}, {expectation!r}, is not {where}:\n{render_trace(events)}")


def _events(traced: Traced | Iterable[TraceEvent]) -> tuple[TraceEvent, ...]:
    return tuple(traced) if isinstance(traced, Iterable) else traced.trace


def _line(event: TraceEvent) -> str:
    details = " ".join(f"{name}={value}" for name, value in sorted(event.details.items()))
    return " ".join(filter(None, (f"{event.sequence:4}", event.kind, event.source, event.code, details)))
