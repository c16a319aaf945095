"""Loops from their request to their end, with real programs, and loops that are continued after their process died."""

import asyncio
import gc
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

import msgspec
import pytest
from tests.commandline import TENTER, digest_of, started
from tests.loop.projects import (
    DONE,
    GATE,
    LONGEST,
    ask_for,
    asked,
    killed_while_suspended,
    only_row,
    project,
    unheard,
)
from tests.outside import alive, alive_with, comes_true, leaves_nothing

from tenter.config import ConfigError, Untrusted, validate
from tenter.harness import BUILTIN_TOOLS, load_script
from tenter.kernel import TenterError
from tenter.loop import starting
from tenter.loop.claim import registry_of
from tenter.loop.loop_row import LoopRow
from tenter.loop.parts import Parts, Told
from tenter.loop.preflight import PreflightFailed
from tenter.loop.record import LoopRecord
from tenter.loop.request import LoopRequest, LoopResult
from tenter.loop.resuming import continue_loop
from tenter.loop.starting import LONGEST_PROMPT, run_loop
from tenter.loop.state import LoopState


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("TENTER_TRUST", raising=False)


async def test_a_loop_runs_its_program_until_that_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = '{"schema_version": 1, "topic": "part.done", "payload": 1}'
    agent = f"""cat > prompt; test -e half && {DONE} && exit; touch half; echo '{event}' >> "$TENTER_EVENTS_FILE" """
    folder = project(tmp_path, agent)
    told: list[Told] = []
    gc.collect()  # what other tests left to be closed
    async with leaves_nothing():
        result = await run_loop(asked(folder, monkeypatch), tell=told.append)
    assert (result.reason, result.iterations) == ("completed", 2)
    assert "- part.done" in (folder / "prompt").read_text()
    row = only_row(folder)
    assert (row.status, row.workspace, row.prompt, row.primary) == ("completed", str(folder), "mend it", True)
    assert told[0].text == f"loop {row.loop_id} in {folder}"
    assert [one.kind for one in told] == ["began", "iteration", "iteration", "output", "ended"]
    assert json.loads(Path(result.summary).read_text())["topics"] == {"part.done": 1}


async def test_of_a_long_prompt_the_registry_shows_the_beginning_and_the_agent_gets_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, f"cat > prompt; {DONE}")
    prompt = "x" * 100_000 + " the end"
    request = msgspec.structs.replace(asked(folder, monkeypatch), prompt=prompt)
    await run_loop(request, tell=unheard)
    row = only_row(folder)
    assert row.prompt == "x" * LONGEST_PROMPT + "… (100008 characters)"
    assert row.request["prompt"] == prompt, "a loop that is continued needs it"
    assert prompt in (folder / "prompt").read_text()


async def test_a_stop_ends_the_program_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "sleep 1000 & echo ready; wait")

    def stops(told: Told) -> None:
        if told.kind == "output":
            ask_for(only_row(folder), "stop")

    result = await asyncio.wait_for(run_loop(asked(folder, monkeypatch), tell=stops), LONGEST)
    assert result.reason == "stopped"
    assert await comes_true(lambda: not alive_with(f"TENTER_LOOP_ID={result.loop_id}"))


async def test_an_interruption_ends_the_program_and_is_raised_when_all_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "echo ready; sleep 1000")
    ready = asyncio.Event()

    def hears(told: Told) -> None:
        if told.kind == "output":
            ready.set()

    running = asyncio.create_task(run_loop(asked(folder, monkeypatch), tell=hears))
    await asyncio.wait_for(ready.wait(), LONGEST)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    row = only_row(folder)
    assert (row.reason, row.status) == ("interrupted", "failed")
    assert await comes_true(lambda: not alive_with(f"TENTER_LOOP_ID={row.loop_id}"))


async def test_an_interruption_does_not_keep_the_end_from_being_put_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finishing, goes_on = asyncio.Event(), asyncio.Event()
    finish = starting.finish

    async def slow(parts: Parts, state: LoopState, record: LoopRecord) -> LoopResult:
        finishing.set()
        await goes_on.wait()
        return await finish(parts, state, record)

    monkeypatch.setattr(starting, "finish", slow)
    folder = project(tmp_path, DONE)
    running = asyncio.create_task(run_loop(asked(folder, monkeypatch), tell=unheard))
    await asyncio.wait_for(finishing.wait(), LONGEST)
    running.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, LONGEST)
    assert only_row(folder).status == "completed"


@pytest.mark.fault(55)
@pytest.mark.promise(14)
async def test_a_loop_of_an_untrusted_project_starts_nothing(tmp_path: Path) -> None:
    folder = project(tmp_path, "touch ran")
    with pytest.raises(Untrusted):
        await run_loop(LoopRequest(config=str(folder / "tenter.yaml"), prompt="x"), tell=unheard)
    assert sorted(path.name for path in folder.iterdir()) == ["agent.sh", "tenter.yaml"]


async def test_all_that_is_wrong_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = {"loop.start.pre": [{"name": "guard", "command": ["./not-there"], "on_error": "block"}]}
    folder = project(tmp_path, "touch ran", hooks=hooks, max_iteratons=3)
    with pytest.raises(ConfigError) as refused:
        await run_loop(asked(folder, monkeypatch), tell=unheard)
    path = str(folder / "tenter.yaml")
    assert refused.value.problems == validate(path, builtin_tools=BUILTIN_TOOLS, check_script=load_script)
    assert [word in str(refused.value) for word in ("'max_iteratons'", "./not-there")] == [True, True]
    assert not (folder / ".tenter").exists()


async def test_a_loop_that_fails_its_preflight_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path, "touch ran", backend={"command": ["./not-there"]})
    with pytest.raises(PreflightFailed):
        await run_loop(asked(folder, monkeypatch), tell=unheard)
    assert sorted(path.name for path in folder.iterdir()) == ["agent.sh", "tenter.yaml"]


async def test_a_loop_that_cannot_be_built_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise TenterError("it cannot be built")

    monkeypatch.setattr(starting, "build", breaks)
    folder = project(tmp_path, DONE)
    with pytest.raises(TenterError, match="cannot be built"):
        await run_loop(asked(folder, monkeypatch), tell=unheard)
    assert registry_of(folder).rows(everything=True) == ()
    assert list((folder / ".tenter" / "loops").iterdir()) == []


@pytest.mark.fault(47)
async def test_a_loop_whose_process_was_killed_is_told_of_at_the_next_start_and_keeps_its_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE]})
    row = killed_while_suspended(folder)
    told: list[Told] = []
    with pytest.raises(TenterError, match=f"{row.loop_id} holds"):
        await run_loop(asked(folder, monkeypatch), tell=told.append)
    assert any(f"'tenter loop resume {row.loop_id}' continues it" in one.text for one in told)
    assert only_row(folder) == row


async def test_loops_whose_process_is_gone_are_told_of_at_the_next_start_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, DONE, hooks={"pre.iteration.start": [GATE]})
    suspended = killed_while_suspended(folder)
    ask_for(suspended, "stop")
    request = asked(folder, monkeypatch)
    registry = registry_of(folder)
    registry.update(suspended.loop_id, suspension=suspended.suspension)
    gone = {"status": "running", "suspension": None, "workspace": str(folder / "part")}
    for number in range(6):
        registry.add(suspended.but(loop_id=f"loop-crashed-{number}", iteration=number, **gone), hold=False)
    told: list[Told] = []
    with pytest.raises(TenterError, match="holds"):
        await run_loop(request, tell=told.append)
    texts = [one.text for one in told]
    assert texts[0].startswith(f"the loop {suspended.loop_id} is suspended at pre.iteration.start in {folder}")
    assert texts[1] == (
        f"the loop loop-crashed-5 crashed in iteration 5 in {folder / 'part'}; 'tenter loop resume loop-crashed-5' "
        "continues it, 'tenter loop prune loop-crashed-5' forgets it"
    )
    assert [text.split()[2] for text in texts[1:5]] == [f"loop-crashed-{number}" for number in (5, 4, 3, 2)]
    assert texts[5:] == ["the processes of 2 more loops are gone; 'tenter loop list' prints them"]


def killed_while_working(folder: Path) -> LoopRow:
    """Runs a loop in a process of its own, which is killed when its agent works; the agent works on."""
    with started("loop", "run", "--prompt", "mend it", cwd=folder) as process:
        until = time.monotonic() + LONGEST
        while not (folder / "first").exists():
            assert process.poll() is None
            assert time.monotonic() < until
            select.select([], [], [], 0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(LONGEST)
    return only_row(folder)


LIVES = "[ -n \"$(tr -d '\\0' < /proc/$(cat first)/cmdline 2> /dev/null)\" ]"
"""Whether the first agent lives, for a shell script."""
WORKS = "echo $$ > new; mv new first; exec sleep 60"
BOTH = f"if test -e first; then {LIVES} && touch together; {DONE}; else {WORKS}; fi"


@pytest.mark.parametrize("way", ["resume", "run"])
async def test_an_agent_that_a_killed_loop_left_is_ended_before_another_one_starts(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, BOTH)
    row = killed_while_working(folder)
    (orphan,) = alive_with(f"TENTER_LOOP_ID={row.loop_id}")
    request = asked(folder, monkeypatch)
    told: list[Told] = []
    loop = continue_loop(row, tell=told.append) if way == "resume" else run_loop(request, tell=told.append)
    result = await asyncio.wait_for(loop, LONGEST)
    assert result.reason == "completed"
    assert not alive(orphan)
    assert not (folder / "together").exists()
    text = f"ended 1 process that the loop {row.loop_id} had left running when its own process died"
    assert ("note", text) in [(one.kind, one.text) for one in told]
    assert [one.text for one in told].index(text) < [one.kind for one in told].index("began")


async def test_the_agent_of_a_loop_that_an_orphan_began_works_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "within").mkdir()
    inner = project(tmp_path / "within", f"test -e go && {DONE} && exit; {WORKS.removeprefix('exec ')}")
    begins = f"TENTER_TRUST={digest_of(inner / 'tenter.yaml')} '{TENTER}' loop run --prompt x > said 2>&1"
    folder = project(tmp_path, f"test -e first && {DONE} && exit; echo > first; (cd '{inner}' && {begins})")
    row = killed_while_working(folder)
    asked(folder, monkeypatch)
    assert await comes_true((inner / "first").exists, within=LONGEST), (inner / "said").read_text()
    agent, going_on = int((inner / "first").read_text()), only_row(inner)
    try:
        result = await asyncio.wait_for(continue_loop(row, tell=unheard), LONGEST)
        assert result.reason == "completed"
        assert alive(agent)
        assert alive(going_on.pid)
        assert only_row(inner).status == "running"
        assert alive_with(f"TENTER_LOOP_ID={row.loop_id}") == (going_on.pid,)
    finally:
        os.kill(going_on.pid, signal.SIGTERM)
        assert await comes_true(lambda: not alive(going_on.pid), within=LONGEST)


@pytest.mark.parametrize("gone", ["project", "project/.tenter"])
async def test_a_project_that_vanishes_is_not_made_anew(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "echo ready; exec sleep 60")

    def removes(told: Told) -> None:
        if told.kind == "output":
            shutil.rmtree(tmp_path / gone)

    result = await asyncio.wait_for(run_loop(asked(folder, monkeypatch), tell=removes), LONGEST)
    assert (result.reason, result.status) == ("failed", "failed")
    assert "is gone" in result.message
    assert not (tmp_path / gone).exists()
