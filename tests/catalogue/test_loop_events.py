from typing import get_args

import msgspec
import pytest

from tenter.catalogue import (
    LOOP_OPERATIONS,
    HumanInteractedEvent,
    Interacted,
    IterationStartedEvent,
    LoopFacts,
    LoopStartEvent,
    Op,
    PlanCreatedEvent,
    PlanEvent,
)
from tenter.kernel import AfterEvent, BeforeEvent, Event, FrozenDict, Operation

OP = Op(id="loop-1a2b-3c4d/1.plan.created.0#1", path="1.plan.created.0", loop=LoopFacts(loop={"id": "loop-1a2b-3c4d"}))

EVENTS = [cls for one in LOOP_OPERATIONS for cls in (one.before, one.after)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_an_event_of_a_loop_says_which_call_it_belongs_to_and_is_of_no_run(event: type[Event]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(event)}
    assert (fields["op"].type, fields["op"].required) == (Op, True)
    assert (fields["envelope"].type, fields["envelope"].default) == (type(None), None)


@pytest.mark.parametrize("one", LOOP_OPERATIONS, ids=lambda one: one.name)
def test_before_and_after_are_two_classes_each_of_its_kind(one: Operation[Event, Event]) -> None:
    assert issubclass(one.before, BeforeEvent)
    assert issubclass(one.after, AfterEvent)
    assert not issubclass(one.after, BeforeEvent)


@pytest.mark.promise(3)
def test_what_a_topic_is_published_with_is_frozen_all_the_way_down() -> None:
    payload: dict[str, object] = {"steps": ["a", {"b": 1}]}
    event = PlanEvent(op=OP, topic="plan.ready", payload=payload)
    payload["steps"] = ()
    assert event.payload == FrozenDict({"steps": ("a", FrozenDict({"b": 1}))})
    with pytest.raises(AttributeError):
        event.topic = "plan.other"  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test


def test_a_plan_has_a_field_called_payload_and_all_its_own_fields_are_told() -> None:
    event = PlanCreatedEvent(op=OP, plan="p", topic="plan.ready", payload="p")
    assert event.own_fields() == {"plan": "p", "topic": "plan.ready", "payload": "p"}


def test_a_question_is_answered_times_out_or_fails() -> None:
    assert get_args(Interacted) == ("answered", "timeout", "failed")
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'maybe'"):
        msgspec.convert({"op": OP, "question": "?", "outcome": "maybe"}, HumanInteractedEvent)


def test_what_is_not_selected_or_answered_is_none() -> None:
    started = IterationStartedEvent(op=OP, number=1)
    assert (started.hat, started.task, started.topics) == (None, None, ())
    asked = HumanInteractedEvent(op=OP, question="?", outcome="timeout")
    assert (asked.answer, asked.options) == (None, ())


@pytest.mark.parametrize("name", ["envelope", "op"])
@pytest.mark.promise(3)
def test_nobody_replaces_whose_loop_it_is(name: str) -> None:
    with pytest.raises(TypeError, match="no replaceable field"):
        LoopStartEvent(op=OP, prompt="", topic="task.start").replace(**{name: None})
