"""The scripted model: it answers what its script says (D§12), for tests, examples and the first steps with tenter.

A pure function of the request: the number of the model's own answers in the conversation says which turn is next, so
that a run that is replayed or continued elsewhere goes on where it was. No clock, no chance, no state.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import cast

from tenter.catalogue import Message, ModelRequest, ModelResponse, ToolCall, Usage
from tenter.config import ModelSpec
from tenter.harness.errors import shown
from tenter.harness.script import Alternatives, Turn, When, load_script
from tenter.kernel import OperationFailed, Regex

_ROLE = attrgetter("role")


class ScriptedModel:
    """A model that follows a script."""

    def __init__(self, steps: Sequence[Alternatives]) -> None:
        self._steps = tuple(steps)

    @classmethod
    def from_spec(cls, spec: ModelSpec, folder: Path) -> "ScriptedModel":
        """The model that a configuration in `folder` describes. Raises ConfigError for a script that cannot be used."""
        return cls(load_script(folder / spec.file))

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """The next turn. Raises OperationFailed (`provider_permanent`) where the script has none that fits."""
        return respond(self._steps, request)


def respond(steps: Sequence[Alternatives], request: ModelRequest) -> ModelResponse:
    """What the script answers to `request`. Raises OperationFailed (`provider_permanent`) where it has no answer."""
    number = list(map(_ROLE, request.messages)).count("assistant")
    if number >= len(steps):
        ends = (
            f"the script ends after {len(steps)} turn{'s' * (len(steps) != 1)} ({steps[-1].where})"
            if steps
            else "it is empty"
        )
        raise _failed(
            f"the scripted model has no turn {number + 1}: {ends}; add one, or let the last turn call no tool"
        )
    step = steps[number]
    results = _latest_results(request.messages)
    for turn in step.turns:
        if turn.when is None or _holds(turn.when, results):
            return _response(turn, number + 1, request.model)
    raise _failed(
        f"the scripted model has no answer in turn {number + 1} ({step.where}): no 'when' of it holds, "
        f"{_described(results)}; add an alternative without 'when'"
    )


def _latest_results(messages: Sequence[Message]) -> list[tuple[str, Message]]:
    """The tool results since the model's last answer, each with the name of its tool."""
    results: list[Message] = []
    names: dict[str, str] = {}
    for message in reversed(messages):
        if message.role == "assistant":
            names = {call.id: call.name for call in message.tool_calls}
            break
        if message.role == "tool":
            results.append(message)
    return [(message.name or names.get(message.tool_call_id or "", ""), message) for message in reversed(results)]


def _holds(when: When, results: Sequence[tuple[str, Message]]) -> bool:
    of_tool = [message for name, message in results if when.tool is None or name == when.tool]
    if not of_tool:
        return False
    last = of_tool[-1]
    return (
        (when.is_error is None or when.is_error is last.is_error)
        and (when.contains is None or when.contains in last.content)
        and (when.matches is None or Regex(when.matches).search(last.content))
    )


def _described(results: Sequence[tuple[str, Message]]) -> str:
    if not results:
        return "there is no tool result since the last answer"
    name, message = results[-1]
    kind = "an error" if message.is_error else "no error"
    return f"the last tool result is {kind} of {name!r}: {shown(message.content)}"


def _response(turn: Turn, number: int, model: str) -> ModelResponse:
    return ModelResponse(
        model=model,
        text=turn.text,
        tool_calls=tuple(
            ToolCall(
                id=call.id if call.id is not None else f"call-{number}-{index}",
                name=call.name,
                # A model that gave no object is what the text stands for; see ToolCall.
                arguments=cast("Mapping[str, object]", call.arguments),
            )
            for index, call in enumerate(turn.tool_calls, start=1)
        ),
        usage=Usage(input_tokens=turn.usage.input_tokens, output_tokens=turn.usage.output_tokens),
        cost_usd=turn.cost_usd,
        finish_reason="tool_calls" if turn.tool_calls else "stop",
    )


def _failed(message: str) -> OperationFailed:
    return OperationFailed(message, code="provider_permanent")
