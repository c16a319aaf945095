"""What hooks do to a loop at its points: they hold it up, are asked again, say metadata, fail, and are told the end."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.loop.world import (
    LONGEST,
    LOOP,
    STREAM,
    World,
    continued,
    die,
    listeners,
    restart,
    resume,
    says,
    stop,
    wait,
    world,
)

from tenter.catalogue.loop_events import LoopEvent
from tenter.executors import SuspendMode
from tenter.kernel import Block, Blocked, Declaration, Escalate, Event, Hook, Suspend, Suspended
from tenter.loop.moment import moment
from tenter.loop.record import last_state
from tenter.loop.release import Release, by_this_process
from tenter.loop.suspension import SuspendState, clear_state, read_state
from tenter.testing import FakeClock

Heard = list[tuple[str, Event]]
GATE = "iteration.start.pre"
SURE = Suspend("sure?", code="sign_off")
RETRY: Mapping[tuple[str, str], SuspendMode] = {(GATE, "gate"): "wait_then_retry"}


def command(name: str, script: str, **settings: object) -> dict[str, object]:
    return {"name": name, "script": script, "on_error": "block", **settings}


def configured(**events: Sequence[object]) -> dict[str, object]:
    """A configuration with hooks; `pre_loop_start` stands for the point `pre.loop.start`."""
    return {"hooks": {"events": {name.replace("_", "."): list(hooks) for name, hooks in events.items()}}}


def says_metadata(**metadata: object) -> str:
    return f"echo '{json.dumps({'metadata': metadata})}'"


async def hook_runs(run: World) -> list[Mapping[str, Any]]:
    return [record.entry.content for record in await run.journal() if record.entry.kind == "hook_ended"]


async def suspended(run: World) -> tuple[asyncio.Task[object], SuspendState]:
    """Runs the loop until it is suspended, at a hook for which `wait` was given."""
    running: asyncio.Task[object] = asyncio.create_task(run.run())
    await run.until_told("held")
    found = read_state(run.place)
    assert found is not None
    return running, found


async def test_everything_is_on_record_before_a_loop_waits(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, None)], when_held=[wait])
    running, state = await suspended(run)
    assert (state.loop_id, state.state, state.phase_event) == (LOOP, "suspended", "pre.iteration.start")
    assert (state.hook_name, state.reason, state.suspend_mode) == ("gate", "sure?", "wait_for_resume")
    assert state.suspended_at == "2023-11-14T22:13:20Z"
    assert (run.row.status, run.row.suspension) == ("suspended", state)
    *_, stands, waits = await run.journal()
    assert (stands.entry.kind, waits.entry.kind) == ("loop_state", "loop_suspended")
    assert waits.entry.content["suspension_id"] == state.suspension_id
    assert await last_state(run.store, STREAM) == run.state
    resume(run)
    await asyncio.wait_for(running, LONGEST)
    assert run.ended[0].reason == "completed"


async def test_after_a_resume_nothing_of_the_suspension_is_left_but_its_release(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, None)], when_held=[resume])
    await run.run()
    assert read_state(run.place) is None
    assert (run.row.suspension, run.row.released and run.row.released.how) == (None, "resume")
    (released,) = [record.entry.content for record in await run.journal() if record.entry.kind == "loop_released"]
    assert released["how"] == "resume"
    assert [path.name for path in run.place.signals.iterdir() if "requested" in path.name] == []


async def test_hooks_that_suspend_together_are_waited_for_once_and_the_first_one_is_on_top(tmp_path: Path) -> None:
    hooks = [
        says(GATE, SURE, None, name="one"),
        says(GATE, None, name="two"),
        says(GATE, Suspend("and you?"), None, name="three"),
    ]
    run = world(tmp_path, hooks=hooks, when_held=[wait])
    running, state = await suspended(run)
    assert (state.hook_name, state.reason) == ("one", "sure?")
    assert [(one.hook_name, one.reason, one.code) for one in state.suspensions] == [
        ("one", "sure?", "sign_off"),
        ("three", "and you?", "approval_required"),
    ]
    resume(run)
    await asyncio.wait_for(running, LONGEST)
    assert len(run.texts("held")) == 1


async def test_a_block_ends_the_chain_and_wins_over_a_suspend_before_it(tmp_path: Path) -> None:
    asked: list[str] = []
    hooks = [says(GATE, SURE, name="one"), says(GATE, Block("no"), name="two"), asks(asked, GATE)]
    run = world(tmp_path, hooks=hooks)
    result = await run.run()
    assert (result.reason, asked, run.texts("held")) == ("blocked", [], [])
    assert "'two'" in result.message


def asks(asked: list[str], point: str) -> Declaration:
    """A hook that says nothing, and is remembered."""

    def answer(event: Event) -> None:
        asked.append(point)

    return Declaration(name="asked", point=point, call=answer)


async def test_a_suspend_does_not_end_the_chain_and_who_suspended_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []
    run = world(tmp_path, hooks=[says(GATE, SURE, name="one"), asks(asked, GATE)], when_held=[resume])
    assert (await run.run()).reason == "completed"
    assert asked == [GATE]


async def test_wait_then_retry_suspends_again_each_time_until_the_hook_passes(tmp_path: Path) -> None:
    ids: list[str] = []
    passes: list[int] = []
    answers = [SURE, Suspend("still not"), Suspend("nor now"), None]

    def gate(event: Event) -> Suspend | None:
        assert isinstance(event, LoopEvent)
        passes.append(event.op.pass_)
        return answers[len(passes) - 1]

    def go_on(held: World) -> None:
        ids.append(held.row.suspension.suspension_id if held.row.suspension else "")
        resume(held)

    asked: list[str] = []
    hooks = [Declaration(name="gate", point=GATE, call=gate), asks(asked, GATE)]
    run = world(tmp_path, hooks=hooks, modes=RETRY, when_held=[go_on] * 3)
    assert (await run.run()).reason == "completed"
    assert passes == [1, 2, 3, 4]
    assert asked == [GATE]
    assert len(set(ids)) == len(run.texts("held")) == 3
    assert "nor now" in run.texts("held")[-1]


@pytest.mark.parametrize(("answer", "reason"), [(Block("no"), "blocked"), (Escalate("look"), "escalated")])
async def test_a_hook_that_is_asked_again_may_end_the_loop(tmp_path: Path, answer: Block, reason: str) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, answer)], modes=RETRY, when_held=[resume])
    assert (await run.run()).reason == reason


async def test_only_hooks_that_must_pass_are_asked_again(tmp_path: Path) -> None:
    hooks = [says(GATE, SURE, name="waits"), says(GATE, SURE, None, name="gate")]
    run = world(tmp_path, hooks=hooks, modes=RETRY, when_held=[resume])
    assert (await run.run()).reason == "completed"
    assert len(run.texts("held")) == 1


COUNTING = "echo x >> tries; test $(wc -l < tries) -ge {passing} || {{ echo 'not yet' >&2; exit 3; }}"


async def test_retry_backoff_tries_again_in_place_until_the_hook_passes(tmp_path: Path) -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> bool:
        paused.append(seconds)
        return True

    gate = command("gate", COUNTING.format(passing=3), on_error="suspend", suspend_mode="retry_backoff")
    run = world(tmp_path, config=configured(pre_loop_start=[gate]), pause=pause)
    assert (await run.run()).reason == "completed"
    first, second = paused
    assert 0.5 <= first <= 1
    assert 1 <= second <= 2
    told = [(one["attempt"], one["disposition"], one["exit_code"]) for one in await hook_runs(run)]
    assert told == [(1, "retry", 3), (2, "retry", 3), (3, "pass", 0)]
    assert not run.texts("held")


async def test_retry_backoff_that_never_passes_waits_for_a_person(tmp_path: Path) -> None:
    async def pause(seconds: float) -> bool:
        return True

    gate = command("gate", COUNTING.format(passing=9), on_error="suspend", suspend_mode="retry_backoff")
    run = world(tmp_path, config=configured(pre_loop_start=[gate]), pause=pause, when_held=[resume])
    assert (await run.run()).reason == "completed"
    assert [one["disposition"] for one in await hook_runs(run)] == [*["retry"] * 4, "suspend"]
    assert len(run.texts("held")) == 1


async def test_a_stop_ends_the_pause_of_a_hook_that_would_be_tried_again(tmp_path: Path) -> None:
    gate = command("gate", "exit 3", on_error="suspend", suspend_mode="retry_backoff")

    def ask(_: Event) -> None:
        stop(run)

    asks = Declaration(name="asks", point="loop.start.pre", call=ask, priority=1)
    run = world(tmp_path, hooks=[asks], config=configured(pre_loop_start=[gate]))
    result = await run.run()
    assert (result.reason, result.message.split(" by ")[0]) == ("stopped", "it was stopped")
    assert [(one["hook"], one["attempt"]) for one in await hook_runs(run)] == [("gate", 1)]


def everything(held: World) -> None:
    for ask in (resume, restart, stop):
        ask(held)


def two(held: World) -> None:
    for ask in (resume, restart):
        ask(held)


@pytest.mark.parametrize(("asked", "reason"), [(everything, "stopped"), (two, "restart_requested")])
async def test_a_stop_goes_before_a_restart_and_both_before_a_resume_and_all_are_used_up(
    tmp_path: Path, asked: Any, reason: str
) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE)], when_held=[asked])
    assert (await run.run()).reason == reason
    assert [path.name for path in run.place.signals.iterdir() if "requested" in path.name] == []


async def test_a_resume_that_was_meant_for_another_suspension_resumes_nothing(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, None)], when_held=[wait])
    running, _ = await suspended(run)
    run.signal("resume", "0123456789abcdef")
    await run.until_told("note", "a resume signal was set aside")
    assert run.row.status == "suspended"
    resume(run)
    await asyncio.wait_for(running, LONGEST)
    assert run.ended[0].reason == "completed"


async def test_a_loop_that_was_asked_to_stop_before_it_is_suspended_does_not_wait(tmp_path: Path) -> None:
    async def asks_for_a_stop(event: Event) -> Suspend:
        run.signal("stop")
        await run.attention.until_asked(within=LONGEST)
        return SURE

    hook = Declaration(name="gate", point=GATE, call=asks_for_a_stop)
    run = world(tmp_path, hooks=[hook], when_held=[wait])
    assert (await run.run()).reason == "stopped"
    assert run.row.released is not None
    assert run.row.released.how == "stop"


@pytest.mark.parametrize(("on_timeout", "reason"), [("block", "blocked"), ("escalate", "escalated")])
async def test_a_suspension_that_nobody_answers_in_time_ends_as_its_hook_said(
    tmp_path: Path, on_timeout: Any, reason: str
) -> None:
    hook = says(GATE, Suspend("sure?", expires_in=0.01, on_timeout=on_timeout))
    run = world(tmp_path, hooks=[hook], when_held=[wait])
    result = await run.run()
    assert result.reason == reason
    assert "nobody came in time: sure?" in result.message
    assert read_state(run.place) is None
    (released,) = [record.entry.content for record in await run.journal() if record.entry.kind == "loop_released"]
    assert released["how"] == "expired"


async def test_a_loop_whose_process_died_goes_on_where_it_was_suspended(tmp_path: Path) -> None:
    heard: Heard = []
    hooks = [says(GATE, SURE), *listeners(heard)]
    run = world(tmp_path, hooks=hooks, when_held=[die])
    await run.run_and_die()
    again = await continued(run, hooks=hooks, when_held=[resume])
    assert again.state == run.state
    result = await again.run()
    assert (result.reason, result.iterations) == ("completed", 1)
    points = [point for point, _ in heard]
    assert points.count("loop.start.pre") == points.count(GATE) == points.count("iteration.start.post") == 1


async def test_hooks_that_must_pass_are_asked_again_in_another_process_too(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE)], modes=RETRY, when_held=[die])
    await run.run_and_die()
    again = await continued(run, hooks=[says(GATE, Block("no"))], when_held=[resume])
    assert (await again.run()).reason == "blocked"


async def test_a_loop_does_not_go_on_without_the_hook_that_must_pass(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE)], modes=RETRY, when_held=[die])
    await run.run_and_die()
    again = await continued(run, when_held=[resume])
    result = await again.run()
    assert result.reason == "blocked"
    assert "no hook 'gate'" in result.message


@pytest.mark.fault(47)
async def test_what_a_dead_process_had_decided_counts_whoever_asks_now(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, None)], when_held=[die])
    await run.run_and_die()
    state = read_state(run.place)
    assert state is not None
    decided = Release(how="resume", by=by_this_process(), at=moment(1.0))
    run.parts.registry.release(LOOP, state.suspension_id, decided)
    again = await continued(run, when_held=[wait])
    assert (await again.run()).reason == "completed"
    released = [record.entry.content for record in await again.journal() if record.entry.kind == "loop_released"]
    assert [one["how"] for one in released] == ["resume"]


@pytest.mark.fault(47)
@pytest.mark.parametrize("gone_on", [False, True])
async def test_a_loop_that_was_let_go_on_does_not_ask_its_hooks_again_in_another_process(
    gone_on: bool, tmp_path: Path
) -> None:
    heard: Heard = []
    hooks = [says(GATE, SURE), *listeners(heard)]
    run = world(tmp_path, hooks=hooks, when_held=[die])
    await run.run_and_die()
    state = read_state(run.place)
    assert state is not None
    run.parts.registry.release(LOOP, state.suspension_id, Release(how="resume", by=by_this_process(), at=moment(1.0)))
    await run.record.state(run.state.but(released=True))
    if gone_on:
        clear_state(run.place)
        run.parts.registry.go_on(LOOP)
    again = await continued(run, hooks=hooks)
    assert (await again.run()).reason == "completed"
    assert [point for point, _ in heard].count(GATE) == 1
    assert (read_state(again.place), again.row.suspension) == (None, None)


async def test_what_was_to_be_answered_by_then_cannot_be_answered_later_in_another_process(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, Suspend("sure?", expires_in=60))], when_held=[die])
    await run.run_and_die()
    again = await continued(run, when_held=[resume])
    clock = again.parts.setup.clock
    assert isinstance(clock, FakeClock)
    clock.advance(61)
    result = await again.run()
    assert (result.reason, "nobody came in time" in result.message) == ("blocked", True)


async def test_the_time_that_nobody_ran_a_suspended_loop_is_time_that_it_waited(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, None)], when_held=[die])
    await run.run_and_die()
    again = await continued(run, when_held=[resume])
    clock = again.parts.setup.clock
    assert isinstance(clock, FakeClock)
    clock.advance(100)
    await again.run()
    assert again.state.waited_seconds == 100


async def test_a_loop_that_goes_on_at_once_has_not_waited(tmp_path: Path) -> None:
    run = world(tmp_path, hooks=[says(GATE, SURE, None)], when_held=[resume])
    clock = run.parts.setup.clock
    assert isinstance(clock, FakeClock)
    clock.advance(0.9)
    await run.run()
    assert run.state.waited_seconds == 0


async def test_metadata_are_kept_by_hook_and_seen_by_later_hooks_of_the_same_phase(tmp_path: Path) -> None:
    risk, again = (command("risk", says_metadata(score=score), mutate={"enabled": True}) for score in (1, 2))
    other = command("other", says_metadata(gates=["a"]), mutate={"enabled": True})
    last = command("last", "cat > seen.json")
    run = world(tmp_path, config=configured(pre_loop_start=[risk, other, last], post_loop_start=[again, last]))
    await run.run()
    assert run.state.metadata == {"risk": {"score": 2}, "other": {"gates": ("a",)}}
    seen = json.loads((tmp_path / "seen.json").read_text())["metadata"]["accumulated"]
    assert seen == {"hook_metadata": {"risk": {"score": 2}, "other": {"gates": ["a"]}}}


async def test_metadata_of_a_hook_that_failed_or_was_not_allowed_to_say_any_are_left_aside(tmp_path: Path) -> None:
    said = says_metadata(score=1)
    hooks = [
        command("fails", f"{said}; exit 1", mutate={"enabled": True}, on_error="warn"),
        command("chats", "echo hello", mutate={"enabled": True}, on_error="warn"),
        command("more", """echo '{"metadata": {}, "prompt": "x"}'""", mutate={"enabled": True}, on_error="warn"),
        command("mute", said),
    ]
    run = world(tmp_path, config=configured(pre_loop_start=hooks))
    assert (await run.run()).reason == "completed"
    assert run.state.metadata == {}
    results = [(one["hook"], one["result"]) for one in await hook_runs(run)]
    assert results == [("fails", "crashed"), ("chats", "bad_output"), ("more", "bad_output"), ("mute", "ok")]


async def test_metadata_survive_a_suspension_and_the_process(tmp_path: Path) -> None:
    config = configured(pre_loop_start=[command("risk", says_metadata(score=1), mutate={"enabled": True})])
    run = world(tmp_path, config=config, hooks=[says(GATE, SURE)], when_held=[die])
    await run.run_and_die()
    heard: Heard = []
    again = await continued(run, hooks=listeners(heard), when_held=[resume])
    await again.run()
    assert again.state.metadata == {"risk": {"score": 1}}
    _, event = heard[0]
    assert isinstance(event, LoopEvent)
    assert event.op.loop is not None
    assert event.op.loop.accumulated == {"hook_metadata": {"risk": {"score": 1}}}


async def test_nothing_of_a_loop_can_be_replaced_by_a_hook(tmp_path: Path) -> None:
    answer = """echo '{"decision": "pass", "replace": {"prompt": "another"}}'"""
    rewrites = command("rewrites", answer, verdict="json")

    def rewrite(event: Event) -> object:
        return event.replace(prompt="another")

    for name, config, hooks in (
        ("command", configured(pre_loop_start=[rewrites]), []),
        ("python", None, [Declaration(name="rewrites", point="loop.start.pre", call=rewrite)]),
    ):
        (tmp_path / name).mkdir()
        run = world(tmp_path / name, config=config, hooks=hooks)
        assert (await run.run()).reason == "blocked"
        assert run.agent.works == []


async def test_what_a_hook_fails_at_is_let_pass_with_a_loud_note_where_it_only_warns(tmp_path: Path) -> None:
    hooks = [says("loop.start.pre", ValueError("broken"), on_error="warn")]
    config = configured(pre_loop_start=[command("program", "exit 3", on_error="warn")])
    run = world(tmp_path, config=config, hooks=hooks)
    assert (await run.run()).reason == "completed"
    assert [note.partition(",")[0] for note in run.texts("note")] == [
        "the hook 'program' failed at loop.start.pre (crashed)",
        "the hook 'gate' failed at loop.start.pre (crashed)",
    ]


class Pair(Hook):
    """Hears of a beginning, and of its end either way."""

    name = "pair"

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ending: object = None

    def on_iteration_start_pre(self, event: Event) -> None:
        self.heard.append("pre")

    def on_iteration_start_post(self, event: Event) -> None:
        self.heard.append("post")

    def abandon(self, point: str, event: object, ending: object) -> None:
        self.heard.append(f"abandon {point}")
        self.ending = ending


@pytest.mark.promise(5)
async def test_who_heard_the_beginning_and_the_end_is_not_told_the_end_again(tmp_path: Path) -> None:
    pair = Pair()
    await world(tmp_path, hooks=[pair]).run()
    assert pair.heard == ["pre", "post"]


@pytest.mark.promise(5)
async def test_who_heard_of_a_boundary_hears_that_it_was_blocked(tmp_path: Path) -> None:
    pair = Pair()
    await world(tmp_path, hooks=[pair, says(GATE, Block("no"))]).run()
    assert pair.heard == ["pre", f"abandon {GATE}"]
    assert isinstance(pair.ending, Blocked)


@pytest.mark.promise(5)
async def test_who_heard_of_a_boundary_hears_that_its_post_was_blocked(tmp_path: Path) -> None:
    pair = Pair()  # outbound, the hook that is further in has the first word
    blocks = says("iteration.start.post", Block("no"), priority=900)
    await world(tmp_path, hooks=[pair, blocks]).run()
    assert pair.heard == ["pre", f"abandon {GATE}"]
    assert isinstance(pair.ending, Blocked)


@pytest.mark.promise(5)
async def test_who_heard_of_a_boundary_hears_that_the_loop_was_stopped_there(tmp_path: Path) -> None:
    pair = Pair()
    await world(tmp_path, hooks=[pair, says(GATE, SURE)], when_held=[stop]).run()
    assert pair.heard == ["pre", f"abandon {GATE}"]
    assert isinstance(pair.ending, Suspended)


@pytest.mark.promise(5)
async def test_who_heard_of_a_boundary_hears_that_the_loop_was_interrupted_there(tmp_path: Path) -> None:
    pair = Pair()
    run = world(tmp_path, hooks=[pair, says(GATE, SURE)], when_held=[wait])
    running, _ = await suspended(run)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert pair.heard == ["pre", f"abandon {GATE}"]
    assert isinstance(pair.ending, asyncio.CancelledError)
