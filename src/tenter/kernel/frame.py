"""Where a dispatch stands: which hooks run, inside which other dispatch, and what was answered so far."""

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar

from tenter.kernel.chain import Chain, Link
from tenter.kernel.decision import Record
from tenter.kernel.event import Event
from tenter.kernel.fold import Fold
from tenter.kernel.outcome import Outcome

DEEPEST = 8
"""How many dispatches may stand inside one another (FAULTS 30)."""

Told = list[tuple[Link, Event]]
"""Who was told that an operation began, and the event that each was given."""


class Frame:
    """One dispatch while it runs. Executors read the current one (`FRAME`) for what they tell the outside.

    Made without `__init__`, and what only some dispatches need has its default on the class: making one is on the path
    of every point. What every dispatch needs has no default there, because Python finds it faster so.
    """

    chain: Chain
    op: str
    """The id of the call that the event belongs to."""
    parent: "Frame | None"
    links: tuple[Link, ...]
    rest: Iterator[Link] | None
    """The iterator over `links`, by which the shared timer sees where it stands; None while no hook runs."""
    task: "asyncio.Task[object]"
    """The task that the shared timer cancels; set while it watches."""
    asked: int
    """How often that task had been asked to cancel when this dispatch began."""
    fold: Fold | None
    watched: bool = False
    expired: bool = False
    """Whether the shared timer saw the running hook's deadline pass."""
    recheck: bool = False
    """Whether guards judge once more what was rewritten."""
    ended: Outcome | None = None
    """How the chain ended that is being observed."""
    guards: tuple[Link, ...] = ()
    """Who judges again what an `in` hook hands on."""
    told: Told | None = None
    """Where to note whoever must hear how the operation ends."""
    seconds: float = 0.0
    """How long the execution took that answered last."""
    records: tuple[Record, ...] = ()

    @property
    def depth(self) -> int:
        """1 for a dispatch that no hook made."""
        return 1 if self.parent is None else self.parent.depth + 1


FRAME: ContextVar[Frame | None] = ContextVar("tenter_frame", default=None)
"""The dispatch whose hook is running here, or None."""


def ended() -> Outcome | None:
    """How the chain that is being observed ended."""
    frame = FRAME.get()
    return None if frame is None else frame.ended
