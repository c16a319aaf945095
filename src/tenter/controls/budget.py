"""What calls need before they are made and have used when they ended, for an `Account` (D§11). Pure."""

import hashlib
import math
from typing import Final

import msgspec

from tenter.catalogue import (
    LLM_INVOKED,
    TOOL_INVOKED,
    Message,
    ModelRequest,
    ModelResponseEvent,
    ToolCall,
    ToolResult,
    Usage,
)
from tenter.controls.account import Account, Used
from tenter.controls.prices import Prices, cost_of
from tenter.kernel import Event

CHARACTERS_PER_TOKEN: Final = 4

TOOL_CALL: Final = Used(tool_calls=1)
"""What a tool call needs."""

MODEL_CALL: Final = Used(model_calls=1)
"""What a model call needs, apart from its size."""

NOTHING: Final = Used()

WORDS: Final = {
    "tokens": "tokens",
    "cost_usd": "US dollars",
    "model_calls": "model calls",
    "tool_calls": "tool calls",
}

_encode = msgspec.json.Encoder(order="sorted").encode


def model_call(request: ModelRequest, prices: Prices | None) -> Used:
    """What a model call is expected to need: its messages as tokens, and as many as it lets the model answer with.

    The cost is that of these, where prices are known, and 0 where they are not.
    """
    usage = Usage(
        input_tokens=sum(map(_characters, request.messages)) // CHARACTERS_PER_TOKEN,
        output_tokens=max(request.max_tokens or 0, 0),
    )
    cost = 0.0 if prices is None else cost_of(usage, prices)
    return Used(tokens=usage.input_tokens + usage.output_tokens, cost_usd=cost, model_calls=1)


def used_by(operation: str, worked: Event | None, acted: bool) -> tuple[Used, bool]:
    """What an operation used, and whether its cost is known. `worked` is its event when its work was done, if it was.

    What never came to its work (`acted`) used nothing. A model call without a response counts as a call, for nothing is
    known to be charged for it.
    """
    if not acted:
        return NOTHING, True
    if operation == TOOL_INVOKED.name:
        return TOOL_CALL, True
    if operation != LLM_INVOKED.name:
        return NOTHING, True
    if not isinstance(worked, ModelResponseEvent):
        return MODEL_CALL, True
    return counted(worked.response.usage, worked.response.cost_usd, model_calls=1)


def shortage(account: Account, budget: str, want: Used) -> str:
    """Why `account` refused `want` for the sake of `budget`, in words for people."""
    if budget == "cost_usd" and account.blind and want.model_calls:
        return (
            "the cost of an earlier model call is not known, so the budget for cost cannot be kept; give the model its "
            "'prices', and see that its responses tell their usage"
        )
    needed = getattr(want, budget)
    for place, one in enumerate(account.lineage):
        limit = getattr(one.budgets, budget)
        used, held = getattr(one.used, budget), getattr(one.reserved, budget)
        if limit is not None and not used + held + needed <= limit:
            whose = "the run" if place == 0 else "the run around it"
            busy = f" and {_number(held)} held for other calls" if held else ""
            need = f"and this call needs {_number(needed)} more"
            return f"{whose} may use {_number(limit)} {WORDS[budget]}: {_number(used)} are used{busy}, {need}"
    return f"the budget of {WORDS[budget]} is used up"


def call_digest(call: ToolCall) -> str:
    """Names what is called with which arguments, within this process; empty for what cannot be written down."""
    return _digest((call.name, call.arguments))


def result_digest(result: ToolResult) -> str:
    """Names what came of a call, within this process. Never empty."""
    return _digest(result) or "?"


def _digest(value: object) -> str:
    try:
        return hashlib.sha256(_encode(value)).hexdigest()
    except (TypeError, ValueError, RecursionError):  # such as half a character, or a key that is no text
        return ""


def _characters(message: Message) -> int:
    calls = message.tool_calls
    return len(message.content) + (sum(len(one.name) + len(repr(one.arguments)) for one in calls) if calls else 0)


def counted(usage: Usage, cost_usd: float | None, *, model_calls: int = 0, tool_calls: int = 0) -> tuple[Used, bool]:
    """What is counted of a use that was told, and whether its cost is known: nobody gives anything back."""
    known = cost_usd is not None and 0 <= cost_usd < math.inf
    tokens = max(usage.input_tokens, 0) + max(usage.output_tokens, 0)
    cost = cost_usd if cost_usd is not None and known else 0.0
    return Used(tokens=tokens, cost_usd=cost, model_calls=model_calls, tool_calls=tool_calls), known


def _number(amount: float) -> str:
    return f"{amount:.6g}" if isinstance(amount, float) else str(amount)
