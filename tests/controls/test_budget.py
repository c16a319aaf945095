"""What calls need before and have used after, and how a shortage is told."""

import math
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tenter.catalogue import (
    Budgets,
    Envelope,
    Message,
    ModelRequest,
    ModelResponse,
    ModelResponseEvent,
    Op,
    TaskRef,
    ToolCall,
    ToolResult,
    ToolResultEvent,
    Usage,
)
from tenter.controls.account import Account, Used
from tenter.controls.budget import call_digest, model_call, result_digest, shortage, used_by
from tenter.controls.prices import Prices
from tenter.kernel import freeze

ENVELOPE = Envelope(run_id="r", task=TaskRef(id="r", name="work"), correlation_id="r")
CALL = ToolCall(id="c", name="shell", arguments=freeze({"command": "ls"}))


def request(*messages: Message, max_tokens: int | None = None) -> ModelRequest:
    return ModelRequest(alias="default", model="m", messages=messages, max_tokens=max_tokens)


def answered(response: ModelResponse) -> ModelResponseEvent:
    return ModelResponseEvent(envelope=ENVELOPE, op=Op(id="o"), request=request(), response=response)


def test_a_model_call_is_expected_to_need_a_token_for_four_characters_of_its_messages() -> None:
    messages = (Message(role="system", content="x" * 10), Message(role="user", content="y" * 9))
    assert model_call(request(*messages), None) == Used(tokens=4, model_calls=1)
    assert model_call(request(), None) == Used(model_calls=1)


def test_the_calls_in_a_message_are_read_by_the_model_too() -> None:
    told = Message(role="assistant", tool_calls=(ToolCall(id="c", name="f" * 400, arguments={"text": "y" * 4_000}),))
    assert 1_100 <= model_call(request(told), None).tokens <= 1_120


def test_arguments_that_are_no_json_are_measured_as_well() -> None:
    odd = cast("Mapping[str, Any]", freeze({"half": "\ud800", "n": 1 + 2j}))
    told = Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments=odd),))
    assert model_call(request(told), None).tokens > 5


def test_what_the_model_may_answer_with_is_needed_too() -> None:
    asked = request(Message(role="user", content="x" * 40), max_tokens=500)
    assert model_call(asked, None) == Used(tokens=510, model_calls=1)
    assert model_call(request(max_tokens=-5), None) == Used(model_calls=1)


def test_the_cost_of_the_expected_tokens_is_needed_where_prices_are_known() -> None:
    asked = request(Message(role="user", content="x" * 4_000_000), max_tokens=100_000)
    want = model_call(asked, Prices(input=3.0, output=15.0))
    assert (want.tokens, want.cost_usd) == (1_100_000, pytest.approx(4.5))


def test_a_response_used_its_tokens_and_its_cost() -> None:
    response = ModelResponse(model="m", usage=Usage(input_tokens=30, output_tokens=12), cost_usd=0.5)
    assert used_by("llm.invoked", answered(response), True) == (Used(tokens=42, cost_usd=0.5, model_calls=1), True)


@pytest.mark.parametrize("cost", [None, math.nan, math.inf, -math.inf, -0.5])
def test_a_cost_that_is_no_amount_is_not_known_and_gives_nothing_back(cost: float | None) -> None:
    response = ModelResponse(model="m", usage=Usage(input_tokens=3), cost_usd=cost)
    assert used_by("llm.invoked", answered(response), True) == (Used(tokens=3, model_calls=1), False)


def test_tokens_below_none_give_nothing_back() -> None:
    response = ModelResponse(model="m", usage=Usage(input_tokens=-50, output_tokens=7), cost_usd=0.0)
    assert used_by("llm.invoked", answered(response), True) == (Used(tokens=7, model_calls=1), True)


def test_a_model_call_without_a_response_is_a_call() -> None:
    assert used_by("llm.invoked", None, True) == (Used(model_calls=1), True)


def test_a_tool_call_is_one_whether_it_succeeded_or_not() -> None:
    result = ToolResultEvent(envelope=ENVELOPE, op=Op(id="o"), call=CALL, result=ToolResult(output="done"))
    assert used_by("tool.invoked", result, True) == used_by("tool.invoked", None, True) == (Used(tool_calls=1), True)


@pytest.mark.parametrize("operation", ["llm.invoked", "tool.invoked", "task.complete"])
def test_what_never_came_to_its_work_used_nothing(operation: str) -> None:
    assert used_by(operation, None, False) == (Used(), True)


def test_other_operations_use_nothing() -> None:
    assert used_by("task.complete", None, True) == (Used(), True)


def test_a_shortage_names_what_is_allowed_used_held_and_needed() -> None:
    account = Account(Budgets(tokens=100))
    account.settle("r/1#1", Used(tokens=60))
    account.reserve("r/2#1", Used(tokens=30))
    assert shortage(account, "tokens", Used(tokens=11, model_calls=1)) == (
        "the run may use 100 tokens: 60 are used and 30 held for other calls, and this call needs 11 more"
    )


def test_a_shortage_says_whose_budget_it_is() -> None:
    outer = Account(Budgets(cost_usd=0.25))
    inner = Account(Budgets(cost_usd=7.0), outer)
    inner.settle("r/1#1", Used(cost_usd=0.2))
    assert shortage(inner, "cost_usd", Used(cost_usd=0.1, model_calls=1)) == (
        "the run around it may use 0.25 US dollars: 0.2 are used, and this call needs 0.1 more"
    )


def test_a_cost_that_is_not_known_is_said() -> None:
    account = Account(Budgets(cost_usd=1.0))
    account.settle("r/1#1", Used(model_calls=1), cost_known=False)
    want = Used(model_calls=1)
    assert account.reserve("r/2#1", want) == "cost_usd"
    assert shortage(account, "cost_usd", want).startswith("the cost of an earlier model call is not known")


def test_a_budget_that_is_no_number_is_told_as_well() -> None:
    account = Account(Budgets(cost_usd=math.nan))
    assert shortage(account, "cost_usd", Used(cost_usd=0.1)).startswith("the run may use nan US dollars: 0 are used")


def test_calls_are_named_by_what_they_do_and_not_by_their_ids() -> None:
    again = ToolCall(id="d", name="shell", arguments=freeze({"command": "ls"}))
    assert call_digest(again) == call_digest(CALL) != ""
    others = [
        ToolCall(id="c", name="grep", arguments=CALL.arguments),
        ToolCall(id="c", name="shell", arguments=freeze({"command": "ls "})),
        ToolCall(id="c", name="shell", arguments=freeze({"command": "ls", "n": 1})),
    ]
    assert len({call_digest(one) for one in (CALL, *others)}) == 4
    numbers = [ToolCall(id="c", name="shell", arguments={"n": n}) for n in (1, 1.0, True, "1")]
    assert len({call_digest(one) for one in numbers}) == 4


def test_the_order_of_arguments_is_no_difference() -> None:
    one, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    digests = {call_digest(ToolCall(id="c", name="f", arguments=freeze(each))) for each in (one, other)}
    assert len(digests) == 1


@pytest.mark.parametrize("arguments", [{"half": "\ud800"}, {"n": 1 + 2j}])
def test_a_call_that_cannot_be_written_down_is_like_no_other(arguments: dict[str, object]) -> None:
    assert call_digest(ToolCall(id="c", name="f", arguments=freeze(arguments))) == ""


def test_a_result_has_a_name_whatever_it_holds() -> None:
    outputs = ["", "a", "b", "\ud800"]
    names = {result_digest(ToolResult(output=output)) for output in outputs}
    assert len(names) == 4
    assert "" not in names
    assert result_digest(ToolResult(output="a", is_error=True)) != result_digest(ToolResult(output="a"))
