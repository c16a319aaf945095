"""What an approval answers (D§3.10): what a person was shown, and nothing that asks beside it, before or later."""

from pathlib import Path

import pytest
from tests.harness.world import BOTH, act, acted, acting, journal, of_kind, processes, project

from tenter import Retry, Suspend, hook
from tenter.catalogue import HelpRequestedEvent, ModelRequestEvent, ModelResponseEvent, ToolCallEvent


@pytest.mark.promise(10)
@pytest.mark.parametrize("kind", BOTH)
async def test_an_approval_answers_no_hook_of_the_same_name_at_another_point(tmp_path: Path, kind: str) -> None:
    @hook("tool.before", name="guard")
    def guard(event: ToolCallEvent) -> Suspend:
        return Suspend("sure?")

    @hook("tool.invoked.in", name="guard")
    def within(event: ToolCallEvent) -> Suspend:
        return Suspend("really?")

    hooks = (guard, within)
    async with processes(acting(tmp_path, act("a"), "Done."), kind) as made:
        waiting = await made.harness(*hooks).run("work", "go")
        for reason in ("sure?", "really?"):
            (request,) = waiting.approvals
            assert (request.reasons[-1].reason, acted(tmp_path)) == (reason, [])
            await made.harness(*hooks).approve(waiting.run_id, by="ada")
            waiting = await made.harness(*hooks).resume(waiting.run_id)
    assert (waiting.status, acted(tmp_path)) == ("completed", ["a"])


@pytest.mark.promise(10)
@pytest.mark.parametrize("kind", BOTH)
async def test_an_approval_of_one_rule_answers_no_other(tmp_path: Path, kind: str) -> None:
    first = {"name": "first", "at": "tool.before", "then": "suspend", "reason": "one"}
    path = acting(tmp_path, act("a"), "Done.", settings={"policy": [first]})
    async with processes(path, kind) as made:
        waiting = await made.harness().run("work", "go")
        await made.harness().approve(waiting.run_id, by="ada")
        acting(tmp_path, act("a"), "Done.", settings={"policy": [first, {**first, "name": "second", "reason": "two"}]})
        again = await made.harness().resume(waiting.run_id, accept=["policy"])
    (request,) = again.approvals
    assert "(the rule 'second')" in request.reasons[0].reason
    assert acted(tmp_path) == []


@pytest.mark.parametrize("kind", BOTH)
async def test_who_is_told_of_a_request_finds_it_on_record_and_can_decide_at_once(tmp_path: Path, kind: str) -> None:
    @hook("help.requested.post", name="quick")
    async def quick(event: HelpRequestedEvent) -> None:
        await made.harness(quick).approve(event.request.run_id, event.request.id, by="bot")

    async with processes(acting(tmp_path, act("a"), "Done.", tool={"risk": "high"}), kind) as made:
        result = await made.harness(quick).run("work", "go")
    assert (result.status, acted(tmp_path)) == ("completed", ["a"])


@pytest.mark.promise(10)
@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("second", ["approve", "reject"])
async def test_an_approval_of_a_request_to_a_model_does_not_answer_the_same_one_that_is_made_again(
    tmp_path: Path, kind: str, second: str
) -> None:
    @hook("model.before", name="look")
    def look(event: ModelRequestEvent) -> Suspend:
        return Suspend("may it be sent?")

    @hook("model.after", name="again")
    def again(event: ModelResponseEvent) -> Retry | None:
        return Retry("not that one") if event.op.pass_ == 2 else None

    async with processes(project(tmp_path), kind) as made:
        first = await made.harness(look, again).run("work", "go")
        await made.harness().approve(first.run_id, by="ada")
        asked = await made.harness(look, again).resume(first.run_id)
        assert asked.status == "awaiting_approval"
        assert {one.path for one in (*first.approvals, *asked.approvals)} == {"1.llm.invoked.0"}
        await getattr(made.harness(), second)(first.run_id, by="grace")
        result = await made.harness(look, again).resume(first.run_id)
        said = of_kind(await journal(made.store, first.run_id), "approval_decided")
    assert (result.status, result.output) == (("completed", "Done.") if second == "approve" else ("blocked", None))
    assert [(one["decision"], one["by"]) for one in said] == [("approve", "ada"), (second, "grace")]
