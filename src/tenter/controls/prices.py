"""What a model call costs, where its provider does not tell (seed 003). Pure; prices are told from outside."""

import msgspec

from tenter.catalogue import ModelResponse, Usage
from tenter.kernel import FrozenStruct

TOKENS_PER_PRICE = 1_000_000


class Prices(FrozenStruct, frozen=True, kw_only=True):
    """What a model costs, in US dollars for a million tokens."""

    input: float
    output: float


def cost_of(usage: Usage, prices: Prices) -> float:
    """US dollars."""
    return (usage.input_tokens * prices.input + usage.output_tokens * prices.output) / TOKENS_PER_PRICE


def priced(response: ModelResponse, prices: Prices | None) -> ModelResponse:
    """The response with its cost, where it tells none and that can be known.

    It cannot be where no prices are, nor where the response says nothing of its tokens: there is no call without any.
    """
    if prices is None or response.cost_usd is not None or response.usage == Usage():
        return response
    return msgspec.structs.replace(response, cost_usd=cost_of(response.usage, prices))
