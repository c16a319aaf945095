from collections.abc import Mapping

import pytest

from tenter.catalogue.asked_call import arguments_of
from tenter.catalogue.contracts import ApprovalReason, ApprovalRequest


def request(call: Mapping[str, object], operation: str = "tool.invoked") -> ApprovalRequest:
    reasons = (ApprovalReason(hook="guard", reason="it deletes", code="risk"),)
    return ApprovalRequest(
        id="q1",
        run_id="r1",
        operation=operation,
        path="1.x.0",
        call=call,
        digest="d",
        reasons=reasons,
        requested_at=1.0,
    )


def test_a_tool_call_has_its_arguments() -> None:
    assert arguments_of(request({"call": {"name": "shell", "arguments": {"command": "ls"}}})) == {"command": "ls"}


@pytest.mark.parametrize("call", [{"name": "shell", "arguments": "{broken"}, {"name": "shell"}])
def test_a_tool_call_whose_arguments_are_text_has_none(call: Mapping[str, object]) -> None:
    assert arguments_of(request({"call": call})) == {}


def test_another_operation_has_no_arguments_to_speak_of() -> None:
    call = {"call": {"name": "shell", "arguments": {"command": "ls"}}}
    assert arguments_of(request(call, "task.complete")) is None
    assert arguments_of(request({"output": "done"}, "task.complete")) is None
    assert arguments_of(request({"call": "shell"})) is None
