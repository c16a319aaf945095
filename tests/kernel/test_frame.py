import asyncio

import pytest
from tests.kernel.workshop import (
    Before,
    Op,
    at,
    before,
    runtime,
)

from tenter.kernel import (
    Block,
    Runtime,
    Trace,
    current_frame,
)

Seen = list[object]


@pytest.mark.fault(30)
async def test_a_hook_that_fires_its_own_point_is_a_recursion_at_the_depth_limit() -> None:
    trace, kernels = Trace(), list[Runtime]()

    async def again(event: Before) -> None:
        decision = await kernels[0].dispatch("work.before", event, trace=trace)
        raise decision.outcome or AssertionError("the circle ended")

    kernels.append(runtime(at("work.before", again)))
    decision = await kernels[0].dispatch("work.before", before("a"), trace=trace)
    assert isinstance(decision.outcome, Block)
    failures = [entry for entry in trace.events() if entry.kind == "failure"]
    assert [entry.code for entry in failures] == ["recursion"]
    fired = [entry.details.get("depth", 0) for entry in trace.events() if entry.kind == "hook"]
    assert fired == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.fault(30)
@pytest.mark.parametrize("how", ["task", "gather", "hard", "thread"])
async def test_a_circle_through_tasks_and_threads_ends_too(how: str) -> None:
    kernels = list[Runtime]()

    async def again(event: Before) -> None:
        fired = kernels[0].dispatch("work.before", event)
        if how == "task":
            await asyncio.create_task(fired)
        elif how == "gather":
            await asyncio.gather(fired)
        elif how == "thread":
            await asyncio.to_thread(asyncio.run, fired)
        else:
            await fired

    kernels.append(runtime(at("work.before", again, timeout=20 if how == "hard" else None)))
    await kernels[0].dispatch("work.before", before("a"))
    (link,) = kernels[0].links()
    assert (link.calls, link.failures) == (8, 1)


@pytest.mark.fault(30)
async def test_a_point_fired_inside_a_hook_names_its_parent_in_the_trace() -> None:
    trace, depths = Trace(), list[int]()

    async def outer(event: Before) -> None:
        await kernel.dispatch("plain.done.pre", before(op=Op(id="inner")), trace=trace)

    def inner(event: Before) -> None:
        frame = current_frame()
        depths.append(0 if frame is None else frame.depth)

    kernel = runtime(at("work.before", outer), at("plain.done.pre", inner))
    await kernel.dispatch("work.before", before(op=Op(id="outer")), trace=trace)
    first, second = trace.events()
    assert (first.op, first.details) == ("inner", {"inside": "work.before", "parent": "outer", "depth": 1})
    assert (second.op, second.details, depths) == ("outer", {}, [2])
    assert current_frame() is None
