"""Runs that wait for people (D§6): who is asked, what counts as an answer, and what a run makes of it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from tests.harness.world import (
    BOTH,
    Processes,
    act,
    acted,
    acting,
    journal,
    keys,
    of_kind,
    processes,
    project,
    statuses,
)

from tenter import Allow, Block, Hook, RunResult, Suspend, hook
from tenter.catalogue import (
    ApprovalResolvedEvent,
    HelpRequestedEvent,
    ModelRequestEvent,
    OutputEvent,
    RunEndEvent,
    TaskStateChangedEvent,
    ToolCallEvent,
)
from tenter.journal import DecisionRefused, Stream
from tenter.kernel import TenterError
from tenter.testing import FakeClock, assert_trace

RISKY = {"risk": "high"}


class Witness(Hook):
    """Hears of all that a run which waits is told through."""

    name = "witness"
    observe = True

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.approved: list[object] = []
        self.last: list[str] = []
        """What the model was told last, since its own last answer."""

    def on_help_requested_post(self, event: HelpRequestedEvent) -> None:
        self.heard.append("asked")

    def on_approval_resolved(self, event: ApprovalResolvedEvent) -> None:
        self.heard.append(event.decision.decision)

    def on_task_state_changed_pre(self, event: TaskStateChangedEvent) -> None:
        self.heard.append(f"{event.before}->{event.after}")

    def on_tool_before(self, event: ToolCallEvent) -> None:
        self.heard.append("tool")
        self.approved.append(None if event.approval is None else (event.approval.id, event.approval.by))

    def on_model_before(self, event: ModelRequestEvent) -> None:
        messages = event.request.messages
        own = max((place for place, one in enumerate(messages) if one.role == "assistant"), default=-1)
        self.last = [message.content for message in messages[own + 1 :]]

    def on_run_end(self, event: RunEndEvent) -> None:
        self.heard.append(f"end {event.status}")


async def waits(made: Processes, *hooks: object, **given: Any) -> RunResult:
    """What a run of the project comes to in a process of its own: it waits."""
    result = await made.harness(*hooks, **given).run("work", "go")
    assert result.status == "awaiting_approval", result.error
    return result


async def goes_on(made: Processes, run_id: str, *hooks: object, **given: Any) -> RunResult:
    """What it comes to when another process goes on with it."""
    return await made.harness(*hooks, **given).resume(run_id, by="grace")


@pytest.mark.parametrize("kind", BOTH)
async def test_a_call_that_a_person_approved_is_made_once_in_another_process(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    first, second = Witness(), Witness()
    async with processes(path, kind) as made:
        waiting = await waits(made, first)
        assert acted(tmp_path) == []
        approval = waiting.approval
        assert approval is not None
        decision = await made.harness().approve(waiting.run_id, by="ada", reason="it is fine")
        assert (decision.decision, decision.by, decision.reason) == ("approve", "ada", "it is fine")
        result = await goes_on(made, waiting.run_id, second)
        assert await statuses(made.store, waiting.run_id) == ["awaiting_approval", "completed"]
    assert (result.status, result.output, result.run_id, result.approvals) == ("completed", "Done.", waiting.run_id, ())
    assert acted(tmp_path) == ["a"]
    assert first.heard == ["pending->running", "tool", "asked", "running->awaiting_approval"]
    assert second.heard == [
        "approve",
        "awaiting_approval->running",
        "tool",
        "running->completed",
        "end completed",
    ]
    assert (first.approved, second.approved) == ([None], [(approval.id, "ada")])
    assert_trace(result, ["note governor risk"])


def rule(at: str, then: str) -> Mapping[str, object]:
    return {"policy": [{"name": "rule", "at": at, "then": then, "reason": "a person decides"}]}


@pytest.mark.promise(8)
@pytest.mark.parametrize(
    ("settings", "tool", "baseline", "comes_to"),
    [
        ({}, RISKY, False, "completed after a"),
        (rule("tool.before", "suspend"), {}, False, "completed after a"),
        (rule("tool.before", "block"), {}, False, "completed after nothing"),
        (rule("tool.before", "escalate"), {}, False, "escalated after nothing"),
        (rule("output.before", "suspend"), {}, False, "awaiting_approval after a"),
        ({}, RISKY, True, "awaiting_approval after nothing"),
    ],
)
async def test_an_allow_of_the_project_waives_what_the_configuration_page_says(
    tmp_path: Path, settings: Mapping[str, object], tool: Mapping[str, object], baseline: bool, comes_to: str
) -> None:
    @hook("tool.before", "output.before", name="easy")
    def easy(event: ToolCallEvent | OutputEvent) -> Allow:
        return Allow("it is fine")

    @hook("tool.before", name="sign-off", band="baseline")
    def sign_off(event: ToolCallEvent) -> Suspend | None:
        return Suspend("a person decides") if baseline else None

    async with processes(acting(tmp_path, act("a"), "Done.", settings=settings, tool=tool), "memory") as made:
        result = await made.harness(easy, sign_off).run("work", "go")
    assert f"{result.status} after {' '.join(acted(tmp_path)) or 'nothing'}" == comes_to


@pytest.mark.parametrize("kind", BOTH)
async def test_the_trace_goes_on_where_the_process_before_left_it(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await waits(made)
        await made.harness().approve(waiting.run_id, by="ada")
        result = await goes_on(made, waiting.run_id)
        head = await made.store.head(Stream("run", result.run_id))
    numbers = [entry.sequence for entry in (*waiting.trace, *result.trace)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert result.journal_head == head.hash
    assert result.journal_head != waiting.journal_head != ""
    assert (result.started_at, result.usage) == (waiting.started_at, waiting.usage)


@pytest.mark.parametrize("kind", BOTH)
async def test_an_edited_call_is_made_as_edited_and_judged_again(tmp_path: Path, kind: str) -> None:
    seen: list[str] = []

    @hook("tool.before", observe=True)
    def look(event: ToolCallEvent) -> None:
        seen.append(event.call.arguments["mark"])

    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await waits(made, look)
        decision = await made.harness().approve(waiting.run_id, by="ada", edits={"mark": "b"})
        assert (decision.decision, dict(decision.edits)) == ("edit", {"mark": "b"})
        result = await goes_on(made, waiting.run_id, look)
    assert (result.status, acted(tmp_path), seen) == ("completed", ["b"], ["a", "b"])


@pytest.mark.parametrize("kind", BOTH)
async def test_an_edit_that_breaks_the_schema_is_refused_and_nothing_is_decided(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await waits(made)
        with pytest.raises(DecisionRefused, match="at mark: expected text, got 7; nothing was decided"):
            await made.harness().approve(waiting.run_id, by="ada", edits={"mark": 7})
        await made.harness().approve(waiting.run_id, by="ada", edits={"mark": "b"})
        result = await goes_on(made, waiting.run_id)
    assert (result.status, acted(tmp_path)) == ("completed", ["b"])


@pytest.mark.parametrize("kind", BOTH)
async def test_an_edit_that_a_policy_forbids_is_refused(tmp_path: Path, kind: str) -> None:
    witness = Witness()

    @hook("tool.before", name="guard", band="baseline")
    def guard(event: ToolCallEvent) -> Block | None:
        return Block("not that one") if event.call.arguments["mark"] == "secret" else None

    async with processes(acting(tmp_path, act("a"), "Done.", tool=RISKY), kind) as made:
        waiting = await waits(made, guard)
        await made.harness().approve(waiting.run_id, by="ada", edits={"mark": "secret"})
        result = await goes_on(made, waiting.run_id, guard, witness)
    assert (result.status, acted(tmp_path)) == ("completed", [])
    assert witness.last == ["Refused by the hook 'guard': not that one"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_rejected_call_ends_the_run_blocked(tmp_path: Path, kind: str) -> None:
    witness = Witness()
    path = acting(tmp_path, act("a", "b"), "Done.", tool=RISKY, settings=PARALLEL)
    async with processes(path, kind) as made:
        waiting = await waits(made)
        first, second = waiting.approvals
        decision = await made.harness().reject(waiting.run_id, first.id, by="ada", reason="too risky")
        assert decision.decision == "reject"
        with pytest.raises(DecisionRefused, match="was withdrawn") as refused:
            await made.harness().approve(waiting.run_id, second.id, by="bob")
        result = await goes_on(made, waiting.run_id, witness)
        assert await statuses(made.store, waiting.run_id) == ["awaiting_approval", "blocked"]
    assert refused.value.why == "decided"
    assert (result.status, acted(tmp_path)) == ("blocked", [])
    assert result.error is not None
    assert (result.error.code, result.error.details["code"]) == ("approval", "approval_rejected")
    assert result.error.message == "ada rejected tool.invoked: too risky"
    assert witness.heard == ["reject", "awaiting_approval->blocked", "end blocked"]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("then", ["block", "escalate"])
async def test_a_request_that_expired_ends_the_run_as_it_says(tmp_path: Path, kind: str, then: Any) -> None:
    @hook("tool.before", name="ask")
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?", expires_in=60, on_timeout=then)

    clock, witness = FakeClock(), Witness()
    path = acting(tmp_path, act("a"), "Done.")
    async with processes(path, kind) as made:
        waiting = await waits(made, ask, clock=clock)
        clock.advance(59)
        again = await goes_on(made, waiting.run_id, ask, witness, clock=clock)
        assert (again.status, again.approvals, witness.heard) == ("awaiting_approval", waiting.approvals, [])
        clock.advance(1)
        with pytest.raises(DecisionRefused) as late:
            await made.harness(clock=clock).approve(waiting.run_id, by="ada")
        assert late.value.why == "expired"
        result = await goes_on(made, waiting.run_id, ask, witness, clock=clock)
    status = "blocked" if then == "block" else "escalated"
    assert (result.status, acted(tmp_path)) == (status, [])
    assert result.error is not None
    assert (result.error.code, result.error.details["code"]) == ("approval", "approval_expired")
    assert result.error.details.get("queue") == ("default" if then == "escalate" else None)
    assert witness.heard == [f"awaiting_approval->{status}", f"end {status}"]


@pytest.mark.parametrize("kind", BOTH)
async def test_whoever_goes_on_with_a_run_whose_request_expired_ends_it_though_nobody_answered(
    tmp_path: Path, kind: str
) -> None:
    rule = {"name": "ask", "at": "tool.before", "then": "suspend", "reason": "sure?", "expires_in_seconds": 5}
    clock = FakeClock()
    async with processes(acting(tmp_path, act("a"), settings={"policy": [rule]}), kind) as made:
        waiting = await waits(made, clock=clock)
        clock.advance(3600)
        result = await goes_on(made, waiting.run_id, clock=clock)
        (decided,) = of_kind(await journal(made.store, waiting.run_id), "approval_decided")
    assert (result.status, decided["decision"], acted(tmp_path)) == ("blocked", "expire", [])


PARALLEL: Mapping[str, object] = {
    "tasks": {
        "work": {"version": 3, "model": "default", "instructions": "Do it.", "tools": ["act"], "parallel_tools": True}
    }
}


@pytest.mark.parametrize("kind", BOTH)
async def test_of_several_calls_those_that_need_nobody_end_first_and_each_other_has_its_request(
    tmp_path: Path, kind: str
) -> None:
    @hook("tool.before", name="ask")
    def ask(event: ToolCallEvent) -> Suspend | None:
        return None if event.call.arguments["mark"] == "b" else Suspend("sure?")

    witness = Witness()
    path = acting(tmp_path, act("a", "b", "c"), "Done.", settings=PARALLEL)
    async with processes(path, kind) as made:
        waiting = await waits(made, ask)
        assert acted(tmp_path) == ["b"]
        assert [request.path for request in waiting.approvals] == ["1.tool.invoked.0", "1.tool.invoked.2"]
        one, other = waiting.approvals
        assert waiting.approval == one
        with pytest.raises(TenterError, match="has several open requests: name one"):
            await made.harness().approve(waiting.run_id, by="ada")
        await made.harness().approve(waiting.run_id, other.id, by="ada")
        still = await goes_on(made, waiting.run_id, ask)
        assert (still.status, still.approvals, acted(tmp_path)) == ("awaiting_approval", (one,), ["b"])
        await made.harness().approve(waiting.run_id, by="bob")
        result = await goes_on(made, waiting.run_id, ask, witness)
    assert (result.status, sorted(acted(tmp_path))) == ("completed", ["a", "b", "c"])
    assert sorted(witness.approved, key=str) == sorted([(one.id, "bob"), (other.id, "ada")], key=str)
    assert witness.last == ["did a", "did b", "did c"]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_rule_a_hook_and_a_risk_are_one_request_with_their_reasons(tmp_path: Path, kind: str) -> None:
    @hook("tool.before", name="ask")
    def ask(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?", code="costly", editable=("call.arguments.mark",), expires_in=60)

    rule = {"name": "mind", "at": "tool.before", "match": {"tool": "act"}, "then": "suspend", "reason": "it acts"}
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY, settings={"policy": [{**rule, "editable": ["mark"]}]})
    clock = FakeClock()
    async with processes(path, kind) as made:
        waiting = await waits(made, ask, clock=clock)
        (request,) = waiting.approvals
        await made.harness(clock=clock).approve(waiting.run_id, by="ada")
        result = await goes_on(made, waiting.run_id, ask, clock=clock)
    assert [(reason.hook, reason.code, reason.reason) for reason in request.reasons[:2]] == [
        ("ask", "costly", "sure?"),
        ("policy", "policy.mind", "it acts (the rule 'mind')"),
    ]
    assert [reason.hook for reason in request.reasons] == ["ask", "policy", "risk"]
    assert (request.editable, request.expires_at, request.on_timeout) == (("mark",), clock.now() + 60, "block")
    assert (request.task, request.root_run_id, request.call["call"]["arguments"]) == (  # type: ignore[index]  # JSON
        "work",
        waiting.run_id,
        {"mark": "a"},
    )
    assert (result.status, acted(tmp_path)) == ("completed", ["a"])


@pytest.mark.parametrize("kind", BOTH)
async def test_an_output_that_needs_a_sign_off_is_given_out_when_it_has_it(tmp_path: Path, kind: str) -> None:
    approved: list[object] = []

    @hook("output.before", name="sign-off")
    def sign_off(event: OutputEvent) -> Suspend:
        approved.append(event.approval and event.approval.by)
        return Suspend("may it be sent?", editable=("output",))

    async with processes(project(tmp_path, "Dear all."), kind) as made:
        for edits, output in ((None, "Dear all."), ({"output": "Dear Ada."}, "Dear Ada.")):
            waiting = await waits(made, sign_off)
            await made.harness().approve(waiting.run_id, by="ada", edits=edits)
            result = await goes_on(made, waiting.run_id, sign_off)
            assert (result.status, result.output) == ("completed", output)
    assert approved == [None, "ada"] * 2


@pytest.mark.parametrize("kind", BOTH)
async def test_one_approval_lets_one_call_pass_and_no_equal_one_after_it(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await waits(made)
        await made.harness().approve(waiting.run_id, by="ada")
        again = await goes_on(made, waiting.run_id)
        assert (again.status, acted(tmp_path)) == ("awaiting_approval", ["a"])
        assert again.approval is not None
        assert again.approval.path == "2.tool.invoked.0"
        assert again.approval.id != waiting.approvals[0].id
        await made.harness().approve(again.run_id, by="ada")
        result = await goes_on(made, waiting.run_id)
    assert (result.status, acted(tmp_path)) == ("completed", ["a", "a"])
    assert keys(tmp_path) == [f"a {result.run_id}/{step}.tool.invoked.0" for step in (1, 2)]


@pytest.mark.parametrize("kind", BOTH)
async def test_a_decision_for_what_is_not_asked_is_refused_and_says_why(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        one, other = await waits(made), await waits(made)
        (asked,), (foreign,) = one.approvals, other.approvals
        harness = made.harness()
        refused: dict[str, str] = {}
        wrong = {"unknown": (one.run_id, "none"), "foreign": (one.run_id, foreign.id), "no run": ("none", asked.id)}
        for name, (run_id, request_id) in wrong.items():
            with pytest.raises(DecisionRefused) as raised:
                await harness.approve(run_id, request_id, by="ada")
            refused[name] = raised.value.why
        await harness.approve(one.run_id, asked.id, by="ada")
        with pytest.raises(DecisionRefused, match="was approved already by 'ada'") as raised:
            await harness.reject(one.run_id, asked.id, by="bob")
        refused["decided"] = raised.value.why
        with pytest.raises(DecisionRefused) as raised:
            await harness.approve(other.run_id, foreign.id, by="ada", edits={})
        refused["no edit"] = raised.value.why
        assert (await harness.cancel(other.run_id, by="ada")) is not None
        with pytest.raises(DecisionRefused, match="its run is over") as raised:
            await harness.approve(other.run_id, foreign.id, by="ada")
        refused["finished"] = raised.value.why
        with pytest.raises(DecisionRefused, match="its run is over"):
            await harness.approve(other.run_id, by="ada")
    assert refused == {
        "unknown": "unknown",
        "foreign": "foreign",
        "no run": "foreign",
        "decided": "decided",
        "no edit": "not_editable",
        "finished": "finished",
    }
    assert acted(tmp_path) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": ""}, "'by' of a decision must be a text that says who"),
        ({"by": 7}, "'by' of a decision must be a text that says who"),
        ({"by": "ada", "reason": None}, "'reason' must be a text$"),
        ({"by": "ada", "edits": ["a"]}, "must be a mapping from fields to values"),
        ({"by": "ada", "edits": {"mark": object()}}, "the edits of a decision must be data"),
    ],
)
async def test_a_decision_that_is_none_is_refused_before_anything_is_asked(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    async with processes(project(tmp_path), "memory") as made:
        with pytest.raises(TenterError, match=said):
            await made.harness().approve("none", "none", **given)


async def test_a_secret_in_a_decision_is_masked_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "correct-horse")
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY, settings={"secrets": ["TOKEN"]})
    async with processes(path, "memory") as made:
        waiting = await waits(made)
        decision = await made.harness().approve(waiting.run_id, by="ada", reason="it is correct-horse")
        records = await journal(made.store, waiting.run_id)
    assert "horse" not in repr(decision)
    assert "horse" not in repr(records)


@pytest.mark.parametrize("kind", BOTH)
async def test_a_hook_hears_a_decision_before_it_counts_and_may_end_the_run(tmp_path: Path, kind: str) -> None:
    @hook("approval.resolved", name="second-look")
    def look(event: ApprovalResolvedEvent) -> Block | None:
        return Block("ada may not", stop=True) if event.decision.by == "ada" else None

    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        for by, status in (("ada", "blocked"), ("bob", "completed")):
            waiting = await waits(made, look)
            await made.harness().approve(waiting.run_id, by=by)
            assert (await goes_on(made, waiting.run_id, look)).status == status
    assert acted(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", BOTH)
async def test_without_an_id_it_is_told_as_well_why_nothing_can_be_decided(tmp_path: Path, kind: str) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, kind) as made:
        waiting = await waits(made)
        harness = made.harness()
        await harness.approve(waiting.run_id, by="ada")
        with pytest.raises(DecisionRefused, match="was approved already by 'ada' at ") as decided:
            await harness.reject(waiting.run_id, by="bob")
        with pytest.raises(DecisionRefused, match="never had one") as unknown:
            await harness.approve("no-such-run", by="bob")
        with pytest.raises(TenterError, match="the id of a request must be a text"):
            await harness.approve(waiting.run_id, cast("str", 7), by="bob")
        with pytest.raises(TenterError, match="the id of a run must be a text"):
            await harness.approve(cast("str", None), by="bob")
    assert (decided.value.why, unknown.value.why) == ("decided", "unknown")


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    "value",
    [math.nan, {1: 2}, 2**64, -(2**70), "\ud800", {"\udcff": 1}],
    ids=["nan", "number as name", "huge", "very negative", "half a pair", "half a pair as name"],
)
async def test_an_edit_that_no_record_takes_is_refused_and_nothing_is_decided(tmp_path: Path, value: object) -> None:
    path = acting(tmp_path, act("a"), "Done.", tool=RISKY)
    async with processes(path, "sqlite") as made:
        waiting = await waits(made)
        with pytest.raises(TenterError):
            await made.harness().approve(waiting.run_id, by="ada", edits={"mark": value})
        await made.harness().approve(waiting.run_id, by="J\udcfcrgen", reason="\ud800")
        result = await goes_on(made, waiting.run_id)
    assert (result.status, acted(tmp_path)) == ("completed", ["a"])
