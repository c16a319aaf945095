import pytest
from hypothesis import given, strategies as st

from tenter.catalogue import ModelRequest, ModelResponse
from tenter.kernel import Clock, OperationFailed, Random
from tenter.testing import FakeClock, FakeModel, FakeRandom
from tenter.testing.samples import REQUEST


@given(st.lists(st.floats(0, 1e6)))
def test_a_clock_goes_on_as_far_as_it_is_told(steps: list[float]) -> None:
    clock: Clock = (fake := FakeClock(start=1_000.0))
    for step in steps:
        then, passed = clock.now(), clock.monotonic()
        fake.advance(step)
        assert clock.monotonic() == passed + step
        assert clock.now() >= then
    assert clock.now() == 1_000.0 + clock.monotonic()


@pytest.mark.parametrize("step", [-1.0, -1e-9, float("nan")])
def test_a_clock_never_goes_back(step: float) -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="time only goes on"):
        clock.advance(step)
    assert clock.monotonic() == 0


def test_a_random_source_gives_the_same_numbers_every_time() -> None:
    one: Random = FakeRandom(7)
    other: Random = FakeRandom(7)
    assert [one.random(), one.getrandbits(64)] == [other.random(), other.getrandbits(64)]
    assert FakeRandom(7).random() != FakeRandom(8).random()
    assert 0 <= one.random() < 1


async def test_a_model_gives_its_answers_in_order_and_remembers_what_it_was_asked() -> None:
    first = ModelResponse(model="m", text="one")

    def second(request: ModelRequest) -> ModelResponse:
        return ModelResponse(model="m", text=request.alias)

    model = FakeModel([first, second])
    assert await model.generate(REQUEST) is first
    assert (await model.generate(REQUEST)).text == "default"
    assert model.requests == [REQUEST, REQUEST]


async def test_a_model_raises_an_exception_that_is_its_answer_and_goes_on() -> None:
    model = FakeModel([OperationFailed("down", code="provider_transient"), ModelResponse(model="m")])
    with pytest.raises(OperationFailed, match="down"):
        await model.generate(REQUEST)
    assert await model.generate(REQUEST) == ModelResponse(model="m")


async def test_a_model_without_answers_left_says_so() -> None:
    with pytest.raises(OperationFailed, match="asked 1 times and has 0 answers") as raised:
        await FakeModel([]).generate(REQUEST)
    assert raised.value.code == "provider_permanent"
