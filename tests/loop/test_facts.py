"""What hooks are told of the loop around them."""

import pytest

from tenter.loop.facts import Identity, accumulated, facts_of, op_of
from tenter.loop.state import Asked, Batch, LoopState

IDENTITY = Identity(id="loop-12ab-34cd", is_primary=False, workspace="/w", repo_root="/r", pid=42, max_iterations=100)
FRESH = LoopState(started_at=1_000.0)
NOTHING = {
    "active_hat": None,
    "selected_hat": None,
    "selected_task": None,
    "termination_reason": None,
    "human_interact": None,
}


def test_a_loop_tells_which_it_is_and_how_far() -> None:
    facts = facts_of(IDENTITY, FRESH.but(iteration=7))
    assert facts.loop == {"id": "loop-12ab-34cd", "is_primary": False, "workspace": "/w", "repo_root": "/r", "pid": 42}
    assert facts.iteration == {"current": 7, "max": 100}


@pytest.mark.parametrize("state", [FRESH, FRESH.at("iteration"), FRESH.at("publishing", batch=Batch(start=0, stop=1))])
def test_the_five_keys_of_the_context_are_there_when_there_is_nothing_to_tell(state: LoopState) -> None:
    assert facts_of(IDENTITY, state).context == NOTHING


def test_the_context_tells_hats_task_and_why_the_loop_ends() -> None:
    state = FRESH.but(active_hat="a", selected_hat="b", selected_task="fix").ending("blocked", "no")
    told = {"active_hat": "a", "selected_hat": "b", "selected_task": "fix", "termination_reason": "blocked"}
    assert facts_of(IDENTITY, state).context == {**NOTHING, **told}


def test_the_context_tells_a_question_and_what_came_of_it() -> None:
    asked = Asked(question="go on?", outcome="answered", answer="yes")
    state = FRESH.but(batch=Batch(start=0, stop=1, asked=asked))
    told = facts_of(IDENTITY, state).context["human_interact"]
    assert told == {"question": "go on?", "outcome": "answered", "answer": "yes"}


def test_metadata_stand_under_a_name_of_their_own_and_nothing_where_there_are_none() -> None:
    assert accumulated({}) == {}
    assert accumulated({"gate": {"risk": 1}}) == {"hook_metadata": {"gate": {"risk": 1}}}


def test_a_call_is_named_by_loop_iteration_operation_and_its_number_and_asked_again_by_its_pass() -> None:
    op = op_of(IDENTITY, FRESH.but(iteration=2, passes=3), "plan.created", 5)
    assert (op.id, op.path, op.pass_) == ("loop-12ab-34cd/2.plan.created.5", "2.plan.created.5", 3)
    assert op.loop == facts_of(IDENTITY, FRESH.but(iteration=2))
