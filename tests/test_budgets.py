"""Budgets (D§11): what a run may use is reserved before and settled after, and no call is made beyond it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.harness.world import (
    BOTH,
    act,
    acted,
    acting,
    calls,
    cut,
    journal,
    lines,
    of_kind,
    processes,
    project,
    spawn,
    spawning,
)

from tenter import Block, Harness, RunResult, Suspend, hook
from tenter.catalogue import Budgets, Limits, ModelRequestEvent, RunStartEvent, ToolCallEvent, ToolResultEvent
from tenter.journal import MemoryStore
from tenter.kernel import OperationFailed, Outcome
from tenter.testing import FakeClock, FakeModel, assert_trace

USE: dict[str, object] = {"usage": {"input_tokens": 60, "output_tokens": 40}}

ACTING = "acting 1.tool.invoked"

BREAKS = """\
from pathlib import Path
from tenter import tool
from tenter.harness import ToolContext

@tool
def act(context: ToolContext, mark: str) -> str:
    with (Path(context.workspace.root) / "acted").open("a") as file:
        print(f"{mark} {context.key}", file=file)
    raise ValueError("no")
"""


def task(**budgets: object) -> dict[str, object]:
    """The task `work` with budgets."""
    work = {"version": 3, "model": "default", "instructions": "Do it.", "tools": ["act"], "budgets": budgets}
    return {"tasks": {"work": work}}


def priced(**prices: float) -> dict[str, object]:
    return {"models": {"default": {"provider": "scripted", "file": "script.yaml", "prices": prices}}}


def assert_exceeded(result: RunResult, said: str) -> None:
    """The run ended because a budget did not allow a call."""
    assert result.status == "blocked"
    assert result.error is not None
    assert (result.error.code, result.error.details["code"]) == ("budget", "budget_exceeded")
    assert said in result.error.message


TWICE: list[object] = [{**act("a"), **USE}, {**act("b"), **USE}, "Done."]

CASES: list[tuple[dict[str, object], list[object], str, int, list[str]]] = [
    ({"tokens": 100}, TWICE, "may use 100 tokens: 100 are used", 1, ["a"]),
    ({"tokens": 1}, ["Done."], "may use 1 tokens: 0 are used, and this call needs", 0, []),
    ({"model_calls": 1}, [act("a"), "Done."], "may use 1 model calls: 1 are used", 1, ["a"]),
    ({"tool_calls": 1}, [act("a", "b"), "Done."], "may use 1 tool calls: 1 are used", 1, ["a"]),
    ({"cost_usd": 0.001}, TWICE, "may use 0.001 US dollars", 1, ["a"]),
]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("budgets", "turns", "said", "asked", "done"), CASES, ids=[str(case[0]) for case in CASES])
async def test_a_budget_that_is_used_up_ends_the_run_and_the_call_is_not_made(  # the row of a table
    tmp_path: Path, kind: str, budgets: dict[str, object], turns: list[object], said: str, asked: int, done: list[str]
) -> None:
    requests: list[ModelRequestEvent] = []

    @hook("model.after", observe=True)
    def look(event: Any) -> None:
        requests.append(event)

    path = acting(tmp_path, *turns, settings={**task(**budgets), **priced(input=10, output=10)})
    async with processes(path, kind) as made:
        result = await made.harness(look).run("work", "go")
    assert_exceeded(result, said)
    assert (len(requests), acted(tmp_path)) == (asked, done)
    assert_trace(result, ["note governor budget"])


async def test_a_cost_that_nobody_knows_is_told_as_such_and_no_budget_can_be_kept_by_it(tmp_path: Path) -> None:
    path = acting(tmp_path, {**act("a"), **USE}, "Done.")
    async with processes(path, "memory") as made:
        free = await made.harness().run("work", "go")
    path = acting(tmp_path, {**act("a"), **USE}, "Done.", settings=task(cost_usd=100))
    async with processes(path, "memory") as made:
        bound = await made.harness().run("work", "go")
    assert (free.status, free.cost_known, free.cost_usd) == ("completed", False, 0.0)
    assert_exceeded(bound, "the cost of an earlier model call is not known")
    assert not bound.cost_known


async def test_the_prices_of_a_model_make_its_cost_known(tmp_path: Path) -> None:
    path = acting(tmp_path, {**act("a"), **USE}, {"text": "Done.", **USE}, settings=priced(input=10, output=100))
    async with processes(path, "memory") as made:
        result = await made.harness().run("work", "go")
    assert (result.status, result.cost_known) == ("completed", True)
    assert result.cost_usd == pytest.approx(2 * (60 * 10 + 40 * 100) / 1e6)


def passing(clock: FakeClock, seconds: float) -> Callable[..., object]:
    """A hook by which each tool call takes so long."""

    @hook("tool.before", observe=True)
    def passes(event: ToolCallEvent) -> None:
        clock.advance(seconds)

    return passes


@pytest.mark.parametrize("kind", BOTH)
async def test_the_time_that_a_run_waits_for_a_person_is_in_no_budget(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), act("b"), "Done.", tool={"risk": "high"}, settings=task(wall_seconds=60))
    clock = FakeClock()
    slow = passing(clock, 15)
    async with processes(path, kind) as made:
        result = await made.harness(slow, clock=clock).run("work", "go")
        for _ in range(2):
            assert result.status == "awaiting_approval"
            clock.advance(1000)
            await made.harness(clock=clock).approve(result.run_id, by="ada")
            result = await made.harness(slow, clock=clock).resume(result.run_id)
    assert_exceeded(result, "the budget of 60 s (wall_seconds) is used up")
    assert acted(tmp_path) == ["a"]


async def test_a_budget_of_time_that_is_used_up_lets_nothing_more_begin(tmp_path: Path) -> None:
    path = acting(tmp_path, act("a"), act("b"), "Done.", settings=task(wall_seconds=20))
    clock = FakeClock()
    async with processes(path, "memory") as made:
        result = await made.harness(passing(clock, 15), clock=clock).run("work", "go")
        longer = await made.harness(passing(clock, 5), clock=clock).run("work", "go")
    assert_exceeded(result, "wall_seconds")
    assert longer.status == "completed"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("calls_left", "status"), [(2, "blocked"), (3, "completed")])
async def test_what_was_used_is_used_when_another_process_goes_on(
    tmp_path: Path, kind: str, calls_left: int, status: str
) -> None:
    path = acting(tmp_path, act("a"), act("b"), "Done.", tool={"risk": "high"}, settings=task(model_calls=calls_left))
    async with processes(path, kind) as made:
        result = await made.harness().run("work", "go")
        while result.status == "awaiting_approval":
            await made.harness().approve(result.run_id, by="ada")
            result = await made.harness().resume(result.run_id)
    assert (result.status, acted(tmp_path)) == (status, ["a", "b"])


@pytest.mark.parametrize("kind", BOTH)
async def test_a_sub_run_uses_what_the_run_around_it_may_use(tmp_path: Path, kind: str) -> None:
    turns = [spawn("first"), spawn("second"), "Done."]
    path = spawning(tmp_path, turns, [act("a"), "Part."], settings={"work": {"budgets": {"tool_calls": 1}}})
    last: list[str] = []

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        last.append(event.request.messages[-1].content)

    async with processes(path, kind) as made:
        result = await made.harness(hear).run("work", "go")
    assert acted(tmp_path) == ["a"]
    assert result.status == "completed"
    assert last[-1].startswith("The task 'part' ended blocked: the run around it may use 1 tool calls: 1 are used")


async def test_a_sub_run_has_a_budget_of_its_own_besides(tmp_path: Path) -> None:
    path = spawning(
        tmp_path, [spawn("a"), "Done."], [act("a"), "Part."], settings={"part": {"budgets": {"model_calls": 1}}}
    )
    async with processes(path, "memory") as made:
        result = await made.harness().run("work", "go")
        (child,) = [one for one in await made.store.streams("run") if one.parent]
    assert (result.status, child.status, acted(tmp_path)) == ("completed", "blocked", ["a"])


async def test_a_hook_at_the_start_tightens_a_budget_and_never_loosens_one(tmp_path: Path) -> None:
    for asked, budget, status in ((1, 5, "blocked"), (9, 1, "blocked"), (None, 5, "completed")):

        @hook("run.start")
        def tighten(event: RunStartEvent, asked: int | None = asked) -> RunStartEvent:
            return event.replace(limits=Limits(budgets=Budgets(tool_calls=asked)))

        path = acting(tmp_path, act("a", "b"), "Done.", settings=task(tool_calls=budget))
        async with processes(path, "memory") as made:
            assert (await made.harness(tighten).run("work", "go")).status == status


async def test_calls_side_by_side_do_not_use_more_than_there_is(tmp_path: Path) -> None:
    settings = task(tool_calls=2)
    settings["tasks"]["work"]["parallel_tools"] = True  # type: ignore[index]  # a table that was made here
    path = acting(tmp_path, act("a", "b", "c"), "Done.", settings=settings)
    async with processes(path, "memory") as made:
        result = await made.harness().run("work", "go")
    assert_exceeded(result, "may use 2 tool calls")
    assert len(acted(tmp_path)) == 2


@pytest.mark.promise(9)
@pytest.mark.parametrize("last", "abc")
async def test_calls_that_another_process_had_begun_leave_nothing_to_those_beside_them(
    tmp_path: Path, last: str
) -> None:
    others = asyncio.Event()

    @hook("tool.before", name="last_comes_last")
    async def last_comes_last(event: ToolCallEvent) -> None:
        if event.call.arguments["mark"] == last and not others.is_set():
            await asyncio.wait_for(others.wait(), 5)

    @hook("tool.after", name="others_ended")
    def others_ended(event: ToolResultEvent) -> None:
        others.set()

    settings = task(tool_calls=2)
    settings["tasks"]["work"]["parallel_tools"] = True  # type: ignore[index]  # a table that was made here
    path = acting(tmp_path, act("a", "b", "c"), "Done.", settings=settings, tool={"idempotent": True})
    hooks, source, store = [last_comes_last, others_ended], MemoryStore(), MemoryStore()
    result = await Harness.from_file(path, hooks=hooks, store=source).run("work", "go")
    begun = [n for n, line in enumerate(lines(await journal(source, result.run_id)), 1) if line.startswith(ACTING)]
    await cut(source, result.run_id, begun[1], store)
    (tmp_path / "acted").unlink()
    assert_exceeded(await Harness.from_file(path, hooks=hooks, store=store).resume(result.run_id), "2 tool calls")
    assert sorted(acted(tmp_path)) == sorted({*"abc"} - {last})


async def test_the_same_call_with_the_same_result_for_ever_is_refused_and_then_ends_the_run(tmp_path: Path) -> None:
    turn = calls(("list_dir", {"path": "."}))
    told: list[str] = []

    @hook("model.before", observe=True)
    def hear(event: ModelRequestEvent) -> None:
        told.append(event.request.messages[-1].content)

    async with processes(project(tmp_path, *[turn] * 20, tools=["list_dir"]), "memory") as made:
        result = await made.harness(hear).run("work", "go")
    assert result.status == "blocked"
    assert result.error is not None
    assert result.error.details["code"] == "loop_detected"
    assert [text.startswith("Refused by the hook 'duplicate'") for text in told[1:]] == [False] * 5 + [True] * 2


async def test_a_sub_run_has_the_rest_of_the_time_of_the_run_around_it(tmp_path: Path) -> None:
    clock = FakeClock()

    @hook("tool.before", observe=True, name="slow")
    def slow(event: ToolCallEvent) -> None:
        if event.envelope.parent_run_id is not None:
            clock.advance(15)

    settings = {"work": {"budgets": {"wall_seconds": 20}}}
    path = spawning(tmp_path, [spawn("x"), "Done."], [act("a"), act("b"), "part"], settings=settings)
    async with processes(path, "memory") as made:
        result = await made.harness(slow, clock=clock).run("work", "go")
        child, _ = await made.store.streams("run")
    assert_exceeded(result, "wall_seconds")
    assert (child.status, acted(tmp_path)) == ("blocked", ["a"])


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("answer", [Suspend("look"), Block("not this one")], ids=["suspended", "blocked"])
async def test_what_a_hook_ended_before_it_was_done_uses_nothing_and_is_no_attempt(
    tmp_path: Path, kind: str, answer: Block | Suspend
) -> None:
    attempts: list[int] = []

    @hook("tool.invoked.in", name="look")
    def look(event: ToolCallEvent) -> Outcome | None:
        attempts.append(event.op.attempt)
        return answer if event.call.arguments["mark"] == "a" else None

    path = acting(
        tmp_path, act("a"), act("b"), "Done.", settings=task(tool_calls=1 if isinstance(answer, Block) else 2)
    )
    async with processes(path, kind) as made:
        result = await made.harness(look).run("work", "go")
        if result.approvals:
            await made.harness(look).approve(result.run_id, by="ada")
            result = await made.harness(look).resume(result.run_id)
    assert (result.status, set(attempts)) == ("completed", {1})
    assert acted(tmp_path) == (["b"] if isinstance(answer, Block) else ["a", "b"])


async def test_calls_side_by_side_are_counted_in_their_order_also_when_the_run_is_gone_on_with(tmp_path: Path) -> None:
    other = asyncio.Event()

    @hook("tool.before", name="other_first")
    async def other_first(event: ToolCallEvent) -> None:
        if event.op.path == "1.tool.invoked.0":
            await asyncio.wait_for(other.wait(), 5)

    @hook("tool.after", name="other_ended")
    def other_ended(event: ToolResultEvent) -> None:
        other.set()

    settings = task()
    settings["tasks"]["work"]["parallel_tools"] = True  # type: ignore[index]  # a table that was made here
    path = acting(tmp_path, act("a", "b"), *[act("a")] * 6, "Done.", settings=settings)
    hooks, source, store = [other_first, other_ended], MemoryStore(), MemoryStore()
    result = await Harness.from_file(path, hooks=hooks, store=source).run("work", "go")
    records = await journal(source, result.run_id)
    await cut(source, result.run_id, lines(records).index("started 5.llm.invoked.0"), store)
    await Harness.from_file(path, hooks=hooks, store=store).resume(result.run_id)
    for one in (records, await journal(store, result.run_id)):
        refused = [content["path"] for content in of_kind(one, "finished") if content.get("code") == "repeated_call"]
        assert refused == ["7.tool.invoked.0"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_tool_call_that_fails_is_a_tool_call_all_the_same(tmp_path: Path, kind: str) -> None:
    (tmp_path / "my_tools.py").write_text(BREAKS)
    settings = {"tools": {"act": {"python": "./my_tools.py:act"}}, **task(tool_calls=2)}
    path = project(tmp_path, act("a"), act("b"), act("c"), "Done.", settings=settings)
    async with processes(path, kind) as made:
        result = await made.harness().run("work", "go")
    assert_exceeded(result, "may use 2 tool calls: 2 are used")
    assert acted(tmp_path) == ["a", "b"]


async def test_each_attempt_of_a_model_call_is_a_model_call(tmp_path: Path) -> None:
    clock, model = FakeClock(), FakeModel([OperationFailed("busy", code="provider_transient")] * 4)

    async def at_once(seconds: float) -> bool:
        clock.advance(seconds)
        return True

    async with processes(acting(tmp_path, settings=task(model_calls=2)), "memory") as made:
        harness = made.harness(model=model, clock=clock, pause=at_once)
        result = await harness.run("work", "go")
    assert_exceeded(result, "may use 2 model calls: 2 are used")
    assert len(model.requests) == 2
