from collections.abc import Awaitable, Callable

from pydantic_ai.messages import ModelResponse

class FunctionModel:
    def __init__(self, function: Callable[[list[object], object], Awaitable[ModelResponse]]) -> None: ...
