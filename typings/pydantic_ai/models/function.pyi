from collections.abc import Callable

from pydantic_ai.messages import ModelResponse

class FunctionModel:
    def __init__(self, function: Callable[[list[object], object], ModelResponse]) -> None: ...
