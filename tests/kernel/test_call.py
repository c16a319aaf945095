import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest
from tests.kernel.workshop import CATALOGUE, Before, FakeClock, at, before, runtime, saying
from tests.outside import comes_true, leaves_nothing, one_of_three, steady_loop

from tenter.kernel import Block, Runtime

DEADLINE = 0.2
GRACE = 0.05
"""So long after its deadline control is back (D§7)."""


async def back_in_time(kernel: Runtime) -> None:
    """One dispatch whose hook misses its deadline, seen from outside."""
    loop = asyncio.get_running_loop()
    async with steady_loop():
        began = loop.time()
        decision = await kernel.dispatch("work.before", before("a"))
        took = loop.time() - began
    assert isinstance(decision.outcome, Block)
    assert [(r.result, r.disposition) for r in decision.records] == [("timeout", "block")]
    assert took + 0.001 >= DEADLINE
    assert took <= DEADLINE + GRACE, f"control was back after {took:.3f} s"


@pytest.mark.timed
@pytest.mark.fault(28)
@pytest.mark.promise(6)
async def test_control_is_back_when_a_hook_swallows_cancellation_and_its_task_is_followed() -> None:
    async def attempt() -> None:
        release = asyncio.Event()

        async def swallows(event: Before) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        kernel = runtime(at("work.before", swallows, timeout=DEADLINE))
        await back_in_time(kernel)
        (link,) = kernel.links()
        assert link.leaked == 1
        release.set()
        assert await comes_true(lambda: link.leaked == 0)

    await one_of_three(attempt)


@pytest.mark.timed
@pytest.mark.fault(28)
async def test_control_is_back_when_a_hook_waits_in_finally() -> None:
    async def attempt() -> None:
        release = asyncio.Event()

        async def waits(event: Before) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()

        kernel = runtime(at("work.before", waits, timeout=DEADLINE))
        await back_in_time(kernel)
        release.set()
        assert await comes_true(lambda: kernel.links()[0].leaked == 0)

    await one_of_three(attempt)


@pytest.mark.timed
@pytest.mark.fault(27)
@pytest.mark.promise(6)
async def test_a_synchronous_hook_that_hangs_is_left_in_its_thread_and_counted() -> None:
    async def attempt() -> None:
        release = threading.Event()

        def hangs(event: Before) -> None:
            release.wait(10)

        async with leaves_nothing():
            kernel = runtime(at("work.before", hangs, timeout=DEADLINE))
            await back_in_time(kernel)
            (link,) = kernel.links()
            assert link.leaked == 1
            release.set()
            assert await comes_true(lambda: link.leaked == 0)

    await one_of_three(attempt)


@pytest.mark.fault(27)
async def test_after_three_missed_deadlines_in_a_row_the_hook_is_not_called_for_a_minute() -> None:
    release, calls, answers = threading.Event(), list[int](), list[bool]()
    clock = FakeClock()

    def hangs(event: Before) -> None:
        calls.append(1)
        if not answers:
            release.wait(10)

    kernel = Runtime(CATALOGUE, [at("work.before", hangs, timeout=0.02)], clock=clock)

    async def result() -> tuple[str, str]:
        (record,) = (await kernel.dispatch("work.before", before())).records
        return record.result, record.code

    assert [await result() for _ in range(3)] == [("timeout", "hook_failed")] * 3
    assert [await result() for _ in range(2)] == [("timeout", "breaker_open")] * 2
    assert len(calls) == 3
    clock.time += 60
    assert await result() == ("timeout", "hook_failed")
    assert await result() == ("timeout", "breaker_open")
    clock.time += 60
    answers.append(True)
    assert (await kernel.dispatch("work.before", before())).records == ()
    release.set()
    assert await comes_true(lambda: kernel.links()[0].leaked == 0)


@pytest.mark.fault(27)
async def test_an_answer_in_between_keeps_the_breaker_closed() -> None:
    release, late = threading.Event(), [True, True, False, True, True, False]

    def hook(event: Before) -> None:
        if late.pop(0):
            release.wait(10)

    kernel = runtime(at("work.before", hook, timeout=0.02))
    codes = [[r.code for r in (await kernel.dispatch("work.before", before())).records] for _ in range(6)]
    assert codes == [["hook_failed"], ["hook_failed"], [], ["hook_failed"], ["hook_failed"], []]
    release.set()
    assert await comes_true(lambda: kernel.links()[0].leaked == 0)


@pytest.mark.fault(27)
@pytest.mark.fault(28)
@pytest.mark.parametrize(
    "hook",
    [
        "def hook(event):\n    threading.Event().wait()",
        """
        async def hook(event):
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        """,
    ],
    ids=["thread", "task"],
)
def test_a_hook_that_never_ends_does_not_keep_the_process_from_exiting(hook: str) -> None:
    program = f"""
import asyncio, threading
from tenter.kernel import Declaration, Runtime
from tests.kernel.workshop import CATALOGUE, before
{textwrap.dedent(hook)}
kernel = Runtime(CATALOGUE, [Declaration(name="h", point="work.before", call=hook, timeout=0.1)])
print(asyncio.run(kernel.dispatch("work.before", before())).records[0].result)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout\n", "")


@pytest.mark.parametrize("awaits", [True, False], ids=["async", "sync"])
async def test_a_hard_deadline_lets_an_answer_through(awaits: bool) -> None:
    async def answers(event: Before) -> Block:
        return Block("no")

    call: Callable[..., object] = answers if awaits else saying(Block("no"))
    decision = await runtime(at("work.before", call, name="h", timeout=5)).dispatch("work.before", before())
    assert (decision.outcome, decision.failed) == (Block("no"), False)


@pytest.mark.parametrize("awaits", [True, False], ids=["async", "sync"])
async def test_an_observer_with_a_deadline_is_told_how_the_chain_ended(awaits: bool) -> None:
    seen: list[object] = []

    async def looks(event: Before, ended: object) -> None:
        seen.append(ended)

    def looks_at_once(event: Before, ended: object) -> None:
        seen.append(ended)

    watcher = at("work.before", looks if awaits else looks_at_once, name="w", observe=True, timeout=5)
    await runtime(watcher, at("work.before", saying(Block("no")), name="h")).dispatch("work.before", before())
    assert seen == [Block("no")]


async def test_a_thread_that_cannot_be_had_is_the_failure_of_its_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    decision = await runtime(at("work.before", saying(None), name="h", timeout=5)).dispatch("work.before", before())
    assert [record.result for record in decision.records] == ["crashed"]


@pytest.mark.parametrize("awaits", [True, False], ids=["async", "sync"])
async def test_a_dispatch_that_is_closed_half_way_lets_its_hook_go_and_counts_no_failure(awaits: bool) -> None:
    release = threading.Event()

    async def waits(event: Before) -> None:
        await asyncio.Event().wait()

    def waits_at_once(event: Before) -> None:
        release.wait(10)

    kernel = runtime(at("work.before", waits if awaits else waits_at_once, name="h", timeout=30))
    dispatch = kernel.dispatch("work.before", before())
    assert asyncio.isfuture(dispatch.send(None))
    dispatch.close()
    assert kernel.links()[0].leaked == 1
    release.set()
    assert await comes_true(lambda: kernel.links()[0].leaked == 0)
    assert kernel.links()[0].failures == 0
