"""Stand-ins for what a harness is given: a clock, a random source, a model."""

import random
from collections.abc import Callable, Iterable

from tenter.catalogue import ModelRequest, ModelResponse
from tenter.kernel import OperationFailed

Answer = ModelResponse | Callable[[ModelRequest], ModelResponse] | Exception


class FakeClock:
    """Stands still until it is told to go on. `start` is in seconds since the epoch."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> float:
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds since it was made."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Lets time pass. Raises ValueError for a step back."""
        if not seconds >= 0:
            raise ValueError(f"time only goes on; {seconds!r} is no number of seconds from 0 up")
        self._passed += seconds


class FakeRandom(random.Random):
    """The same numbers every time: a seeded source."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)


class FakeModel:
    """Answers with what it was given, in order; a callable is asked, an exception raised. Remembers the requests."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.requests: list[ModelRequest] = []
        self._answers = list(answers)

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """The next answer. Raises OperationFailed where there is none left."""
        self.requests.append(request)
        number = len(self.requests)
        if number > len(self._answers):
            text = f"the fake model was asked {number} times and has {len(self._answers)} answers; give it more"
            raise OperationFailed(text, code="provider_permanent")
        answer = self._answers[number - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ModelResponse) else answer(request)
