"""Promises of the design that cross layers (D§3), kept by whole runs."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.world import (
    BOTH,
    act,
    acted,
    acting,
    after,
    calls,
    cut,
    journal,
    lines,
    of_kind,
    processes,
    project,
)

from tenter import Block, Harness, Hook, Suspend, hook
from tenter.catalogue import (
    CATALOGUE,
    Message,
    ModelRequestEvent,
    RunStartEvent,
    ToolCall,
    ToolCallEvent,
)
from tenter.harness import Step
from tenter.journal import MemoryStore, Recorded, SqliteStore, verify
from tenter.kernel import Declaration, Event, TenterError
from tenter.testing import FakeClock, FakeRandom, render_trace

SECRET = "correct-horse-battery"
KEY = f"ghp_{'a1B2' * 9}"
LIST = calls(("list_dir", {"path": "."}))

LEAKS = f"""\
from tenter import tool

@tool
def leak(text: str) -> str:
    return "{SECRET} and {KEY} for " + text

@tool
def breaks(text: str) -> str:
    raise ValueError("{SECRET} {KEY}")
"""


def listeners(seen: list[str]) -> list[Declaration]:
    """Observers at every point, which keep all that they are given."""

    def heard(event: Event) -> None:
        seen.append(repr(event))

    return [Declaration(name="listener", point=point, call=heard, observe=True) for point in CATALOGUE]


@pytest.mark.promise(4)
@pytest.mark.fault(60)
@pytest.mark.fault(61)
async def test_no_secret_reaches_a_hook_a_record_a_result_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    (tmp_path / "my_tools.py").write_text(LEAKS)
    both = f"{SECRET} {KEY}"
    turns = [
        calls(("leak", {"text": both}), ("breaks", {"text": "x"}), (f"tool {both}", {both: [both]}), text=both),
        calls(("leak", {"text": "blocked"}), ("leak", {"text": "crashed"})),
        both,
    ]
    tools = {name: {"python": f"./my_tools.py:{name}"} for name in ("leak", "breaks")}
    command = {"name": "told", "observe": True, "script": "cat >> told.txt; cat told.txt >&2", "on_error": "warn"}
    events = {point: [command] for point in ("run.start", "model.before", "tool.before", "tool.after", "run.end")}
    path = project(
        tmp_path,
        *turns,
        tools=list(tools),
        settings={"secrets": ["TOKEN"], "tools": tools, "hooks": {"events": events}},
    )

    @hook("tool.before", name="talks")
    def talks(event: ToolCallEvent) -> object:
        match event.call.arguments.get("text"):
            case "blocked":
                return Block(f"never {both}")
            case "crashed":
                raise ValueError(both)
            case _:
                return None

    @hook("model.before", name="adds")
    def adds(event: ModelRequestEvent) -> object:
        added = Message(role="user", content=f"mind {both}")
        return event.replace(request=msgspec.structs.replace(event.request, messages=(*event.request.messages, added)))

    seen: list[str] = []
    steps: list[Step] = []
    async with Harness.from_file(path, hooks=[*listeners(seen), talks, adds]) as harness:
        result = await harness.run(
            "work",
            f"use {both}",
            principal=both,
            correlation_id=SECRET,
            metadata={both: [{"deep": both}], "bytes": both.encode()},
            watcher=steps.append,
        )
        with pytest.raises(TenterError) as refused:
            await harness.run(SECRET)
    assert result.status == "completed", render_trace(result)
    files = {file.name: file.read_bytes() for file in (tmp_path / ".tenter").iterdir()}
    told = {
        "the journal": b"".join(files.values()).decode("latin-1"),
        "the result": msgspec.json.encode(result).decode(),
        "hooks": "\n".join(seen),
        "command hooks": (tmp_path / "told.txt").read_text(),
        "who watches": repr(steps),
        "an error": str(refused.value),
    }
    assert len(seen) > 50
    for where, text in told.items():
        assert SECRET not in text, where
        assert KEY not in text, where


@pytest.mark.promise(4)
async def test_what_looks_like_a_secret_is_masked_outside_and_written_as_the_agent_wrote_it(tmp_path: Path) -> None:
    source = "def login(password: str, token: SecretStr) -> Token:\n    ...\n"
    command = {"name": "told", "observe": True, "script": "cat >> told.txt", "on_error": "warn"}
    settings = {"hooks": {"events": {"tool.before": [command]}}}
    path = project(
        tmp_path,
        calls(("write_file", {"path": "login.py", "content": source})),
        "password: hunter2hunter2",
        tools=["write_file"],
        settings=settings,
    )
    store = MemoryStore()
    async with Harness.from_file(path, store=store) as harness:
        result = await harness.run("work")
        records = await journal(store, result.run_id)
    assert (tmp_path / "login.py").read_text() == source
    acting = of_kind(records, "acting", "1.tool.invoked.0")[0]
    assert acting["event"]["call"]["arguments"]["content"] == source
    assert result.output == "password: hunter2hunter2"
    assert "password: str" not in (tmp_path / "told.txt").read_text()


@pytest.mark.promise(4)
async def test_an_error_that_looks_like_a_secret_is_masked_in_the_result(tmp_path: Path) -> None:
    @hook("input.before")
    def refuse(event: Event) -> Block:
        return Block("password: hunter2hunter2")

    async with Harness.from_file(project(tmp_path), hooks=[refuse], store=MemoryStore()) as harness:
        result = await harness.run("work")
    assert result.error is not None
    assert "hunter2" not in result.error.message


@pytest.mark.promise(12)
async def test_the_trace_holds_no_content(tmp_path: Path) -> None:
    word = "zanzibar"

    @hook("tool.before", name="blocks")
    def blocks(event: ToolCallEvent) -> Block:
        return Block(word)

    @hook("model.before", name="breaks", on_error="warn")
    def breaks(event: Event) -> None:
        raise ValueError(word)

    @hook("input.before", name="adds")
    def adds(event: Any) -> object:
        return event.replace(input=f"{word} {event.input}")

    path = project(tmp_path, calls(("list_dir", {"path": word}), (word, {}), text=word), word, tools=["list_dir"])
    async with Harness.from_file(path, hooks=[blocks, breaks, adds], store=MemoryStore()) as harness:
        result = await harness.run("work", word, metadata={word: word}, principal=word)
    assert result.status == "completed"
    assert word not in repr(result.trace)
    assert {"blocks", "breaks", "adds"} <= {entry.source for entry in result.trace}


async def recorded(path: Path, *hooks: object) -> list[Recorded]:
    store = MemoryStore()
    async with Harness.from_file(path, hooks=hooks, store=store, clock=FakeClock(), random=FakeRandom()) as harness:
        result = await harness.run("work", "go")
        assert result.status == "completed"
        return await journal(store, result.run_id)


def without_hook_runs(records: Sequence[Recorded]) -> list[tuple[str, Any]]:
    """What the entries say, without those of hooks outside the process, and without what counts and names hooks: the
    length of the trace, the digests of the configuration, and the names of the caller's hooks."""
    return [
        (one.entry.kind, {**one.entry.content, "spec": None, "parts": None, "callers_hooks": None, "trace": None})
        for one in records
        if not one.entry.kind.startswith("hook_")
    ]


def passes(event: Event) -> None:
    """Has nothing to say."""


@pytest.mark.promise(13)
async def test_hooks_that_say_nothing_leave_the_journal_as_it_is_without_them(tmp_path: Path) -> None:
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    bare = await recorded(path)
    passing = [
        Declaration(name="passes", point=point, call=passes, observe=CATALOGUE[point].rule.observe_only)
        for point in CATALOGUE
    ]
    silent = await recorded(path, *passing)
    assert without_hook_runs(silent) == without_hook_runs(bare)
    command = {"name": "passes", "script": "true", "on_error": "block"}
    hooks = {"events": {"tool.before": [command], "model.before": [command]}}
    assert len(bare) > 30
    for enabled in (True, False):
        path = project(tmp_path, LIST, "Done.", tools=["list_dir"], settings={"hooks": {**hooks, "enabled": enabled}})
        records = await recorded(path)
        assert (len(records) > len(bare)) == enabled
        assert without_hook_runs(records) == without_hook_runs(bare)


@pytest.mark.promise(3)
@pytest.mark.promise(11)
async def test_a_baseline_guard_judges_what_a_later_hook_made_of_the_call(tmp_path: Path) -> None:
    @hook("tool.before", name="guard", band="baseline")
    def guard(event: ToolCallEvent) -> Block | None:
        return Block("not here") if event.call.arguments["path"] == "secret" else None

    @hook("tool.before", name="rewrites")
    def rewrites(event: ToolCallEvent) -> ToolCallEvent:
        return event.with_arguments(path="secret")

    store = MemoryStore()
    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    async with Harness.from_file(path, hooks=[guard, rewrites], store=store) as harness:
        result = await harness.run("work")
        records = await journal(store, result.run_id)
    assert of_kind(records, "acting", "1.tool.invoked.0") == []
    assert of_kind(records, "finished", "1.tool.invoked.0")[0]["hook"] == "guard"


@pytest.mark.promise(5)
@pytest.mark.parametrize("point", ["run.start", "input.before", "tool.before", "model.after"])
async def test_whoever_heard_of_a_beginning_hears_of_the_end_when_a_run_is_cancelled(
    tmp_path: Path, point: str
) -> None:
    reached = asyncio.Event()
    told: list[str] = []

    class Pairs(Hook):
        name = "pairs"
        observe = False
        priority = 1

        def on_run_start(self, event: RunStartEvent) -> None:
            told.append("run begins")

        def on_run_end(self, event: Event) -> None:
            told.append("run ends")

        def on_tool_before(self, event: Event) -> None:
            told.append("tool begins")

        def on_tool_after(self, event: Event) -> None:
            told.append("tool ends")

        def abandon(self, point: str, event: Event, error: object) -> None:
            told.append("tool ends" if point.startswith("tool") else "run ends")

    @hook(point, name="waits", priority=999)
    async def waits(event: Event) -> None:
        reached.set()
        await asyncio.Event().wait()

    path = project(tmp_path, LIST, "Done.", tools=["list_dir"])
    async with Harness.from_file(path, hooks=[Pairs(), waits], store=MemoryStore()) as harness:
        task = asyncio.ensure_future(harness.run("work"))
        await asyncio.wait_for(reached.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert told == (
        ["run begins", "tool begins", "tool ends", "run ends"] if point == "tool.before" else ["run begins", "run ends"]
    )


CHILD = """\
import asyncio, sys
from tenter import Harness

def ended(step):
    if step.ending is not None:
        print(step.op.path, flush=True)

async def main():
    async with Harness.from_file(sys.argv[1]) as harness:
        await harness.run("work", "go", watcher=ended)

asyncio.run(main())
"""


@pytest.mark.promise(9)
@pytest.mark.fault(35)
@pytest.mark.parametrize("moment", [1, 4, 9, 17, 30])
async def test_what_was_acknowledged_before_the_process_was_killed_is_on_record(tmp_path: Path, moment: int) -> None:
    path = project(tmp_path, *([LIST] * 40), "Done.", tools=["list_dir"])
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    heard = [child.stdout.readline().strip() for _ in range(moment)]
    child.kill()
    heard += child.stdout.read().split()
    child.wait(10)
    child.stdout.close()
    store = SqliteStore(tmp_path / ".tenter" / "journal.db")
    (run,) = await store.streams("run")
    records = await journal(store, run.stream.id)
    await store.close()
    assert len(heard) >= moment
    assert [line.removeprefix("finished ") for line in lines(records) if line.startswith("finished ")][
        : len(heard)
    ] == heard
    assert verify(records) is None


ACTS = """\
import sys
from tenter import tool

@tool
def act() -> str:
    print("acting", flush=True)
    sys.stdin.read()
    return ""
"""


@pytest.mark.promise(9)
async def test_a_tool_that_was_killed_while_it_acted_is_not_run_again_without_a_person(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(ACTS)
    settings = {"tools": {"act": {"python": "./my_tools.py:act"}}}
    path = project(tmp_path, calls(("act", {})), "Done.", tools=["act"], settings=settings)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    while child.stdout.readline().strip() != "acting":
        assert child.poll() is None
    child.kill()
    child.wait(10)
    child.stdin.close()
    child.stdout.close()
    store = SqliteStore(tmp_path / ".tenter" / "journal.db")
    (run,) = await store.streams("run")
    assert lines(await journal(store, run.stream.id))[-1] == "acting 1.tool.invoked.0"
    assert run.status == ""
    (tmp_path / "my_tools.py").write_text(ACTS.replace("sys.stdin.read()", "open('acted', 'a').close()"))
    async with Harness.from_file(path, store=store) as harness:
        asked = await harness.resume(run.stream.id)
        assert asked.status == "awaiting_approval"
        assert asked.approval is not None
        assert asked.approval.reasons[0].code == "unknown"
        assert (await harness.resume(run.stream.id)).approvals == asked.approvals
        await harness.reject(run.stream.id, by="ada", reason="it was done")
        assert (await harness.resume(run.stream.id)).status == "blocked"


@pytest.mark.promise(9)
@pytest.mark.parametrize("line", ["started 1.tool.invoked.0", "acted 1.tool.invoked.0"])
async def test_a_hook_is_asked_again_after_a_crash_under_the_same_key(tmp_path: Path, line: str) -> None:
    told: list[str] = []

    @hook("tool.before", "tool.after", observe=True)
    def look(event: Any) -> None:
        told.append(f"{type(event).__name__} {event.op.id}")

    path = acting(tmp_path, act("a"), "Done.")
    source, target = MemoryStore(), MemoryStore()
    first = await Harness.from_file(path, hooks=[look], store=source).run("work", "go")
    await cut(source, first.run_id, await after(source, first.run_id, line), target)
    (tmp_path / "acted").unlink()
    before, told[:] = list(told), []
    result = await Harness.from_file(path, hooks=[look], store=target).resume(first.run_id)
    assert result.status == "completed"
    assert told == (before if line.startswith("started") else before[1:])
    assert acted(tmp_path) == (["a"] if line.startswith("started") else [])


@pytest.mark.promise(10)
@pytest.mark.parametrize("kind", BOTH)
async def test_an_approval_counts_for_the_very_call_that_it_was_given_for(tmp_path: Path, kind: str) -> None:
    approvals: list[object] = []

    @hook("tool.before", name="ask", band="baseline")
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?")

    @hook("tool.before", name="rewrites")
    def rewrites(event: ToolCallEvent) -> ToolCallEvent | None:
        approvals.append(None if event.approval is None else event.approval.by)
        return event.with_arguments(mark="b") if event.approval else None

    async with processes(acting(tmp_path, act("a"), "Done."), kind) as made:
        first = await made.harness(ask, rewrites).run("work", "go")
        await made.harness().approve(first.run_id, by="ada")
        again = await made.harness(ask, rewrites).resume(first.run_id)
        assert (again.status, acted(tmp_path)) == ("awaiting_approval", [])
        assert again.approval is not None
        assert again.approval.digest != first.approvals[0].digest
        assert again.approval.call["call"]["arguments"] == {"mark": "b"}  # type: ignore[index]  # as JSON has it
        await made.harness().approve(first.run_id, by="bob")
        result = await made.harness(ask, rewrites).resume(first.run_id)
    assert (result.status, acted(tmp_path), approvals) == ("completed", ["b"], [None, "ada", "bob"])


@pytest.mark.promise(11)
@pytest.mark.parametrize("change", ["arguments", "tool"])
async def test_what_an_in_hook_hands_on_is_judged_by_every_check(tmp_path: Path, change: str) -> None:
    told: list[str] = []

    @hook("tool.invoked.in", name="hands-on")
    def hands_on(event: ToolCallEvent) -> ToolCallEvent:
        call = ToolCall(id="x", name="shell", arguments={"command": "touch ran"})
        return event.with_arguments(mark=7) if change == "arguments" else event.replace(call=call)

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        told.append(event.request.messages[-1].content)

    async with processes(acting(tmp_path, act("a"), "Done."), "memory") as made:
        assert (await made.harness(hands_on, hear).run("work", "go")).status == "completed"
    assert (acted(tmp_path), (tmp_path / "ran").exists()) == ([], False)
    who = "arguments" if change == "arguments" else "resolve"
    assert told[-1].startswith(f"Refused by the hook {who!r}")
