"""The entries of an operation: enough to go on from, each thing once, and what no journal takes is the journal's."""

from typing import Any

import msgspec
import pytest
from tests.harness.world import ENVELOPE, OP

from tenter.agent import Waiting
from tenter.catalogue import (
    LLM_INVOKED,
    RUN,
    TOOL_INVOKED,
    ApprovalRequest,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    RunStartEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
)
from tenter.harness.record import Ending, Pass, Recorder
from tenter.journal import JournalError
from tenter.kernel import Blocked, Done, Escalated, Failed, Requirement, Retry, Suspended, Unknown
from tenter.wire import Document

CALL = ToolCall(id="c1", name="shell", arguments={"command": "ls"})
EVENT = ToolCallEvent(envelope=ENVELOPE, op=OP, call=CALL, tool=ToolInfo(name="shell", description="long " * 100))
TURN = Pass(TOOL_INVOKED, OP)
AFTER = ToolResultEvent(envelope=ENVELOPE, op=OP, call=CALL, tool=EVENT.tool, result=ToolResult(output="a.py"))
ASKED = ApprovalRequest(
    id="a", run_id="r", operation="o", path="p", call={}, digest="sha256:1", reasons=(), requested_at=1.5
)
PLACE = {"path": "1.tool.invoked.0", "pass": 1}


def asking(*messages: Message) -> ModelRequestEvent:
    return ModelRequestEvent(
        envelope=ENVELOPE, op=OP, request=ModelRequest(alias="default", model="m", messages=messages)
    )


def test_a_beginning_names_its_operation_its_op_and_the_digest_of_its_input() -> None:
    entry = Recorder().started(TURN, EVENT, 1.5)
    digest = entry.content["input"]
    assert (entry.kind, entry.time) == ("started", 1_500_000)
    assert entry.content == {**PLACE, "operation": "tool.invoked", "op": OP.id, "input": digest}
    assert Recorder().started(TURN, EVENT, 9.0).content["input"] == digest
    other = EVENT.with_arguments(command="rm")
    assert Recorder().started(TURN, other, 1.5).content["input"] != digest


def test_what_acts_is_on_record_with_the_tool_by_name() -> None:
    entry = Recorder().acting(TURN, EVENT, 1.0)
    assert entry.content == {**PLACE, "event": {"call": CALL, "tool": "shell", "approval": None}}


def test_the_result_is_on_record_once() -> None:
    recorder = Recorder()
    assert recorder.acted(TURN, AFTER, 1.0).content == {**PLACE, "result": {"result": AFTER.result}}
    assert recorder.finished(TURN, Done(AFTER), 1.0, known=AFTER).content == {**PLACE, "outcome": "done"}


def test_the_end_tells_how_long_the_trace_was() -> None:
    entry = Recorder().finished(TURN, Done(AFTER), 1.0, known=AFTER, trace=7)
    assert entry.content == {**PLACE, "outcome": "done", "trace": 7}


def test_the_digest_of_an_input_is_that_of_its_entry() -> None:
    event = asking(Message(role="user", content="a"))
    turn = Pass(LLM_INVOKED, OP)
    assert Recorder().input_digest(event) == Recorder().started(turn, event, 1.0).content["input"]


def test_a_result_that_the_post_chain_changed_is_on_record_as_well() -> None:
    changed = AFTER.replace(result=ToolResult(output="[cut]"))
    content = Recorder().finished(TURN, Done(changed), 1.0, known=AFTER).content
    assert content == {**PLACE, "outcome": "done", "result": {"result": ToolResult(output="[cut]")}}


def test_the_start_of_a_run_that_a_hook_changed_is_on_record() -> None:
    turn = Pass(RUN, OP, "pre")
    start = RunStartEvent(envelope=ENVELOPE, op=OP, task=TaskRef(id="t", name="work"), input="a")
    changed = start.replace(input="b")
    recorder = Recorder()
    assert recorder.finished(turn, Done(start), 1.0, known=start).content == {
        **PLACE,
        "phase": "pre",
        "outcome": "done",
    }
    event: Any = recorder.finished(turn, Done(changed), 1.0, known=start).content["event"]
    assert event["input"] == "b"


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (
            Blocked(reason="no", code="policy", hook="guard", stop=True),
            {"outcome": "blocked", "reason": "no", "code": "policy", "hook": "guard", "stop": True, "failed": False},
        ),
        (
            Escalated(reason="look", queue="ops", hook="guard"),
            {"outcome": "escalated", "reason": "look", "queue": "ops", "hook": "guard"},
        ),
        (Retry("again", feedback="shorter"), {"outcome": "retry", "reason": "again", "feedback": "shorter"}),
        (
            Failed(message="broke", code="tool", exception="OSError"),
            {
                "outcome": "failed",
                "message": "broke",
                "code": "tool",
                "exception": "OSError",
                "hook": None,
                "retryable": False,
            },
        ),
        (Unknown(reason="who knows"), {"outcome": "unknown", "reason": "who knows"}),
        (
            Unknown(reason="who knows", event=EVENT, digest="sha256:1"),
            {
                "outcome": "unknown",
                "reason": "who knows",
                "event": {"call": CALL, "tool": "shell", "approval": None},
                "digest": "sha256:1",
            },
        ),
        (Waiting(requests=(ASKED,)), {"outcome": "waiting", "requests": (msgspec.to_builtins(ASKED),)}),
    ],
)
def test_every_ending_is_on_record_whole(ending: Ending, content: dict[str, object]) -> None:
    assert Recorder().finished(TURN, ending, 1.0, known=None).content == {**PLACE, **content}


def test_a_suspension_is_on_record_with_the_call_and_all_that_is_asked() -> None:
    asked = Requirement(hook="guard", reason="sure?", editable=("call",))
    ending = Suspended(requirements=(asked,), event=EVENT, digest="sha256:1")
    content: Any = Recorder().finished(TURN, ending, 1.0, known=None).content
    assert (content["outcome"], content["digest"]) == ("suspended", "sha256:1")
    assert content["event"]["call"] == CALL
    assert content["requirements"][0]["reason"] == "sure?"


def test_a_request_is_on_record_as_hooks_left_it() -> None:
    recorder, turn = Recorder(), Pass(LLM_INVOKED, OP)
    own, sent = asking(Message(role="user", content="a")), asking(Message(role="user", content="b"))
    recorder.started(turn, own, 1.0)
    content: Any = recorder.acting(turn, sent, 1.0).content["event"]
    assert content["request"]["messages"]["added"] == [Document(own.request.messages[0])]
    assert content["request"]["sent"]["added"] == (Document(sent.request.messages[0]),)


def test_a_response_is_a_document_of_its_own() -> None:
    response = ModelResponse(model="m", text="hello")
    event = asking(Message(role="user", content="a"))
    after = ModelResponseEvent(envelope=ENVELOPE, op=OP, request=event.request, response=response)
    content = Recorder().acted(Pass(LLM_INVOKED, OP), after, 1.0).content
    assert content["result"] == {"response": Document(response)}


def test_what_has_no_canonical_form_is_a_failure_of_the_journal() -> None:
    event = EVENT.with_arguments(n=2**60)
    with pytest.raises(JournalError, match=r"an entry 'started' cannot be journaled, at .*past 2\^53-1") as caught:
        Recorder().started(TURN, event, 1.0)
    assert caught.value.trouble == "content"
