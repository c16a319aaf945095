"""A playbook of iterations: a state and what was published go in, the next state or the end comes out."""

import time
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, strategies as st

from tenter.config import HatSpec, LoopSpec
from tenter.kernel import FrozenDict
from tenter.loop.judging import (
    LONGEST_NOTE,
    MOST_NOTES,
    begun,
    finished,
    initialised,
    limit,
    noted,
    selecting,
)
from tenter.loop.published import Malformed
from tenter.loop.state import MOST_TOPICS, Batch, LoopState, Published

DONE = Published("LOOP_COMPLETE")
CANCEL = Published("loop.cancel", "no longer\nneeded")
FRESH = LoopState(started_at=1_000.0)


def working(**fields: object) -> LoopState:
    """A loop in its third iteration."""
    return LoopState(started_at=1_000.0, stage="publishing", iteration=3).but(**fields)


def after(
    *events: Published | Malformed,
    state: LoopState | None = None,
    spec: LoopSpec | None = None,
    refused: Collection[int] = (),
    **batch: object,
) -> LoopState:
    """What comes of an iteration that left `events`."""
    return finished(
        state or working(), spec or LoopSpec(), events, Batch(start=0, stop=1, refused=spans(refused)).but(**batch)
    )


def spans(indexes: Collection[int]) -> tuple[tuple[int, int], ...]:
    return tuple((index, index + 1) for index in indexes)


def many(topic: str, count: int) -> Sequence[Published]:
    return [Published(topic, number) for number in range(count)]


def test_the_first_iteration_takes_on_the_start_topic_with_the_prompt() -> None:
    spec = LoopSpec(hats={"planner": HatSpec(triggers=("task.*",))})
    state = selecting(begun(initialised(FRESH, "task.start", "mend it")), spec, "fix")
    assert state.iteration == 1
    assert state.taken == (Published("task.start", "mend it"),)
    assert state.pending == ()
    assert (state.selected_hat, state.active_hat, state.selected_task) == ("planner", "planner", "fix")


def test_before_the_selection_the_hat_of_the_iteration_before_is_still_worn() -> None:
    state = begun(working(selected_hat="a", active_hat="a", selected_task="fix"))
    assert (state.iteration, state.active_hat, state.selected_hat, state.selected_task) == (4, "a", None, None)


def test_a_selection_leaves_what_its_hat_has_no_trigger_for() -> None:
    spec = LoopSpec(hats={"builder": HatSpec(triggers=("build.*",))})
    state = selecting(working(pending=(Published("x"), Published("build.a")), active_hat="z"), spec, None)
    assert (state.taken, state.pending) == ((Published("build.a"),), (Published("x"),))
    state = selecting(state, spec, None)
    assert (state.active_hat, state.taken, state.pending) == (None, (Published("x"),), ())


def test_no_iteration_begins_past_the_last() -> None:
    spec = LoopSpec(max_iterations=3)
    assert limit(working(iteration=2), spec, 1_000.0) is None
    assert limit(working(iteration=3), spec, 1_000.0) == ("max_iterations", "the limit of iterations is reached: 3")


def test_runtime_is_counted_without_what_was_waited() -> None:
    spec = LoopSpec(max_runtime_seconds=60.0)
    assert limit(working(), spec, 1_059.9) is None
    assert limit(working(), spec, 1_060.0) == ("max_runtime", "the limit of runtime is reached: 60 s")
    assert limit(working(waited_seconds=500.0), spec, 1_559.0) is None
    assert limit(working(waited_seconds=500.0), spec, 1_560.0) is not None
    assert limit(working(), LoopSpec(), 10.0**12) is None


def test_what_was_published_waits_for_the_next_iteration_behind_what_waits_already() -> None:
    state = after(
        Published("b"),
        Published("c"),
        state=working(pending=(Published("a"),), taken=(Published("t"),), lines=4),
        lines=2,
    )
    assert (state.stage, state.side, state.passes, state.reason) == ("next", "pre", 1, None)
    assert [event.topic for event in state.pending] == ["a", "b", "c"]
    assert (state.taken, state.batch, state.lines) == ((), None, 6)


def test_what_hooks_refused_was_not_published() -> None:
    spec = LoopSpec(required_events=("plan.x",))
    state = after(Published("plan.x"), Published("a"), DONE, spec=spec, refused=(0, 2))
    assert [event.topic for event in state.pending] == ["a"]
    assert (state.stage, state.seen, state.last) == ("next", (), Published("a"))
    assert after(CANCEL, refused=(0,)).stage == "next"


def test_a_refused_event_is_told_by_its_place_among_all_lines() -> None:
    state = after(Malformed(1, "x"), Published("a"), Published("b"), refused=(1,))
    assert [event.topic for event in state.pending] == ["b"]


def test_questions_and_events_that_end_a_loop_are_not_left_to_a_hat() -> None:
    state = after(Published("human.interact", "which?"), DONE, Published("a"))
    assert [event.topic for event in state.pending] == ["a"]


def test_the_promise_as_the_last_event_completes_the_loop() -> None:
    state = after(Published("a"), DONE)
    assert (state.stage, state.side, state.reason, state.message) == ("ending", "pre", "completed", "the work is done")


def test_the_promise_as_the_last_line_completes_the_loop_where_the_backend_succeeded() -> None:
    assert after(Published("a"), promised=True).reason == "completed"
    assert after(Published("a"), promised=True, failed=True).stage == "next"


def test_the_promise_as_an_event_completes_the_loop_also_where_the_backend_failed() -> None:
    assert after(DONE, failed=True).reason == "completed"


def test_malformed_lines_and_refused_events_after_the_promise_do_not_count() -> None:
    assert after(DONE, Malformed(2, "x"), Published("a"), refused=(2,)).reason == "completed"


def test_the_promise_before_other_events_is_none_and_that_is_told() -> None:
    state = after(DONE, Published("a"))
    assert state.stage == "next"
    assert state.notes == ("'LOOP_COMPLETE' did not end the loop, since it was not the last event that was published",)


@pytest.mark.parametrize("promised", [True, False])
def test_completion_is_refused_while_required_events_are_unseen_and_the_agent_is_told_which(promised: bool) -> None:
    spec = LoopSpec(required_events=("tests.passed", "lint.passed", "docs.done"))
    state = after(Published("tests.passed"), *([] if promised else [DONE]), spec=spec, promised=promised)
    assert (state.stage, state.seen) == ("next", ("tests.passed",))
    assert state.notes == (
        "'LOOP_COMPLETE' did not end the loop, since these events were never published: lint.passed, docs.done",
    )
    state = after(Published("docs.done"), Published("lint.passed"), DONE, spec=spec, state=state)
    assert state.reason == "completed"


def test_only_required_topics_are_remembered_and_each_once() -> None:
    spec = LoopSpec(required_events=("a",))
    state = after(Published("a"), Published("b"), Published("a", 1), spec=spec)
    assert after(Published("a", 2), spec=spec, state=state).seen == ("a",)


def test_another_promise_of_the_file_counts_and_the_default_does_not() -> None:
    spec = LoopSpec(completion_promise="all.done")
    assert after(DONE, spec=spec).stage == "next"
    assert after(Published("all.done"), spec=spec).reason == "completed"


def test_an_event_cancels_the_loop_wherever_it_stands() -> None:
    state = after(CANCEL, Published("a"))
    assert (state.reason, state.message) == ("cancelled", "the event 'loop.cancel' was published: no longer needed")
    assert after(Published("loop.cancel", {"a": 1})).message == "the event 'loop.cancel' was published"


def test_failures_running_end_the_loop_and_a_success_between_them_forgets() -> None:
    spec = LoopSpec(max_consecutive_failures=2)
    state = after(spec=spec, failed=True, error="first")
    assert (state.stage, state.failures, state.notes) == ("next", 1, ("the iteration failed: first",))
    assert after(spec=spec, state=state).failures == 0
    state = after(spec=spec, state=state, failed=True, error="exit 1\n  at x")
    assert (state.reason, state.message) == (
        "consecutive_failures",
        "2 iterations running failed; the last: exit 1 at x",
    )


def test_a_failure_that_says_nothing_is_told_as_that() -> None:
    assert after(failed=True).notes == ("the iteration failed: it did not say why",)


def test_an_iteration_that_failed_and_published_nothing_gives_back_what_it_took_on() -> None:
    state = working(taken=(Published("a"),), pending=(Published("b"),))
    assert after(state=state, failed=True).pending == (Published("a"), Published("b"))
    assert after(Published("c"), state=state, failed=True, refused=(0,)).pending == (Published("a"), Published("b"))
    assert after(Published("c"), state=state, failed=True).pending == (Published("b"), Published("c"))
    assert after(state=state).pending == (Published("b"),)


def test_the_third_malformed_line_of_a_loop_ends_it() -> None:
    state = after(Malformed(7, "it is empty"), Malformed(9, "it holds NUL (byte 3)"))
    assert (state.stage, state.malformed) == ("next", 2)
    assert state.notes == (
        "line 7 of the events file was no event: it is empty",
        "line 9 of the events file was no event: it holds NUL (byte 3)",
    )
    state = after(Published("a"), state=state)
    assert (state.stage, state.malformed) == ("next", 2)
    state = after(Malformed(12, "it is no JSON object"), state=state)
    assert (state.reason, state.message) == (
        "validation_failure",
        "3 lines of the events file were no events; line 12: it is no JSON object",
    )


@pytest.mark.parametrize("batches", [[3], [1, 1, 1], [2, 1], [1, 2]])
def test_the_same_event_three_times_running_ends_the_loop_however_it_comes(batches: list[int]) -> None:
    state = working()
    for count in batches[:-1]:
        state = after(*[Published("build.done", {"n": 1})] * count, state=state)
        assert state.stage == "next"
    state = after(*[Published("build.done", {"n": 1})] * batches[-1], Published("other"), state=state)
    assert (state.reason, state.message) == (
        "loop_stale",
        "the event 'build.done' was published 3 times running, with the same payload",
    )


def test_another_event_or_payload_between_them_is_progress() -> None:
    a, other = Published("a", 1), Published("a", 2)
    state = after(a, a, other, a, a)
    assert (state.stage, state.last, state.repeated) == ("next", a, 2)
    assert after(Published("b"), a, a, state=state).stage == "next"


def test_a_promise_that_is_refused_again_and_again_ends_the_loop() -> None:
    spec, state = LoopSpec(required_events=("a",)), working()
    for _ in range(2):
        state = after(DONE, spec=spec, state=state)
        assert state.stage == "next"
    assert after(DONE, spec=spec, state=state).reason == "loop_stale"


def test_the_cost_ends_the_loop_when_its_limit_is_reached() -> None:
    spec = LoopSpec(max_cost_usd=5.0)
    assert after(spec=spec, state=working(cost_usd=4.99)).stage == "next"
    state = after(spec=spec, state=working(cost_usd=5.25))
    assert (state.reason, state.message) == ("max_cost", "the limit of cost is reached: 5.25 of 5 US dollars")
    assert after(state=working(cost_usd=10.0**9)).stage == "next"


def test_an_escalated_run_escalates_the_loop() -> None:
    state = after(escalated="on-call")
    assert (state.reason, state.message) == ("escalated", "a run of the backend was escalated to 'on-call'")
    assert after(escalated="").reason == "escalated"


def test_of_several_ends_the_first_of_their_order_counts() -> None:
    spec = LoopSpec(max_consecutive_failures=1, max_cost_usd=1.0)
    state = working(cost_usd=2.0)
    same = [Published("a")] * 3
    bad = [Malformed(1, "x")] * 3
    reasons = [
        after(*bad, *same, CANCEL, DONE, spec=spec, state=state, failed=True, escalated="q").reason,
        after(*bad, *same, DONE, spec=spec, state=state, failed=True, escalated="q").reason,
        after(*bad, *same, spec=spec, state=state, failed=True, escalated="q").reason,
        after(*bad, *same, spec=spec, state=state, failed=True).reason,
        after(*same, spec=spec, state=state, failed=True).reason,
        after(spec=spec, state=state, failed=True).reason,
        after(spec=spec, state=state).reason,
    ]
    assert reasons == [
        "cancelled",
        "completed",
        "escalated",
        "validation_failure",
        "loop_stale",
        "consecutive_failures",
        "max_cost",
    ]


def test_notes_of_the_publishing_come_after_what_is_more_important() -> None:
    state = after(
        DONE, Published("a"), Malformed(3, "x"), state=working(notes=("refused",)), failed=True, cut="cut off"
    )
    assert [note.split()[0] for note in state.notes] == ["the", "'LOOP_COMPLETE'", "cut", "line", "refused"]


def test_notes_are_few_and_short() -> None:
    state = FRESH
    for number in range(100):
        state = noted(state, f"{number} " + "word\n" * 10_000)
    assert len(state.notes) == MOST_NOTES
    assert [note.split()[0] for note in state.notes[:-1]] == [str(number) for number in range(MOST_NOTES - 1)]
    assert state.notes[-1] == "there were more notes, which are left out"
    assert all(len(note) <= LONGEST_NOTE and "\n" not in note for note in state.notes)
    assert noted(FRESH, "x" * 3_000).notes == ("x" * (LONGEST_NOTE - 1) + "…",)


def test_what_is_most_important_is_told_however_many_notes_there_are() -> None:
    state = noted(working(), *map(str, range(50)))
    state = after(*[Malformed(number, "x") for number in range(2)], state=state, failed=True, error="e" * 10**7)
    assert len(state.notes) == MOST_NOTES
    assert state.notes[0].startswith("the iteration failed: eee")
    assert state.notes[1] == "line 0 of the events file was no event: x"
    assert len(state.notes[0]) == LONGEST_NOTE


def test_what_people_are_told_is_short() -> None:
    spec = LoopSpec(max_consecutive_failures=1)
    for state in (
        after(spec=spec, failed=True, error="e" * 10**6),
        after(Published("loop.cancel", "x" * 10**6)),
        after(*[Malformed(1, "y" * 10**6)] * 3),
    ):
        assert len(state.message) < 500


@pytest.mark.timed
def test_many_events_are_judged_in_a_time_that_grows_as_they_do() -> None:
    def seconds(count: int) -> float:
        events = many("a", count)
        refused = spans(range(0, count, 2))
        begun_at = time.process_time()
        state = finished(working(), LoopSpec(), events, Batch(start=0, stop=1, refused=refused))
        assert len(selecting(state, LoopSpec(), None).taken) == count // 2
        return time.process_time() - begun_at

    assert any(seconds(100_000) < 60 * seconds(5_000) for _ in range(3))


def test_a_flood_of_malformed_lines_leaves_few_notes() -> None:
    state = after(*[Malformed(number, "x") for number in range(100_000)])
    assert (state.reason, state.malformed) == ("validation_failure", 100_000)
    assert len(state.notes) == 3


EVENTS = st.lists(
    st.one_of(
        st.builds(
            Published, st.sampled_from(["a", "b", "LOOP_COMPLETE", "loop.cancel", "human.interact"]), st.integers(0, 1)
        ),
        st.builds(Malformed, st.integers(1, 9), st.text(max_size=5)),
    ),
    max_size=8,
)


@given(EVENTS, st.sets(st.integers(0, 7)), st.booleans(), st.booleans())
def test_nothing_that_was_published_is_lost_and_no_loop_ends_without_saying_why(
    events: list[Published | Malformed], refused: set[int], failed: bool, promised: bool
) -> None:
    state = working(pending=(Published("old"),), taken=(Published("taken"),), notes=("told",))
    state = after(*events, state=state, refused=refused, failed=failed, promised=promised)
    accepted = [one for index, one in enumerate(events) if isinstance(one, Published) and index not in refused]
    waiting = [event for event in accepted if event.topic in ("a", "b")]
    back = [Published("taken")] if failed and not waiting else []
    assert list(state.pending) == [*back, Published("old"), *waiting]
    assert (state.stage == "ending") == (state.reason is not None) == (state.message != "")
    if not any(event.topic in ("LOOP_COMPLETE", "loop.cancel") for event in accepted) and not promised:
        assert state.reason in (None, "loop_stale", "validation_failure")


def test_a_state_that_was_judged_is_frozen() -> None:
    state = after(Published("a", {"k": [1]}))
    assert state.pending[0].payload == FrozenDict({"k": (1,)})


def test_what_was_published_is_counted_by_topic_and_what_was_refused_is_not() -> None:
    events = [Published("plan.a"), Published("plan.b"), Published("plan.a")]
    state = finished(LoopState(started_at=0.0), LoopSpec(), events, Batch(start=0, stop=9, index=1).refusing())
    assert (state.published, state.topics) == (2, {"plan.a": 2})


def test_many_topics_are_counted_and_only_the_first_by_name() -> None:
    events = [Published(f"made.{number}") for number in range(MOST_TOPICS + 5)]
    state = finished(LoopState(started_at=0.0), LoopSpec(), events, Batch(start=0, stop=9))
    assert state.published == MOST_TOPICS + 5
    assert list(state.topics) == [f"made.{number}" for number in range(MOST_TOPICS)]
