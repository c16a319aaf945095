import msgspec
import pytest

from tenter.catalogue import (
    CATALOGUE,
    LOOP_OPERATIONS,
    ModelRequest,
    ModelRequestEvent,
    ModelResponseEvent,
    Op,
    OutputEvent,
    RunEndEvent,
    ToolCall,
    ToolCallEvent,
    ToolCallsEvent,
    ToolCallsExtractedEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
)
from tenter.kernel import Event, Operation, RegistrationError, TenterError, conforms
from tenter.testing import sample_event

GIT = ToolCall(id="c-7", name="git", arguments={"command": "push"})


def tool_call(**fields: object) -> ToolCallEvent:
    event = sample_event("tool.before", **fields)
    assert isinstance(event, ToolCallEvent)
    return event


@pytest.mark.promise(1)
@pytest.mark.parametrize("point", CATALOGUE)
def test_every_point_has_an_event_to_try_a_hook_on(point: str) -> None:
    event = sample_event(point)
    assert type(event) is CATALOGUE[point].event
    blank = msgspec.structs.replace(event, **dict.fromkeys(event.own_fields()))
    assert conforms(event, blank) is None
    assert sample_event(point) == event


@pytest.mark.parametrize("operation", LOOP_OPERATIONS, ids=lambda one: one.name)
def test_a_sample_of_a_loop_is_of_no_run_and_says_all_that_a_loop_says(operation: Operation[Event, Event]) -> None:
    for phase in ("pre", "post"):
        event = sample_event(f"{phase}.{operation.name}")
        assert event.envelope is None
        assert isinstance(event.op, Op)
        assert event.op.loop is not None
        assert set(event.op.loop.loop) == {"id", "is_primary", "workspace", "repo_root", "pid"}
        assert set(event.op.loop.iteration) == {"current", "max"}
        assert len(event.op.loop.context) == 5
    with pytest.raises(TenterError, match="can be made of that"):
        sample_event(f"pre.{operation.name}", envelope=sample_event("run.start").envelope)


def test_a_loop_completes_with_success_and_ends_in_an_error_without() -> None:
    assert sample_event("loop.complete.pre").own_fields()["reason"] == "completed"
    assert sample_event("loop.error.post").own_fields()["reason"] == "failed"
    assert sample_event("loop.error.post", reason="stopped").own_fields()["reason"] == "stopped"


def test_the_fields_that_are_given_are_the_events_own() -> None:
    event = sample_event("output.before", output={"answer": [1, 2]}, attempt=1, op=Op(id="mine"))
    assert isinstance(event, OutputEvent)
    assert (event.output, event.attempt, event.op.id) == ({"answer": (1, 2)}, 1, "mine")


def test_a_field_that_the_event_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(
        TenterError, match="ToolCallEvent has no field 'tol'; it has envelope, op, call, tool, approval"
    ):
        sample_event("tool.before", tol="shell")


@pytest.mark.parametrize(
    "fields",
    [
        {"tool": 7},
        {"call": "git push"},
        {"arguments": "git push"},
        {"call": {"name": "git"}},
        {"approval": "yes"},
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(TenterError, match="no ToolCallEvent can be made of that"):
        sample_event("tool.before", **fields)


def test_a_point_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(RegistrationError, match=r"did you mean 'tool\.before'"):
        sample_event("tool.befor")


def test_a_call_is_made_from_a_tools_name_and_arguments() -> None:
    event = tool_call(tool="git", arguments={"command": "push"})
    assert (event.call.name, event.call.arguments) == ("git", {"command": "push"})
    assert event.tool == ToolInfo(name="git")


def test_a_call_that_is_given_is_the_one_of_the_event_and_names_its_tool() -> None:
    assert tool_call(call=GIT) == tool_call(call=GIT, tool="git")
    assert tool_call(call=GIT).call is GIT
    assert tool_call(call=GIT, arguments={"command": "pull"}).call.arguments == {"command": "pull"}


def test_a_tool_can_be_given_whole_or_be_unknown() -> None:
    tool = ToolInfo(name="git", idempotent=True)
    assert (tool_call(tool=tool).tool, tool_call(tool=tool).call.name) == (tool, "git")
    assert tool_call(tool={"name": "git"}).call.name == "git"
    assert tool_call(tool=None).tool is None
    assert tool_call(tool=None, call=GIT).call is GIT


def test_a_result_is_made_from_its_own_fields() -> None:
    event = sample_event("tool.after", tool="git", output="denied", is_error=True, untrusted=True)
    assert isinstance(event, ToolResultEvent)
    assert event.result == ToolResult(output="denied", is_error=True, untrusted=True)
    assert event.call.name == "git"
    with pytest.raises(TenterError, match="no ToolResultEvent can be made of that"):
        sample_event("tool.after", output=7)


def test_a_text_is_a_requests_only_message() -> None:
    request = ModelRequest(alias="fast", model="m", messages=())
    event = sample_event("model.before", request=request, text="hello")
    assert isinstance(event, ModelRequestEvent)
    assert (event.request.alias, [message.content for message in event.request.messages]) == ("fast", ["hello"])


@pytest.mark.parametrize("point", ["model.after", "tool_calls.extracted.pre", "tool_calls.extracted.post"])
def test_a_text_is_a_responses_own(point: str) -> None:
    event = sample_event(point, text="hello")
    assert isinstance(event, ModelResponseEvent | ToolCallsEvent | ToolCallsExtractedEvent)
    assert event.response.text == "hello"


def test_what_is_given_as_a_mapping_becomes_what_its_field_holds() -> None:
    after = sample_event("tool.after", result={"output": "denied"}, is_error=True)
    assert isinstance(after, ToolResultEvent)
    assert after.result == ToolResult(output="denied", is_error=True)
    event = sample_event("run.end", usage={"input_tokens": 3}, error={"code": "timeout", "message": "too late"})
    assert isinstance(event, RunEndEvent)
    assert event.error is not None
    assert (event.usage.input_tokens, event.error.code) == (3, "timeout")
