"""The conversation of `conversation` in pydantic-ai, with its own hooks: what `steps` measures ours against.

It needs the extra `bench`, as nothing else does but what imports it.
"""

# pyright: reportMissingModuleSource=false
# The extra need not be there for a check of types: `typings` has what is used of it.

import time
from typing import TypeVar

from pydantic_ai import Agent
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from benchmarks.conversation import FOUND, TOKENS, said

T = TypeVar("T")


class Script:
    """Answers with `steps` calls of the tool, one a step, and then with a text."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    async def __call__(self, messages: list[object], info: object) -> ModelResponse:
        usage = RequestUsage(input_tokens=TOKENS[0], output_tokens=TOKENS[1])
        number = sum(isinstance(message, ModelResponse) for message in messages)
        if number >= self.steps:
            return ModelResponse(parts=[TextPart("Done.")], usage=usage)
        call = ToolCallPart("look", {"name": f"number {number}"}, f"call-{number}")
        return ModelResponse(parts=[TextPart(said(number)), call], usage=usage)


async def seconds(steps: int) -> float:
    """What one run of so many steps takes."""
    script = Script(1)
    agent = Agent(FunctionModel(script), instructions="Look things up.", capabilities=[_hooks()])
    agent.tool_plain(look)
    await agent.run("go")  # loads what is loaded late
    script.steps = steps
    began = time.perf_counter()
    result = await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    took = time.perf_counter() - began
    if result.output != "Done." or len(result.all_messages()) != 2 * (steps + 1):
        raise RuntimeError(f"the run of pydantic-ai ended otherwise: {result.output!r}")
    return took


async def look(name: str) -> str:
    """Look a thing up."""
    return f"{name} {FOUND}"


def _hooks() -> Hooks:
    """Six that do nothing, a step, as ours has: around the request, the check of the arguments, and the tool."""
    hooks = Hooks()
    hooks.on.before_model_request(_requested)
    hooks.on.after_model_request(_answered)
    hooks.on.before_tool_validate(_called)
    hooks.on.after_tool_validate(_called)
    hooks.on.before_tool_execute(_called)
    hooks.on.after_tool_execute(_returned)
    return hooks


async def _requested(context: object, request: T) -> T:
    return request


async def _answered(context: object, *, request_context: object, response: T) -> T:
    return response


async def _called(context: object, *, call: object, tool_def: object, args: T) -> T:
    return args


async def _returned(context: object, *, call: object, tool_def: object, args: object, result: T) -> T:
    return result
