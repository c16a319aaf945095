import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from tenter.catalogue import (
    CATALOGUE,
    ActivityFailedEvent,
    ActivityRetriedEvent,
    ActivityRetryEvent,
    Approval,
    ApprovalDecision,
    ApprovalReason,
    ApprovalRequest,
    ApprovalResolvedEvent,
    Envelope,
    ErrorInfo,
    HelpDecidedEvent,
    HelpRequestedEvent,
    HelpRequestEvent,
    HumanInteractedEvent,
    HumanInteractEvent,
    InputEvent,
    InputReceivedEvent,
    IterationStartedEvent,
    IterationStartEvent,
    LoopEndedEvent,
    LoopEndEvent,
    LoopFacts,
    LoopStartedEvent,
    LoopStartEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    Op,
    OutputEvent,
    Participant,
    PersistenceWriteEvent,
    PersistenceWrittenEvent,
    PlanCreatedEvent,
    PlanEvent,
    RetryPolicy,
    RunEndEvent,
    RunErrorEvent,
    RunStartEvent,
    ShutdownEvent,
    SubtaskResult,
    SubtaskSpawnedEvent,
    SubtaskSpawnEvent,
    TaskCompletedEvent,
    TaskCreatedEvent,
    TaskCreateEvent,
    TaskRef,
    TaskStateChangedEvent,
    ToolCall,
    ToolCallEvent,
    ToolCallsEvent,
    ToolCallsExtractedEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
    ToolSpec,
)
from tenter.kernel import Block, Event, FrozenDict, HookFailure
from tenter.wire.payload import Ended, Execution, encode_payload
from tenter.wire.schema import Schema, event_schema, payload_schema, schema_text, verdict_schema
from tenter.wire.verdict import decode_verdict

SAMPLES = Path(__file__).parent / "samples"

TASK = TaskRef(id="t-1", name="fix")
CALL = ToolCall(id="call-1", name="shell", arguments=FrozenDict({"command": "ls"}))
TOOL_CALL = ToolCallEvent(
    envelope=Envelope(run_id="run-1", task=TASK, correlation_id="c-1"), op=Op(id="op-1"), call=CALL
)


def events() -> list[Event]:
    """One event of each class, with much in it."""
    envelope = Envelope(
        run_id="run-1", task=TASK, correlation_id="c-1", participants=(Participant(id="eve", kind="human"),)
    )
    facts = LoopFacts(loop=FrozenDict({"id": "loop-1"}), iteration=FrozenDict({"current": 1}))
    op = Op(id="op-1", deadline=2.5, approval=Approval(id="a", hooks=("h",), digest="d"), loop=facts)
    who: dict[str, Any] = {"envelope": envelope, "op": op}
    message = Message(role="assistant", content="hi", tool_calls=(CALL,), extensions=FrozenDict({"x": (1, None)}))
    spec = ToolSpec(name="shell", parameters=FrozenDict({"type": "object"}))
    request = ModelRequest(alias="default", model="m", messages=(message,), tools=(spec,))
    response = ModelResponse(model="m", tool_calls=(CALL,), output=FrozenDict({"a": 1}), cost_usd=0.1)
    error = ErrorInfo(code="tool", message="no", details=FrozenDict({"exit": 1}))
    reason = ApprovalReason(hook="h", reason="ask", code="risk", editable=("*",), expires_at=2.5)
    asked = ApprovalRequest(
        id="a",
        run_id="run-1",
        operation="tool.invoked",
        path="1.tool.invoked.0",
        call=FrozenDict({"call": FrozenDict({"name": "shell"})}),
        digest="d",
        reasons=(reason,),
        requested_at=1.5,
    )
    decided = ApprovalDecision(
        request_id="a", run_id="run-1", decision="edit", by="eve", decided_at=2.5, edits=FrozenDict({"command": "ls"})
    )
    came = SubtaskResult(run_id="run-2", task="part", status="completed", output="x", cost_usd=0.5)
    return [
        RunStartEvent(**who, task=TASK, input="x"),
        RunEndEvent(**who, task=TASK, input="x", status="failed", error=error),
        InputEvent(**who, input="x"),
        InputReceivedEvent(**who, input="x", sender="eve"),
        TaskCreateEvent(**who, task=TASK),
        TaskCreatedEvent(**who, task=TASK),
        TaskStateChangedEvent(**who, before="pending", after="running"),
        ModelRequestEvent(**who, request=request),
        ModelResponseEvent(**who, request=request, response=response),
        ToolCallsEvent(**who, response=response),
        ToolCallsExtractedEvent(**who, response=response, calls=(CALL,)),
        ToolCallEvent(**who, call=CALL, tool=ToolInfo(name="shell", timeout_seconds=1.5)),
        ToolResultEvent(**who, call=CALL, result=ToolResult(output="x")),
        OutputEvent(**who, output=(1, "x")),
        TaskCompletedEvent(**who, verdict="complete", output=None),
        ActivityFailedEvent(**who, error=error, step=1, operation="tool.invoked", attempt=1),
        RunErrorEvent(**who, error=error, step=1, policy=RetryPolicy(attempts=2)),
        ActivityRetryEvent(**who, operation="tool.invoked", attempt=1, policy=RetryPolicy(jitter=0.25)),
        ActivityRetriedEvent(**who, operation="tool.invoked", attempt=1, policy=RetryPolicy(jitter=0.25), delay=1.5),
        HelpRequestEvent(**who, request=asked),
        HelpRequestedEvent(**who, request=asked),
        ApprovalResolvedEvent(**who, request=asked, decision=decided),
        HelpDecidedEvent(**who, request=asked, decision=decided),
        SubtaskSpawnEvent(**who, parent=TASK, task=TASK, input="x"),
        SubtaskSpawnedEvent(**who, parent=TASK, task=TASK, input="x", result=came),
        PersistenceWriteEvent(**who, kind="result", key="k", record=FrozenDict({"a": 1})),
        PersistenceWrittenEvent(**who, kind="result", key="k", record=FrozenDict({"a": 1})),
        ShutdownEvent(reason="closed"),
        LoopStartEvent(op=op, prompt="do it", topic="task.start"),
        LoopStartedEvent(op=op, prompt="do it", topic="task.start"),
        IterationStartEvent(op=op, number=7),
        IterationStartedEvent(op=op, number=7, hat="builder", task="t-1", topics=("plan.ready", "task.start")),
        PlanEvent(op=op, topic="plan.ready", payload=FrozenDict({"a": (1, None)})),
        PlanCreatedEvent(op=op, plan="p", topic="plan.ready", payload="p"),
        HumanInteractEvent(op=op, question="which?", options=("a", "b")),
        HumanInteractedEvent(op=op, question="which?", options=("a", "b"), outcome="answered", answer="a"),
        LoopEndEvent(op=op, reason="stopped", message="by ada", iterations=7),
        LoopEndedEvent(op=op, reason="stopped", message="by ada", iterations=7),
    ]


def errors_of(schema: Schema, document: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]  # pyright: ignore[reportUnknownMemberType]  # jsonschema leaves a parameter open


@pytest.mark.parametrize("point", CATALOGUE.values(), ids=list(CATALOGUE))
def test_the_payload_of_each_point_fits_its_schema_and_the_general_one(point: Any) -> None:
    event = next(event for event in events() if type(event) is point.event)
    ended = Ended.by(Block("no"), "guard")
    data = encode_payload(Execution(id="x", point=point, event=event, hook="h", at=0, ended=ended))
    schema = event_schema(point)
    Draft202012Validator.check_schema(schema)
    assert errors_of(schema, json.loads(data)) == []
    assert errors_of(payload_schema(), json.loads(data)) == []


def test_the_schema_of_a_point_refuses_another_points_payload_and_a_field_of_another_type() -> None:
    told = json.loads(
        encode_payload(Execution(id="x", point=CATALOGUE["tool.before"], event=TOOL_CALL, hook="h", at=0))
    )
    assert errors_of(event_schema(CATALOGUE["tool.after"]), told) != []
    assert errors_of(event_schema(CATALOGUE["tool.before"]), told) == []
    told["payload"]["call"]["name"] = 1
    assert errors_of(event_schema(CATALOGUE["tool.before"]), told) != []


def test_the_schema_of_a_point_refuses_the_same_payload_of_another_phase() -> None:
    event = ShutdownEvent(reason="closed")
    told = json.loads(encode_payload(Execution(id="x", point=CATALOGUE["shutdown.pre"], event=event, hook="h", at=0)))
    assert errors_of(event_schema(CATALOGUE["shutdown.pre"]), told) == []
    assert len(errors_of(event_schema(CATALOGUE["shutdown.post"]), told)) == 3


@pytest.mark.parametrize("key", ["schema_version", "key", "run", "context", "payload", "metadata"])
def test_a_payload_without_one_of_its_keys_does_not_fit(key: str) -> None:
    told = json.loads(
        encode_payload(Execution(id="x", point=CATALOGUE["tool.before"], event=TOOL_CALL, hook="h", at=0))
    )
    del told[key]
    assert errors_of(payload_schema(), told) != []


def test_the_schema_of_a_point_says_what_the_point_promises() -> None:
    point = CATALOGUE["tool.before"]
    assert event_schema(point)["$defs"]["Payload"]["description"] == point.rule.fires


def test_the_samples_of_version_1_fit_the_schemas() -> None:
    for name in ("payload.v1.json", "payload.loop.v1.json"):
        assert errors_of(payload_schema(), json.loads((SAMPLES / name).read_bytes())) == []
    told = json.loads((SAMPLES / "payload.loop.v1.json").read_bytes())
    assert errors_of(event_schema(CATALOGUE["pre.plan.created"]), told) == []
    for line in (SAMPLES / "verdict.v1.jsonl").read_bytes().splitlines():
        assert errors_of(verdict_schema(), json.loads(line)) == []


ANYTHING = st.sampled_from([None, True, False, 0, -1, 1.5, "", "text", [], ["a"], [1], {}, {"a": [1]}])
LIKELY: dict[str, st.SearchStrategy[object]] = {
    "decision": st.sampled_from(["pass", "allow", "block", "suspend", "escalate", "retry", "Block", "deny"]),
    "reason": st.text(max_size=3),
    "code": st.text(alphabet="a_.-9A ä", max_size=66),
    "stop": st.booleans(),
    "queue": st.sampled_from(["legal", "Legal", "", "a" * 64, "a" * 65]),
    "feedback": st.none() | st.text(max_size=3),
    "editable": st.lists(st.text(max_size=3), max_size=2),
    "expires_in": st.none() | st.floats(-1, 1e9) | st.integers(-1, 9),
    "on_timeout": st.sampled_from(["block", "escalate", "allow"]),
    "replace": st.sampled_from([{}, {"call": {"id": "1", "name": "shell"}}, {"tool": None}]),
    "result": st.just({"output": "x"}),
    "metadata": st.dictionaries(st.text(max_size=3), ANYTHING, max_size=2),
    "reasons": st.just("x"),
}
# `result` and `replace` hold fitting values or none that are objects: what fits an event is beyond the schema.
WRONG = {**dict.fromkeys(LIKELY, ANYTHING), "result": LIKELY["result"], "replace": st.sampled_from([None, 1, "x", []])}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    keys = draw(st.sets(st.sampled_from(sorted(LIKELY)), max_size=4))
    usual = {"decision", "reason"} if draw(st.booleans()) else set[str]()
    wrong = draw(st.sampled_from([None, None, *sorted(LIKELY)]))
    return {key: draw(WRONG[key] if key == wrong else LIKELY[key]) for key in sorted(keys | usual)}


VERDICTS: Any = Draft202012Validator(verdict_schema())


@settings(max_examples=600, deadline=None)
@given(documents())
def test_a_document_decodes_exactly_where_it_fits_the_schema(document: dict[str, object]) -> None:
    data = json.dumps(document).encode()
    try:
        decode_verdict(data, CATALOGUE["tool.invoked.in"], event=TOOL_CALL, mutate=True)
    except HookFailure:
        decodes = False
    else:
        decodes = True
    assert VERDICTS.is_valid(document) is decodes


@pytest.mark.parametrize("document", ["block", [], None, 1])
def test_what_is_no_object_does_not_fit_the_verdict_schema(document: object) -> None:
    assert errors_of(verdict_schema(), document) != []


def test_schemas_are_draft_2020_12_and_printed_alike_each_time() -> None:
    for make in (payload_schema, verdict_schema):
        Draft202012Validator.check_schema(make())
        assert make()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema_text(make()) == schema_text(make())
    text = schema_text(verdict_schema())
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
