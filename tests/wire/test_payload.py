import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tenter.catalogue import (
    CATALOGUE,
    LOOP_OPERATIONS,
    Approval,
    Envelope,
    InputEvent,
    LoopFacts,
    Op,
    Participant,
    PlanEvent,
    ShutdownEvent,
    TaskRef,
    ToolCall,
    ToolCallEvent,
    ToolInfo,
)
from tenter.kernel import (
    OUTCOMES,
    Allow,
    Block,
    Escalate,
    Event,
    Fail,
    FrozenDict,
    HookFailure,
    Operation,
    Outcome,
    Result,
    Retry,
    Suspend,
    freeze,
)
from tenter.testing import sample_event
from tenter.wire.payload import Ended, Execution, encode_payload, environment, execution_key

SAMPLES = Path(__file__).parent / "samples"

ENVELOPE = Envelope(run_id="run-1", task=TaskRef(id="t-1", name="fix"), correlation_id="c-1")

LOOP = LoopFacts(
    loop=FrozenDict(
        {
            "id": "loop-1234-abcd",
            "pid": 12345,
            "repo_root": "/repo",
            "workspace": "/repo/.worktrees/loop-1234-abcd",
            "is_primary": False,
        }
    ),
    iteration=FrozenDict({"current": 7, "max": 100}),
    context=FrozenDict({"active_hat": "ralph", "selected_hat": "builder"}),
    accumulated=FrozenDict({"hook_metadata": FrozenDict({"gate": FrozenDict({"risk_score": 0.72})})}),
)


LOOP_OP = Op(id="loop-1234-abcd/7.plan.created.0#1", path="7.plan.created.0", loop=LOOP)


def execution(event: Event, point: str = "tool.before", **more: Any) -> Execution:
    told = Execution(id="x-1", point=CATALOGUE[point], event=event, hook="guard", at=0.0)
    return msgspec.structs.replace(told, **more)


def tool_call(arguments: dict[str, object], op: Op | None = None) -> ToolCallEvent:
    call = ToolCall(id="call-1", name="shell", arguments=freeze(arguments))
    return ToolCallEvent(envelope=ENVELOPE, op=op or Op(id="op-1", path="3.tool.invoked.0"), call=call)


def written(execution: Execution) -> dict[str, Any]:
    return json.loads(encode_payload(execution), parse_constant=pytest.fail)


def contains(whole: object, part: object) -> bool:
    match whole, part:
        case dict(), dict():
            return all(key in whole and contains(whole[key], item) for key, item in part.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON
        case _:
            return whole == part


def test_the_payload_still_says_all_that_the_sample_of_version_1_says() -> None:
    approval = Approval(id="a-1", hooks=("guard",), digest="sha256:00", by="eve")
    op = Op(
        id="op-9",
        path="3.tool.invoked.0",
        pass_=2,
        parent="op-1",
        deadline=1772292700.5,
        approval=approval,
        loop=LOOP,
    )
    envelope = Envelope(
        run_id="run-1",
        task=TaskRef(id="t-1", name="fix", version=3),
        correlation_id="c-1",
        session_id="s-1",
        principal="eve",
        participants=(Participant(id="eve", kind="human", role="owner"),),
        entities=("ticket:4711",),
        metadata=FrozenDict({"team": "blue"}),
    )
    event = ToolCallEvent(
        envelope=envelope,
        op=op,
        call=ToolCall(id="call-1", name="shell", arguments=FrozenDict({"command": "git push --force"})),
        tool=ToolInfo(name="shell", description="Runs a command", timeout_seconds=30),
    )
    told = Execution(
        id="x-1",
        point=CATALOGUE["tool.before"],
        event=event,
        hook="audit",
        at=1772292600.9,
        ended=Ended.by(Block("no", code="policy_denied"), "guard"),
    )
    assert contains(written(told), json.loads((SAMPLES / "payload.v1.json").read_bytes()))


def test_the_payload_of_a_loop_is_all_that_the_sample_of_version_1_is() -> None:
    event = PlanEvent(op=LOOP_OP, topic="plan.ready", payload={"steps": ["a", "b"]})
    told = written(execution(event, "pre.plan.created", hook="env-guard", at=1772292600.9))
    assert told == json.loads((SAMPLES / "payload.loop.v1.json").read_bytes())


@pytest.mark.parametrize("operation", LOOP_OPERATIONS, ids=lambda one: one.name)
@pytest.mark.parametrize("phase", ["pre", "post"])
def test_an_event_of_a_loop_has_no_run_and_says_which_loop_how_far_and_what_about(
    operation: Operation[Event, Event], phase: str
) -> None:
    point = f"{phase}.{operation.name}"
    event = sample_event(point, op=LOOP_OP)
    told = written(execution(event, point))
    assert (told["run"], told["alias"], told["point"]) == (None, None, f"{operation.name}.{phase}")
    assert (told["phase"], told["event"], told["phase_event"]) == (phase, operation.name, point)
    assert told["loop"] == dict(LOOP.loop)
    assert told["iteration"] == {"current": 7, "max": 100}
    assert told["context"] == {**dict.fromkeys(told["context"]), "active_hat": "ralph", "selected_hat": "builder"}
    assert told["key"] == f"loop-1234-abcd/7.plan.created.0#1/{phase}/guard"
    assert set(told["payload"]) == set(event.own_fields())
    assert environment(execution(event, point)) == {
        "TENTER_HOOK_POINT": f"{operation.name}.{phase}",
        "TENTER_HOOK_EVENT": operation.name,
        "TENTER_HOOK_PHASE": phase,
        "TENTER_HOOK_PHASE_EVENT": point,
        "TENTER_LOOP_ID": "loop-1234-abcd",
        "TENTER_ITERATION": "7",
    }


def test_the_keys_are_those_of_the_design_in_its_order() -> None:
    keys = (
        "schema_version id key point alias phase event phase_event timestamp "
        "run op loop iteration context payload metadata"  # D§9
    )
    assert list(written(execution(tool_call({})))) == keys.split()


def test_outside_of_a_loop_its_keys_are_null_and_the_context_has_its_five() -> None:
    told = written(execution(tool_call({})))
    assert (told["loop"], told["iteration"], told["metadata"]) == (None, None, {"accumulated": {}})
    assert told["context"] == dict.fromkeys(
        ("active_hat", "selected_hat", "selected_task", "termination_reason", "human_interact")
    )


def test_in_a_loop_its_facts_stand_at_the_top_and_not_in_the_op() -> None:
    told = written(execution(tool_call({}, Op(id="op-1", loop=LOOP))))
    assert told["loop"]["id"] == "loop-1234-abcd"
    assert told["iteration"] == {"current": 7, "max": 100}
    assert told["context"]["selected_hat"] == "builder"
    assert told["context"]["human_interact"] is None
    assert told["metadata"]["accumulated"]["hook_metadata"]["gate"] == {"risk_score": 0.72}
    assert "loop" not in told["op"]


def test_given_metadata_stand_for_those_of_the_loop() -> None:
    told = written(execution(tool_call({}, Op(id="op-1", loop=LOOP)), accumulated={"a": 1}))
    assert told["metadata"] == {"accumulated": {"a": 1}}


def test_an_event_without_envelope_and_op_says_null() -> None:
    told = written(execution(ShutdownEvent(reason="closed"), "shutdown.pre"))
    assert (told["run"], told["op"], told["alias"]) == (None, None, None)
    assert told["payload"] == {"reason": "closed"}


def test_the_time_is_in_utc_to_the_second() -> None:
    assert written(execution(tool_call({}), at=1772292600.999))["timestamp"] == "2026-02-28T15:30:00Z"


def test_only_observers_are_told_how_the_chain_ended() -> None:
    event = tool_call({})
    assert "ended" not in written(execution(event))
    assert written(execution(event, ended=None))["ended"] is None
    assert written(execution(event, ended=Ended.by(Block("no", code="policy_denied"), "guard")))["ended"] == {
        "decision": "block",
        "reason": "no",
        "code": "policy_denied",
        "hook": "guard",
    }


@pytest.mark.parametrize(
    ("outcome", "decision", "code"),
    [
        (Allow("a"), "allow", None),
        (Block("a"), "block", "blocked"),
        (Suspend("a"), "suspend", "approval_required"),
        (Escalate("a"), "escalate", None),
        (Retry("a"), "retry", None),
        (Result(1), "result", None),
        (Fail("a"), "fail", "hook_failed"),
    ],
)
def test_each_outcome_has_its_word(outcome: Outcome, decision: str, code: str | None) -> None:
    said = Ended.by(outcome, "guard")
    assert (said.decision, said.code) == (decision, code)
    assert said.reason == ("" if decision == "result" else "a")
    assert decision == "fail" or OUTCOMES[decision] is type(outcome)


@pytest.mark.parametrize(
    ("op", "key"),
    [
        (Op(id="op-1", path="3.tool.invoked.0"), "run-1/3.tool.invoked.0#1/pre/guard"),
        (Op(id="op-1", path="3.tool.invoked.0", pass_=2), "run-1/3.tool.invoked.0#2/pre/guard"),
        (Op(id="op-1", path="3.tool.invoked.0", attempt=4), "run-1/3.tool.invoked.0#1/pre/guard"),
        (Op(id="op-1", loop=LOOP), "run-1/op-1#1/pre/guard"),
    ],
)
@pytest.mark.promise(9)
def test_the_key_names_run_call_pass_phase_and_hook(op: Op, key: str) -> None:
    event = tool_call({}, op)
    assert execution(event).key == written(execution(event))["key"] == key
    assert execution(event, recheck=True).key == key + "/recheck"
    assert execution_key(event, CATALOGUE["tool.before"], hook="guard") == key


@pytest.mark.promise(9)
def test_the_key_does_not_hold_what_is_new_in_a_repeated_execution() -> None:
    event = tool_call({})
    assert execution(event, id="x-1", at=1.0).key == execution(event, id="x-2", at=2.0).key


def test_the_key_of_an_event_without_run_names_the_loop_or_else_the_scope() -> None:
    point, event = CATALOGUE["pre.plan.created"], PlanEvent(op=LOOP_OP)
    assert execution_key(event, point, hook="h") == "loop-1234-abcd/7.plan.created.0#1/pre/h"
    event = PlanEvent(op=msgspec.structs.replace(LOOP_OP, pass_=2))
    assert execution_key(event, point, hook="h", scope="p-7") == "loop-1234-abcd/7.plan.created.0#2/pre/h"
    closing = ShutdownEvent(reason="closed")
    assert execution_key(closing, CATALOGUE["shutdown.post"], hook="h") == "process/shutdown#1/post/h"
    assert execution_key(closing, CATALOGUE["shutdown.in"], hook="h", scope="p-7") == "p-7/shutdown#1/in/h"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters()) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=15,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_whatever_an_event_holds_the_payload_is_strict_json_in_utf_8(arguments: dict[str, object]) -> None:
    told = json.loads(encode_payload(execution(tool_call(arguments))).decode(), parse_constant=pytest.fail)
    assert len(told["payload"]["call"]["arguments"]) == len(arguments)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("plain ü", "plain ü"),
        ("half \ud83d pair", r"half \ud83d pair"),
        ({"\udfff": "\ud800"}, {r"\udfff": r"\ud800"}),
        (b"\x00\xff", "AP8="),
        (10**30, 10**30),
        ((1, (2.5, 10**30)), [1, [2.5, 10**30]]),
        (float("nan"), None),
        ({"a": [float("-inf"), 10**30]}, {"a": [None, 10**30]}),
        (["\ud800", float("nan"), 10**30, b"\xff"], [r"\ud800", None, 10**30, "/w=="]),
        (PurePosixPath("/a/b"), "/a/b"),
        (frozenset({1}), [1]),
    ],
)
def test_each_value_has_a_form_that_every_reader_takes(value: object, says: object) -> None:
    assert written(execution(tool_call({"a": value})))["payload"]["call"]["arguments"] == {"a": says}


@pytest.mark.fault(15)
def test_text_that_a_shell_would_act_on_stays_inside_one_string() -> None:
    hostile = "$(rm -rf ~) `id` '\"\n-rf \u2028 \u202e"
    data = encode_payload(execution(tool_call({"command": hostile})))
    assert b"\n" not in data
    assert json.loads(data)["payload"]["call"]["arguments"]["command"] == hostile


@pytest.mark.parametrize("value", [{"\ud800": 1, r"\ud800": 2}, [10**5000]])
def test_an_event_that_json_has_no_form_for_fails_naming_point_and_hook(value: object) -> None:
    event = InputEvent(envelope=ENVELOPE, op=Op(id="op-1"), input="x").replace(input=freeze(value))
    with pytest.raises(HookFailure, match=r"'input\.before' cannot be written as JSON for 'guard'") as caught:
        encode_payload(execution(event, "input.before"))
    assert caught.value.result == "crashed"


def test_the_environment_names_point_run_loop_and_folders() -> None:
    event = tool_call({}, Op(id="op-1", loop=LOOP))
    assert environment(execution(event, workspace="/work", project_dir="/project")) == {
        "TENTER_HOOK_POINT": "tool.invoked.pre",
        "TENTER_HOOK_EVENT": "tool.invoked",
        "TENTER_HOOK_PHASE": "pre",
        "TENTER_HOOK_PHASE_EVENT": "pre.tool.invoked",
        "TENTER_RUN_ID": "run-1",
        "TENTER_LOOP_ID": "loop-1234-abcd",
        "TENTER_WORKSPACE": "/work",
        "TENTER_ITERATION": "7",
        "TENTER_PROJECT_DIR": "/project",
    }


def test_a_variable_without_a_value_is_left_out() -> None:
    assert set(environment(execution(ShutdownEvent(reason="closed"), "shutdown.pre"))) == {
        "TENTER_HOOK_POINT",
        "TENTER_HOOK_EVENT",
        "TENTER_HOOK_PHASE",
        "TENTER_HOOK_PHASE_EVENT",
    }


@settings(deadline=None)
@given(st.text(alphabet=st.characters()))
def test_every_variable_can_stand_in_an_environment(text: str) -> None:
    event = tool_call({}, Op(id="op-1", loop=LoopFacts(loop=FrozenDict({"id": text}))))
    for value in environment(execution(event, workspace=text)).values():
        assert b"\0" not in os.fsencode(value)


def test_a_folder_whose_name_is_no_utf_8_keeps_its_bytes() -> None:
    folder = os.fsdecode(b"/project/\xff")
    assert os.fsencode(environment(execution(tool_call({}), workspace=folder))["TENTER_WORKSPACE"]) == b"/project/\xff"
