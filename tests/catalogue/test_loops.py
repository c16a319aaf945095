"""The declarations against D§4.4, D§6, D§7 and the event mapping of seed 001, written down once more by hand."""

from collections.abc import Mapping

import msgspec
import pytest

from tenter.catalogue import CATALOGUE, LOOP_OPERATIONS
from tenter.kernel import Block, Declaration, Escalate, Event, Operation, Point, RegistrationError, Suspend, attach

BEFORE: Mapping[str, str] = {
    "loop.start": "prompt topic",
    "iteration.start": "number",
    "plan.created": "plan topic payload",
    "human.interact": "question options",
    "loop.complete": "reason message iterations",
    "loop.error": "reason message iterations",
}
RESULTS: Mapping[str, str] = {
    **dict.fromkeys(BEFORE, ""),
    "iteration.start": "hat task topics",
    "plan.created": "plan",
    "human.interact": "outcome answer",
}
MATCHES: Mapping[str, Mapping[str, str]] = {
    "plan.created": {"topic": "topic"},
    "loop.error": {"reason": "reason"},
}
BLOCKED = "the loop ends with `blocked`"
MEANS: Mapping[str, str] = {
    **{f"{name}.{phase}": BLOCKED for name in BEFORE for phase in ("pre", "post")},
    "plan.created.pre": "the topic is not published",
    "human.interact.pre": "the question is not put and the agent is told",
    "loop.complete.pre": f"{BLOCKED}, `loop.error` fires and `loop.complete.post` does not",
    "loop.complete.post": f"{BLOCKED} after all, and `loop.error` fires",
    "loop.error.pre": "nothing more; the reason for which the loop ends stays",
    "loop.error.post": "nothing more; the reason for which the loop ends stays",
}

POINTS = [CATALOGUE[name] for name in MEANS]


def own(event: type[Event]) -> set[str]:
    return set(event.__struct_fields__) - {"envelope", "op"}


def by_name(one: Operation[Event, Event] | Point) -> str:
    return one.name


def test_the_operations_are_the_six_of_the_seed_in_the_order_in_which_a_loop_meets_them() -> None:
    assert [one.name for one in LOOP_OPERATIONS] == list(BEFORE)


@pytest.mark.parametrize("one", LOOP_OPERATIONS, ids=by_name)
def test_an_operation_is_a_leaf_with_the_fields_of_the_table_and_only_two_phases(one: Operation[Event, Event]) -> None:
    assert (one.shape, list(one.rules)) == ("leaf", ["pre", "post"])
    assert own(one.before) == set(BEFORE[one.name].split())
    assert " ".join(one.results) == RESULTS[one.name]
    assert own(one.after) == own(one.before) | set(one.results)
    assert one.matches == MATCHES.get(one.name, {})


@pytest.mark.parametrize("one", LOOP_OPERATIONS, ids=by_name)
def test_a_word_to_match_on_leads_to_a_text_of_both_events(one: Operation[Event, Event]) -> None:
    for field in one.matches.values():
        for event in (one.before, one.after):
            types = {each.name: each.type for each in msgspec.structs.fields(event)}
            assert types[field] in (str, str | None)


@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_hook_can_stop_a_loop_at_every_point_and_replace_nothing(point: Point) -> None:
    assert point.rule.takes == {Block, Suspend, Escalate}
    assert point.answerable
    assert not point.rule.replaces
    assert point.portable is None


@pytest.mark.promise(8)
@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_failure_warns_blocks_or_suspends_and_blocks_where_nobody_says_which(point: Point) -> None:
    assert point.policies == ("warn", "block", "suspend")
    assert point.default_policy == "block"
    with pytest.raises(RegistrationError, match="has on_error 'fail'; this point takes 'warn', 'block', 'suspend'"):
        attach(Declaration(name="h", point=point.name, call=print, on_error="fail"), CATALOGUE)


@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_point_is_documented_and_says_what_a_block_means(point: Point) -> None:
    assert point.operation.doc.endswith(".")
    assert point.rule.fires.endswith(".")
    assert point.rule.block_means == MEANS[point.name]


@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_point_answers_to_the_name_of_the_seed_as_well(point: Point) -> None:
    assert CATALOGUE[f"{point.phase}.{point.operation.name}"] is point
    assert CATALOGUE.methods[f"on_{point.phase}_{point.operation.name}".replace(".", "_")] is point
    assert point.label == point.name
