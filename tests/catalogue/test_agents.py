"""The declarations against the tables of D§4.3 and D§6, written down once more by hand."""

from collections.abc import Mapping
from operator import attrgetter
from typing import get_args

import msgspec
import pytest

from tenter.catalogue import AGENT_OPERATIONS, CATALOGUE, RUN, TASK_COMPLETE
from tenter.kernel import (
    PHASES,
    Allow,
    Block,
    Escalate,
    Event,
    Operation,
    Outcome,
    Point,
    Result,
    Retry,
    Suspend,
)

BEFORE: Mapping[str, str] = {
    "run": "task input limits idempotency_key",
    "request.received": "input sender",
    "task.created": "task",
    "task.state_changed": "before after reason",
    "llm.invoked": "request",
    "tool_calls.extracted": "response",
    "tool.invoked": "call tool approval",
    "subtask.spawned": "parent task input",
    "help.requested": "request",
    "help.decided": "request decision",
    "task.complete": "output attempt schema_name approval",
    "activity.failed": "error step operation attempt policy",
    "activity.retried": "operation attempt policy",
    "persistence.write": "kind key record",
    "shutdown": "reason",
}
RESULTS: Mapping[str, str] = {
    "run": "status output error usage cost_usd",
    "request.received": "input",
    "task.created": "task",
    "task.state_changed": "",
    "llm.invoked": "response",
    "tool_calls.extracted": "calls",
    "tool.invoked": "result",
    "subtask.spawned": "result",
    "help.requested": "request",
    "help.decided": "decision",
    "task.complete": "verdict output reason",
    "activity.failed": "error",
    "activity.retried": "delay",
    "persistence.write": "record",
    "shutdown": "",
}
SHAPES: Mapping[str, str] = {
    **dict.fromkeys(BEFORE, "leaf"),
    "run": "span",
    "subtask.spawned": "span",
    "task.state_changed": "fact",
    "persistence.write": "nested",
    "shutdown": "fact",
}
PORTABLE: Mapping[str, str] = {
    "run.start": "run.pre",
    "run.end": "run.post",
    "input.before": "request.received.pre",
    "model.before": "llm.invoked.pre",
    "model.after": "llm.invoked.post",
    "tool.before": "tool.invoked.pre",
    "tool.after": "tool.invoked.post",
    "approval.resolved": "help.decided.pre",
    "output.before": "task.complete.pre",
    "run.error": "activity.failed.post",
}
NOT_FIRED_YET = {"route.decide", "context.after", "stream.chunk"}

CANNOT_WAIT = {"help.requested", "help.decided", "activity.failed", "activity.retried"}
"""Operations that no person can be asked about (decision 0021)."""

KEEPS_ITS_REQUEST = "help.requested"
"""A decision is bound to what is asked: nothing may change it."""

POINTS = [CATALOGUE[one.point(phase)] for one in AGENT_OPERATIONS for phase in one.rules]


def own(event: type[Event]) -> set[str]:
    return set(event.__struct_fields__) - {"envelope", "op"}


def by_name(one: Operation[Event, Event] | Point) -> str:
    return one.name


def test_the_operations_are_those_that_something_fires_and_no_other() -> None:
    assert {one.name for one in AGENT_OPERATIONS} == set(BEFORE)
    assert len(AGENT_OPERATIONS) == len(BEFORE)


@pytest.mark.parametrize("one", AGENT_OPERATIONS, ids=by_name)
def test_an_operation_has_the_class_and_the_fields_of_the_table(one: Operation[Event, Event]) -> None:
    assert one.shape == SHAPES[one.name]
    assert own(one.before) == set(BEFORE[one.name].split())
    assert set(one.results) == set(RESULTS[one.name].split())
    assert own(one.after) == own(one.before) | set(one.results)


@pytest.mark.parametrize("one", AGENT_OPERATIONS, ids=by_name)
def test_an_operation_has_all_three_phases_and_only_the_run_no_in(one: Operation[Event, Event]) -> None:
    assert set(one.rules) == set(PHASES) - ({"in"} if one.name == "run" else set[str]())


@pytest.mark.parametrize("one", AGENT_OPERATIONS, ids=by_name)
def test_what_a_result_leaves_out_the_before_event_or_a_default_gives(one: Operation[Event, Event]) -> None:
    required = {field.name for field in msgspec.structs.fields(one.after) if field.required}
    assert required <= set(one.before.__struct_fields__) | set(one.results)


def expected(point: Point) -> set[type[Outcome]]:
    """What D§6 says of a point."""
    shape, phase = point.operation.shape, point.phase
    takes = set[type[Outcome]]()
    if shape == "fact" or point.name == "run.post":
        return takes
    if phase == "post":
        takes |= {Block} if point.name in ("llm.invoked.post", "tool.invoked.post") else takes
        return takes | ({Retry} if point.name == "llm.invoked.post" else takes)
    takes |= {Block}
    if shape == "leaf":
        takes |= {Escalate} if point.operation.name in CANNOT_WAIT else {Suspend, Escalate}
    if phase == "in" and point.operation.name != KEEPS_ITS_REQUEST:
        takes |= {Result}
    if point.name in ("tool.invoked.pre", "task.complete.pre"):
        takes |= {Allow}
    if point.name == "task.complete.pre":
        takes |= {Retry}
    return takes


@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_point_takes_the_outcomes_of_the_table(point: Point) -> None:
    assert set(point.rule.takes) == expected(point)


@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_point_takes_a_replacement_unless_it_tells_a_fact_or_what_is_asked_or_the_end_of_a_run(point: Point) -> None:
    tells = point.operation.shape == "fact" or point.name == "run.post"
    assert point.rule.replaces is not (tells or point.operation.name == KEEPS_ITS_REQUEST)
    assert point.rule.observe_only is tells
    assert (point.policies == ("warn",)) is (tells or point.name == "help.requested.post")


@pytest.mark.parametrize("point", POINTS, ids=by_name)
@pytest.mark.promise(8)
def test_a_failure_blocks_where_a_block_is_taken_fails_where_anything_is_and_warns_elsewhere(point: Point) -> None:
    takes = expected(point)
    assert point.default_policy == ("block" if Block in takes else "fail" if point.rule.replaces else "warn")


@pytest.mark.parametrize("point", POINTS, ids=by_name)
def test_a_point_is_documented_and_says_what_a_block_means_where_one_is_taken(point: Point) -> None:
    assert point.operation.doc.strip().endswith(".")
    assert point.rule.fires.strip().endswith(".")
    assert bool(point.rule.block_means.strip()) is (Block in point.rule.takes)


def test_the_portable_names_are_the_thirteen_but_for_those_that_nothing_fires_yet() -> None:
    assert {point.portable: point.name for point in POINTS if point.portable} == PORTABLE
    assert len(PORTABLE) + len(NOT_FIRED_YET) == 13
    assert not NOT_FIRED_YET & set(CATALOGUE.names)


@pytest.mark.parametrize("portable", PORTABLE)
def test_a_portable_point_is_found_by_all_its_names_and_listed_by_the_portable_one(portable: str) -> None:
    point = CATALOGUE[portable]
    operation, _, phase = PORTABLE[portable].rpartition(".")
    assert CATALOGUE[f"{operation}.{phase}"] is CATALOGUE[f"{phase}.{operation}"] is point
    assert CATALOGUE.methods["on_" + portable.replace(".", "_")] is point
    assert point.label == portable


@pytest.mark.parametrize("one", AGENT_OPERATIONS, ids=by_name)
def test_a_word_to_match_on_leads_to_a_field_of_both_events(one: Operation[Event, Event]) -> None:
    for path in one.matches.values():
        for event in (one.before, one.after):
            found: object = event
            for step in path.split("."):
                assert isinstance(found, type)
                assert issubclass(found, msgspec.Struct)
                found = {field.name: field.type for field in msgspec.structs.fields(found)}[step]
            assert found in (str, str | None) or all(isinstance(word, str) for word in get_args(found) or (None,))


def test_a_tool_call_can_be_matched_on_its_tool_and_a_run_on_its_task() -> None:
    assert CATALOGUE["tool.before"].operation.matches["tool"] == "call.name"
    assert RUN.matches == {"task": "envelope.task.name"}


def test_the_verdict_of_a_task_is_one_of_three() -> None:
    types = {field.name: field.type for field in msgspec.structs.fields(TASK_COMPLETE.after)}
    assert attrgetter("__args__")(types["verdict"]) == ("wait", "complete", "fail")
