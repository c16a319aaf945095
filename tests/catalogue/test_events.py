from typing import Any, cast

import msgspec
import pytest

from tenter.catalogue import (
    AGENT_OPERATIONS,
    Envelope,
    Op,
    OutputEvent,
    ShutdownEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
    events,
)
from tenter.kernel import AfterEvent, BeforeEvent, Event, conforms

ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="t", name="fix"), correlation_id="c")
OP = Op(id="op-1")
SHELL = ToolCallEvent(
    envelope=ENVELOPE,
    op=OP,
    call=ToolCall(id="call-1", name="shell", arguments={"command": "ls", "cwd": "."}),
    tool=ToolInfo(name="shell"),
)

EVENTS = sorted({cls for one in AGENT_OPERATIONS for cls in (one.before, one.after)}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_of_a_run_says_whose_run_and_which_call_it_belongs_to(event: type[Event]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(event)}
    if event is ShutdownEvent:
        assert [name for name in ("envelope", "op") if fields[name].required] == []
        return
    assert (fields["envelope"].type, fields["op"].type) == (Envelope, Op)
    assert fields["envelope"].required
    assert fields["op"].required


def test_the_events_of_the_portable_points_have_the_fields_of_seed_003() -> None:
    wanted = {
        "RunStartEvent": {"task", "input"},
        "InputEvent": {"input"},
        "ModelRequestEvent": {"request"},
        "ModelResponseEvent": {"request", "response"},
        "ToolCallEvent": {"call", "tool", "approval"},
        "ToolResultEvent": {"call", "tool", "result"},
        "OutputEvent": {"output", "attempt", "schema_name", "approval"},
        "ApprovalResolvedEvent": {"request", "decision"},
        "RunErrorEvent": {"error", "step"},
        "RunEndEvent": {"status", "output", "error", "usage", "cost_usd"},
    }
    for name, fields in wanted.items():
        cls = cast("type[Event]", getattr(events, name))
        assert fields <= set(cls.__struct_fields__), name


def test_an_in_hook_can_answer_the_result_of_what_it_is_given_and_a_post_hook_cannot() -> None:
    for one in AGENT_OPERATIONS:
        if one.shape == "fact":
            assert one.before is one.after
            assert not issubclass(one.before, BeforeEvent | AfterEvent)
        else:
            assert issubclass(one.before, BeforeEvent)
            assert issubclass(one.after, AfterEvent)


def test_the_arguments_of_a_call_are_laid_over_its_own() -> None:
    new = SHELL.with_arguments({"command": "ls -l"}, timeout=3)
    assert new.call.arguments == {"command": "ls -l", "cwd": ".", "timeout": 3}
    assert (new.call.id, new.call.name, new.tool, new.op) == ("call-1", "shell", SHELL.tool, OP)
    assert SHELL.call.arguments == {"command": "ls", "cwd": "."}
    assert conforms(new, SHELL) is None
    assert SHELL.with_arguments(arguments="named so").call.arguments["arguments"] == "named so"


def test_arguments_take_the_place_of_text_that_a_model_gave() -> None:
    text = SHELL.replace(call=ToolCall(id="1", name="shell", arguments=cast(Any, "ls -l")))
    new = text.with_arguments(command="ls")
    assert new.call.arguments == {"command": "ls"}
    assert conforms(new, text) is None


@pytest.mark.promise(3)
def test_a_replaced_call_that_is_no_call_does_not_conform() -> None:
    said = conforms(SHELL.replace(call={"id": "1", "name": "shell"}), SHELL)
    assert said is not None
    assert "call: expected ToolCall, got FrozenDict" in said


@pytest.mark.promise(3)
@pytest.mark.parametrize("name", ["envelope", "op"])
def test_nobody_replaces_whose_run_it_is(name: str) -> None:
    with pytest.raises(TypeError, match="no replaceable field"):
        SHELL.replace(**{name: None})


def test_the_first_candidate_for_the_output_has_the_attempt_zero() -> None:
    assert OutputEvent(envelope=ENVELOPE, op=OP, output="x").attempt == 0
