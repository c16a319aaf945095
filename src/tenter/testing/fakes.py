"""Stand-ins for what a harness is given: a clock, a random source, a model."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tenter.catalogue import ModelRequest, ModelResponse
from tenter.kernel import OperationFailed

Answer = ModelResponse | Callable[[ModelRequest], ModelResponse] | Exception


@dataclass(slots=True)
class FakeClock:
    """Stands still until it is told to go on. `start` is in seconds since the epoch."""

    start: float = 1_700_000_000.0
    passed: float = 0.0

    def now(self) -> float:
        return self.start + self.passed

    def monotonic(self) -> float:
        return self.passed

    def advance(self, seconds: float) -> None:
        """Lets time pass. Raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError(f"time goes on, not back by {-seconds} s")
        self.passed += seconds


class FakeRandom(random.Random):
    """The same numbers every time: a seeded source."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)


@dataclass(slots=True)
class FakeModel:
    """Answers with what it was given, in order; a callable is asked, an exception raised. Remembers the requests."""

    answers: list[Answer]
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.answers = list(answers)
        self.requests = []

    async def generate(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        if len(self.requests) > len(self.answers):
            raise OperationFailed(f"the fake model has {len(self.answers)} answers and no more", code="provider_permanent")
        answer = self.answers[len(self.requests) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ModelResponse) else answer(request)
