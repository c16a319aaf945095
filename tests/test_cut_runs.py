"""Runs whose process ended after any of their entries (D§3.9): gone on with, they come to the end that they had.

In memory, where a cut costs nothing; `tests/faults/test_crash_sweep.py` kills real processes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import act, acting, calls, journal, spawn, spawning

from tenter import Block, Escalate, Harness, Hook, Retry, RunResult, hook
from tenter.catalogue import (
    ApprovalDecision,
    ApprovalRequest,
    ApprovalResolvedEvent,
    HelpRequestEvent,
    ModelResponseEvent,
    OutputEvent,
    RunEndEvent,
    RunStartEvent,
    SubtaskSpawnEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from tenter.harness.setup import Given, set_up
from tenter.journal import Entry, Head, MemoryStore, Stream
from tenter.testing import FakeClock, FakeRandom

RISKY = {"risk": "high"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run: what its model says, what its tool is, what its hooks do, and what people answer."""

    turns: Sequence[object] = (act("a"), "Done.")
    tool: Mapping[str, object] = field(default_factory=dict[str, object])
    work: Mapping[str, object] = field(default_factory=dict[str, object])
    child: Sequence[object] = ()
    hooks: Sequence[object] = ()
    answers: Sequence[str] = ()

    def write(self, folder: Path) -> Path:
        if self.child:
            return spawning(folder, self.turns, self.child, settings={"tool": self.tool, "work": self.work})
        base = {"version": 3, "model": "default", "instructions": "Do it.", "tools": ["act"]}
        return acting(folder, *self.turns, tool=self.tool, settings={"tasks": {"work": {**base, **self.work}}})


@hook("run.start", name="no_start")
def no_start(event: RunStartEvent) -> Block:
    return Block("no")


@hook("output.before", name="no_output")
def no_output(event: OutputEvent) -> Block:
    return Block("no")


@hook("output.before", name="once_more")
def once_more(event: OutputEvent) -> Retry | None:
    return Retry("more", feedback="more") if event.attempt == 0 else None


@hook("tool.before", name="hands_over")
def hands_over(event: ToolCallEvent) -> Escalate:
    return Escalate("look", queue="ops")


@hook("model.after", on_error="fail", name="fails")
def fails(event: ModelResponseEvent) -> None:
    raise ValueError("no")


@hook("approval.resolved", name="overrules")
def overrules(event: ApprovalResolvedEvent) -> Block:
    return Block("no")


@hook("help.requested.pre", name="asks_nobody")
def asks_nobody(event: HelpRequestEvent) -> Block:
    return Block("no")


@hook("subtask.spawned.pre", name="spawns_none")
def spawns_none(event: SubtaskSpawnEvent) -> Block:
    return Block("no")


@hook("tool.before", name="rewrites")
def rewrites(event: ToolCallEvent) -> ToolCallEvent:
    return event.with_arguments({"mark": "z"})


@hook("tool.after", name="rewrites_after")
def rewrites_after(event: ToolResultEvent) -> ToolResultEvent:
    return event.replace(output="changed")


FLAKY = (act("flaky"), act("b"), "Done.")
PART = (act("a"), "part")
KINDS: Mapping[str, Kind] = {
    "approved, then blocked": Kind(tool=RISKY, hooks=[no_output], answers=["approve"]),
    "blocked at its start": Kind(hooks=[no_start]),
    "budget used up": Kind(turns=(act("a"), act("b"), "Done."), work={"budgets": {"tool_calls": 1}}),
    "cancelled while it waits": Kind(tool=RISKY, answers=["cancel"]),
    "edited": Kind(tool=RISKY, answers=["edit"]),
    "escalated": Kind(hooks=[hands_over]),
    "failed by a hook": Kind(hooks=[fails]),
    "nobody asked after all": Kind(tool=RISKY, hooks=[asks_nobody]),
    "nothing said": Kind(turns=("", "", "")),
    "overruled by a hook": Kind(tool=RISKY, hooks=[overrules], answers=["approve"]),
    "rejected": Kind(tool=RISKY, answers=["reject"]),
    "rejected, one of two": Kind(
        turns=(act("a", "b"), "Done."), tool=RISKY, work={"parallel_tools": True}, answers=["approve", "reject"]
    ),
    "rejected, beside a sub-run that waits": Kind(
        turns=(calls(("act", {"mark": "a"}), ("spawn_subtask", {"task": "part", "input": "x"})), "Done."),
        child=PART,
        tool=RISKY,
        work={"tools": ["act"], "parallel_tools": True},
        answers=["reject"],
    ),
    "repaired": Kind(turns=("one", "Done."), hooks=[once_more]),
    "retried": Kind(turns=FLAKY, tool={"idempotent": True}),
    "rewritten": Kind(tool=RISKY, hooks=[rewrites, rewrites_after], answers=["approve"]),
    "sub-run approved": Kind(turns=(spawn("x"), "Done."), child=PART, tool=RISKY, answers=["approve"]),
    "sub-run cancelled": Kind(turns=(spawn("x"), "Done."), child=PART, tool=RISKY, answers=["cancel"]),
    "sub-run refused": Kind(turns=(spawn("x"), "Done."), child=PART, hooks=[spawns_none]),
    "sub-run rejected": Kind(turns=(spawn("x"), "Done."), child=PART, tool=RISKY, answers=["reject"]),
    "tool failed": Kind(turns=FLAKY),
}


class Ends(Hook):
    """Hears of the ends of runs."""

    name = "ends"
    observe = True

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def on_run_end(self, event: RunEndEvent) -> None:
        self.heard.append((event.envelope.run_id, event.status))

    def of(self, run_id: str) -> list[str]:
        return [status for told, status in self.heard if told == run_id]


async def no_pause(seconds: float) -> bool:
    return True


def processes_of(kind: Kind, path: Path) -> Callable[..., Harness]:
    """Makes a process that goes on with runs of that kind in a journal."""

    def process(store: MemoryStore, *more: object) -> Harness:
        given = Given(store=store, clock=FakeClock(), random=FakeRandom(7), pause=no_pause)
        return Harness(set_up(path, (*kind.hooks, *more), given))

    return process


async def answered(process: Callable[..., Harness], store: MemoryStore, request: ApprovalRequest, word: str) -> None:
    """A person answers; what may not be edited is approved."""
    if word == "reject":
        await process(store).reject(request.run_id, request.id, by="ann")
    else:
        edits = {"mark": "q"} if word == "edit" and request.editable else None
        await process(store).approve(request.run_id, request.id, by="ann", edits=edits)


async def brought_on(
    process: Callable[..., Harness], store: MemoryStore, result: RunResult, answers: Sequence[str], ends: Ends
) -> RunResult:
    """The run to its end, people answering: the first call of a step as the first word says, and so on."""
    while result.status == "awaiting_approval":
        if "cancel" in answers:
            came = await process(store, ends).cancel(result.run_id)
            assert came is not None
            return came
        request = result.approvals[0]
        await answered(process, store, request, answers[int(request.path[-1])])
        result = await process(store, ends).resume(result.run_id)
    return result


class Kept(MemoryStore):
    """Keeps its entries in the order in which they came, those of a run and of its sub-runs together."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[Stream, Entry]] = []

    async def append(
        self, stream: Stream, entries: Sequence[Entry], *, durable: bool = False, expected_head: str | None = None
    ) -> Head:
        head = await super().append(stream, entries, durable=durable, expected_head=expected_head)
        self.kept.extend((stream, entry) for entry in entries)
        return head

    async def decide(self, decision: ApprovalDecision) -> ApprovalDecision:
        decided = await super().decide(decision)
        stream = Stream("run", decision.run_id)
        self.kept.append((stream, (await journal(self, stream.id))[-1].entry))
        return decided

    async def left_after(self, entries: int) -> MemoryStore:
        """The journal as its process left it that ended there."""
        store = MemoryStore()
        for stream, entry in self.kept[:entries]:
            await store.append(stream, [entry])
        return store


@pytest.mark.promise(9)
@pytest.mark.parametrize("name", sorted(KINDS))
async def test_a_run_comes_to_its_end_wherever_its_process_ended_and_tells_of_it_once(
    tmp_path: Path, name: str
) -> None:
    kind = KINDS[name]
    process = processes_of(kind, kind.write(tmp_path))
    source, ends = Kept(), Ends()
    whole = await brought_on(process, source, await process(source, ends).run("work"), kind.answers, ends)
    run_id = whole.run_id
    assert ends.of(run_id) == [whole.status]
    own = [entry if stream.id == run_id else None for stream, entry in source.kept]
    told = max(place for place, entry in enumerate(own) if entry is not None and entry.kind == "finished")
    for entries in range(1, told + 1):
        (tmp_path / "acted").unlink(missing_ok=True)
        store, heard = await source.left_after(entries), Ends()
        is_over = any(_ends(entry.content) for entry in own[:entries] if entry is not None and entry.kind == "status")
        begun = await process(store, heard).resume(run_id)
        result = await brought_on(process, store, begun, kind.answers or ["approve"] * 2, heard)
        assert heard.of(run_id) == [result.status], entries
        if is_over or "cancel" not in kind.answers:
            assert result.status == whole.status, entries
        assert await store.approvals() == [], entries
        assert all(summary.is_over for summary in await store.streams("run")), entries
        assert (await store.summary(Stream("run", run_id))) is not None


def _ends(content: Mapping[str, Any]) -> bool:
    return content["status"] != "awaiting_approval"
