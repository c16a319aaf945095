import asyncio
import threading

import pytest
from tests.kernel.workshop import CATALOGUE, Before, at, before, dispatch, saying
from tests.outside import one_of_three

from tenter.kernel import Block, Runtime

pytestmark = pytest.mark.timed

TIMEOUT = 0.2


def slow_runtime(*hooks: object, timeout: float = TIMEOUT) -> Runtime:
    return Runtime(CATALOGUE, hooks, timeout=timeout)


async def waits(event: object) -> None:
    await asyncio.Event().wait()


async def result_of(kernel: Runtime) -> list[str]:
    decision = await asyncio.wait_for(kernel.dispatch("work.before", before()), 5)
    return [record.result for record in decision.records]


@pytest.mark.promise(6)
async def test_a_hook_past_the_soft_deadline_is_cancelled_and_late() -> None:
    async def attempt() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        decision = await slow_runtime(at("work.before", waits)).dispatch("work.before", before())
        assert isinstance(decision.outcome, Block)
        assert [record.result for record in decision.records] == ["timeout"]
        assert 0.5 * TIMEOUT < loop.time() - began < 2 * TIMEOUT

    await one_of_three(attempt)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("after", ["nothing", "answer", "raise"])
async def test_a_hook_that_swallows_the_cancellation_is_late_whatever_it_says_then(after: str) -> None:
    async def swallows(event: Before) -> object:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if after == "raise":
                raise ValueError("x") from None
        return event.replace(text="b") if after == "answer" else None

    assert await result_of(slow_runtime(at("work.before", swallows))) == ["timeout"]


async def test_each_hook_has_a_deadline_of_its_own_and_so_has_each_execution() -> None:
    async def brief(event: Before) -> None:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        loop.call_later(0.6 * TIMEOUT, woken.set_result, None)
        await woken

    async def attempt() -> None:
        kernel = slow_runtime(
            at("work.before", brief, name="guard", band="baseline"),
            at("work.before", lambda e: e.replace(text="b"), name="changes"),
            at("work.before", brief, name="watcher", observe=True),
        )
        decision = await kernel.dispatch("work.before", before())
        assert [record.hook for record in decision.records] == ["changes"]
        assert [link.calls for link in kernel.links()] == [2, 1, 1]

    await one_of_three(attempt)


async def test_the_outer_of_two_dispatches_in_one_another_may_be_the_late_one() -> None:
    inner = Runtime(CATALOGUE, [at("work.before", waits)], timeout=30)

    async def fires(event: Before) -> None:
        await inner.dispatch("work.before", event)

    assert await result_of(slow_runtime(at("work.before", fires))) == ["timeout"]
    assert [link.results for link in inner.links()] == [{"cancelled": 1}]


async def test_a_late_hook_ends_alone_and_not_the_tasks_that_it_started() -> None:
    inner = Runtime(CATALOGUE, [at("work.before", waits)], timeout=30)
    started: list[asyncio.Task[object]] = []

    async def starts(event: Before) -> None:
        started.extend(asyncio.create_task(inner.dispatch("work.before", event)) for _ in range(8))
        await asyncio.Event().wait()

    assert await result_of(slow_runtime(at("work.before", starts))) == ["timeout"]
    assert [task.cancelling() for task in started] == [0] * 8
    for task in started:
        task.cancel()
    await asyncio.wait(started, timeout=5)
    assert all(task.cancelled() for task in started)


@pytest.mark.promise(5)
async def test_cancellation_by_the_caller_passes_also_at_the_very_deadline() -> None:
    reached = asyncio.Event()

    async def hook(event: Before) -> None:
        reached.set()
        await asyncio.Event().wait()

    for moments in (0.0, 0.5 * TIMEOUT, 0.9 * TIMEOUT, TIMEOUT):
        reached.clear()
        kernel = slow_runtime(at("work.before", hook))
        run = asyncio.create_task(kernel.dispatch("work.before", before()))
        await asyncio.wait_for(reached.wait(), 5)
        asyncio.get_running_loop().call_later(moments, run.cancel)
        done, _ = await asyncio.wait((run,), timeout=5)
        assert done
        if not run.cancelled():
            assert [record.result for record in run.result().records] == ["timeout"]
            assert moments == TIMEOUT, "only after the deadline can it have been late"


async def test_the_timer_and_the_caller_may_cancel_in_the_same_moment() -> None:
    class Waited(asyncio.Future[None]):
        def cancel(self, msg: object = None) -> bool:
            asyncio.get_running_loop().call_soon(run.cancel)  # before the task hears of this
            return super().cancel(msg)

    async def hook(event: Before) -> None:
        await Waited()

    run = asyncio.create_task(slow_runtime(at("work.before", hook)).dispatch("work.before", before()))
    done, _ = await asyncio.wait((run,), timeout=5)
    assert done
    assert run.cancelled()


@pytest.mark.promise(6)
async def test_a_hook_that_swallows_what_its_caller_asked_for_does_not_keep_it_from_happening() -> None:
    reached, later = asyncio.Event(), list[int]()

    async def swallows(event: Before) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    kernel = slow_runtime(at("work.before", swallows), at("work.before", lambda e: later.append(1), name="later"))
    run = asyncio.create_task(kernel.dispatch("work.before", before()))
    await asyncio.wait_for(reached.wait(), 5)
    run.cancel()
    await asyncio.wait((run,), timeout=5)
    assert run.cancelled()
    assert later == []


async def test_in_a_task_that_was_cancelled_before_deadlines_and_crashes_are_told_apart_still() -> None:
    async def cancels_itself(event: Before) -> None:
        raise asyncio.CancelledError

    async def cleans_up() -> list[str]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            late = await slow_runtime(at("work.before", waits)).dispatch("work.before", before())
            crashed = await slow_runtime(at("work.before", cancels_itself)).dispatch("work.before", before())
            return [record.result for record in late.records + crashed.records]
        return []

    run = asyncio.create_task(cleans_up())
    await asyncio.wait((run,), timeout=0.01)
    run.cancel()
    assert await asyncio.wait_for(run, 5) == ["timeout", "crashed"]


def test_a_runtime_serves_one_loop_after_another_and_two_at_a_time() -> None:
    kernel = slow_runtime(at("work.before", waits), timeout=0.05)
    results: list[list[str]] = []

    def once() -> None:
        results.append(asyncio.run(result_of(kernel)))

    threads = [threading.Thread(target=once) for _ in range(3)]
    once()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    once()
    assert results == [["timeout"]] * 5


def test_synchronous_hooks_run_without_an_event_loop() -> None:
    fired = dispatch(at("work.before", saying(Block("no")), name="h"))
    with pytest.raises(StopIteration) as stopped:
        fired.send(None)
    assert stopped.value.value.outcome == Block("no")


async def test_nothing_ticks_once_nothing_is_watched() -> None:
    kernel = slow_runtime(at("work.before", lambda e: None, name="sync"), at("work.before", waits))
    await result_of(kernel)
    loop = asyncio.get_running_loop()
    idle: asyncio.Future[None] = loop.create_future()
    loop.call_later(0.3, idle.set_result, None)
    await idle
    assert not [handle for handle in scheduled(loop) if "Watch" in repr(handle)]


def scheduled(loop: asyncio.AbstractEventLoop) -> list[object]:
    return [handle for handle in getattr(loop, "_scheduled", []) if not handle.cancelled()]
