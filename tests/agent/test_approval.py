"""One request for all that hooks require, bound to the exact call, and the pass that follows on a decision."""

import msgspec
import pytest
from tests.agent.playbook import ENVELOPE, PLAN

from tenter.agent import BLANK
from tenter.agent.approval import Halted, approved, edited, named, request_for, required
from tenter.catalogue import (
    Approval,
    ApprovalDecision,
    InputEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    Op,
    OutputEvent,
    ToolCall,
    ToolCallEvent,
)
from tenter.kernel import Event, Requirement, Suspended, Unknown

OLD = Approval(id="old", hooks=("a",), asked=("tool.invoked.pre/a#risk",), digest="sha256:0")
EVENT = ToolCallEvent(
    envelope=ENVELOPE,
    op=Op(id="run-1/1.tool.invoked.0#1", approval=OLD),
    call=ToolCall(id="c", name="shell", arguments={"command": ["rm", {"force": True}], "cwd": "/"}),
    approval=OLD,
)
INPUT = InputEvent(envelope=ENVELOPE, op=BLANK, input="as it came", sender="bob")
DANGEROUS = Requirement(
    hook="a",
    reason="dangerous",
    code="risk",
    editable=("call.arguments.command",),
    expires_in=60.0,
    on_timeout="escalate",
)
EXPENSIVE = Requirement(hook="b", reason="expensive", editable=("*",))
GONE = Unknown(reason="its process died", event=EVENT, digest="sha256:1")


def halted(digest: str = "sha256:1", path: str = "1.tool.invoked.0", times: int = 0, event: Event = EVENT) -> Halted:
    ending = Suspended(requirements=(DANGEROUS, EXPENSIVE), event=event, digest=digest)
    return Halted(operation="tool.invoked", path=path, index=0, event=EVENT, ending=ending, times=times)


def test_every_reason_stands_in_the_request_with_when_it_expires() -> None:
    request = request_for(halted(), PLAN, 100.0)
    first, second = request.reasons
    assert (first.hook, first.reason, first.code, first.editable) == ("a", "dangerous", "risk", ("command",))
    assert (first.expires_at, first.on_timeout) == (160.0, "escalate")
    assert (second.hook, second.code, second.editable, second.expires_at) == ("b", "approval_required", ("*",), None)
    assert request.editable == ("command",)
    assert (request.run_id, request.task, request.operation) == ("run-1", "fix", "tool.invoked")
    assert (request.path, request.digest, request.requested_at) == ("1.tool.invoked.0", "sha256:1", 100.0)


def test_a_request_names_the_outermost_run_which_is_the_one_to_resume() -> None:
    assert request_for(halted(), PLAN, 100.0).root_run_id == "run-1"
    inner = msgspec.structs.replace(PLAN, root_run_id="run-0")
    assert request_for(halted(), inner, 100.0).root_run_id == "run-0"


def test_the_call_is_plain_data_as_hooks_left_it_without_an_earlier_approval() -> None:
    rewritten = EVENT.with_arguments(cwd="/tmp")
    request = request_for(halted(event=rewritten), PLAN, 100.0)
    arguments = {"command": ("rm", {"force": True}), "cwd": "/tmp"}
    assert request.call == {"call": {"id": "c", "name": "shell", "arguments": arguments}, "tool": None}


def test_the_id_is_the_same_whenever_the_run_comes_to_the_same_place_with_the_same_call() -> None:
    same = {request_for(halted(), PLAN, now).id for now in (1.0, 2.0)}
    other_run = msgspec.structs.replace(PLAN, envelope=msgspec.structs.replace(ENVELOPE, run_id="run-2"))
    others = {
        request_for(halted("sha256:2"), PLAN, 1.0).id,
        request_for(halted(path="2.tool.invoked.0"), PLAN, 1.0).id,
        request_for(halted(times=1), PLAN, 1.0).id,
        request_for(halted(), other_run, 1.0).id,
    }
    assert len(same) == 1
    assert len(others | same) == 5


def test_what_may_have_happened_is_asked_in_the_name_of_the_check_for_it() -> None:
    asked = Requirement(hook="duplicate", reason="its process died", code="unknown", point="tool.invoked.pre")
    assert required(GONE) == (asked,)
    unknown = msgspec.structs.replace(halted(), ending=Unknown(reason="gone", digest="sha256:1"))
    assert request_for(unknown, PLAN, 1.0).call == request_for(halted(), PLAN, 1.0).call


@pytest.mark.parametrize(
    ("editable", "event", "names"),
    [
        (("call.arguments.to", "call.arguments.a.b"), EVENT, ("to", "a.b")),
        (("call",), EVENT, ("*",)),
        (("call.arguments", "*"), EVENT, ("*",)),
        (("input", "input.part"), INPUT, ("input",)),
        ((), EVENT, ()),
    ],
)
def test_fields_are_named_as_people_name_them(editable: tuple[str, ...], event: Event, names: tuple[str, ...]) -> None:
    assert named(editable, event) == names


# The next pass


def decision() -> ApprovalDecision:
    return ApprovalDecision(request_id="r-1", run_id="run-1", decision="approve", by="ann", decided_at=1.0)


@pytest.mark.promise(10)
def test_an_approval_names_the_hooks_that_asked_and_the_call_it_is_for() -> None:
    event = approved(halted(), decision(), event=EVENT, digest="sha256:1")
    asked = (DANGEROUS.name, EXPENSIVE.name)
    assert event.approval == Approval(id="r-1", hooks=("a", "b"), asked=asked, digest="sha256:1", by="ann")
    assert event.op == Op(id="", approval=event.approval)
    assert event.call == EVENT.call


@pytest.mark.promise(10)
@pytest.mark.parametrize(("digest", "hooks"), [("sha256:0", ("a", "b")), ("sha256:1", ("b",))])
def test_an_earlier_approval_holds_on_for_the_very_same_call(digest: str, hooks: tuple[str, ...]) -> None:
    again = Suspended(requirements=(EXPENSIVE,), event=EVENT, digest=digest)
    event = approved(msgspec.structs.replace(halted(), ending=again), decision(), event=EVENT, digest=digest)
    assert event.op.approval is not None
    assert event.op.approval.hooks == hooks
    assert event.op.approval.asked == (*OLD.asked * (len(hooks) - 1), EXPENSIVE.name)


def test_an_event_without_a_field_for_it_carries_the_approval_in_its_op_alone() -> None:
    event = approved(halted(), decision(), event=INPUT, digest="sha256:1")
    assert event.op.approval is not None
    assert event.input == "as it came"


# Edits


def test_arguments_are_laid_over_those_of_the_call() -> None:
    changed = edited(EVENT, {"command": ["ls"], "depth": 2}, ("*",))
    assert changed.call.arguments == {"command": ("ls",), "cwd": "/", "depth": 2}
    assert edited(EVENT, {"cwd": "/tmp"}, ("cwd", "command")).call.arguments["cwd"] == "/tmp"


def test_a_field_takes_a_value_of_its_own_type_that_may_be_plain_data() -> None:
    request = ModelRequest(alias="default", model="m", messages=())
    event = ModelRequestEvent(envelope=ENVELOPE, op=BLANK, request=request)
    plain = {"alias": "default", "model": "m2", "messages": [{"role": "user", "content": "hi"}]}
    changed = edited(event, {"request": plain}, ("request",)).request
    assert (changed.model, changed.messages) == ("m2", (Message(role="user", content="hi"),))


@pytest.mark.parametrize(
    ("event", "edits", "editable", "why"),
    [
        (EVENT, {"cwd": "/"}, ("command",), "'cwd' may not be edited"),
        (EVENT, {"cwd": "/"}, (), "'cwd' may not be edited"),
        (INPUT, {"input": 7}, ("input",), "an edit does not fit"),
        (INPUT, {"nonsense": 7}, ("*",), "it has no field 'nonsense' that can be edited"),
        (INPUT, {"op": {}}, ("*",), "it has no field 'op' that can be edited"),
        (OutputEvent(envelope=ENVELOPE, op=BLANK, output=1), {"approval": None}, ("*",), "it has no field 'approval'"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_with_the_reason(
    event: Event, edits: dict[str, object], editable: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        edited(event, edits, editable)
