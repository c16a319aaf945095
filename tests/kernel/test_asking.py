import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from tests.kernel.workshop import WORK, Before, at, before, runtime, saying, shout

from tenter.kernel import Block, Decision, Done
from tenter.kernel.asking import waits

Hook = Callable[[Before], Awaitable[object]]


async def fails() -> None:
    raise ValueError("x")


async def lets_fail(event: Before) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fails())


async def catches_and_blocks(event: Before) -> Block:
    try:
        await lets_fail(event)
    except* ValueError:
        pass
    return Block("refused")


async def fails_in_the_body(event: Before) -> Block:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await asyncio.Event().wait()
    except* ValueError:
        pass
    return Block("refused")


async def fails_within_another(event: Before) -> Block:
    try:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(fails())
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
    except* ValueError:
        pass
    return Block("refused")


@contextlib.asynccontextmanager
async def grouped() -> AsyncGenerator[asyncio.TaskGroup, None]:
    async with asyncio.TaskGroup() as group:
        yield group


async def fails_in_a_context_manager(event: Before) -> Block:
    try:
        async with grouped() as group:
            group.create_task(fails())
    except* ValueError:
        pass
    return Block("refused")


async def runs_late_within(event: Before) -> Block:
    await catches_and_blocks(event)
    try:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    except TimeoutError:
        pass
    return Block("refused")


async def is_late_around_a_group_that_fails(event: Before) -> Block:
    async def fails_then() -> None:
        await late.wait()
        await fails()

    late = asyncio.Event()
    try:
        async with asyncio.timeout(0), asyncio.TaskGroup() as group:
            group.create_task(fails_then())
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            late.set()
    except* ValueError:
        pass
    return Block("refused")


@pytest.mark.fault(26)
@pytest.mark.parametrize(
    "hook",
    [
        catches_and_blocks,
        fails_in_the_body,
        fails_within_another,
        fails_in_a_context_manager,
        runs_late_within,
        is_late_around_a_group_that_fails,
    ],
    ids=lambda hook: hook.__name__,
)
async def test_a_hook_that_catches_what_its_task_group_raised_keeps_its_answer(hook: Hook) -> None:
    task = asyncio.current_task()
    assert task is not None
    decision = await runtime(at("work.before", hook)).dispatch("work.before", before())
    assert (decision.outcome, decision.failed, task.cancelling()) == (Block("refused"), False, 0)


@pytest.mark.fault(26)
async def test_a_hook_in_whose_task_group_a_task_fails_crashed_and_the_operation_goes_on() -> None:
    kernel = runtime(at("work.before", lets_fail, on_error="warn"), at("work.after", saying(None), name="after"))
    done = await kernel.run(WORK, before("a"), shout)
    assert isinstance(done, Done)
    assert [link.results for link in kernel.links()] == [{"crashed": 1}, {}]


async def test_a_hook_inside_the_dispatch_of_another_answers_for_its_own_task_group() -> None:
    inner = runtime(at("work.before", catches_and_blocks))

    async def fires(event: Before) -> Block | None:
        decision = await inner.dispatch("work.before", event)
        return Block("inner") if decision.outcome == Block("refused") else None

    decision = await runtime(at("work.before", fires)).dispatch("work.before", before())
    assert decision.outcome == Block("inner")


async def cancelled_at(hook: Hook, reached: asyncio.Event) -> asyncio.Task[Decision]:
    """A dispatch that was cancelled from outside as soon as its hook was there."""
    run = asyncio.create_task(runtime(at("work.before", hook)).dispatch("work.before", before()))
    await asyncio.wait_for(reached.wait(), 5)
    run.cancel()
    await asyncio.wait((run,), timeout=5)
    return run


@pytest.mark.promise(6)
async def test_no_task_group_of_a_hook_hides_what_its_caller_asked_for() -> None:
    reached = asyncio.Event()

    async def waits_long() -> None:
        reached.set()
        await asyncio.Event().wait()

    async def swallows(event: Before) -> Block:
        await catches_and_blocks(event)
        with contextlib.suppress(asyncio.CancelledError):
            await waits_long()
        return Block("refused")

    async def gives_it_to_its_group(event: Before) -> Block:
        async def falls() -> None:
            try:
                await waits_long()
            finally:
                raise ValueError("x")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(falls())
        except* ValueError:
            pass
        return Block("refused")

    for hook in (swallows, gives_it_to_its_group):
        reached.clear()
        assert (await cancelled_at(hook, reached)).cancelled()


@pytest.mark.promise(6)
@pytest.mark.parametrize("body", ["ends before", "is cut short", "swallows that"])
async def test_what_the_caller_asks_for_while_a_failed_group_comes_to_its_end_is_kept(body: str) -> None:
    reached = asyncio.Event()

    async def ends_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            reached.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def waits_for_failing() -> None:
        started.set()
        await asyncio.wait_for(go.wait(), 5)
        raise ValueError("x")

    async def hook(event: Before) -> Block:
        try:
            async with asyncio.TaskGroup() as group:
                slow = group.create_task(ends_slowly())
                group.create_task(waits_for_failing())
                reached_end.append(slow)
                if body == "is cut short":
                    await asyncio.Event().wait()
                if body == "swallows that":
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
        except* ValueError:
            pass
        return Block("refused")

    started, go, reached_end = asyncio.Event(), asyncio.Event(), list[asyncio.Task[None]]()
    run = asyncio.create_task(runtime(at("work.before", hook)).dispatch("work.before", before()))
    await asyncio.wait_for(started.wait(), 5)
    go.set()
    await asyncio.wait_for(reached.wait(), 5)
    run.cancel()
    for _ in range(3):  # the group swallows it: it waits for its slow task
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
    reached_end[0].cancel()
    await asyncio.wait((run,), timeout=5)
    assert run.cancelled()


async def test_what_the_caller_asks_for_while_the_hooks_own_is_taken_back_is_kept() -> None:
    def hook(event: Before) -> None:
        asyncio.get_running_loop().call_soon(run.cancel)
        cancel_here()

    later: list[int] = []
    kernel = runtime(at("work.before", hook, on_error="warn"), at("work.before", lambda e: later.append(1), name="l"))
    run = asyncio.create_task(kernel.dispatch("work.before", before()))
    await asyncio.wait((run,), timeout=5)
    assert (run.cancelled(), later) == (True, [])


async def test_a_dispatch_that_is_closed_while_its_hook_waits_closes_the_hook() -> None:
    closed: list[str] = []

    async def hook(event: Before) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    fired = runtime(at("work.before", hook)).dispatch("work.before", before())
    fired.send(None)
    fired.close()
    assert closed == ["closed"]


async def test_a_group_and_the_caller_may_ask_in_the_same_moment() -> None:
    reached = asyncio.Event()

    async def hook(event: Before) -> Block:
        async def falls() -> None:
            reached.set()
            await go.wait()
            raise ValueError("x")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(falls()).add_done_callback(lambda _: run.cancel())
        except* ValueError:
            pass
        return Block("refused")

    go = asyncio.Event()
    run = asyncio.create_task(runtime(at("work.before", hook)).dispatch("work.before", before()))
    await asyncio.wait_for(reached.wait(), 5)
    go.set()
    await asyncio.wait((run,), timeout=5)
    assert run.cancelled()


def cancel_here() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def cancels_and_waits(event: Before) -> None:
    cancel_here()
    await asyncio.Event().wait()


async def waits_and_cancels(event: Before) -> None:
    await asyncio.create_task(fails_not())
    cancel_here()


async def fails_not() -> None:
    return None


def cancels(event: Before) -> None:
    cancel_here()


def cancels_and_raises(event: Before) -> None:
    cancel_here()
    cancel_here()
    raise ValueError("x")


@pytest.mark.fault(26)
@pytest.mark.parametrize(
    "hook",
    [cancels, cancels_and_raises, cancels_and_waits, waits_and_cancels],
    ids=lambda hook: hook.__name__,
)
async def test_a_hook_that_cancels_its_own_task_crashed_and_the_operation_goes_on(hook: Any) -> None:
    reached: list[str] = []

    async def body(event: Before) -> str:
        await asyncio.create_task(fails_not())
        reached.append(event.text)
        return "done"

    kernel = runtime(at("work.before", hook, on_error="warn"))
    assert isinstance(await kernel.run(WORK, before("a"), body), Done)
    assert (reached, kernel.links()[0].results) == (["a"], {"crashed": 1})


def test_the_interrupt_of_a_user_while_a_hook_runs_is_not_taken_for_the_hooks_own() -> None:
    def interrupted(event: Before) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(_dispatched(interrupted))


async def _dispatched(hook: Callable[[Before], object]) -> Decision:
    return await runtime(at("work.before", hook, name="h", on_error="warn")).dispatch("work.before", before())


def test_only_an_async_function_without_an_await_is_known_not_to_wait() -> None:
    async def loops(event: Before) -> None:
        async for _ in agen():
            pass

    async def agen() -> AsyncGenerator[int, None]:
        yield 1

    assert not waits(fails_not)
    assert all(waits(call) for call in (lets_fail, waits_and_cancels, loops, partial(lets_fail, before()), object()))
