from typing import get_args

import msgspec
import pytest

from tenter.catalogue import (
    ApprovalDecision,
    ApprovalReason,
    ApprovalRequest,
    Budgets,
    ErrorCode,
    ErrorInfo,
    Limits,
    Message,
    ModelRequest,
    ModelResponse,
    RetryPolicy,
    Status,
    SubtaskResult,
    ToolCall,
    ToolInfo,
    ToolResult,
    ToolSpec,
    Usage,
)

CALL = ToolCall(id="call-1", name="shell", arguments={"command": ["ls", "-l"]})
MESSAGE = Message(role="assistant", content="hi", tool_calls=(CALL,), extensions={"signature": "opaque"})
VALUES: tuple[msgspec.Struct, ...] = (
    CALL,
    MESSAGE,
    ToolInfo(name="shell", parameters={"type": "object"}, idempotent=True, timeout_seconds=3),
    ToolInfo(name="pay", risk="high", sandbox="process", principals=("team-*",)),
    ToolResult(output="done", is_error=True, untrusted=True, truncated=True),
    ModelRequest(alias="default", model="m-1", messages=(MESSAGE,), tools=(ToolSpec(name="shell"),), temperature=0.5),
    ModelResponse(model="m-1", text="hi", tool_calls=(CALL,), usage=Usage(input_tokens=3, output_tokens=4)),
    ErrorInfo(code="policy", message="no", details={"code": "policy_denied", "hook": "guard"}),
    RetryPolicy(first_seconds=2.5, factor=1.5, attempts=3, jitter=0.25),
    Limits(deadline=4.5, max_steps=3, budgets=Budgets(tokens=9, cost_usd=0.5, wall_seconds=60.0)),
    ApprovalRequest(
        id="ap-1",
        run_id="run-1",
        operation="tool.invoked",
        path="1.tool.0",
        call={"name": "shell"},
        digest="sha256:x",
        reasons=(ApprovalReason(hook="guard", reason="ask", code="two_eyes", editable=("call",), expires_at=9.5),),
        requested_at=1.5,
        task="fix",
        root_run_id="run-0",
    ),
    ApprovalDecision(
        request_id="ap-1", run_id="run-1", decision="edit", by="ann", edits={"command": ["ls"]}, decided_at=2.5
    ),
    SubtaskResult(run_id="run-2", task="look", status="completed", output={"found": [1]}, usage=Usage(input_tokens=1)),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_contract_goes_through_json_and_back_and_can_be_hashed(value: msgspec.Struct) -> None:
    back = msgspec.json.decode(msgspec.json.encode(value), type=type(value))
    assert back == value
    assert hash(back) == hash(value)


@pytest.mark.promise(3)
def test_the_arguments_of_a_call_are_frozen_all_the_way_down() -> None:
    with pytest.raises(TypeError, match="frozen"):
        CALL.arguments["command"] = "rm"  # pyright: ignore[reportIndexIssue]  # the point of the test
    assert CALL.arguments["command"] == ("ls", "-l")


def test_the_contracts_have_the_fields_of_seed_003() -> None:
    wanted = {
        ModelRequest: "alias model messages tools output_schema temperature max_tokens stream metadata",
        Message: "role content tool_calls tool_call_id name extensions",
        ModelResponse: "model text tool_calls output usage cost_usd finish_reason extensions",
        ToolCall: "id name arguments",
        ToolResult: "output is_error untrusted truncated",
        Usage: "input_tokens output_tokens",
    }
    for contract, fields in wanted.items():
        assert set(fields.split()) <= set(contract.__struct_fields__), contract


def test_the_statuses_and_the_error_taxonomy_are_those_of_seed_003() -> None:
    assert get_args(Status) == (
        "pending", "running", "awaiting_approval", "completed", "blocked", "escalated", "failed", "cancelled",
    )  # fmt: skip
    assert get_args(ErrorCode) == (
        "validation", "policy", "budget", "timeout", "provider_transient", "provider_permanent", "tool", "approval",
        "cancelled", "internal",
    )  # fmt: skip


def asked(*reasons: ApprovalReason) -> ApprovalRequest:
    return ApprovalRequest(
        id="ap-1",
        run_id="run-1",
        operation="tool.invoked",
        path="1.tool.invoked.0",
        call={},
        digest="sha256:x",
        reasons=reasons,
        requested_at=0.0,
    )


@pytest.mark.parametrize(
    ("lists", "editable"),
    [
        ([("to", "body"), ("body", "cc")], ("body",)),
        ([("to", "body"), ("*",)], ("to", "body")),
        ([("*",), ("*", "to")], ("*",)),
        ([("to",), ()], ()),
        ([("*",), ()], ()),
        ([], ()),
    ],
)
def test_what_may_be_edited_is_what_every_reason_allows(
    lists: list[tuple[str, ...]], editable: tuple[str, ...]
) -> None:
    reasons = [ApprovalReason(hook="guard", reason="ask", code="risk", editable=fields) for fields in lists]
    assert asked(*reasons).editable == editable


def test_a_request_expires_with_the_first_of_its_reasons_and_does_what_that_one_says() -> None:
    late = ApprovalReason(hook="a", reason="ask", code="risk", expires_at=9.0)
    first = ApprovalReason(hook="b", reason="ask", code="risk", expires_at=5.0, on_timeout="escalate")
    never = ApprovalReason(hook="c", reason="ask", code="risk", on_timeout="escalate")
    assert (asked(late, first, never).expires_at, asked(late, first, never).on_timeout) == (5.0, "escalate")
    assert (asked(never, late).expires_at, asked(never, late).on_timeout) == (9.0, "block")
    assert (asked(never).expires_at, asked(never).on_timeout) == (None, "block")


def test_nothing_is_limited_and_a_tool_is_of_medium_risk_unless_somebody_says_so() -> None:
    assert set(msgspec.structs.asdict(Limits().budgets).values()) == {None}
    tool = ToolInfo(name="shell")
    assert (tool.risk, tool.sandbox, tool.principals) == ("medium", "none", ())


def test_what_a_provider_keeps_in_a_message_or_response_is_opaque() -> None:
    assert Message.__opaque__ == ModelResponse.__opaque__ == ("extensions",)


def test_usage_adds_up() -> None:
    total = Usage(input_tokens=1, output_tokens=2) + Usage(input_tokens=10, output_tokens=20)
    assert total == Usage(input_tokens=11, output_tokens=22)
