"""Journals that are full, cannot be made or grow: what becomes of whole runs."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.harness.world import calls, project, with_model

from tenter import Harness, hook
from tenter.catalogue import Message, ModelRequest, ModelRequestEvent, ModelResponse, ToolCall
from tenter.journal import SqliteStore

LIMITED = """\
import asyncio, json, resource, signal, sys
from pathlib import Path
from tenter import Harness

async def main():
    async with Harness.from_file(sys.argv[1]) as harness:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
        result = await harness.run("work", "go")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        again = await harness.run("work", "go")
    print(json.dumps([result.status, dict(result.error.details), result.error.message, again.status]))

asyncio.run(main())
"""


@pytest.mark.fault(38)
@pytest.mark.parametrize("limit", [0, 20_000, 120_000])
def test_a_journal_that_is_full_ends_the_run_failed_and_works_again_when_there_is_room(
    tmp_path: Path, limit: int
) -> None:
    turns = [calls(("shell", {"command": f"echo {number} {'x' * 2000}"})) for number in range(40)]
    path = project(tmp_path, *turns, "Done.", tools=["shell"])
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), str(limit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    status, details, message, again = json.loads(done.stdout)
    assert (status, details["code"], again) == ("failed", "journal", "completed")
    assert "journal.db" in message


async def test_a_journal_that_cannot_be_made_ends_the_run_failed_and_no_tool_acts(tmp_path: Path) -> None:
    (tmp_path / ".tenter").write_text("a file stands in the way")
    path = project(tmp_path, calls(("shell", {"command": "touch ran"})), "Done.", tools=["shell"])
    async with Harness.from_file(path) as harness:
        result = await harness.run("work")
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.details["code"] == "journal"
    assert ".tenter" in result.error.message
    assert not (tmp_path / "ran").exists()


class Asking:
    """A model that asks for a tool call, so many times, and never for the same one twice in a row."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.asked = 0

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.asked += 1
        text = f"{self.asked} ".ljust(200, "x")
        if self.asked > self.steps:
            return ModelResponse(model="m", text=text)
        call = ToolCall(id=f"c{self.asked}", name="list_dir", arguments={"path": "./." if self.asked % 2 else "."})
        return ModelResponse(model="m", text=text, tool_calls=(call,))


@hook("model.before", name="reminds")
def reminds(event: ModelRequestEvent) -> ModelRequestEvent:
    """Puts a reminder before the conversation and one after it."""
    first, last = Message(role="system", content="be brief"), Message(role="user", content="go on")
    messages = (first, *event.request.messages, last)
    return event.replace(request=msgspec.structs.replace(event.request, messages=messages))


@hook("model.before", name="shouts")
def shouts(event: ModelRequestEvent) -> ModelRequestEvent:
    """Makes every message anew."""
    messages = tuple(
        msgspec.structs.replace(message, content=message.content.upper()) for message in event.request.messages
    )
    return event.replace(request=msgspec.structs.replace(event.request, messages=messages))


@pytest.mark.parametrize("hooks", [(), (reminds,), (shouts,)], ids=["none", "reminds", "shouts"])
async def test_the_journal_grows_by_what_a_step_adds_whatever_hooks_do_to_the_history(
    tmp_path: Path, hooks: tuple[object, ...]
) -> None:
    sizes: list[int] = []
    for steps in (50, 100):
        folder = tmp_path / str(steps)
        folder.mkdir()
        store = SqliteStore(folder / ".tenter" / "journal.db")
        async with with_model(project(folder, tools=["list_dir"]), Asking(steps), *hooks, store=store) as harness:
            result = await harness.run("work", max_steps=steps + 1)
        assert result.status == "completed"
        sizes.append(sum(file.stat().st_size for file in (folder / ".tenter").iterdir()))
    assert sizes[1] < 2.1 * sizes[0], sizes
