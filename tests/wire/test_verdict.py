import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tenter.catalogue import (
    CATALOGUE,
    Envelope,
    InputEvent,
    ModelRequest,
    ModelRequestEvent,
    Op,
    OutputEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
    ToolResult,
    ToolResultEvent,
)
from tenter.kernel import Allow, Block, Escalate, Event, FrozenDict, HookFailure, Result, Retry, Suspend, conforms
from tenter.wire.verdict import Verdict, decode_verdict, has_decision

SAMPLES = Path(__file__).parent / "samples"

ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="t-1", name="fix"), correlation_id="c-1")
OP = Op(id="op-1", path="3.tool.invoked.0")
CALL = ToolCallEvent(
    envelope=ENVELOPE,
    op=OP,
    call=ToolCall(id="call-1", name="shell", arguments=FrozenDict({"command": "ls"})),
    tool=ToolInfo(name="shell", idempotent=True),
)


def decode(document: object, *, point: str = "tool.before", event: Event = CALL, mutate: bool = False) -> Verdict:
    return decode_verdict(json.dumps(document).encode(), CATALOGUE[point], event=event, mutate=mutate)


def failure_of(document: object, *, point: str = "tool.before", event: Event = CALL) -> str:
    with pytest.raises(HookFailure) as caught:
        decode(document, point=point, event=event)
    assert caught.value.result == "bad_output"
    return caught.value.reason


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"decision": "pass"}, None),
        ({"decision": "pass", "reason": "nothing to object to"}, None),
        ({"decision": "allow"}, Allow()),
        ({"decision": "allow", "reason": "on the list"}, Allow("on the list")),
        ({"decision": "block", "reason": "no"}, Block("no")),
        (
            {"decision": "block", "reason": "no", "code": "policy_denied", "stop": True},
            Block("no", "policy_denied", True),
        ),
        ({"decision": "suspend", "reason": "ask"}, Suspend("ask")),
        (
            {
                "decision": "suspend",
                "reason": "ask",
                "code": "spend",
                "editable": ["arguments"],
                "expires_in": 60,
                "on_timeout": "escalate",
            },
            Suspend("ask", "spend", ("arguments",), 60.0, "escalate"),
        ),
        ({"decision": "suspend", "reason": "ask", "expires_in": None}, Suspend("ask")),
        ({"decision": "escalate", "reason": "over my head"}, Escalate("over my head")),
        ({"decision": "escalate", "reason": "over my head", "queue": "legal"}, Escalate("over my head", "legal")),
        ({"decision": "retry", "reason": "too long"}, Retry("too long")),
        ({"decision": "retry", "reason": "too long", "feedback": "be brief"}, Retry("too long", "be brief")),
    ],
)
def test_each_decision_becomes_its_outcome(document: object, answer: object) -> None:
    assert decode(document) == Verdict(answer)  # pyright: ignore[reportArgumentType]  # parametrized values are objects


@pytest.mark.promise(7)
@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, "needs the key 'decision'"),
        ({"decision": "deny", "reason": "x"}, "not 'deny'"),
        ({"decision": "blok", "reason": "x"}, "did you mean 'block'?"),
        ({"decision": "Block", "reason": "x"}, "not 'Block'"),
        ({"decision": True}, "not bool"),
        ({"decision": None}, "not NoneType"),
        ({"reason": "x"}, "needs the key 'decision'"),
        ({"metadata": {}, "reason": "x"}, "'reason' does not go with no decision"),
        ({"decision": "block"}, "missing required field `reason`"),
        ({"decision": "block", "reason": ""}, "at 'reason'"),
        ({"decision": "block", "reason": None}, "at 'reason'"),
        ({"decision": "block", "reason": "x", "reasons": "y"}, "no key 'reasons'; did you mean 'reason'?"),
        ({"decision": "block", "reason": "x", "queue": "y"}, "'queue' does not go with the decision 'block'"),
        ({"decision": "block", "reason": "x", "stop": 1}, "at 'stop'"),
        ({"decision": "block", "reason": "x", "stop": "true"}, "at 'stop'"),
        ({"decision": "block", "reason": "x", "code": "Not A Word"}, "at 'code'"),
        ({"decision": "block", "reason": "x", "code": "word\n"}, "must be a word"),
        ({"decision": "allow", "replace": {}}, "'replace' does not go with the decision 'allow'"),
        ({"decision": "suspend", "reason": "x"} | {"feedback": "y"}, "'feedback' does not go with"),
        ({"decision": "suspend", "reason": "x", "editable": "arguments"}, "at 'editable'"),
        ({"decision": "suspend", "reason": "x", "editable": ["a", 1]}, "at 'editable[1]'"),
        ({"decision": "suspend", "reason": "x", "expires_in": 0}, "at 'expires_in'"),
        ({"decision": "suspend", "reason": "x", "expires_in": True}, "at 'expires_in'"),
        ({"decision": "suspend", "reason": "x", "on_timeout": "allow"}, "at 'on_timeout'"),
        ({"decision": "escalate", "queue": "legal"}, "`reason`"),
        ({"decision": "escalate", "reason": "x", "queue": ""}, "at 'queue'"),
        ({"decision": "retry", "feedback": "y"}, "`reason`"),
        ({"decision": "pass", "replace": {}, "result": 1}, "exclude each other"),
        ({"decision": "pass", "replace": None}, "at 'replace'"),
        ({"decision": "pass", "metadata": [1]}, "at 'metadata'"),
        ({"decision": "pass", "metadata": None}, "at 'metadata'"),
    ],
)
def test_a_document_that_is_not_exactly_a_verdict_fails_naming_the_place(document: object, named: str) -> None:
    assert named in failure_of(document)


@pytest.mark.fault(9)
@pytest.mark.fault(51)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"decision": "pass"} {"decision": "pass"}',
        b'checked\n{"decision": "pass"}',
        b'{"decision": "block", "reason": "x", "decision": "pass"}',
        b'{"decision": "pass", "metadata": {"a": 1, "a": 2}}',
        b'{"decision": "pass", "metadata": {"a": NaN}}',
    ],
)
def test_bytes_that_are_not_exactly_one_object_fail(data: bytes) -> None:
    with pytest.raises(HookFailure, match="exactly one JSON object") as caught:
        decode_verdict(data, CATALOGUE["tool.before"], event=CALL, mutate=True)
    assert caught.value.result == "bad_output"


@pytest.mark.promise(3)
def test_a_replacement_has_the_events_type_envelope_and_op_and_is_frozen_all_the_way_down() -> None:
    arguments = {"command": "ls", "env": [{"A": "1"}]}
    answer = decode({"replace": {"call": {"id": "call-1", "name": "shell", "arguments": arguments}}}).answer
    assert isinstance(answer, ToolCallEvent)
    assert conforms(answer, CALL) is None
    assert answer.call == ToolCall(
        id="call-1", name="shell", arguments=FrozenDict({"command": "ls", "env": (FrozenDict({"A": "1"}),)})
    )
    assert answer.tool is CALL.tool
    hash(answer)


def test_a_replacement_may_come_with_the_decision_pass() -> None:
    event = InputEvent(envelope=ENVELOPE, op=OP, input="hi")
    document = {"decision": "pass", "replace": {"input": "hello"}}
    assert decode(document, point="input.before", event=event).answer == event.replace(input="hello")


@pytest.mark.promise(3)
@pytest.mark.parametrize(
    ("replace", "named"),
    [
        ({"cal": {}}, "no field 'cal'; did you mean 'call'?"),
        ({"envelope": {}}, "no field 'envelope'; it has 'call', 'tool', 'approval'"),
        ({"op": {}}, "no field 'op'"),
        ({"call": None}, "at 'replace.call'"),
        ({"call": {"id": "1"}}, "at 'replace.call': Object missing required field `name`"),
        ({"call": {"id": "1", "name": 2}}, "at 'replace.call.name'"),
        ({"call": {"id": "1", "name": "shell", "argumnets": {}}}, "no key 'argumnets'; did you mean 'arguments'?"),
        ({"call": {"id": "1", "name": "shell", "arguments": "ls"}}, "at 'replace.call.arguments'"),
        ({"tool": {"name": "shell", "idempotent": "yes"}}, "at 'replace.tool.idempotent'"),
    ],
)
def test_a_replacement_that_does_not_fit_the_event_fails_naming_the_key(replace: object, named: str) -> None:
    assert named in failure_of({"replace": replace})


def test_an_unknown_key_deep_inside_a_replacement_is_found() -> None:
    event = ModelRequestEvent(envelope=ENVELOPE, op=OP, request=ModelRequest(alias="a", model="m", messages=()))
    call = {"id": "1", "name": "shell", "nam": "x"}
    request = {"alias": "a", "model": "m", "messages": [{"role": "user"}, {"role": "assistant", "tool_calls": [call]}]}
    reason = failure_of({"replace": {"request": request}}, point="model.before", event=event)
    assert "at 'replace.request.messages[1].tool_calls[0]': there is no key 'nam'; did you mean 'name'?" in reason


def test_a_result_at_an_in_point_has_the_type_of_the_operations_result() -> None:
    answer = decode({"result": {"output": "done"}}, point="tool.invoked.in").answer
    assert answer == Result(ToolResult(output="done"))


def test_a_result_of_several_fields_is_a_mapping_of_these() -> None:
    event = OutputEvent(envelope=ENVELOPE, op=OP, output="draft")
    document = {"decision": "pass", "result": {"verdict": "complete", "output": [1, {"a": None}]}}
    answer = decode(document, point="task.complete.in", event=event).answer
    assert answer == Result(FrozenDict({"verdict": "complete", "output": (1, FrozenDict({"a": None}))}))


def test_null_can_be_a_result() -> None:
    event = OutputEvent(envelope=ENVELOPE, op=OP, output="draft")
    document = {"result": {"verdict": "complete", "output": None}}
    answer = decode(document, point="task.complete.in", event=event).answer
    assert answer == Result(FrozenDict({"verdict": "complete", "output": None}))


@pytest.mark.parametrize(
    ("point", "result", "named"),
    [
        ("tool.invoked.in", {"output": 1}, "at 'result.output'"),
        ("tool.invoked.in", {"output": "x", "error": True}, "at 'result': there is no key 'error'"),
        ("tool.invoked.in", None, "at 'result'"),
        ("tool.before", {"output": "x"}, "not at 'tool.before'"),
        ("tool.after", {"output": "x"}, "not at 'tool.after'"),
        ("shutdown.in", "x", "not at 'shutdown.in'"),
        ("task.complete.in", "complete", "must be an object with 'verdict', 'output', 'reason'"),
        ("task.complete.in", {"verdict": "complete"}, "must have the key 'output'"),
        ("task.complete.in", {"verdict": "done", "output": 1}, "at 'result.verdict'"),
        ("task.complete.in", {"verdict": "complete", "output": 1, "schema_name": "x"}, "no field 'schema_name'"),
    ],
)
def test_a_result_that_does_not_fit_the_operation_fails_naming_the_key(point: str, result: object, named: str) -> None:
    assert named in failure_of({"result": result}, point=point)


def test_a_replacement_at_post_is_the_after_event() -> None:
    event = ToolResultEvent(envelope=ENVELOPE, op=OP, call=CALL.call, result=ToolResult(output="secret"))
    answer = decode({"replace": {"result": {"output": "***"}}}, point="tool.after", event=event).answer
    assert answer == event.replace(result=ToolResult(output="***"))


def test_metadata_count_only_where_the_hook_may_mutate() -> None:
    document = {"decision": "block", "reason": "no", "metadata": {"risk": [0.7]}}
    assert decode(document).metadata is None
    told = decode(document, mutate=True)
    assert told == Verdict(Block("no"), FrozenDict({"risk": (0.7,)}))
    assert isinstance(told.metadata, FrozenDict)


def test_metadata_may_stand_alone_as_in_seed_001() -> None:
    assert decode({"metadata": {"risk_score": 0.72}}, mutate=True) == Verdict(None, FrozenDict({"risk_score": 0.72}))
    assert decode({"metadata": {"risk_score": 0.72}}) == Verdict()


def test_the_sample_of_version_1_still_decodes() -> None:
    point, event = CATALOGUE["tool.invoked.in"], CALL
    lines = (SAMPLES / "verdict.v1.jsonl").read_bytes().splitlines()
    assert [decode_verdict(line, point, event=event, mutate=True) for line in lines] == [
        Verdict(),
        Verdict(Allow("read-only")),
        Verdict(Block("force pushes are not allowed", code="policy_denied", stop=True)),
        Verdict(Suspend("a person must see this", "spend", ("arguments",), 3600.0, "escalate")),
        Verdict(Escalate("outside of my remit", "legal")),
        Verdict(Retry("the answer is too long", "answer in one paragraph")),
        Verdict(CALL.replace(call=ToolCall(id="call-1", name="shell", arguments=FrozenDict({"command": "ls -la"})))),
        Verdict(Result(ToolResult(output="cached"))),
        Verdict(None, FrozenDict({"risk_score": 0.72, "gates": ("policy_check",)})),
    ]


@pytest.mark.promise(7)
@pytest.mark.parametrize(
    "stdout",
    [
        b'{"decision": "block", "reason": "no"}',
        b'  {\n  "reason": "no",\n  "decision" : "block"\n}\n',
        b'checking...\n{"decision": "block"}\ndone\n',
        b'verdict: {"decision": "block"}',
        b'{"a": 1}\n{"decision": "block"}\n',
        b"begin {\n" + b'{"decision": "block"}',
        b'[{"decision": "block"}]',
        rb'{"d\u0065cision": "block"}',
        rb'{"\u0064\u0065\u0063\u0069\u0073\u0069\u006F\u006e": "block"}',
        b'{"decision": "block", "reason": "cut o',
        b'{"reason": "a \xff b", "decision": "block"}',
        b"{'decision': 'block'}",
        b'\xef\xbb\xbf{"decision": "block"}',
        '{"decision": "block"}'.encode("utf-16"),
        b'{"decision": "allow", "decision": "block", }',
        b"{" * 100 + b'{"decision": "block"}',
    ],
)
def test_a_decision_on_stdout_is_found_however_it_is_written(stdout: bytes) -> None:
    assert has_decision(stdout)


@pytest.mark.parametrize(
    "stdout",
    [
        b"",
        b"ok\n",
        b"the decision: block\n",
        b'{"a": "decision"}',
        b'{"decisions": 1}',
        b'{"a": {"decision": "block"}}',
        b'{"help": [{"x": 1, "decision": {"by": "me"}}]}\n{"a": 1}\n',
        rb'{"text": "{\"decision\": \"block\"}"}',
    ],
)
def test_output_without_a_decision_of_its_own_is_no_verdict(stdout: bytes) -> None:
    assert not has_decision(stdout)


@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=3),
    st.text(max_size=30, alphabet=st.characters(exclude_characters="{")),
    st.text(max_size=30),
    st.sampled_from([None, 1]),
)
def test_no_text_around_a_verdict_hides_its_decision(
    more: dict[str, Any], before: str, after: str, indent: int | None
) -> None:
    document = json.dumps({**more, "decision": "block"}, indent=indent)
    assert has_decision(f"{before}\n{document}\n{after}".encode(errors="replace"))


def test_where_too_much_is_no_json_a_key_that_looks_like_a_decision_is_one() -> None:
    nested = b'{"a": {"decision": 1}}'
    assert not has_decision(b"{ " * 10 + nested)
    assert has_decision(b"{ " * 20 + nested)


def test_much_output_is_searched_in_one_pass() -> None:
    assert not has_decision(b'{"a": {"decision": 1}}\n' * 20_000)
    assert has_decision(b'{"a": 1}\n' * 20_000 + b'{"decision": "block"}')
    assert has_decision(b'{"a":' * 50_000 + b'{"decision": "block"}')
