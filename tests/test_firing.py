"""Every point of the catalogue is fired by something real, and in the order that the design gives (D§3.1, D§4.3)."""

from pathlib import Path

import pytest
from tests.harness.world import act, acting, calls, processes, project, spawn, spawning

from tenter import Harness, hook
from tenter.catalogue import AGENT_OPERATIONS, CATALOGUE, TaskStateChangedEvent
from tenter.journal import MemoryStore
from tenter.kernel import Declaration, Event
from tenter.testing import FakeClock

AGENT_POINTS = {operation.point(phase) for operation in AGENT_OPERATIONS for phase in operation.rules}

LOOP_POINTS = frozenset(
    f"{operation}.{phase}"
    for operation in (
        "loop.start",
        "iteration.start",
        "plan.created",
        "human.interact",
        "loop.complete",
        "loop.error",
    )
    for phase in ("pre", "post")
)
"""What no run fires: loops do, together all of these."""

LIST = calls(("list_dir", {"path": "."}))
ORDER = """\
    run.pre
    task.state_changed pending->running
    task.created
    request.received
    llm.invoked
    tool_calls.extracted
    tool.invoked
    llm.invoked
    tool_calls.extracted
    task.complete
    task.state_changed running->completed
    persistence.write
    run.post
    shutdown
"""
"""Of a run with one tool call; an operation without a phase fires all three."""


def listeners(fired: list[str]) -> list[Declaration]:
    """An observer at every point."""

    def listen(point: str) -> Declaration:
        def heard(event: Event) -> None:
            change = f" {event.before}->{event.after}" if isinstance(event, TaskStateChangedEvent) else ""
            fired.append(point + change)

        return Declaration(name="listener", point=point, call=heard, observe=True)

    return [listen(point) for point in CATALOGUE]


def expected(order: str) -> list[str]:
    points: list[str] = []
    for line in order.splitlines():
        operation, _, change = line.strip().partition(" ")
        phases = [""] if operation.endswith((".pre", ".in", ".post")) else [".pre", ".in", ".post"]
        points += [f"{operation}{phase} {change}".strip() for phase in phases]
    return points


@pytest.mark.promise(1)
async def test_a_run_with_one_tool_call_fires_in_the_order_of_the_design(tmp_path: Path) -> None:
    fired: list[str] = []
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    async with Harness.from_file(path, hooks=listeners(fired), store=MemoryStore()) as harness:
        assert (await harness.run("work")).status == "completed"
    assert fired == expected(ORDER)


@pytest.mark.promise(1)
async def test_every_point_of_an_agents_run_is_fired_by_a_run(tmp_path: Path) -> None:
    fired: list[str] = []
    clock = FakeClock()

    async def pause(seconds: float) -> bool:
        clock.advance(seconds)
        return True

    turns = [spawn("a"), {"text": "All done."}]
    path = spawning(tmp_path, turns, [act("flaky"), "Done."], settings={"tool": {"risk": "high", "idempotent": True}})

    async with processes(path, "memory") as made:
        hooks = listeners(fired)
        waiting = await made.harness(*hooks, clock=clock, pause=pause).run("work")
        await made.harness().approve(waiting.run_id, by="ada")
        harness = made.harness(*hooks, clock=clock, pause=pause)
        result = await harness.resume(waiting.run_id)
        await harness.close()
    assert (waiting.status, result.status) == ("awaiting_approval", "completed")
    silent = AGENT_POINTS - {name.partition(" ")[0] for name in fired}
    assert not silent, f"nothing fires {sorted(silent)}"


WAITING = """\
    run.pre
    task.state_changed pending->running
    task.created
    request.received
    llm.invoked
    tool_calls.extracted
    tool.invoked.pre
    persistence.write
    help.requested
    task.state_changed running->awaiting_approval
"""
"""Of a run whose one tool call needs a person."""

GOING_ON = """\
    help.decided
    task.state_changed awaiting_approval->running
    tool.invoked
    llm.invoked
    tool_calls.extracted
    task.complete
    task.state_changed running->completed
    persistence.write
    run.post
    shutdown
"""
"""Of the same run once somebody approved the call."""

AROUND = """\
    subtask.spawned.pre
    run.pre
    run.post
    subtask.spawned.in
    subtask.spawned.post
"""
"""Of a sub-run, its own operations apart."""


@pytest.mark.promise(1)
async def test_a_run_that_waits_fires_in_the_order_of_the_design_over_both_of_its_parts(tmp_path: Path) -> None:
    fired: list[str] = []
    async with processes(acting(tmp_path, act("a"), "Done.", tool={"risk": "high"}), "memory") as made:
        waiting = await made.harness(*listeners(fired)).run("work")
        assert fired == expected(WAITING)
        await made.harness().approve(waiting.run_id, by="ada")
        fired.clear()
        harness = made.harness(*listeners(fired))
        assert (await harness.resume(waiting.run_id)).status == "completed"
        await harness.close()
        assert fired == expected(GOING_ON)


@pytest.mark.promise(1)
async def test_a_sub_run_stands_between_the_two_ends_of_its_span(tmp_path: Path) -> None:
    fired: list[str] = []
    async with processes(spawning(tmp_path, [spawn("a"), "Done."], ["Part."]), "memory") as made:
        assert (await made.harness(*listeners(fired)).run("work")).status == "completed"
    spans = [point for point in fired if point.startswith(("run.", "subtask."))]
    assert spans == ["run.pre", *expected(AROUND), "run.post"]


@pytest.mark.promise(1)
def test_every_point_of_the_catalogue_is_one_that_a_run_or_a_loop_is_to_fire() -> None:
    assert set(CATALOGUE) == AGENT_POINTS | LOOP_POINTS


@pytest.mark.promise(1)
async def test_a_tool_that_fails_is_told_of_once(tmp_path: Path) -> None:
    @hook("tool.after", name="breaks", on_error="fail")
    def breaks(event: Event) -> None:
        raise ValueError("broken")

    fired: list[str] = []
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    async with Harness.from_file(path, hooks=[*listeners(fired), breaks], store=MemoryStore()) as harness:
        assert (await harness.run("work")).status == "completed"
    assert [point for point in fired if point.startswith("activity")] == [
        "activity.failed.pre",
        "activity.failed.in",
        "activity.failed.post",
    ]
