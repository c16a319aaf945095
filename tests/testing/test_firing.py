import asyncio
from functools import partial
from typing import Any, cast

import pytest

from tenter import Block, Escalate, Hook, Retry, Suspend, hook
from tenter.catalogue import (
    CATALOGUE,
    LoopStartEvent,
    ModelRequestEvent,
    ModelResponseEvent,
    OutputEvent,
    RunEndEvent,
    ToolCallEvent,
    ToolResult,
)
from tenter.kernel import Declaration, Event, Outcome, RegistrationError, Result, TenterError
from tenter.testing import fire, fire_async

WORDS = ("blocked", "suspended", "escalated", "retried", "replaced", "failed")


@hook("tool.before", match={"tool": "shell"}, name="no-force-push", timeout=5)  # noqa: RET503  # word for word
def no_force_push(event: ToolCallEvent):
    if "--force" in event.call.arguments["command"]:
        return Block("force pushes are not allowed", code="policy_denied")


def refuse(event: Event) -> Block:
    return Block("no")


def test_the_example_of_the_design() -> None:
    assert fire(no_force_push, "tool.before", tool="shell", arguments={"command": "git push --force"}).blocked


def test_a_hook_that_lets_an_event_through_leaves_it_as_it_is() -> None:
    fired = fire(no_force_push, "tool.before", tool="shell", arguments={"command": "git push"})
    assert (fired.outcome, fired.event, fired.records) == (None, fired.before, ())
    assert not any(getattr(fired, name) for name in WORDS)


def test_a_hook_that_does_not_match_says_nothing() -> None:
    fired = fire(no_force_push, "tool.before", tool="other", arguments={"command": "git push --force"})
    assert fired.outcome is None


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Block("no"), "blocked"),
        (Suspend("ask"), "suspended"),
        (Escalate("hot", queue="oncall"), "escalated"),
        (Retry("again"), "retried"),
    ],
)
def test_what_a_hook_answers_is_told_by_one_word_and_no_other(outcome: Outcome, word: str) -> None:
    def answer(event: OutputEvent) -> Outcome:
        return outcome

    fired = fire(answer, "output.before", output="draft")
    assert fired.outcome == outcome
    assert {name for name in WORDS if getattr(fired, name)} == {word}


def test_a_replacement_is_the_event_that_leaves() -> None:
    def shout(event: OutputEvent) -> OutputEvent:
        return event.replace(output="DRAFT")

    fired = fire(shout, "output.before", output="draft")
    assert fired.replaced
    assert isinstance(fired.event, OutputEvent)
    assert (fired.event.output, fired.records[0].modified) == ("DRAFT", True)


def test_a_result_at_in_is_the_outcome() -> None:
    cached = ToolResult(output="cached")

    def remember(event: ToolCallEvent) -> Result:
        return event.result(cached)

    assert fire(remember, "tool.invoked.in").outcome == Result(cached)


def test_every_point_can_be_fired() -> None:
    seen: list[Event] = []
    for point in CATALOGUE:
        fired = fire(seen.append, point)
        assert (fired.failed, seen.pop()) == (False, fired.before)


@pytest.mark.parametrize("name", ["loop.start.pre", "pre.loop.start"])
def test_a_point_of_a_loop_is_fired_by_both_its_names(name: str) -> None:
    @hook("pre.loop.start", name="env-guard")
    def guard(event: LoopStartEvent) -> Suspend | None:
        return Suspend("who wants that?") if event.prompt == "do it" else None

    assert fire(guard, name, prompt="do it").suspended
    assert fire(guard, name).outcome is None


def test_an_async_hook_is_awaited() -> None:
    async def guard(event: ModelRequestEvent) -> Block:
        await asyncio.get_running_loop().run_in_executor(None, str)
        return Block(event.request.alias)

    assert fire(guard, "model.before").outcome == Block("default")


def test_a_class_and_its_instance_are_fired_at_one_of_their_points() -> None:
    class Audit(Hook):
        def on_run_end(self, event: RunEndEvent) -> None:
            raise AssertionError("not this one")

        def on_model_after(self, event: ModelResponseEvent) -> Block:
            return Block(event.response.text)

    for target in (Audit, Audit()):
        assert fire(target, "model.after", text="bad words").outcome == Block("bad words")


def test_an_observer_hears_how_its_chain_ended() -> None:
    heard: list[Outcome | None] = []

    @hook("tool.before", observe=True)
    def watch(event: ToolCallEvent, ended: Outcome | None) -> None:
        heard.append(ended)

    assert fire(watch, "tool.before").outcome is None
    assert heard == [None]


def test_any_name_of_a_point_will_do() -> None:
    fields = {"tool": "shell", "arguments": {"command": "--force"}}
    for name in ("tool.before", "tool.invoked.pre", "pre.tool.invoked"):
        assert fire(no_force_push, name, **fields).blocked


def test_a_bare_function_is_fired_anywhere_and_stays_as_it_is() -> None:
    assert fire(refuse, "tool.before").blocked
    assert fire(refuse, "model.after").blocked
    assert not vars(refuse)


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, event: Event) -> None:
        self.calls += 1

    def con(self, event: Event) -> None:
        self.calls += 10


def test_whatever_can_be_called_is_tried() -> None:
    counting = Counting()
    for target in (counting, counting.con, partial(counting.con)):
        assert not fire(target, "tool.before").failed
    assert counting.calls == 21


def test_a_declaration_is_fired_at_its_point() -> None:
    declared = Declaration(name="guard", point="tool.before", call=refuse)
    assert fire(declared, "tool.before").blocked
    with pytest.raises(TenterError, match=r"is no hook at 'tool\.after'; name a point that it attaches to"):
        fire(declared, "tool.after")


def test_what_cannot_be_a_hook_is_refused() -> None:
    with pytest.raises(RegistrationError, match="is no hook"):
        fire(cast(Any, "tool.before"), "tool.before")
    with pytest.raises(RegistrationError, match="is no hook"):
        fire(Counting, "tool.before")
    with pytest.raises(RegistrationError, match="expected \\(event\\)"):
        fire(lambda: None, "tool.before")


def test_a_hook_that_fails_does_what_its_policy_says() -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("broken")

    fired = fire(broken, "tool.before")
    assert (fired.failed, fired.blocked, fired.records[0].result) == (True, False, "crashed")
    assert isinstance(fired.outcome, Block)
    fired = fire(hook("tool.before", name="broken", on_error="warn")(broken), "tool.before")
    assert (fired.failed, fired.blocked, fired.records[0].disposition) == (True, False, "warn")


def test_a_failure_that_asks_a_person_is_no_suspend_of_the_hook() -> None:
    @hook("tool.before", on_error="suspend")
    def broken(event: ToolCallEvent) -> None:
        raise RuntimeError("broken")

    fired = fire(broken, "tool.before")
    assert (fired.failed, fired.suspended) == (True, False)
    assert isinstance(fired.outcome, Suspend)


def test_a_hook_that_hangs_meets_its_deadline() -> None:
    @hook("tool.before", timeout=0.05)
    async def hang(event: ToolCallEvent) -> None:
        await asyncio.get_running_loop().create_future()

    fired = fire(hang, "tool.before")
    assert (fired.failed, fired.records[0].result) == (True, "timeout")


async def test_inside_an_event_loop_fire_says_what_to_write() -> None:
    with pytest.raises(TenterError, match=r"write `await fire_async\(…\)` there"):
        fire(no_force_push, "tool.before")
    fired = await fire_async(no_force_push, "tool.before", arguments={"command": "git push --force"})
    assert fired.blocked


def test_a_mistake_of_the_caller_is_told_without_another_one() -> None:
    with pytest.raises(TenterError, match="has no field 'tol'") as raised:
        fire(no_force_push, "tool.before", tol="shell")
    assert raised.value.__context__ is None
