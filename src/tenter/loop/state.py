"""Where a loop stands, as one frozen value: everything that it needs to go on, in this process or in another.

It is journaled at every boundary. Changes make new values; nothing here reads a clock, a file or a configuration.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tenter.catalogue import EMPTY
from tenter.kernel import FrozenDict, FrozenStruct
from tenter.loop.reason import Reason

STATE_VERSION: Final = 1

MOST_TOPICS: Final = 200
"""So many topics are counted by name; `published` counts all events."""

Stage = Literal["start", "next", "iteration", "backend", "publishing", "ending", "over"]
"""What a loop does next. `start`, `iteration` and `ending` are boundaries, `publishing` has one for some events; at
`next` it is decided whether there is another iteration."""

Side = Literal["pre", "post"]
"""On which side of a boundary's body the loop is."""


class Published(FrozenStruct, frozen=True):
    """An event as it was published."""

    topic: str
    payload: object = None


class Asked(FrozenStruct, frozen=True, kw_only=True):
    """A question to a person, and what came of it; `outcome` is None until that is known."""

    question: str
    options: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    outcome: Literal["answered", "timeout", "failed"] | None = None
    answer: str | None = None

    def but(self, **changes: object) -> "Asked":
        """The question with `changes`."""
        return msgspec.structs.replace(self, **changes)


class Batch(FrozenStruct, frozen=True, kw_only=True):
    """What one iteration left to be published: the bytes of the events file, and how far that has come."""

    start: int
    """Offset in bytes of the first event."""
    stop: int
    lines: int = 0
    """How many lines these bytes have, as `count_lines` counts them."""
    index: int = 0
    """Of the event that is next, from 0, among what `parse_events` makes of these bytes."""
    refused: tuple[tuple[int, int], ...] = ()
    """The events that hooks refused, which are not published: spans, each from its first index to past its last."""
    asked: Asked | None = None
    """The question of the event at `index`, once it was put."""
    cut: str = ""
    """Why events may be missing: the file was cut."""
    failed: bool = False
    """Whether the backend failed."""
    error: str = ""
    promised: bool = False
    """Whether the last line of its output was the completion promise."""
    escalated: str | None = None
    """The queue that a run of the backend was escalated to."""

    def but(self, **changes: object) -> "Batch":
        """The batch with `changes`."""
        return msgspec.structs.replace(self, **changes)

    def refusing(self) -> "Batch":
        """The batch whose event at `index` is refused. Neighbours share a span: an agent may publish very many."""
        first, spans = self.index, self.refused
        if spans and spans[-1][1] == first:
            first, spans = spans[-1][0], spans[:-1]
        return self.but(refused=(*spans, (first, self.index + 1)))

    def refuses(self) -> frozenset[int]:
        """The indexes of the refused events."""
        return frozenset(index for first, past in self.refused for index in range(first, past))


class LoopState(FrozenStruct, frozen=True, kw_only=True):
    """One loop. Times are in seconds since the epoch, offsets in bytes."""

    stage: Stage = "start"
    side: Side = "pre"
    iteration: int = 0
    """The number of the iteration that is going on, from 1; 0 before the first."""
    started_at: float
    waited_seconds: float = 0.0
    """Spent suspended or waiting for an answer, which does not count as runtime."""
    failures: int = 0
    """Iterations running whose backend failed."""
    malformed: int = 0
    """Lines of the events file that were no events."""
    lines: int = 0
    """Lines of the events file that were read."""
    last: Published | None = None
    repeated: int = 0
    """How many times running `last` was published."""
    cost_usd: float = 0.0
    offset: int = 0
    """How much of the events file was read."""
    published: int = 0
    """Events that were published; refused ones are not."""
    topics: Mapping[str, int] = FrozenDict()
    """How often each topic was, the first ones first, and not more than MOST_TOPICS."""
    seen: tuple[str, ...] = ()
    """The topics that were published, among those that completion requires."""
    pending: tuple[Published, ...] = ()
    """What no iteration has taken on yet."""
    taken: tuple[Published, ...] = ()
    """What the iteration that is going on has taken on."""
    notes: tuple[str, ...] = ()
    """What the next iteration is told: refusals, malformed lines, a failure."""
    active_hat: str | None = None
    selected_hat: str | None = None
    selected_task: str | None = None
    batch: Batch | None = None
    metadata: Mapping[str, object] = EMPTY
    """By hook, what hooks with `mutate.enabled` said."""
    released: bool = False
    """Whether a person let the loop go on from this side of the boundary: its hooks are not asked again."""
    passes: int = 1
    """How many times hooks of the present boundary were asked: after a suspension once more."""
    reason: Reason | None = None
    """Why it ends; None while it goes on."""
    message: str = ""
    """The same, for people."""

    def but(self, **changes: object) -> "LoopState":
        """The state with `changes`."""
        return msgspec.structs.replace(self, **changes)

    def at(self, stage: Stage, side: Side = "pre", **changes: object) -> "LoopState":
        """The state at another boundary, with `changes`; its hooks were not asked yet."""
        return self.but(stage=stage, side=side, passes=1, released=False, **changes)

    def ending(self, reason: Reason, message: str) -> "LoopState":
        """The state of a loop that comes to its end for `reason`."""
        return self.at("ending", reason=reason, message=message)
