"""One request for all that hooks require, bound to the exact call."""

from tests.harness.world import ENVELOPE, OP

from tenter.agent import Progress, Waiting
from tenter.catalogue import Approval, ToolCall, ToolCallEvent
from tenter.harness.approval import request_for
from tenter.kernel import Requirement, Suspended

EVENT = ToolCallEvent(
    envelope=ENVELOPE,
    op=OP,
    call=ToolCall(id="c", name="shell", arguments={"command": ["rm", {"force": True}]}),
    approval=Approval(id="old", hooks=("a",), digest="sha256:0"),
)
ASKED = (
    Requirement(hook="a", reason="dangerous", code="risk", editable=("call",), expires_in=60.0, on_timeout="escalate"),
    Requirement(hook="b", reason="expensive"),
)


def waiting(digest: str = "sha256:1", path: str = OP.path) -> Waiting:
    suspended = Suspended(requirements=ASKED, event=EVENT, digest=digest)
    return Waiting(operation="tool.invoked", path=path, suspended=suspended, progress=Progress())


def test_every_reason_stands_in_the_request_with_when_it_expires() -> None:
    request = request_for(waiting(), "run-1", 100.0)
    first, second = request.reasons
    assert (first.hook, first.reason, first.code, first.editable) == ("a", "dangerous", "risk", ("call",))
    assert (first.expires_at, first.on_timeout) == (160.0, "escalate")
    assert (second.hook, second.code, second.expires_at) == ("b", "approval_required", None)
    assert (request.run_id, request.operation, request.path) == ("run-1", "tool.invoked", OP.path)
    assert (request.digest, request.requested_at) == ("sha256:1", 100.0)


def test_the_call_is_plain_data_without_an_earlier_approval() -> None:
    request = request_for(waiting(), "run-1", 100.0)
    assert request.call == {
        "call": {"id": "c", "name": "shell", "arguments": {"command": ("rm", {"force": True})}},
        "tool": None,
    }


def test_the_id_is_the_same_whenever_the_run_comes_to_the_same_place_with_the_same_call() -> None:
    same = {request_for(waiting(), "run-1", now).id for now in (1.0, 2.0)}
    others = {
        request_for(waiting("sha256:2"), "run-1", 1.0).id,
        request_for(waiting(path="2.tool.invoked.0"), "run-1", 1.0).id,
        request_for(waiting(), "run-2", 1.0).id,
    }
    assert len(same) == 1
    assert len(others | same) == 4
