"""Who asked a task to cancel while a hook ran in it: somebody outside, or the hook itself (D§7, decision 0011).

A task counts how often it was asked, not by whom. While a hook waits only others run; while it runs nobody else does.
The one exception is the `TaskGroup` of Python 3.11 and 3.12, which asks its own task while that waits, and leaves it
counted.
"""

import asyncio
import dis
import gc
import signal
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Final, cast

from tenter.kernel.chain import Link
from tenter.kernel.declaration import function_of
from tenter.kernel.frame import Frame, current_frame

_LEAVES_GROUP: Final = asyncio.TaskGroup.__aexit__.__code__

_GROUPS_LEAVE_COUNTED: Final = sys.version_info < (3, 13)
"""From 3.13 on a group takes back what it asked as it ends, like any timeout: it needs no look of its own."""


class Asks:
    """How often a task was asked to cancel since a hook began, and each time by whom."""

    __slots__ = ("_count", "_groups", "_outside", "_task", "link")

    def __init__(self, link: Link, task: "asyncio.Task[object]", count: int) -> None:
        self.link = link
        self._task = task
        self._count = count
        self._outside: list[bool] = []
        self._groups: list[asyncio.TaskGroup] = []

    @property
    def outside(self) -> int:
        """How often somebody else asked, and nobody took back."""
        return sum(self._outside)

    def ran(self, hook: object) -> None:
        """Notes what changed while the hook ran."""
        count = self._task.cancelling()
        if count < self._count:
            self._is_new(_group_ending(hook))  # what it asked before its end it has taken back by now
        self._note(count, outside=False)

    def waited(self, hook: object) -> None:
        """Notes what changed while the hook waited."""
        count = self._task.cancelling()
        if count == self._count:
            return
        if self._is_new(_group_ending(hook)):
            self._count += 1  # it stays, whatever else is taken back
        self._note(count, outside=True)

    def _is_new(self, group: "asyncio.TaskGroup | None") -> bool:
        """Whether it was not seen before: a group asks once."""
        if group is None or any(group is other for other in self._groups):
            return False
        self._groups.append(group)
        return True

    def _note(self, count: int, *, outside: bool) -> None:
        """Who takes one back takes back the last: what asks and takes back stands inside one another."""
        if count < self._count:
            del self._outside[count - self._count :]
        else:
            self._outside += [outside] * (count - self._count)
        self._count = count


@dataclass(frozen=True, slots=True)
class Followed:
    """Calls an async hook and notes who asks its task to cancel meanwhile, for the dispatch that it runs in."""

    link: Link
    call: Callable[..., object]

    async def __call__(self, *given: object) -> object:
        frame = current_frame()
        hook = cast("Coroutine[object, object, object]", self.call(*given))
        if frame is None or frame.task is None:
            return await hook
        return await _driven(hook, self.link, frame, frame.task)


def waits(call: object) -> bool:
    """Whether an async function may wait for something; one without an `await` cannot."""
    code = getattr(function_of(call), "__code__", None)
    if not isinstance(code, types.CodeType):
        return True
    return any(step.opname == "SEND" for step in dis.get_instructions(code))


def outside(frame: Frame, link: Link) -> int:
    """How often somebody other than the hook of `link`, which just ran, asked the task of `frame` to cancel."""
    task = frame.task
    count = 0 if task is None else task.cancelling() - frame.asked
    if task is None or count <= 0:
        return 0
    elsewhere = link.awaits and not link.soft  # such a hook does not run in this task
    if elsewhere or _interrupted(task):
        return count
    return frame.asks.outside if isinstance(frame.asks, Asks) and frame.asks.link is link else 0


async def take_back(frame: Frame) -> bool:
    """Takes back what the hook asked of its own task; whether a cancellation was still on its way.

    Raises CancelledError where somebody else asked meanwhile.
    """
    task = frame.task
    assert task is not None
    on_its_way: bool = getattr(task, "_must_cancel", True)  # from 3.13 on the last `uncancel` calls it off
    while task.cancelling() > frame.asked:
        task.uncancel()
    if not on_its_way:
        return False
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if frame.cancelled:
            raise
    return True


def _interrupted(task: "asyncio.Task[object]") -> bool:
    """Whether the user interrupted `asyncio.run`, which asks its task to cancel from within whatever runs."""
    handler: Any = signal.getsignal(signal.SIGINT)
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    mine = getattr(handler, "keywords", None) == {"main_task": task}
    return mine and getattr(runner, "_interrupt_count", 0) > 0


@types.coroutine
def _driven(
    hook: Coroutine[object, object, object], link: Link, frame: Frame, task: "asyncio.Task[object]"
) -> Generator[object, object, object]:
    """Awaits a hook, and notes in `frame` whose turn it was between any two of its steps."""
    frame.asks, began = None, task.cancelling()
    try:
        pending = hook.send(None)
    except StopIteration as returned:  # as most do, without ever waiting
        return returned.value
    step: Callable[[Any], object]
    frame.asks = asks = Asks(link, task, began)
    asks.ran(hook)
    while True:
        step, given = hook.send, None
        try:
            given = yield pending
        except GeneratorExit:
            hook.close()
            raise
        except BaseException as error:  # it is the hook's, whatever it is
            step, given = cast("Callable[[Any], object]", hook.throw), error
        asks.waited(hook)
        try:
            pending = step(given)
        except StopIteration as returned:
            return returned.value
        finally:
            asks.ran(hook)


def _group_ending(hook: object) -> "asyncio.TaskGroup | None":
    """The group on whose end `hook` waits, where that asked the task to cancel.

    What it asks while it waits for its end it leaves counted; what it asked before that it took back at once.
    """
    inner: object | None = hook if _GROUPS_LEAVE_COUNTED else None
    while inner is not None:
        if getattr(inner, "cr_code", None) is _LEAVES_GROUP and (frame := cast(Any, inner).cr_frame) is not None:
            group = frame.f_locals["self"]
            return group if getattr(group, "_parent_cancel_requested", False) else None
        inner = _awaited(inner)
    return None


def _awaited(outer: object) -> object | None:
    """What a coroutine or generator waits for, where that is one itself."""
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        if hasattr(outer, name):
            return getattr(outer, name)
    if not isinstance(outer, Coroutine):
        return None
    known: list[object] = gc.get_referents(outer)  # the next value of an async generator tells nobody else whose it is
    return next((it for it in known if hasattr(it, "ag_await") or hasattr(it, "cr_await")), None)
