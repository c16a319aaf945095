"""How a Python hook is called under a deadline of its own (D§7): control is back when it has passed, whatever the hook does.

An async hook runs in a task, a synchronous one in a daemon thread; both may outlive their call, and are followed and
counted. What a hook without a deadline of its own does is `watch`'s matter.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

from tenter.kernel.chain import Link
from tenter.kernel.clock import Clock
from tenter.kernel.errors import HookFailure
from tenter.kernel.event import Event

BREAKER_AFTER = 3
"""Deadlines missed in a row, after which a synchronous hook is not called for a while."""

BREAKER_SECONDS = 60.0

_STRAGGLERS: set[asyncio.Task[object]] = set()


def too_late(link: Link) -> HookFailure:
    return HookFailure("timeout", f"the hook {link.name!r} gave no answer within {link.timeout:g} s")


@dataclass(slots=True)
class HardTask:
    """Calls an async hook in a task of its own."""

    link: Link
    call: Callable[[Event], Awaitable[object]]

    async def __call__(self, event: Event) -> object:
        task = asyncio.get_running_loop().create_task(_contained(self.call, event))
        try:
            done, _ = await asyncio.wait((task,), timeout=self.link.timeout)
        except asyncio.CancelledError:
            _let_go(task)
            raise
        if not done:
            _let_go(task)
            raise too_late(self.link)
        if task.cancelled():
            raise HookFailure("crashed", f"the hook {self.link.name!r} raised CancelledError, which nobody asked for")
        answer = task.result()
        if isinstance(answer, _Raised):
            raise answer.error
        return answer


@dataclass(slots=True)
class HardThread:
    """Calls a synchronous hook in a daemon thread, and stops calling one that keeps missing its deadline."""

    link: Link
    call: Callable[[Event], object]
    clock: Clock
    missed: int = field(default=0, init=False)
    open_until: float = field(default=float("-inf"), init=False)

    async def __call__(self, event: Event) -> object:
        if self.clock.monotonic() < self.open_until:
            raise HookFailure(
                "timeout",
                f"the hook {self.link.name!r} missed its deadline {BREAKER_AFTER} times in a row and is not called for "
                f"{BREAKER_SECONDS:g} s",
                code="breaker_open",
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()
        state = _ThreadState()

        def work() -> None:
            try:
                answer: object = context.run(self.call, event)
            except BaseException as error:  # whatever a hook raises is the hook's, and a thread has nobody to tell
                answer = _Raised(error)
            if state.left_alone():
                self.link.leaked -= 1
            elif not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future, answer)

        threading.Thread(target=work, name=f"tenter-hook-{self.link.name}", daemon=True).start()
        try:
            done, _ = await asyncio.wait((future,), timeout=self.link.timeout)
        except asyncio.CancelledError:
            self._leave(state)
            raise
        if not done:
            self._leave(state)
            self._count_missed()
            raise too_late(self.link)
        self.missed = 0
        answer = future.result()
        if isinstance(answer, _Raised):
            raise answer.error
        return answer

    def _leave(self, state: "_ThreadState") -> None:
        if state.leave():
            self.link.leaked += 1

    def _count_missed(self) -> None:
        self.missed += 1
        if self.missed >= BREAKER_AFTER:
            self.missed = 0
            self.open_until = self.clock.monotonic() + BREAKER_SECONDS


class _ThreadState:
    """Who was first: the thread with its answer, or the caller who gave up on it."""

    __slots__ = ("_answered", "_left", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = False
        self._answered = False

    def leave(self) -> bool:
        """Gives up. True where the thread is still at it."""
        with self._lock:
            self._left = True
            return not self._answered

    def left_alone(self) -> bool:
        """Called by the thread at its end: whether the caller has given up."""
        with self._lock:
            self._answered = True
            return self._left


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


async def _contained(call: Callable[[Event], Awaitable[object]], event: Event) -> object:
    try:
        return await call(event)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a SystemExit that leaves a task would end the loop
        return _Raised(error)


def _let_go(task: asyncio.Task[object]) -> None:
    """Cancels a hook's task without waiting, and follows it to its end so that its exception is not lost on the loop."""
    task.cancel()
    _STRAGGLERS.add(task)
    task.add_done_callback(_followed)


def _followed(task: asyncio.Task[object]) -> None:
    _STRAGGLERS.discard(task)
    if not task.cancelled():
        task.exception()


def _settle(future: asyncio.Future[object], answer: object) -> None:
    if not future.done():
        future.set_result(answer)


def arm(link: Link, clock: Clock, ended: Callable[[], object]) -> None:
    """Makes `link.call` what the dispatcher calls: with `ended` where the observer takes it, under its deadline."""
    call = link.hook.call
    if link.takes_ended:
        call = _with_ended(call, ended)
    if link.hook.self_timed or link.hook.timeout is None:
        link.call = call
    elif link.awaits:
        link.call = HardTask(link, cast("Callable[[Event], Awaitable[object]]", call))
    else:
        link.call = HardThread(link, call, clock)
        link.awaits = True


def _with_ended(call: Callable[..., object], ended: Callable[[], object]) -> Callable[[Event], object]:
    return lambda event: call(event, ended())
