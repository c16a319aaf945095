"""What of pydantic-ai the benchmarks use: they are checked without the extra `bench`, too."""

from collections.abc import Awaitable, Callable, Sequence

from pydantic_ai.capabilities import Hooks
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

class AgentRunResult:
    output: str
    def all_messages(self) -> Sequence[object]: ...

class Agent:
    def __init__(self, model: FunctionModel, *, instructions: str, capabilities: Sequence[Hooks]) -> None: ...
    def tool_plain(self, function: Callable[..., Awaitable[str]], /) -> object: ...
    async def run(self, prompt: str, *, usage_limits: UsageLimits | None = None) -> AgentRunResult: ...
