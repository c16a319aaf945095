"""Where a dispatch stands: which hook runs, inside which other dispatch, and what was answered so far."""

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from tenter.kernel.chain import Chain, Link
from tenter.kernel.decision import Record
from tenter.kernel.event import Event
from tenter.kernel.fold import NOT_LIFTED, Fold, Lifted
from tenter.kernel.outcome import Outcome

DEEPEST = 8
"""How many dispatches may stand inside one another (FAULTS 30)."""

Links = tuple[Link, ...]

Told = list[tuple[Link, Event]]
"""Who was told that an operation began, and the event that each was given."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a dispatch has to do with the rest of its operation."""

    told: Told
    """Where to note whoever must hear how the operation ends."""
    guards: Links = ()
    """Who judges again what an `in` hook hands on."""
    ended: Outcome | None = None
    """How the work ended that observers of an `in` point are told of."""


class Frame:
    """One dispatch while it runs. Executors read the current one (`current_frame`) for what they tell the outside.

    It is made without `__init__`: what every dispatch sets has no default, what few do has its default on the class.
    Both are quicker to reach so, and making one is on the path of every point.
    """

    chain: Chain
    op: str
    """The id of the call that the event belongs to."""
    parent: "Frame | None"
    task: "asyncio.Task[object] | None"
    asked: int
    """How often the task had been asked to cancel when this dispatch began."""
    link: Link | None
    """The hook that runs now, as the shared timer sees it."""
    fold: Fold | None
    part: Part | None
    stage: Literal["links", "recheck", "observers"] = "links"
    turn: int = 0
    """Counts the passes over links, so that a hook that runs once more is not taken for one that is still there."""
    seen: tuple[Link | None, int, float] = (None, 0, 0.0)
    """What the shared timer saw when it last looked: the hook, the turn, and since when."""
    expired: bool = False
    """Whether the shared timer saw the running hook's deadline pass."""
    asks: object = None
    """Who asked the task to cancel while the hook ran that last waited for something (`asking`)."""
    recheck: bool = False
    """Whether guards judge once more what was rewritten."""
    handed: tuple[Fold, Link] | None = None
    """The `in` hook that handed another event on, and the fold then, while guards judge it."""
    leaves: bool = False
    """Whether the last answer ends this pass over links."""
    ended: Outcome | None = None
    """How the chain ended that is being observed."""
    seconds: float = 0.0
    """How long the execution took that answered last."""
    records: tuple[Record, ...] = ()
    lifted: Mapping[str, Lifted] = NOT_LIFTED
    """The hooks that wanted a person whom nobody asks, and why."""

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked the task to cancel since this dispatch began."""
        return self.task is not None and self.task.cancelling() > self.asked

    @property
    def depth(self) -> int:
        """1 for a dispatch that no hook made."""
        return 1 if self.parent is None else self.parent.depth + 1


class Stack:
    """The dispatches of one task that stand inside one another.

    One for each task, because setting a context variable for each dispatch costs as much as a hook. A task that a hook
    starts begins its stack on the dispatch in which that hook then is.
    """

    __slots__ = ("origin", "task", "top")

    def __init__(self, task: "asyncio.Task[object] | None", origin: Frame | None) -> None:
        self.task = task
        self.origin = origin
        self.top = origin


STACK: ContextVar[Stack | None] = ContextVar("tenter_stack", default=None)


def begin_stack(task: "asyncio.Task[object] | None", origin: Frame | None) -> Stack:
    """Gives the context that runs here a stack of its own."""
    stack = Stack(task, origin)
    STACK.set(stack)
    return stack


def current_frame() -> Frame | None:
    """The dispatch whose hook is running here, or None."""
    stack = STACK.get()
    return None if stack is None else stack.top


def ended() -> Outcome | None:
    """How the chain ended that is being observed."""
    frame = current_frame()
    return None if frame is None else frame.ended
