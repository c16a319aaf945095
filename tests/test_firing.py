"""Every point of the catalogue is fired by something real, and in the order that the design gives (D§3.1, D§4.3)."""

from pathlib import Path

import pytest
from tests.harness.world import calls, project

from tenter import Harness, Suspend, hook
from tenter.catalogue import AGENT_OPERATIONS, CATALOGUE, TaskStateChangedEvent, ToolCallEvent
from tenter.journal import MemoryStore
from tenter.kernel import Declaration, Event

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
        phases = [""] if operation in ("run.pre", "run.post") else [".pre", ".in", ".post"]
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
    @hook("tool.before", name="ask", match={"tool": "shell"})
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?")

    fired: list[str] = []
    hooks = [*listeners(fired), ask]
    scripts = [(LIST, "Done."), (LIST,), (calls(("shell", {"command": "true"})),)]
    statuses: list[str] = []
    for script in scripts:
        path = project(tmp_path, *script, tools=["list_dir", "shell"])
        async with Harness.from_file(path, hooks=hooks, store=MemoryStore()) as harness:
            statuses.append((await harness.run("work")).status)
    assert statuses == ["completed", "failed", "awaiting_approval"]
    silent = AGENT_POINTS - {name.partition(" ")[0] for name in fired}
    assert not silent, f"nothing fires {sorted(silent)}"


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
