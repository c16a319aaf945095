"""A run of a task does an iteration: its hooks see the loop, its tools can publish, its ending is the iteration's."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import calls
from tests.loop.equipment import FACTS, SECRET, World, world
from tests.outside import alive_with, comes_true

from tenter import Block, Escalate, Suspend, hook
from tenter.catalogue import ToolCallEvent
from tenter.config import HarnessBackendSpec
from tenter.kernel import Outcome
from tenter.loop.harness_backend import HarnessBackend
from tenter.loop.work import Worked

TENTER = Path(sys.executable).with_name("tenter")


async def run(here: World, *, task: str = "work", prompt: str = "Do it.", seconds: float | None = None) -> Worked:
    backend = HarnessBackend(HarnessBackendSpec(harness=task), here.equipment)
    return await asyncio.wait_for(backend.run(here.work(prompt, seconds=seconds)), 20)


def shell(command: str) -> dict[str, object]:
    return calls(("shell", {"command": command}))


async def test_a_run_that_completes_is_ok_and_its_output_is_logged(tmp_path: Path) -> None:
    async with world(tmp_path, f"I did it with {SECRET}.\nLOOP_COMPLETE\n") as here:
        worked = await run(here)
    assert (worked.status, worked.last_line, worked.error, worked.queue) == ("ok", "LOOP_COMPLETE", "", "")
    assert worked.run_id
    assert here.log == ["out| I did it with [redacted].", "out| LOOP_COMPLETE"]


async def test_what_a_run_cost_is_handed_on(tmp_path: Path) -> None:
    async with world(tmp_path, {"text": "Done.", "cost_usd": 0.25}) as here:
        assert (await run(here)).cost_usd == 0.25


async def test_a_tool_of_the_run_publishes_with_tenter_emit_from_any_folder(tmp_path: Path) -> None:
    variables = "$TENTER_LOOP_ID $TENTER_ITERATION $TENTER_WORKSPACE $TENTER_PROJECT_DIR"
    turn = shell(f'cd / && {TENTER} emit build.done "{variables}"')
    async with world(tmp_path, turn, "Done.", tools=["shell"]) as here:
        assert (await run(here)).status == "ok"
        event = json.loads((tmp_path / "events.jsonl").read_text())
    assert event["topic"] == "build.done"
    assert event["payload"] == f"loop-12ab-34cd 3 {tmp_path}/workspace {tmp_path}"


async def test_its_hooks_see_the_loop(tmp_path: Path) -> None:
    seen: list[object] = []

    @hook("tool.before", observe=True)
    def look(event: ToolCallEvent) -> None:
        seen.append(event.op.loop)

    async with world(tmp_path, shell("true"), "Done.", hooks=[look], tools=["shell"]) as here:
        await run(here)
    assert seen == [FACTS]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            Escalate("too hard", queue="seniors"),
            {"status": "escalated", "queue": "seniors", "says": "ended escalated: "},
        ),
        (
            Suspend("look at this"),
            {
                "status": "failed",
                "queue": "",
                "says": "waits for a person, and the loop does not (judge: look at this); see 'tenter approvals list'",
            },
        ),
        (Block("never", stop=True), {"status": "failed", "queue": "", "says": "ended blocked: "}),
    ],
    ids=["escalated", "awaiting_approval", "blocked"],
)
async def test_a_run_that_hooks_ended_says_so(answer: Outcome, expected: Mapping[str, Any], tmp_path: Path) -> None:
    @hook("tool.before")
    def judge(event: ToolCallEvent) -> Outcome:
        return answer

    async with world(tmp_path, shell("true"), "Done.", hooks=[judge], tools=["shell"]) as here:
        worked = await run(here)
    assert (worked.status, worked.queue) == (expected["status"], expected["queue"])
    assert worked.error.startswith(f"the run {worked.run_id} of the task 'work' ")
    assert expected["says"] in worked.error
    assert worked.last_line == ""


async def test_the_time_of_the_loop_ends_a_run(tmp_path: Path) -> None:
    async with world(tmp_path, shell("sleep 60"), "Done.", tools=["shell"]) as here:
        worked = await run(here, seconds=0.5)
    assert worked.status == "failed"
    assert "ended failed: " in worked.error


@pytest.mark.promise(4)
async def test_a_task_that_is_not_there_is_a_failure_that_says_so_without_secrets(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        worked = await run(here, task=SECRET)
    assert worked.status == "failed"
    assert "has no task '[redacted]'" in worked.error
    assert SECRET not in worked.error


async def test_cancelling_ends_the_run_and_its_tools(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'import time; time.sleep(60)' & echo > ready; sleep 60"
    async with world(tmp_path, shell(command), "Done.", tools=["shell"]) as here:
        backend = HarnessBackend(HarnessBackendSpec(harness="work"), here.equipment)
        task = asyncio.create_task(backend.run(here.work()))
        assert await comes_true((here.workspace / "ready").exists, within=5)
        events = str(tmp_path / "events.jsonl")
        assert alive_with(f"TENTER_EVENTS_FILE={events}")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert not alive_with(f"TENTER_EVENTS_FILE={events}")
