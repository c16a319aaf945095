"""How a Python hook is called under a deadline of its own (D§7): control is back then, whatever the hook does.

An async hook runs in a task, a synchronous one in a daemon thread; both may outlive their call, and are followed and
counted. What a hook without a deadline of its own does is `watch`'s matter.
"""

import asyncio
import contextlib
import contextvars
import threading
from asyncio.tasks import _unregister_task  # pyright: ignore[reportPrivateUsage]  # documented under Extending asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, cast

from tenter.kernel.asking import Followed, waits
from tenter.kernel.chain import Link
from tenter.kernel.clock import Clock
from tenter.kernel.errors import HookFailure
from tenter.kernel.event import Event
from tenter.kernel.frame import ended
from tenter.kernel.outcome import Outcome

BREAKER_AFTER = 3
"""Deadlines missed in a row, after which a synchronous hook is not called for a while."""

BREAKER_SECONDS = 60.0

FAREWELL_SECONDS = 0.5
"""How long the end of an event loop waits for a hook's task that outlived its call."""

_LATE: Final = object()
_FOLLOWERS: set[asyncio.Task[None]] = set()


def arm(link: Link, clock: Clock) -> None:
    """Makes `link.call` what the dispatcher calls: with `ended` where the observer takes it, under its deadline."""
    call = link.hook.call
    if link.soft and waits(call):
        call = Followed(link, call)
    if link.takes_ended:
        call = _with_ended(call)
    if link.hook.self_timed or link.hook.timeout is None:
        link.call = call
    elif link.awaits:
        link.call = HardTask(link, cast("Callable[[Event], Awaitable[object]]", call))
    else:
        link.call = HardThread(link, call, clock)
        link.awaits = True


def too_late(link: Link) -> HookFailure:
    """The failure of a hook whose deadline passed."""
    return HookFailure("timeout", f"the hook {link.name!r} gave no answer within {link.timeout:g} s")


def closes(error: BaseException) -> bool:
    """Whether `error`, just caught, closes the very coroutine that caught it; a hook's own GeneratorExit does not."""
    return issubclass(type(error), GeneratorExit) and (
        error.__traceback__ is None or error.__traceback__.tb_next is None
    )


def forget_origin(outcome: Outcome) -> Outcome:
    """An outcome that was raised, without the frames and exceptions that it would keep alive."""
    outcome.__traceback__ = outcome.__context__ = outcome.__cause__ = None
    return outcome


@dataclass(slots=True)
class HardTask:
    """Calls an async hook in a task of its own."""

    link: Link
    call: Callable[[Event], Awaitable[object]]

    async def __call__(self, event: Event) -> object:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[object] = loop.create_future()
        task = loop.create_task(_answer(self.call, event, answered))
        timer = loop.call_later(self.link.timeout, _settle, answered, _LATE)
        try:
            answer = await answered
        except BaseException:  # the caller leaves: it was cancelled or closed
            _let_go(task, self.link)
            raise
        finally:
            timer.cancel()
        if answer is _LATE:
            _let_go(task, self.link)
            raise too_late(self.link)
        return _opened(answer, self.link)


async def _answer(call: Callable[[Event], Awaitable[object]], event: Event, answered: asyncio.Future[object]) -> None:
    try:
        answer = await call(event)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit that leaves a task would end the loop
        answer = _Raised(error)
    _settle(answered, answer)


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
                f"the hook {self.link.name!r} missed its deadline {self.missed} times in a row and is not called for "
                f"{BREAKER_SECONDS:g} s",
                code="breaker_open",
            )
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[object] = loop.create_future()
        departure = _Departure(self.link)
        surrounding = contextvars.copy_context()

        def work() -> None:
            try:
                answer: object = surrounding.run(self.call, event)
            except BaseException as error:  # whatever a hook raises is the hook's, and a thread has nobody to tell
                answer = _Raised(error)
            if not departure.thread_ended():
                with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                    loop.call_soon_threadsafe(_settle, answered, answer)

        threading.Thread(target=work, name=f"tenter-hook-{self.link.name}", daemon=True).start()
        timer = loop.call_later(self.link.timeout, _settle, answered, _LATE)
        try:
            answer = await answered
        except BaseException:  # the caller leaves: it was cancelled or closed
            departure.caller_left()
            raise
        finally:
            timer.cancel()
        if answer is _LATE:
            departure.caller_left()
            self._missed_one()
            raise too_late(self.link)
        self.missed = 0
        return _opened(answer, self.link)

    def _missed_one(self) -> None:
        self.missed += 1
        if self.missed >= BREAKER_AFTER:
            self.open_until = self.clock.monotonic() + BREAKER_SECONDS


class _Departure:
    """Who left first: the thread with its answer, or the caller who gave up on it. Counts threads left behind."""

    __slots__ = ("_link", "_lock", "_somebody_left")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._somebody_left = False

    def caller_left(self) -> None:
        with self._lock:
            if not self._somebody_left:
                self._somebody_left = True
                self._link.leaked += 1

    def thread_ended(self) -> bool:
        """Called by the thread: whether the caller has given up on it."""
        with self._lock:
            if self._somebody_left:
                self._link.leaked -= 1
                return True
            self._somebody_left = True
            return False


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


def _opened(answer: object, link: Link) -> object:
    if not isinstance(answer, _Raised):
        return answer
    for kind, whom in ((asyncio.CancelledError, "nobody asked for"), (KeyboardInterrupt, "no user made")):
        if issubclass(type(answer.error), kind):  # a user's interrupt reaches no thread
            raise HookFailure("crashed", f"the hook {link.name!r} raised {kind.__name__}, which {whom}")
    raise answer.error


def _settle(answered: asyncio.Future[object], answer: object) -> None:
    if not answered.done():
        answered.set_result(answer)


def _let_go(task: asyncio.Task[None], link: Link) -> None:
    """Cancels a hook's task without waiting for it, and follows it to its end.

    Its loop's end must not wait for it for ever, as it does for every task that asyncio knows: the follower waits.
    """
    if task.done():
        return
    link.leaked += 1
    task.cancel()
    _unregister_task(task)
    follower = task.get_loop().create_task(_follow(task, link))
    _FOLLOWERS.add(follower)
    follower.add_done_callback(_FOLLOWERS.discard)


async def _follow(task: asyncio.Task[None], link: Link) -> None:
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:  # the loop comes to its end
        task.cancel()
        await asyncio.wait((task,), timeout=FAREWELL_SECONDS)
    if task.done():
        link.leaked -= 1
    else:
        setattr(task, "_log_destroy_pending", False)  # noqa: B010  # it is counted; a user can do nothing about it


def _with_ended(call: Callable[..., object]) -> Callable[[Event], object]:
    return lambda event: call(event, ended())
