"""Where a dispatch stands: which hook runs, since when, inside which other dispatch, and what was answered so far."""

import asyncio
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Literal

from tenter.kernel.chain import Chain, Link
from tenter.kernel.decision import Record
from tenter.kernel.event import Event
from tenter.kernel.fold import Fold
from tenter.kernel.outcome import Outcome

DEEPEST = 8
"""How many dispatches may stand inside one another (FAULTS 30)."""


Told = list[tuple[Link, Event]]
"""Who was told that an operation began, and the event that each was given."""

Stage = Literal["links", "recheck", "last"]


class Frame:
    """One dispatch while it runs. Executors read the current one (`FRAME`) for what they tell the outside.

    Defaults stand on the class: a dispatch in which nobody answers sets a few attributes and no more.
    """

    chain: Chain
    links: tuple[Link, ...] = ()
    """What runs first."""
    rest: Iterator[Link] | None = None
    """The iterator over what runs, by which the shared timer sees where it stands."""
    stage: Stage = "links"
    parent: "Frame | None" = None
    depth: int = 1
    task: "asyncio.Task[object] | None" = None
    leave: "Callable[[Frame], object] | None" = None
    """Ends the watching of this frame."""
    expired: bool = False
    """Whether the shared timer saw the running hook's deadline pass."""
    ended: Outcome | None = None
    """How the chain ended that is being observed."""
    ends: bool = False
    """Whether an answer ended the chain."""
    recheck: bool = False
    guards: tuple[Link, ...] = ()
    """Who judges again what an `in` hook hands on."""
    fold: Fold | None = None
    records: tuple[Record, ...] = ()
    told: tuple[tuple[Link, Event], ...] = ()


FRAME: ContextVar[Frame | None] = ContextVar("tenter_frame", default=None)
"""The dispatch whose hook is running here, or None."""


def ended() -> Outcome | None:
    """How the chain that is being observed ended."""
    frame = FRAME.get()
    return None if frame is None else frame.ended
