"""What a model call costs, where its provider does not tell."""

import pytest

from tenter.catalogue import ModelResponse, Usage
from tenter.controls.prices import Prices, cost_of, priced

PRICES = Prices(input=3.0, output=15.0)
USAGE = Usage(input_tokens=1_000_000, output_tokens=200_000)


def test_prices_are_for_a_million_tokens() -> None:
    assert cost_of(USAGE, PRICES) == pytest.approx(6.0)
    assert cost_of(Usage(input_tokens=1), PRICES) == pytest.approx(3e-6)


def test_a_response_without_a_cost_is_given_one() -> None:
    response = ModelResponse(model="m", text="hi", usage=USAGE)
    assert priced(response, PRICES) == ModelResponse(model="m", text="hi", usage=USAGE, cost_usd=6.0)


def test_what_a_provider_tells_stands() -> None:
    response = ModelResponse(model="m", usage=USAGE, cost_usd=0.0)
    assert priced(response, PRICES) is response


@pytest.mark.parametrize(
    ("usage", "prices"), [(USAGE, None), (Usage(), PRICES)], ids=["no prices", "nothing said of the tokens"]
)
def test_a_cost_that_cannot_be_known_is_left_open(usage: Usage, prices: Prices | None) -> None:
    assert priced(ModelResponse(model="m", usage=usage), prices).cost_usd is None


def test_a_model_that_is_free_has_a_known_cost_of_nothing() -> None:
    assert priced(ModelResponse(model="m", usage=USAGE), Prices(input=0.0, output=0.0)).cost_usd == 0.0
