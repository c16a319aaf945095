from collections.abc import Mapping, Sequence

from pydantic_ai.usage import RequestUsage

class TextPart:
    def __init__(self, content: str) -> None: ...

class ToolCallPart:
    def __init__(self, tool_name: str, args: Mapping[str, object], tool_call_id: str) -> None: ...

class ModelResponse:
    def __init__(self, parts: Sequence[TextPart | ToolCallPart], *, usage: RequestUsage) -> None: ...
