"""The trace: what happened, in order, without content (D§10, seed 003).

Entries hold ids, names and numbers; nothing here takes an event's fields, a reason or an exception's message.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from tenter.kernel.frozen import FrozenDict

Kind = Literal["hook", "outcome", "failure", "note"]

Detail = str | int | float | bool | None

Raw = tuple[float, Kind, str, str, str, Mapping[str, Detail]]

NOTHING: Mapping[str, Detail] = FrozenDict()


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a trace. `time` is in seconds since the epoch, of the clock that the runtime was given."""

    sequence: int
    time: float
    kind: Kind
    source: str
    """The point for `hook`, the hook for `outcome` and `failure`, the part of tenter for `note`."""
    code: str = ""
    op: str = ""
    details: Mapping[str, Detail] = NOTHING


class Trace:
    """Grows by one entry at a time and is read as a tuple of `TraceEvent`.

    Entries are kept as plain tuples until somebody reads them: writing one is on the path of every point.
    """

    __slots__ = ("_counted", "_raw", "_start", "add", "heard")

    def __init__(self, start: int = 1) -> None:
        self._raw: list[Raw] = []
        self._counted: dict[tuple[str, str], int] = {}
        self._start = start
        self.add = self._raw.append
        self.heard: Callable[[int, str], None] | None = None
        """Is told why a hook failed, by the number of the entry that does not say it: for people who watch."""

    def __len__(self) -> int:
        return len(self._raw)

    def go_on(self, after: int) -> None:
        """The first entry is number `after` + 1: the trace goes on with that of another process."""
        assert not self._raw, "the numbers of entries that there are stand"
        self._start = after + 1

    @property
    def last(self) -> int:
        """The number of the last entry; where there is none, of the one before the first."""
        return self._start - 1 + len(self._raw)

    def note(self, time: float, source: str, code: str, **details: Detail) -> None:
        """A decision of tenter itself: a guard fired, a budget checked, a limit reached."""
        self.add((time, "note", source, code, "", FrozenDict(details)))

    def count(self, time: float, source: str, code: str, op: str) -> None:
        """One more firing of a nested operation's point: all of one op share one entry, and the last code stands."""
        at = self._counted.setdefault((source, op), len(self._raw))
        if at == len(self._raw):
            self.add((time, "hook", source, code, op, FrozenDict({"firings": 1})))
            return
        first, kind, _, earlier, _, details = self._raw[at]
        firings = int(details["firings"] or 0) + 1
        self._raw[at] = (first, kind, source, code or earlier, op, FrozenDict({"firings": firings}))

    def events(self, after: int = 0) -> tuple[TraceEvent, ...]:
        """The entries from number `after` on (0: all)."""
        return tuple(
            TraceEvent(sequence=n, time=time, kind=kind, source=source, code=code, op=op, details=details)
            for n, (time, kind, source, code, op, details) in enumerate(self._raw[after:], self._start + after)
        )
