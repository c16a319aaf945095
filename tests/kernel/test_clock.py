import random
import time

from tenter.kernel import SYSTEM_CLOCK, SYSTEM_RANDOM, Clock, Random


def test_the_systems_clock_tells_the_time_since_the_epoch() -> None:
    before = time.time()
    assert before <= SYSTEM_CLOCK.now() <= time.time()


def test_the_systems_monotonic_clock_never_goes_back() -> None:
    readings = [SYSTEM_CLOCK.monotonic() for _ in range(100)]
    assert readings == sorted(readings)
    assert time.monotonic() - readings[0] < 5


def test_the_systems_chance_is_a_number_from_zero_up_to_one() -> None:
    numbers = [SYSTEM_RANDOM.random() for _ in range(100)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) > 1
    assert 0 <= SYSTEM_RANDOM.getrandbits(8) < 256


def test_a_seeded_generator_and_a_clock_that_stands_will_do() -> None:
    class Standing:
        def now(self) -> float:
            return 1.0

        def monotonic(self) -> float:
            return 2.0

    clock: Clock = Standing()
    chance: Random = random.Random(7)
    assert (clock.now(), clock.monotonic()) == (1.0, 2.0)
    assert chance.random() == random.Random(7).random()
